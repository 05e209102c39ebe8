//! `voxalign invert`: writes the inverse of a transform.

use crate::args::{GeometryArgs, HostArgs};
use crate::chain;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Talk;
use clap::Args;
use std::path::PathBuf;
use voxalign_image::Residuals;
use voxalign_io::transform;
use voxalign_jobs::files::{self, Grids};
use voxalign_register::fields::Exactness;

/// Arguments of `voxalign invert`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign invert -t affine.tfm -o inverse.tfm
  voxalign invert -t affine.fsl.mat -o inverse.fsl.mat --fixed-geometry fixed.nii.gz \\
      --moving-geometry moving.nii.gz

The inverse maps points of the moving image to points of the fixed one. A displacement field is
inverted on its own grid, by Newton's method at every voxel. Its accuracy is printed: the residual
at the voxels, and the distance after going there and back, which is larger as both fields are
interpolated. A field has no inverse where it folds: if more than one voxel in a thousand does not
come back to within a voxel, the exit code is 1. An existing output file is replaced.")]
pub(crate) struct InvertArgs {
    /// The transform
    #[arg(short, long, value_name = "FILE")]
    transform: PathBuf,
    /// File for the inverse; its extension sets the format: .tfm or .txt (ITK text), .mat
    /// (ITK/ANTs), .h5 (ITK/ANTs, with its fields), .fsl or .fsl.mat (FSL), .nii.gz (displacement
    /// field)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    geometry: GeometryArgs,
    #[command(flatten)]
    host: HostArgs,
}

/// Writes the inverse.
pub(crate) fn run(args: InvertArgs) -> Result<Outcome, Failure> {
    let args = &args;
    let inputs = std::iter::once(&args.transform).chain(args.geometry.paths());
    files::check_output(&args.output, inputs.map(PathBuf::as_path))?;
    args.host.start()?;
    let grids = args.geometry.grids()?;
    let forward = files::transform(&args.transform, &grids.geometry(), &args.host.printer())?;
    let talk = args.host.talk();
    let (inverse, exactness) = chain::inverted(&forward.simplified(), &args.transform, talk)?;
    // The inverse goes from the moving to the fixed image.
    let turned = Grids { fixed: grids.moving, moving: grids.fixed };
    transform::write(&args.output, &inverse, &turned.geometry())?;
    if talk > Talk::Quiet {
        for field in &exactness {
            report("residual at the voxels of the inverse", &field.at_voxels);
            report("distance of the field's voxels after going there and back", &field.round_trip);
        }
    }
    Ok(if exactness.iter().any(Exactness::is_bad) { Outcome::Bad } else { Outcome::Good })
}

/// Says how exact the inverse is.
fn report(what: &str, residuals: &Residuals) {
    output::line(&format!(
        "{what}: mean {:.6} mm, largest {:.6} mm",
        residuals.mean, residuals.largest
    ));
}
