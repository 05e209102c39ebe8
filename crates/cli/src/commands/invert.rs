//! `voxalign invert`: writes the inverse of a transform.

use crate::args::{GeometryArgs, Grids};
use crate::chain;
use crate::failure::{Failure, Outcome};
use crate::files;
use clap::Args;
use std::path::PathBuf;
use voxalign_io::transform;

/// Arguments of `voxalign invert`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign invert -t affine.tfm -o inverse.tfm
  voxalign invert -t affine.fsl.mat -o inverse.fsl.mat --fixed-geometry fixed.nii.gz \\
      --moving-geometry moving.nii.gz

The inverse maps points of the moving image to points of the fixed one. A displacement field is
inverted on its own grid. An older file of the output's name is replaced.")]
pub(crate) struct InvertArgs {
    /// The transform
    #[arg(short, long, value_name = "FILE")]
    transform: PathBuf,
    /// File for the inverse; its name says the format: .tfm or .txt (ITK text), .mat (ITK/ANTs),
    /// .fsl or .fsl.mat (FSL), .nii.gz (displacement field)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    geometry: GeometryArgs,
}

/// Writes the inverse.
pub(crate) fn run(args: &InvertArgs) -> Result<Outcome, Failure> {
    let inputs = std::iter::once(&args.transform).chain(args.geometry.paths());
    files::check_output(&args.output, inputs.map(PathBuf::as_path))?;
    let grids = args.geometry.grids()?;
    let forward = chain::read(&args.transform, &grids.geometry())?;
    let inverse = forward
        .inverse()
        .map_err(|e| Failure::input(format!("'{}': {e}", args.transform.display())))?;
    // The inverse goes from the moving to the fixed image.
    let turned = Grids { fixed: grids.moving, moving: grids.fixed };
    transform::write(&args.output, &inverse.simplified(), &turned.geometry())?;
    Ok(Outcome::Good)
}
