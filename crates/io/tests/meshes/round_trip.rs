//! What is written is read back.

use crate::{NAMES, parsed, sample};
use proptest::prelude::*;
use voxalign_image::{Mesh, Vector3, VertexData};
use voxalign_io::mesh::{self, MeshFormat, MeshSpace, ReadOptions, WriteOptions};

fn back(name: &str, mesh: &Mesh, options: &WriteOptions) -> (Mesh, mesh::MeshInfo, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    mesh::write(&path, mesh, options).unwrap();
    let (read, info) = mesh::read(&path, &ReadOptions::default()).unwrap();
    (read, info, std::fs::read(&path).unwrap())
}

fn options(space: MeshSpace, as_text: bool) -> WriteOptions {
    WriteOptions { space, as_text, ..WriteOptions::default() }
}

#[test]
fn every_format_and_coding() {
    for name in NAMES {
        let mesh = sample(name);
        for space in [MeshSpace::Ras, MeshSpace::Lps] {
            for text in [false, true] {
                let format = MeshFormat::from_path(name.as_ref()).unwrap();
                let of_text =
                    matches!(format, MeshFormat::Gifti | MeshFormat::Vtk | MeshFormat::Vtp);
                if text && !of_text {
                    continue;
                }
                let options = options(space, text);
                let (read, info, bytes) = back(name, &mesh, &options);
                let mut expected = mesh.clone();
                if format == MeshFormat::Stl {
                    // The vertices come in the order of the faces.
                    assert_eq!(read.area(), mesh.area());
                    assert_eq!(read.volume().unwrap(), mesh.volume().unwrap());
                    expected = read.clone();
                }
                // Directions come first in a VTK file.
                let sorted = |mesh: &Mesh| {
                    let mut data = mesh.data().to_vec();
                    data.sort_by(|a, b| a.name.cmp(&b.name));
                    mesh.clone().with_data(data).unwrap()
                };
                assert_eq!(sorted(&read), sorted(&expected), "{name} {options:?}");
                let said = if format.has_world() { MeshSpace::Ras } else { space };
                assert_eq!((info.format, info.space), (format, said), "{name}");
                assert_eq!(
                    (info.vertices, info.faces),
                    (mesh.vertices().len(), mesh.faces().len())
                );
                let odd = usize::from(format == MeshFormat::Stl);
                assert_eq!(info.oddities.len(), odd, "{name}: {:?}", info.oddities);
                assert_eq!(back(name, &mesh, &options).2, bytes, "the same bytes every time");
                // The content says the format, not the name.
                if format != MeshFormat::Stl {
                    assert_eq!(parsed("unknown.xyz", &bytes).unwrap().1.format, format);
                }
            }
        }
    }
}

#[test]
fn what_a_format_does_not_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, of, part) in [
        ("a.stl", "a.tck", "holds no lines"),
        ("a.gii", "a.tck", "holds no lines"),
        ("lh.white", "a.tck", "holds no lines"),
        ("a.tck", "a.stl", "holds no faces"),
        ("a.trk", "a.stl", "holds no faces"),
        ("a.obj", "a.stl", "export .obj as .ply"),
        ("a.vtk.gz", "a.stl", "the extension is not known"),
    ] {
        let path = folder.path().join(name);
        let said = mesh::write(&path, &sample(of), &WriteOptions::default()).unwrap_err();
        let said = said.to_string();
        assert!(said.contains(name) && said.contains(part), "{said}");
        assert!(!path.exists());
    }
    let path = folder.path().join("b.stl");
    let points = Mesh::new(vec![Vector3::zeros()], vec![]).unwrap();
    assert!(mesh::write(&path, &points, &WriteOptions::default()).is_err());
    let text = options(MeshSpace::Ras, true);
    let said = mesh::write(&path, &sample("b.stl"), &text).unwrap_err().to_string();
    assert!(said.contains("not written as text"), "{said}");
}

#[test]
fn the_centre_of_a_volume_is_taken_off_and_added() {
    let mesh = sample("lh.pial");
    let centre = [10.5, -20.0, 3.25];
    let mut options = WriteOptions { centre, ..WriteOptions::default() };
    let (read, info, bytes) = back("lh.pial", &mesh, &options);
    assert_eq!((read, info.frame.as_deref()), (mesh, Some("tkRAS")));
    let start = bytes.windows(2).position(|w| w == b"\n\n").unwrap() + 2 + 8;
    let first = f32::from_be_bytes(bytes[start..start + 4].try_into().unwrap());
    assert_eq!(first, -10.5);
    options.centre[0] = f64::NAN;
    let folder = tempfile::tempdir().unwrap();
    let said = mesh::write(folder.path().join("lh.pial"), &sample("lh.pial"), &options);
    assert!(said.unwrap_err().to_string().contains("not finite"));
}

/// Any mesh whose numbers 32-bit floats hold.
fn meshes(faces: bool, lines: bool) -> impl Strategy<Value = Mesh> {
    let vertices = prop::collection::vec(prop::array::uniform3(-1000i32..1000), 1..40);
    vertices
        .prop_flat_map(move |v| {
            let n = v.len() as u32;
            let most = |wanted: bool, most: usize| if wanted { 0..most } else { 0..1 };
            let of_faces = prop::collection::vec(prop::array::uniform3(0..n), most(faces, 60));
            // Lines that do not follow each other.
            let line = prop::collection::vec(0..n, 2..9);
            let of_lines = prop::collection::vec(line, most(lines, 6));
            let data = prop::collection::vec(any::<i16>(), 2 * n as usize);
            (Just(v), of_faces, of_lines, data)
        })
        .prop_map(|(v, faces, lines, data)| {
            let vertices = v.into_iter().map(|v| Vector3::from(v).map(|c| f64::from(c) / 8.0));
            let mesh = Mesh::new(vertices.collect(), faces).unwrap();
            let mut ends = Vec::new();
            let mut all: Vec<u32> = Vec::new();
            for line in lines {
                if all.last() != line.first() {
                    all.extend(line);
                    ends.push(all.len());
                }
            }
            let values = data.into_iter().map(f32::from).collect();
            let (name, components, is_direction) = ("two words".to_owned(), 2, false);
            let data = VertexData { name, components, values, is_direction };
            mesh.with_lines(ends, all).unwrap().with_data(vec![data]).unwrap()
        })
}

/// Points along lines, each its own.
fn unrolled(mesh: &Mesh) -> Mesh {
    let points = mesh.line_vertices().iter().map(|&i| mesh.vertices()[i as usize]);
    let data = mesh.data().iter().map(|array| VertexData {
        values: (mesh.line_vertices().iter())
            .flat_map(|&i| &array.values[i as usize * array.components..][..array.components])
            .copied()
            .collect(),
        ..array.clone()
    });
    let indices = (0..mesh.line_vertices().len() as u32).collect();
    let unrolled = Mesh::new(points.collect(), vec![]).unwrap();
    let unrolled = unrolled.with_lines(mesh.line_ends().to_vec(), indices).unwrap();
    unrolled.with_data(data.collect()).unwrap()
}

fn without_data(mesh: &Mesh) -> Mesh {
    mesh.clone().with_data(vec![]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_surface_with_curves(mesh in meshes(true, true), lps: bool, text: bool) {
        let options = options(if lps { MeshSpace::Lps } else { MeshSpace::Ras }, text);
        for name in ["a.vtk", "a.vtp"] {
            prop_assert_eq!(&back(name, &mesh, &options).0, &mesh);
        }
        let options = WriteOptions { as_text: false, ..options };
        let read = back("a.ply", &mesh, &options).0;
        prop_assert_eq!(without_data(&read), without_data(&mesh));
        prop_assert_eq!(read.data().len(), 2);
        prop_assert_eq!(read.data()[0].values[0], mesh.data()[0].values[0]);
    }

    #[test]
    fn any_surface(mesh in meshes(true, false)) {
        let options = WriteOptions::default();
        prop_assert_eq!(&back("a.surf.gii", &mesh, &options).0, &mesh);
        prop_assert_eq!(&back("a.gii.gz", &mesh, &options).0, &mesh);
        prop_assert_eq!(back("rh.white", &mesh, &options).0, without_data(&mesh));
        if !mesh.faces().is_empty() {
            let read = back("a.stl", &mesh, &options).0;
            prop_assert_eq!(read.faces().len(), mesh.faces().len());
            prop_assert!((read.area() - mesh.area()).abs() <= 1e-9 * mesh.area());
            for (a, b) in read.faces().iter().zip(mesh.faces()) {
                prop_assert_eq!(
                    a.map(|i| read.vertices()[i as usize]),
                    b.map(|i| mesh.vertices()[i as usize])
                );
            }
        }
    }

    #[test]
    fn any_curves(mesh in meshes(false, true)) {
        let options = WriteOptions::default();
        let expected = unrolled(&mesh);
        prop_assert_eq!(back("a.tck", &mesh, &options).0, without_data(&expected));
        prop_assert_eq!(back("a.trk", &mesh, &options).0, expected);
    }
}
