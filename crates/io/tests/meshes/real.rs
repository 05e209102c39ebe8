//! Real surfaces. Numbers are those of nibabel 5.4 and of the files themselves.

use crate::common::real_files;
use voxalign_io::mesh::{MeshFormat, MeshSpace, ReadOptions, WriteOptions, read, write};

#[test]
fn real_surfaces_are_read_and_written() {
    let mut count = 0;
    let folders = ["meshes_gifti", "meshes_derived_oasis", "meshes_deformetrica_brain_structures"];
    for folder in folders.iter().filter_map(|name| real_files(name)) {
        let copies = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if MeshFormat::from_path(&path).is_err() {
                continue;
            }
            let (mesh, info) = read(&path, &ReadOptions::default()).unwrap();
            let name = path.display();
            assert!(mesh.faces().len() > 300 && mesh.lines().len() == 0, "{name}");
            assert_eq!(mesh.unused().unwrap(), 0, "{name}");
            assert_eq!(info.space, MeshSpace::Ras);
            if let Some(volume) = mesh.volume().unwrap() {
                assert!(volume.abs() > 100.0 && volume.abs() < 1e6, "{name}: {volume}");
            }
            for other in ["a.gii", "a.vtk", "a.vtp", "a.ply", "lh.a.white"] {
                let copy = copies.path().join(other);
                write(&copy, &mesh, &WriteOptions::default()).unwrap();
                let (back, info) = read(&copy, &ReadOptions::default()).unwrap();
                let pairs = back.vertices().iter().zip(mesh.vertices());
                let far = pairs.map(|(a, b)| (a - b).amax()).fold(0.0, f64::max);
                // Numbers of text have more digits than 32 bits.
                let most = if info.format.has_world() { 1e-5 } else { 0.0 };
                assert!(far <= most && back.faces() == mesh.faces(), "{name} {other}: {far}");
            }
            count += 1;
        }
    }
    println!("{count} surfaces");
}

#[test]
fn known_surfaces() {
    let Some(folder) = real_files("meshes_gifti") else { return };
    for (name, vertices, faces) in [
        ("cortex_5124.surf.gii", 5124, 10240),
        ("fsaverage5_pial_left.gii.gz", 10242, 20480),
        ("fsaverage5_white_left.gii.gz", 10242, 20480),
    ] {
        let (mesh, info) = read(folder.join(name), &ReadOptions::default()).unwrap();
        assert_eq!((info.vertices, info.faces), (vertices, faces), "{name}");
        assert!(mesh.is_closed().unwrap(), "{name}");
        assert!(mesh.volume().unwrap().unwrap() > 1e5, "{name}: seen from outside");
    }
}

#[test]
fn a_mesh_of_tetrahedra_is_refused() {
    let Some(folder) = real_files("fem_brainshift_pbnrr") else { return };
    let said = read(folder.join("PBNRRMesh.vtk"), &ReadOptions::default()).unwrap_err().to_string();
    assert!(said.contains("PBNRRMesh.vtk': cell 0 is a tetrahedron (type 10 of VTK)"), "{said}");
}
