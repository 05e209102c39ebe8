#!/usr/bin/env python3
"""Exchanges meshes with nibabel, pyvista (VTK), trimesh and meshio, in both directions, and prints how far the vertices differ.

    tools/check_meshes.py SURFACE [SURFACE ...] [--program target/debug/examples/mesh_convert]

Needs numpy, nibabel, pyvista, trimesh and meshio, and the example: `cargo build -p voxalign-io --example mesh_convert`.
The surfaces are GIFTI files without a transform, whose coordinates nibabel gives as they are. The last column says
whether faces, or the points of each streamline, are the same. Ends with 1 where something differs more than it may:
nothing in formats of 64-bit floats, rounding to 32 bits in the others, and the digits that a program writes
in text.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import meshio
import nibabel as nib
import numpy as np
import pyvista as pv
import trimesh
from nibabel.freesurfer import io as fs

LPS = np.array([-1.0, -1.0, 1.0])


def by_nibabel(path):
    if path.endswith((".gii", ".gii.gz")):
        image = nib.load(path)
        return image.agg_data("pointset"), image.agg_data("triangle")
    vertices, faces, info = fs.read_geometry(path, read_metadata=True)
    return vertices + np.asarray(info["cras"]), faces


def by_pyvista(path):
    mesh = pv.read(path)
    return np.asarray(mesh.points), mesh.faces.reshape(-1, 4)[:, 1:]


def by_trimesh(path):
    mesh = trimesh.load(path, process=False)
    return mesh.vertices, mesh.faces


def by_meshio(path):
    mesh = meshio.read(path)
    return mesh.points, mesh.cells_dict["triangle"]


def save_gifti(path, vertices, faces):
    arrays = [nib.gifti.GiftiDataArray(vertices.astype("f4"), "NIFTI_INTENT_POINTSET"),
              nib.gifti.GiftiDataArray(faces.astype("i4"), "NIFTI_INTENT_TRIANGLE")]
    nib.save(nib.gifti.GiftiImage(darrays=arrays), path)


def save_freesurfer(path, vertices, faces):
    centre = np.array([1.5, -17.25, 22.0])
    info = {"head": [2, 0, 20], "valid": "1  # volume info valid", "filename": "a.mgz", "volume": [256] * 3,
            "voxelsize": [1.0] * 3, "xras": [-1.0, 0.0, 0.0], "yras": [0.0, 0.0, -1.0], "zras": [0.0, 1.0, 0.0],
            "cras": list(centre)}
    fs.write_geometry(path, vertices - centre, faces, volume_info=info)


def save_pyvista(path, vertices, faces, binary=True):
    pv.PolyData.from_regular_faces(np.asarray(vertices, np.float64), faces).save(path, binary=binary)


def save_legacy(path, vertices, faces, version):
    import vtk
    writer = vtk.vtkPolyDataWriter()
    writer.SetFileName(path)
    writer.SetFileTypeToBinary()
    writer.SetFileVersion(version)
    writer.SetInputData(pv.PolyData.from_regular_faces(np.asarray(vertices, np.float64), faces))
    writer.Write()


def save_xml(path, vertices, faces, mode, packed):
    import vtk
    writer = vtk.vtkXMLPolyDataWriter()
    writer.SetFileName(path)
    {"ascii": writer.SetDataModeToAscii, "binary": writer.SetDataModeToBinary,
     "appended": writer.SetDataModeToAppended, "raw": writer.SetDataModeToAppended}[mode]()
    writer.SetEncodeAppendedData(mode == "appended")
    if packed:
        writer.SetCompressorTypeToZLib()
    else:
        writer.SetCompressorTypeToNone()
    writer.SetInputData(pv.PolyData.from_regular_faces(np.asarray(vertices, np.float64), faces))
    writer.Write()


def save_trimesh(path, vertices, faces, **options):
    trimesh.Trimesh(vertices, faces, process=False).export(path, **options)


def save_meshio(path, vertices, faces, **options):
    meshio.write(path, meshio.Mesh(vertices, {"triangle": faces}), **options)


# Name, what opens it, bits of a coordinate there.
OURS = [
    ("a.surf.gii", by_nibabel, 32), ("a.gii.gz", by_nibabel, 32), ("lh.pial", by_nibabel, 32),
    ("a.vtk", by_pyvista, 64), ("a.vtp", by_pyvista, 64), ("a.ply", by_pyvista, 32), ("a.stl", by_pyvista, 32),
    ("a.ply", by_trimesh, 64), ("a.stl", by_trimesh, 32), ("a.ply", by_meshio, 64), ("a.stl", by_meshio, 32),
]
THEIRS = [
    ("nibabel", "a.surf.gii", save_gifti, {}, 32),
    ("nibabel", "a.gii.gz", save_gifti, {}, 32),
    ("nibabel", "lh.pial", save_freesurfer, {}, 32),
    ("VTK 5.1", "a.vtk", save_legacy, {"version": 51}, 64),
    ("VTK 4.2", "a.vtk", save_legacy, {"version": 42}, 64),
    ("pyvista text", "a.vtk", save_pyvista, {"binary": False}, 48),
    *[(f"VTK {mode}{' packed' if packed else ''}", "a.vtp", save_xml, {"mode": mode, "packed": packed},
       48 if mode == "ascii" else 64) for mode in ["ascii", "binary", "appended", "raw"] for packed in [False, True]],
    ("pyvista", "a.ply", save_pyvista, {}, 32),
    ("pyvista text", "a.ply", save_pyvista, {"binary": False}, 16),
    ("pyvista", "a.stl", save_pyvista, {}, 32),
    ("pyvista text", "a.stl", save_pyvista, {"binary": False}, 16),
    ("trimesh", "a.ply", save_trimesh, {}, 32),
    ("trimesh text", "a.ply", save_trimesh, {"encoding": "ascii"}, 32),
    ("trimesh", "a.stl", save_trimesh, {}, 32),
    ("trimesh text", "a.stl", save_trimesh, {"file_type": "stl_ascii"}, 16),
    ("meshio", "a.ply", save_meshio, {}, 64),
    ("meshio text", "a.ply", save_meshio, {"binary": False}, 64),
    ("meshio", "a.stl", save_meshio, {"binary": True}, 32),
]
# 48 and 16 stand for text, of many digits and of few.
ALLOWED = {64: 0.0, 48: 1e-7, 32: 1e-4, 16: 2e-3}


def corners(vertices, faces):
    return np.asarray(vertices, np.float64)[np.asarray(faces)]


class Check:
    def __init__(self):
        self.failed = 0

    def row(self, what, name, found, expected, bits):
        """Corners of the faces, in their order: also where vertices were joined or have another order."""
        same = found.shape == expected.shape
        worst = float(np.abs(found - expected).max()) if same else float("nan")
        good = same and worst <= ALLOWED[bits]
        self.failed += not good
        print(f"  {what:<28} {name:<11} {worst:<10.3g} {'same' if same else 'OTHER'} {'' if good else '  <-- BAD'}")


def streamlines(surface, folder, run, check):
    """Lines along the vertices of a surface."""
    vertices = np.asarray(nib.load(surface).agg_data("pointset"), np.float64)
    lines = [vertices[i:i + 7 + i % 5] for i in range(0, len(vertices) - 12, 97)]
    affine = np.array([[-1.5, 0.1, 0, 90.0], [0, 1.2, 0.2, -110.0], [0.1, 0, 2.5, -60.0], [0, 0, 0, 1.0]])
    header = {"voxel_to_rasmm": affine, "voxel_sizes": np.linalg.norm(affine[:3, :3], axis=0),
              "dimensions": np.array([120, 150, 70]), "voxel_order": "LAS"}
    both = {}
    for end in ["tck", "trk"]:
        path = f"{folder}/theirs.{end}"
        tractogram = nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4))
        nib.streamlines.save(tractogram, path, header=header if end == "trk" else None)
        both[end] = path
    # A file in another order of axes than that of its matrix.
    turned = nib.streamlines.load(both["trk"])
    nib.streamlines.save(turned.tractogram, f"{folder}/turned.trk", header={**header, "voxel_order": "RPI"})
    both["turned"] = f"{folder}/turned.trk"
    for name, path in both.items():
        expected = np.concatenate(list(nib.streamlines.load(path).streamlines))
        for end in ["tck", "trk", "vtk"]:
            out = f"{folder}/{name}_ours.{end}"
            run(path, out)
            if end == "vtk":
                mesh = pv.read(out)
                found, same = np.asarray(mesh.points), mesh.n_lines == len(lines)
            else:
                got = nib.streamlines.load(out).streamlines
                found, same = np.concatenate(list(got)), [len(a) for a in got] == [len(a) for a in lines]
            check.row(f"nibabel's {name} as {end}", end, found if same else found[:0], expected, 32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("surfaces", nargs="+", metavar="SURFACE")
    parser.add_argument("--program", default="target/debug/examples/mesh_convert")
    options = parser.parse_args()
    check = Check()

    def run(*arguments):
        subprocess.run([options.program, *arguments], check=True)

    for surface in options.surfaces:
        print(f"{os.path.basename(surface)}")
        print(f"  {'who':<28} {'file':<11} {'mm':<10} faces")
        image = nib.load(surface)
        vertices = np.asarray(image.agg_data("pointset"), np.float64)
        faces = np.asarray(image.agg_data("triangle"))
        with tempfile.TemporaryDirectory() as folder:
            source = f"{folder}/source.vtk"
            save_legacy(source, vertices, faces, 42)
            for name, opened, bits in OURS:
                for space, sign in [("ras", np.ones(3)), ("lps", LPS)]:
                    has_world = name.endswith(("gii", "gz", "pial"))
                    if has_world and space == "lps":
                        continue
                    path = f"{folder}/{space}_{name}" if name != "lh.pial" else f"{folder}/{name}"
                    run(surface, path, space)
                    found, of_faces = opened(path)
                    who = f"{opened.__name__[3:]} reads {space}"
                    check.row(who, name, corners(found, of_faces), corners(vertices * sign, faces), bits)
            for who, name, save, arguments, bits in THEIRS:
                path = f"{folder}/{name}"
                save(path, vertices, faces, **arguments)
                run(path, f"{folder}/back.vtk", "ras")
                found, of_faces = by_pyvista(f"{folder}/back.vtk")
                check.row(f"{who} writes", name, corners(found, of_faces), corners(vertices, faces), bits)
            streamlines(surface, folder, run, check)
    print("all agree" if check.failed == 0 else f"{check.failed} DIFFER")
    return int(check.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
