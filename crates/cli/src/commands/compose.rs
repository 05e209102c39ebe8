//! `voxalign compose`: combines several transforms into one.

use crate::args::HostArgs;
use crate::failure::{Failure, Outcome};
use clap::Args;
use voxalign_jobs::compose::Job;

/// Arguments of `voxalign compose`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign compose -t warp.nii.gz -t affine.mat -o both.nii.gz --fixed-geometry fixed.nii.gz
  voxalign compose -t a.tfm -t inverse:b.tfm -o ab.tfm
  voxalign compose -t inverse:affine.mat -t inverse_warp.nii.gz -o back.nii.gz \\
      --fixed-geometry moving.nii.gz

A fixed point goes through the first -t, then the next: the order of ANTs' command line. Affine
transforms become one matrix; with a displacement field among them the result is a field on the
grid of --fixed-geometry, else on that of the first field, which should cover everything that is to
be transformed: outside its grid, a field has no displacement. An existing output file is replaced.")]
pub(crate) struct ComposeArgs {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    host: HostArgs,
}

/// Writes the composition.
pub(crate) fn run(args: ComposeArgs) -> Result<Outcome, Failure> {
    args.host.start()?;
    args.job.run(&args.host.printer())?;
    Ok(Outcome::Good)
}
