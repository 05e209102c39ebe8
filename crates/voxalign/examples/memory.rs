//! Registers two images in memory, and brings the second one onto the first: no file is written.
//! `cargo run --release -p voxalign --example memory`

#![allow(clippy::print_stdout)]

use voxalign::affine::{Inputs, register};
use voxalign::options::{AffineMethod, OutputOptions};
use voxalign::register::linear::AffineOptions;
use voxalign::{Affine, Auto, Error, Machine, MachineOptions, Silent, Volume, demo};

/// The map from the fixed to the moving image, and the moving image on the grid of the fixed one.
pub fn align(
    fixed: Volume<f32>,
    moving: Volume<f32>,
    options: &AffineOptions,
) -> Result<(Affine, Volume<f32>), Error> {
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let mut images = Inputs::new(fixed, moving);
    let found =
        register(&machine.device, &mut images, options, &OutputOptions::default(), &Silent)?;
    println!("verdict: {}", found.result.verdict.summary());
    Ok((found.result.transform, found.views.after.image))
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let pair = demo::Pair::load()?;
    let options = AffineMethod::default().usual(false)?;
    let (map, warped) = align(pair.fixed, pair.moving, &options)?;
    println!("{}{} voxels", map.matrix, warped.data().len());
    Ok(())
}
