//! Meshes of tetrahedra: as other programs write them, made here, damaged, and a real one.

use crate::common::real_files;
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Instant;
use voxalign_image::{TetraMesh, Vector3, VertexData, tetra::volume};
use voxalign_io::IoError;
use voxalign_io::image::{Oddity, read_labels};
use voxalign_io::mesh::MeshSpace;
use voxalign_io::tetra::{
    ReadOptions, TetraFormat, TetraInfo, WriteOptions, read, read_from_bytes, write,
};

type Parsed = Result<(TetraMesh, TetraInfo), IoError>;

fn parsed(name: &str, bytes: impl AsRef<[u8]>) -> Parsed {
    read_from_bytes(name, bytes.as_ref(), &ReadOptions::default())
}

fn error(name: &str, bytes: impl AsRef<[u8]>) -> String {
    parsed(name, bytes).unwrap_err().to_string()
}

#[track_caller]
fn says(oddities: &[Oddity], part: &str) {
    assert!(oddities.iter().any(|oddity| oddity.contains(part)), "{part}: {oddities:?}");
}

/// Files of other programs: see `tetra/make.py`.
static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/meshes/tetra");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let known = entries.filter(|path| TetraFormat::from_path(path).is_ok());
    let mut files: Vec<_> = known
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
});

/// Two tetrahedra with values of all kinds.
fn sample() -> TetraMesh {
    let corners = [[0., 0., 0.], [1.5, 0., 0.], [0., 2., 0.], [0.25, 0., 1.], [2., 2.1, 1.]];
    let array = |name: &str, components: usize, number: usize| VertexData {
        name: name.into(),
        components,
        values: (0..components * number).map(|i| i as f32 * 0.1 + 0.5).collect(),
        is_direction: components == 3,
    };
    TetraMesh::new(corners.map(Vector3::from).into(), vec![[0, 1, 2, 3], [2, 1, 4, 3]])
        .and_then(|mesh| mesh.with_labels(vec![-3, 70_000_001]))
        .and_then(|mesh| {
            let at_cells =
                vec![array("a flow", 3, 2), array("strain", 6, 2), array("von Mises", 1, 2)];
            mesh.with_data(vec![array("displacement", 3, 5), array("a <b>", 1, 5)], at_cells)
        })
        .unwrap()
}

fn written(name: &str, as_text: bool, space: MeshSpace) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    write(&path, &sample(), &WriteOptions { space, as_text }).unwrap();
    std::fs::read(path).unwrap()
}

/// A file of legacy VTK with cells of some types.
fn vtk(points: &str, cells: &[&str], types: &[u8], rest: &str) -> String {
    let numbers: usize = cells.iter().map(|cell| cell.split(' ').count()).sum();
    let types: Vec<_> = types.iter().map(u8::to_string).collect();
    format!(
        "# vtk DataFile Version 3.0\nSPACE=RAS\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS {} float\n{points}\n\
         CELLS {} {numbers}\n{}\nCELL_TYPES {}\n{}\n{rest}",
        points.split(' ').count() / 3,
        cells.len(),
        cells.join("\n"),
        types.len(),
        types.join(" ")
    )
}

const FIVE: &str = "0 0 0 1 0 0 0 1 0 0 0 1 1 1 1";

#[test]
fn files_of_other_programs() {
    for (name, bytes) in FILES.iter() {
        let (mesh, info) = parsed(name, bytes).unwrap();
        let is_lps = name.contains("lps");
        let side = if is_lps { -1.0 } else { 1.0 };
        assert_eq!((info.vertices, info.tetrahedra), (19, 36), "{name}");
        assert!((mesh.volume() - 12000.0).abs() < 1e-9, "{name}: {}", mesh.volume());
        assert!((0..36).all(|e| volume(mesh.corners(e)) > 0.0), "{name}");
        assert!(mesh.surface().unwrap().is_closed().unwrap(), "{name}");
        for (e, &label) in mesh.labels().iter().enumerate() {
            let x = side * mesh.corners(e).iter().map(|v| v.x).sum::<f64>() / 4.0;
            assert_eq!(label, if x < 10.0 { 7 } else { 9 }, "{name}: {e}");
        }
        let from = info.labels.as_deref();
        let expected = if name.starts_with("gmsh") || name.contains("22") {
            "gmsh:physical"
        } else if name.starts_with("vtk") {
            "tissue"
        } else {
            "material"
        };
        assert_eq!(from, Some(expected), "{name}");
        if name.starts_with("gmsh4") || name.starts_with("gmsh2") {
            let names: Vec<_> = info.label_names.iter().map(|(&i, n)| (i, n.as_str())).collect();
            assert_eq!(names, [(7, "grey matter"), (9, "white")], "{name}");
            says(&info.oddities, "4 cells of surfaces were left out");
        } else {
            let array = mesh.vertex_data().iter().find(|a| a.name == "displacement");
            let array = array.unwrap_or_else(|| panic!("{name} has displacements"));
            let values = mesh.vertices().iter().flat_map(|v| [v.x, v.y, v.z]);
            let far = values.zip(&array.values).map(|(x, &u)| (x / 10.0 - f64::from(u)).abs());
            assert!(far.fold(0.0, f64::max) < 1e-6, "{name}");
            let is_marked = name.starts_with("vtk") || name.ends_with("msh");
            assert_eq!(array.is_direction, is_marked, "{name}");
        }
        let expected = if is_lps { MeshSpace::Lps } else { MeshSpace::Ras };
        assert_eq!((info.space, info.assumed), (expected, !is_lps), "{name}");
        assert_eq!(info.oddities.iter().any(|o| o.contains("RAS was assumed")), !is_lps, "{name}");
    }
    assert_eq!(FILES.len(), 23);
}

#[test]
fn what_is_written_is_read() {
    for name in ["a.vtu", "a.vtk"] {
        for (as_text, space) in [(false, MeshSpace::Ras), (true, MeshSpace::Lps)] {
            let bytes = written(name, as_text, space);
            let (mesh, info) = parsed(name, &bytes).unwrap();
            assert_eq!(mesh, sample(), "{name}");
            assert_eq!(
                (info.space, info.assumed, info.oddities.len()),
                (space, false, 0),
                "{name}"
            );
            assert_eq!(info.labels.as_deref(), Some("label"), "{name}");
            assert_eq!(bytes, written(name, as_text, space));
            let other = ReadOptions { space: Some(MeshSpace::Lps), ..ReadOptions::default() };
            let (again, info) = read_from_bytes(name, &bytes, &other).unwrap();
            assert_eq!(again, mesh, "the file is believed, not the option");
            assert_eq!(info.oddities.len(), usize::from(space == MeshSpace::Ras));
        }
    }
    let none = TetraMesh::new(sample().vertices()[..4].into(), vec![[0, 1, 2, 3]]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.vtu", "a.vtk"] {
        write(folder.path().join(name), &none, &WriteOptions::default()).unwrap();
        let (mesh, info) = read(folder.path().join(name), &ReadOptions::default()).unwrap();
        assert_eq!((mesh, info.labels), (none.clone(), None));
    }
    for (name, part) in [("a.msh", "meshio convert"), ("a.stl", "use one of .vtu, .vtk, .msh")] {
        let said = write(folder.path().join(name), &none, &WriteOptions::default()).unwrap_err();
        assert!(said.to_string().contains(part), "{said}");
    }
    let label = VertexData {
        name: "Label".into(),
        components: 1,
        values: vec![0.; 2],
        is_direction: false,
    };
    let twice = sample().with_data(vec![], vec![label]).unwrap();
    let said = write(folder.path().join("b.vtu"), &twice, &WriteOptions::default()).unwrap_err();
    assert!(said.to_string().contains("both named 'Label'"), "{said}");
}

#[test]
fn a_real_mesh_of_itk_is_lps() {
    let Some(folder) = real_files("fem_brainshift_pbnrr") else { return };
    let mask = read_labels(folder.join("PBNRRMaskImage.nii.gz")).unwrap();
    let inside = |mesh: &TetraMesh| {
        let is_inside = |v: &&Vector3<f64>| {
            let index = mask.grid().world_to_index(**v);
            let [x, y, z] = [0, 1, 2].map(|axis| index[axis].round() as usize);
            let [nx, ny, nz] = mask.grid().dims();
            let at = (z * ny + y) * nx + x;
            mask.grid().contains_index(index) && x < nx && y < ny && z < nz && mask.data()[at] > 0
        };
        mesh.vertices().iter().filter(is_inside).count()
    };
    for (space, expected) in [(None, 0), (Some(MeshSpace::Lps), 1012)] {
        let options = ReadOptions { space, ..ReadOptions::default() };
        let (mesh, info) = read(folder.join("PBNRRMesh.vtk"), &options).unwrap();
        assert_eq!((info.vertices, info.tetrahedra, info.assumed), (1012, 3372, true));
        assert!((mesh.volume() - 1_542_254.0).abs() < 1.0, "{}", mesh.volume());
        assert!((0..3372).all(|e| volume(mesh.corners(e)) > 0.0));
        assert_eq!(mesh.boundary().unwrap().len(), 1748);
        assert_eq!(
            (mesh.parts().unwrap().iter().max(), mesh.faults().unwrap().len()),
            (Some(&0), 0)
        );
        assert_eq!(inside(&mesh), expected);
        assert_eq!(info.oddities.iter().any(|o| o.contains("RAS was assumed")), space.is_none());
    }
}

#[test]
fn tetrahedra_are_turned_round_or_refused() {
    let inverted = vtk(FIVE, &["4 0 2 1 3", "4 4 1 2 3"], &[10, 10], "");
    let (mesh, info) = parsed("a.vtk", inverted).unwrap();
    assert_eq!(mesh.tetrahedra(), [[0, 2, 3, 1], [4, 1, 3, 2]]);
    assert!((0..2).all(|e| volume(mesh.corners(e)) > 0.0));
    says(&info.oddities, "all tetrahedra were turned inside out");
    let some = error("a.vtk", vtk(FIVE, &["4 0 1 2 3", "4 4 1 2 3"], &[10, 10], ""));
    assert!(
        some.contains("1 of 2 tetrahedra are turned inside out") && some.contains("numbers 1, "),
        "{some}"
    );
    // One without volume is neither.
    let flat = vtk(FIVE, &["4 0 1 2 2", "4 0 2 1 3", "4 4 1 2 3"], &[10, 10, 10], "");
    assert_eq!(parsed("a.vtk", flat).unwrap().0.tetrahedra()[0], [0, 1, 2, 2]);
}

#[test]
fn other_cells_are_left_out_or_refused() {
    let points = "0 0 0 1 0 0 0 1 0 0 0 1 9 9 9 8 8 8";
    let cells = ["1 4", "2 0 4", "3 0 1 2", "4 0 1 2 3", "4 0 1 2 4"];
    let rest = "POINT_DATA 6\nSCALARS p float 1\nLOOKUP_TABLE default\n0 1 2 3 4 5\n\
                CELL_DATA 5\nSCALARS c int 1\nLOOKUP_TABLE default\n10 20 30 40 50\n";
    let (mesh, info) = parsed("a.vtk", vtk(points, &cells, &[1, 3, 5, 10, 9], rest)).unwrap();
    assert_eq!((mesh.vertices().len(), mesh.tetrahedra()), (4, &[[0, 1, 2, 3]][..]));
    assert_eq!(mesh.vertex_data()[0].values, [0., 1., 2., 3.]);
    assert_eq!(mesh.cell_data()[0].values, [40.]);
    for part in
        ["1 vertices were", "1 lines were", "2 cells of surfaces", "2 vertices of no tetrahedron"]
    {
        says(&info.oddities, part);
    }
    for (kind, words) in [
        (24, "a quadratic tetrahedron (type 24 of VTK)"),
        (12, "a hexahedron"),
        (99, "a cell (type 99"),
    ] {
        let said = error("a.vtk", vtk(points, &cells, &[10, 3, 5, kind, 9], ""));
        // A line of two corners is no tetrahedron whatever the type says.
        assert!(said.contains("cell 0 has 1 corners, not four"), "{said}");
        let said = error("a.vtk", vtk(points, &cells, &[1, 3, 5, kind, 9], ""));
        assert!(said.contains(&format!("cell 3 is {words}")) && said.contains("gmsh -3"), "{said}");
    }
    let surface = error("a.vtk", vtk(points, &cells, &[1, 3, 5, 9, 9], ""));
    assert!(surface.contains("there is no tetrahedron"), "{surface}");
    let msh = |element: &str| {
        format!(
            "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n5 0 0 1\n$EndNodes\n\
             $Elements\n1\n{element}\n$EndElements\n"
        )
    };
    assert_eq!(parsed("a.msh", msh("7 4 2 0 1 1 2 3 5")).unwrap().0.tetrahedra(), [[0, 1, 2, 3]]);
    for (element, part) in [
        (
            "7 11 2 0 1 1 2 3 5 1 2 3 5 1 2",
            "the element 7 is a quadratic tetrahedron (type 11 of Gmsh)",
        ),
        ("7 5 0 1 2 3 5 1 2 3 5", "the element 7 is a hexahedron"),
        ("7 77 0", "the type 77, which is not known"),
        ("7 4 2 0 1 1 2 3 4", "the element 7 has the node 4, which is not there"),
        ("7 2 0 1 2 3", "there is no tetrahedron"),
        ("7 4 0 1 2 3", "'$EndElements' is not a number"),
        ("7 4 0 1 2 3 5 9", "'9' is where $EndElements should be"),
    ] {
        let said = error("a.msh", msh(element));
        assert!(said.contains(part), "{said}");
    }
    for (from, to, part) in [
        ("2.2 0", "4 0", "the version 4 of Gmsh's files"),
        ("2.2 0 8", "2.2 1 4", "4 bytes"),
        ("2.2 0", "2.2 2", "'2' is neither"),
        ("5 0 0 1", "3 0 0 1", "the node 3 is there twice"),
        ("$Nodes", "Nodes", "'Nodes' is no section"),
        ("$Elements", "$Other", "ends before $EndOther"),
    ] {
        let said = error("a.msh", msh("7 4 0 1 2 3 5").replacen(from, to, 1));
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn directions_turn_along_where_they_are_marked() {
    let text = "POINT_DATA 5\nVECTORS u float\n1 2 3 1 2 3 1 2 3 1 2 3 1 2 3\n\
                FIELD F 1\nf 3 5 float\n1 2 3 1 2 3 1 2 3 1 2 3 1 2 3\n";
    let text = vtk(FIVE, &["4 0 1 2 3", "4 2 1 4 3"], &[10, 10], text);
    let (mesh, info) = parsed("a.vtk", text.replace("SPACE=RAS", "SPACE=LPS")).unwrap();
    assert_eq!(mesh.vertices()[4], Vector3::new(-1., -1., 1.));
    assert_eq!(mesh.vertex_data()[0].values[..3], [-1., -2., 3.]);
    assert_eq!(mesh.vertex_data()[1].values[..3], [1., 2., 3.]);
    says(&info.oddities, "'f' has three components, but is not marked as a direction");
    assert!(parsed("a.vtk", text).unwrap().1.oddities.is_empty());
}

#[test]
fn labels_are_found_by_name_or_option() {
    let file = |arrays: &str| {
        vtk(FIVE, &["4 0 1 2 3", "4 2 1 4 3"], &[10, 10], &format!("CELL_DATA 2\n{arrays}"))
    };
    let array = |name: &str, values: &str| {
        format!("SCALARS {name} double 1\nLOOKUP_TABLE default\n{values}\n")
    };
    let text =
        file(&(array("Material%20ID", "4 5") + &array("label", "1.5 2") + &array("other", "8 9")));
    let (mesh, info) = parsed("a.vtk", &text).unwrap();
    assert_eq!((mesh.labels(), info.labels.as_deref()), (&[4, 5][..], Some("Material ID")));
    assert_eq!(
        mesh.cell_data().iter().map(|a| a.name.as_str()).collect::<Vec<_>>(),
        ["label", "other"]
    );
    says(&info.oddities, "'label' was not taken for labels: 1.5 of tetrahedron 0");
    let asked = |name: &str| {
        let options = ReadOptions { labels: Some(name.into()), ..ReadOptions::default() };
        read_from_bytes("a.vtk", text.as_bytes(), &options)
    };
    let (mesh, info) = asked("other").unwrap();
    assert_eq!((mesh.labels(), info.labels.as_deref()), (&[8, 9][..], Some("other")));
    let said = asked("label").unwrap_err().to_string();
    assert!(
        said.contains("'label' has no labels: 1.5 of tetrahedron 0 is not a whole number"),
        "{said}"
    );
    let said = asked("x").unwrap_err().to_string();
    assert!(
        said.contains("no cell values named 'x', only 'Material ID', 'label', 'other'"),
        "{said}"
    );
    let said = error("a.vtk", file(&array("label", "1")));
    assert!(said.contains("a.vtk"), "{said}");
    // Two volumes of the geometry and no groups.
    let (_, bytes) = FILES.iter().find(|(name, _)| name == "gmsh22_ascii.msh").unwrap();
    let text = String::from_utf8_lossy(bytes);
    let (mesh, info) =
        parsed("a.msh", text.replace(" 4 2 7 ", " 4 2 0 ").replace(" 4 2 9 ", " 4 2 0 ")).unwrap();
    assert_eq!((mesh.labels()[0], mesh.labels()[35]), (1, 2));
    says(&info.oddities, "the labels are the numbers of the volumes");
    let (mesh, info) = parsed("a.msh", text.replace(" 4 2 7 ", " 4 2 0 ")).unwrap();
    assert_eq!((mesh.labels()[0], mesh.labels()[35]), (0, 9));
    says(&info.oddities, "18 tetrahedra of no physical group have the label 0");
}

#[test]
fn pieces_become_one_mesh() {
    let piece = |arrays: &str| {
        format!(
            "<Piece NumberOfPoints=\"4\" NumberOfCells=\"1\"><Points><DataArray type=\"Float32\" NumberOfComponents=\"3\">\
             0 0 0 1 0 0 0 1 0 0 0 1</DataArray></Points><Cells><DataArray type=\"Int32\" Name=\"connectivity\">0 1 2 3</DataArray>\
             <DataArray type=\"Int32\" Name=\"offsets\">4</DataArray><DataArray type=\"UInt8\" Name=\"types\">10</DataArray></Cells>\
             <CellData>{arrays}</CellData></Piece>"
        )
    };
    let array = |name: &str, value: u8| {
        format!("<DataArray type=\"UInt8\" Name=\"{name}\">{value}</DataArray>")
    };
    let text = format!(
        "<VTKFile type=\"UnstructuredGrid\"><UnstructuredGrid>{}{}</UnstructuredGrid></VTKFile>",
        piece(&(array("Tissue", 3) + &array("q", 1))),
        piece(&array("Tissue", 4))
    );
    let (mesh, info) = parsed("a.vtu", &text).unwrap();
    assert_eq!(mesh.tetrahedra(), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!((mesh.labels(), mesh.cell_data().len()), (&[3, 4][..], 0));
    says(&info.oddities, "'q', which not every piece has");
    for (from, to, part) in [
        ("\"UnstructuredGrid\"", "\"PolyData\"", "the file holds 'PolyData', no unstructured grid"),
        (">10<", ">12<", "cell 0 is a hexahedron"),
        (">10<", ">10 10<", "2 types of cells for 1 cells"),
        ("0 1 2 3<", "0 1 2 9<", "tetrahedron 0 has the vertex 9"),
        ("1 0 0", "nan 0 0", "vertex 1 is at [NaN"),
        (">3<", ">3 3<", "'Tissue' has 2 values for 1 cells"),
    ] {
        let said = error("a.vtu", text.replacen(from, to, 1));
        assert!(said.contains(part), "{said}");
    }
}

/// Files of all formats and codings.
fn all() -> Vec<(String, Vec<u8>)> {
    let mut all = FILES.clone();
    for name in ["a.vtu", "a.vtk"] {
        for as_text in [false, true] {
            all.push((name.to_owned(), written(name, as_text, MeshSpace::Ras)));
        }
    }
    all
}

fn check(name: &str, bytes: &[u8]) -> bool {
    let result = parsed(name, bytes);
    if let Err(error) = &result {
        let said = error.to_string();
        assert!(said.contains(name) && said.len() < 1000, "{said}");
    }
    result.is_ok()
}

#[test]
fn every_cut_is_read_or_refused() {
    for (name, bytes) in all() {
        for n in (0..bytes.len()).step_by(if bytes.len() > 4000 { 3 } else { 1 }) {
            check(&name, &bytes[..n]);
        }
    }
}

#[test]
fn claims_beyond_the_file_are_refused_at_once() {
    let many = 1u64 << 52;
    let msh =
        |version: &str, rest: String| format!("$MeshFormat\n{version} 0 8\n$EndMeshFormat\n{rest}");
    let one = "$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$EndNodes\n$Elements\n1\n1 4 0 1 2 3 4\n$EndElements\n";
    let data = |rest: &str| {
        msh("2.2", format!("{one}$NodeData\n1\n\"a\"\n1\n0\n3\n0\n{rest}\n$EndNodeData\n"))
    };
    for (name, text) in [
        ("a.msh", msh("2.2", format!("$Nodes\n{many}\n1 0 0 0\n"))),
        ("a.msh", msh("4.1", format!("$Nodes\n{many} {many} 1 {many}\n3 1 0 {many}\n1\n"))),
        ("a.msh", msh("4.1", format!("$Elements\n{many} {many} 1 {many}\n3 1 4 {many}\n1\n"))),
        ("a.msh", msh("4.1", format!("$Entities\n0 0 0 {many}\n1 0 0 0 0 0 0 {many} 1\n"))),
        ("a.msh", msh("2.2", format!("$PhysicalNames\n{many}\n3 1 \"a\"\n"))),
        ("a.msh", data(&format!("{many}\n4\n1 0"))),
        ("a.msh", data(&format!("1\n{many}\n1 0"))),
        (
            "a.vtk",
            vtk(FIVE, &["4 0 1 2 3"], &[10], "")
                .replace("CELLS 1 5", &format!("CELLS {many} {many}")),
        ),
        (
            "a.vtk",
            vtk(FIVE, &["4 0 1 2 3"], &[10], &format!("CELL_DATA {many}\nVECTORS a double\n1\n")),
        ),
    ] {
        let begin = Instant::now();
        assert!(!check(name, text.as_bytes()), "{text}");
        assert!(begin.elapsed().as_secs() < 2, "{text}");
    }
    let (mesh, info) = parsed("a.msh", data("1\n3\n1 5\n2 5\n3 5")).unwrap();
    assert_eq!(mesh.vertex_data().len(), 0);
    says(&info.oddities, "'a', which not every node has");
    for (name, bytes) in
        [("a.xyz", &b"nothing"[..]), ("a", b""), ("a.msh", b""), ("a.gz", b"\x1f\x8b")]
    {
        assert!(!check(name, bytes));
    }
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (name, mut bytes) = FILES[file.index(FILES.len())].clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        check(&name, &bytes);
    }
}
