"""Makes the files of this folder: two boxes of tetrahedra side by side, as Gmsh, meshio and VTK write them.

    pip install gmsh meshio pyvista
    python make.py FOLDER

Made with Gmsh 4.15, meshio 5.3 and VTK 9.7. Every file has 19 nodes and 36 tetrahedra of 12000 mm³ together, 18 with
the label 7 and 18 with the label 9, and, where it has displacements, those of a tenth of the positions. Those with `lps` in their names say that they are LPS.
"""

import sys

import gmsh
import meshio
import numpy as np
import pyvista
import vtk

folder = sys.argv[1]


def with_gmsh():
    gmsh.initialize()
    gmsh.option.setNumber("General.Verbosity", 1)
    for x in (0, 10):
        gmsh.model.occ.addBox(x, 0, 0, 10, 20, 30)
    gmsh.model.occ.fragment([(3, 1)], [(3, 2)])
    gmsh.model.occ.synchronize()
    gmsh.model.addPhysicalGroup(3, [1], 7, "grey matter")
    gmsh.model.addPhysicalGroup(3, [2], 9, "white")
    gmsh.model.addPhysicalGroup(2, [1], 3, "fixed")
    gmsh.option.setNumber("Mesh.MeshSizeMin", 40)
    gmsh.option.setNumber("Mesh.MeshSizeMax", 40)
    gmsh.model.mesh.generate(3)
    nodes, positions, _ = gmsh.model.mesh.getNodes()
    view = gmsh.view.add("displacement")
    name = gmsh.model.getCurrent()
    gmsh.view.addHomogeneousModelData(view, 0, name, "NodeData", nodes, positions / 10, numComponents=3)
    for version in (2.2, 4.1):
        for binary in (0, 1):
            gmsh.option.setNumber("Mesh.MshFileVersion", version)
            gmsh.option.setNumber("Mesh.Binary", binary)
            end = f"{version * 10:.0f}_{'binary' if binary else 'ascii'}.msh"
            gmsh.write(f"{folder}/gmsh{end}")
            gmsh.view.write(view, f"{folder}/gmsh_view{end}")
    gmsh.finalize()


def with_meshio():
    mesh = meshio.read(f"{folder}/gmsh41_ascii.msh")
    tetrahedra = np.concatenate([c.data for c in mesh.cells if c.type == "tetra"])
    groups = zip(mesh.cells, mesh.cell_data["gmsh:physical"])
    labels = np.concatenate([d for c, d in groups if c.type == "tetra"])
    displacement = {"displacement": mesh.points / 10}

    def write(name, cells, **options):
        cells = {name: [values] for name, values in cells.items()}
        out = meshio.Mesh(mesh.points, [("tetra", tetrahedra)], point_data=displacement, cell_data=cells)
        out.write(f"{folder}/{name}", **options)

    write("meshio_ascii.vtu", {"material": labels}, binary=False)
    write("meshio_binary.vtu", {"material": labels}, binary=True, compression=None)
    write("meshio_zlib.vtu", {"material": labels}, binary=True, compression="zlib")
    write("meshio_binary.vtk", {"material": labels}, binary=True)
    write("meshio_ascii.vtk", {"material": labels}, binary=False, file_format="vtk42")
    groups = {"gmsh:physical": labels.astype(np.int32), "gmsh:geometrical": labels.astype(np.int32)}
    write("meshio22_binary.msh", groups, file_format="gmsh22", binary=True)
    return mesh.points, tetrahedra, labels


def with_vtk(points, tetrahedra, labels):
    grid = pyvista.UnstructuredGrid({10: tetrahedra}, points)
    grid.cell_data["tissue"] = labels.astype(np.int32)
    grid.point_data["displacement"] = points / 10
    grid.point_data.active_vectors_name = "displacement"
    grid.save(f"{folder}/vtk_ascii.vtk", binary=False)
    grid.save(f"{folder}/vtk_binary.vtk")
    for name, raw, packed in (("raw", True, False), ("raw_zlib", True, True), ("base64", False, True)):
        writer = vtk.vtkXMLUnstructuredGridWriter()
        writer.SetInputData(grid)
        writer.SetFileName(f"{folder}/vtk_appended_{name}.vtu")
        writer.SetDataModeToAppended()
        writer.SetEncodeAppendedData(not raw)
        if not packed:
            writer.SetCompressorTypeToNone()
        writer.SetHeaderTypeToUInt64()
        writer.Write()
    # As VTK writes once more what says its space.
    grid.field_data["SPACE"] = ["LPS"]
    grid.save(f"{folder}/vtk_lps_ascii.vtk", binary=False)
    grid.save(f"{folder}/vtk_lps_binary.vtk")
    grid.save(f"{folder}/vtk_lps_binary.vtu")
    writer.SetFileName(f"{folder}/vtk_lps_appended.vtu")
    writer.Write()


with_gmsh()
with_vtk(*with_meshio())
