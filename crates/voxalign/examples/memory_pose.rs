//! The pose of a CT in memory by X-ray images in memory: no file is written.
//! `cargo run --release -p voxalign --example memory_pose`

#![allow(clippy::print_stdout)]

use voxalign::compute::ops::raycast::{Along, Traversal};
use voxalign::image::{Matrix3, Vector3, XrayGeometry};
use voxalign::register::projection::phantom::Phantom;
use voxalign::register::projection::{PoseOptions, PoseResult, PreparedCt, Simulator, View};
use voxalign::{Affine, AnyDevice, Auto, Error, Grid, Machine, MachineOptions, Silent, Volume};

/// Where a CT is, of which X-ray images were taken: the map from their room to its world.
pub fn find(
    device: &AnyDevice,
    ct: &Volume<f32>,
    xrays: &[(XrayGeometry, Vec<f32>)],
) -> Result<PoseResult, Error> {
    let views =
        xrays.iter().map(|(geometry, image)| View { geometry, image, region: None, without: None });
    let views: Vec<_> = views.collect();
    let (mut ct, start) = (PreparedCt::new(device, ct)?, Affine::identity());
    Ok(ct.register(&views, &start, &PoseOptions::default(), &Silent)?)
}

/// The pose of a head of voxels of `size` mm by images from the front and from the side, and how far the corners of the CT are
/// at most from where they were, mm.
pub fn example(device: &AnyDevice, size: f64) -> Result<(PoseResult, f64), Error> {
    let dims = [190.0, 240.0, 245.0].map(|mm| (mm / size) as usize);
    let middle = Vector3::from(dims.map(|n| size * (n as f64 - 1.0) / 2.0));
    let ct = Phantom::head()
        .volume(&Grid::new(dims, Affine::new(Matrix3::identity() * size, -middle))?)?;
    let truth = Affine::new(Matrix3::identity(), Vector3::new(6.0, -4.0, 8.0));
    let simulator = Simulator::new(device, &ct)?;
    let [x, y, z] = [Vector3::x(), Vector3::y(), Vector3::z()];
    let mut xrays = Vec::new();
    for (along, across) in [(y, x), (x, y)] {
        let pixel = 2.2;
        let corner = -300.0 * along - 63.5 * pixel * (across + z);
        let view =
            XrayGeometry::new(1000.0 * along, corner, pixel * across, pixel * z, [128, 128])?;
        let image = simulator.image(&view, &truth, Traversal::trilinear(1.0), Along::Integral)?;
        xrays.push((view, image));
    }
    let found = find(device, &ct, &xrays)?;
    let off = found.transform.largest_distance(&truth, &ct.grid().corners());
    Ok((found, off))
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let (found, off) = example(&machine.device, 2.5)?;
    println!("{}", found.verdict.summary());
    println!("{off:.2} mm from the true pose");
    Ok(())
}
