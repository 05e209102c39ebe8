//! A mesh in memory through transforms in memory: no file is read or written.
//! `cargo run --release -p voxalign --example memory_mesh`

#![allow(clippy::print_stdout)]

use voxalign::chain::Chain;
use voxalign::image::{Displacement, Vector3};
use voxalign::{Affine, Error, Grid, Mesh, Transform, VectorField, info};

/// A mesh of the moving image on the fixed one, by the inverses of transforms, of which a fixed point goes through the first
/// one, then the next.
pub fn to_fixed(mesh: &Mesh, transforms: Vec<Transform>) -> Result<Mesh, Error> {
    let mut chain = Chain::default();
    for (name, transform) in (1..).zip(transforms) {
        chain.push(format!("transform {name}"), transform, false);
    }
    Ok(chain.into_point_map(true)?.carry_mesh(mesh)?.mesh)
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let corners = [[10.0, 10.0, 10.0], [30.0, 10.0, 10.0], [10.0, 30.0, 10.0], [10.0, 10.0, 30.0]];
    let faces = vec![[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]];
    let mesh = Mesh::new(corners.map(Vector3::from).to_vec(), faces)?;
    let wave = |at: Vector3<f64>| Vector3::new((at[1] / 9.0).sin(), 0.0, (at[0] / 7.0).cos());
    let warp = VectorField::from_world_fn(Grid::axis_aligned([24; 3], [2.0; 3])?, wave);
    let shift = Transform::Affine(Affine::translation(Vector3::new(4.0, -2.0, 1.0)));
    let moved = to_fixed(&mesh, vec![Transform::Displacement(Displacement::new(warp)), shift])?;
    for (from, to) in mesh.vertices().iter().zip(moved.vertices()) {
        println!("{:?} to {:.2?} mm", from.as_slice(), to.as_slice());
    }
    println!("volume: {:?} mm³", info::of_mesh(&moved)?.get("volume_mm3"));
    Ok(())
}
