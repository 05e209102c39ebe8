//! `voxalign compose`: writes several transforms as one.

use crate::args::{GeometryArgs, HostArgs, TransformArg};
use crate::chain::{Chain, own_grid};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::Talk;
use clap::Args;
use std::path::PathBuf;
use voxalign_image::Transform;
use voxalign_io::transform::{self, TransformFormat};
use voxalign_jobs::files::{self, Grids};

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
    /// A transform: FILE, or inverse:FILE (or ANTs' `[FILE,1]`) for its inverse; a fixed point goes
    /// through the first -t, then the next
    #[arg(short, long = "transform", value_name = "FILE", required = true)]
    transforms: Vec<TransformArg>,
    /// File for the result; its extension sets the format: .tfm or .txt (ITK text), .mat
    /// (ITK/ANTs), .h5 (ITK/ANTs, with its fields), .fsl or .fsl.mat (FSL), .nii.gz (displacement
    /// field)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    geometry: GeometryArgs,
    #[command(flatten)]
    host: HostArgs,
}

/// Writes the composition.
pub(crate) fn run(args: ComposeArgs) -> Result<Outcome, Failure> {
    let args = &args;
    let transforms = args.transforms.iter().map(|t| &t.path);
    let inputs = transforms.chain(args.geometry.paths());
    files::check_output(&args.output, inputs.map(PathBuf::as_path))?;
    args.host.start()?;
    let mut grids = args.geometry.grids()?;
    let chain = Chain::load(&args.transforms, &grids, &Grids::default())?;
    let whole = chain.into_transform(args.host.talk())?;
    // ITK's HDF5 keeps the parts as they are.
    let as_field = TransformFormat::from_path(&args.output)? != TransformFormat::ItkHdf5;
    if as_field && grids.fixed.is_none() && matches!(whole, Transform::Composite(_)) {
        grids.fixed = own_grid(&whole).cloned();
        if let (Some(grid), true) = (&grids.fixed, args.host.talk() > Talk::Quiet) {
            output::note(&format!(
                "the result is on the grid of the first displacement field, {grid}; use \
                 --fixed-geometry for another grid"
            ));
        }
    }
    transform::write(&args.output, &whole, &grids.geometry())?;
    Ok(Outcome::Good)
}
