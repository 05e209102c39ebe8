//! Registers two images in memory, and brings the second one onto the first: no file is written, and both stay as they are.
//! `cargo run --release -p voxalign --example memory`

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use voxalign::affine::{Inputs, register};
use voxalign::options::{AffineMethod, OutputOptions};
use voxalign::register::linear::AffineOptions;
use voxalign::{Affine, Auto, Error, Machine, MachineOptions, Silent, Volume, demo};

/// The map from the fixed to the moving image, and the moving image on the grid of the fixed one.
pub fn align(
    fixed: &Arc<Volume<f32>>,
    moving: &Arc<Volume<f32>>,
    options: &AffineOptions,
) -> Result<(Affine, Volume<f32>), Error> {
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let images = Inputs::new(Arc::clone(fixed), Arc::clone(moving));
    let found = register(&machine.device, &images, options, &OutputOptions::default(), &Silent)?;
    println!("verdict: {}", found.result.verdict.summary());
    Ok((found.result.transform, found.views.after.image))
}

#[allow(dead_code)]
fn main() -> Result<(), Error> {
    let pair = demo::Pair::load()?;
    let (fixed, moving) = (Arc::new(pair.fixed), Arc::new(pair.moving));
    let (map, warped) = align(&fixed, &moving, &AffineMethod::default().usual(false)?)?;
    println!("{}{} voxels", map.matrix, warped.data().len());
    Ok(())
}
