//! `voxalign invert`: writes the inverse of a transform.

use crate::args::HostArgs;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Talk;
use clap::Args;
use voxalign_jobs::invert::{Distances, Job};

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
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    host: HostArgs,
}

/// Writes the inverse.
pub(crate) fn run(args: InvertArgs) -> Result<Outcome, Failure> {
    args.host.start()?;
    let found = args.job.run(&args.host.printer())?;
    if args.host.talk() > Talk::Quiet {
        for field in &found.fields {
            report("residual at the voxels of the inverse", field.at_voxels);
            report("round-trip error at the voxels of the field", field.round_trip);
        }
    }
    Ok(Outcome::of(found.is_good()))
}

/// Says how exact the inverse is.
fn report(what: &str, distances: Distances) {
    let Distances { mean_mm, largest_mm } = distances;
    output::line(&format!("{what}: mean {mean_mm:.6} mm, largest {largest_mm:.6} mm"));
}
