//! Surfaces, curves and meshes of tetrahedra: made here, as other programs write them, damaged, and real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../files/common.rs"]
mod common;
mod others;
mod real;
mod robust;
mod round_trip;
mod tetra;

use voxalign_image::{Mesh, Vector3, VertexData};
use voxalign_io::IoError;
use voxalign_io::mesh::{MeshInfo, ReadOptions, read_from_bytes};

/// Every name that says a format.
pub(crate) const NAMES: [&str; 9] =
    ["a.gii", "a.gii.gz", "a.vtk", "a.vtp", "a.stl", "a.ply", "lh.pial", "a.tck", "a.trk"];

pub(crate) fn parsed(name: &str, bytes: &[u8]) -> Result<(Mesh, MeshInfo), IoError> {
    read_from_bytes(name, bytes, &ReadOptions::default())
}

/// A tetrahedron, as a surface or as two curves, with values where the format holds them.
pub(crate) fn sample(name: &str) -> Mesh {
    let corners = [[0., 0., 0.], [1.5, 0., 0.], [0., 2., 0.], [0.25, 0., 1.]].map(Vector3::from);
    let lines_only = name.ends_with("tck") || name.ends_with("trk");
    let faces = vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]];
    let mesh = Mesh::new(corners.into(), if lines_only { vec![] } else { faces }).unwrap();
    let data = vec![
        VertexData {
            name: "a <b>".into(),
            components: 1,
            values: vec![0.5, -1.0, 2.0, 3.0],
            is_direction: false,
        },
        VertexData {
            name: "normals".into(),
            components: 3,
            values: (0..12u8).map(f32::from).collect(),
            is_direction: true,
        },
    ];
    let keeps_all = ["gii", "gz", "vtk", "vtp"].iter().any(|end| name.ends_with(end));
    let mesh = mesh.with_data(if keeps_all { data } else { vec![] }).unwrap();
    let has_lines = ["vtk", "vtp", "ply", "tck", "trk"].iter().any(|end| name.ends_with(end));
    if has_lines { mesh.with_lines(vec![2, 4], vec![0, 1, 2, 3]).unwrap() } else { mesh }
}
