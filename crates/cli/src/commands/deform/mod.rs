//! `voxalign deform`: registers two images by a deformation that can be undone.

mod job;
mod method;
mod record;
mod table;

use crate::args::{Command, OutputArgs, RunArgs};
use crate::config;
use crate::device::Auto;
use crate::failure::{Failure, Outcome};
use clap::Args;
use job::{Job, Paths};
use method::{AffineChoice, Channel, DeformMethodArgs};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  voxalign deform template.nii.gz scan.nii.gz -o out
      an affine registration first, then a greedy one driven by local correlation
  voxalign deform template.nii.gz scan.nii.gz -o out --affine affine/affine.tfm --model symmetric
      from a transform that is there; exchanging the images inverts the result
  voxalign deform mr.nii.gz pet.nii.gz -o out --similarity mi --schedule 4x100,2x50
      between kinds of image, not down to the finest scale
  voxalign deform t1a.nii.gz t1b.nii.gz -o out --channel t2a.nii.gz t2b.nii.gz lncc 0.5
      two pairs of images at once
  voxalign deform a.nii.gz b.nii.gz -o out --model lddmm --similarity ssd --time-steps 8
      a shortest path of deformations
  voxalign deform --config job.toml -o out
      every option from a file: keys are the long option names, `fixed` and `moving` the
      images; the command line wins, but channels add up

Using the result (a chain is read from the fixed image on: first the warp, then the affine):
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/warp.nii.gz -t out/affine.tfm -o w.nii.gz
      an image of the moving space onto the fixed grid; --interpolation label for labels
  voxalign apply -i fixed_labels.nii.gz -r moving.nii.gz -t inverse:out/affine.tfm
      -t out/inverse_warp.nii.gz --interpolation label -o w.nii.gz
      the other way
  voxalign apply -i points.csv -t out/warp.nii.gz -t out/affine.tfm -o p.csv
      points of the moving image to the fixed one; --points-from fixed for the other way
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/composite.nii.gz -o w.nii.gz
      the same with one file; inverse_composite.nii.gz for the other way
  antsApplyTransforms -d 3 -i moving.nii.gz -r fixed.nii.gz -t out/warp.nii.gz -t out/affine.tfm
      -o w.nii.gz
      the same with ANTs, in the same order
  antsApplyTransforms -d 3 -i fixed.nii.gz -r moving.nii.gz -t [out/affine.tfm,1]
      -t out/inverse_warp.nii.gz -o w.nii.gz
      the other way with ANTs

Written to DIR (older files of these names are replaced or, with --no-report, removed):
  warp.nii.gz               displacements on the fixed grid, before the affine (ANTs: 1Warp)
  inverse_warp.nii.gz       their inverse, on the fixed grid (ANTs: 1InverseWarp)
  affine.tfm                the affine part, fixed to moving world (ANTs: 0GenericAffine)
  affine.fsl.mat            the same for FSL
  composite.nii.gz          warp and affine as one field on the fixed grid
  inverse_composite.nii.gz  the way back, moving to fixed, as one field on the moving grid
  warped.nii.gz             the moving image on the grid of the fixed one
  jacobian.nii.gz           Jacobian determinant of the warp, without the affine part
  result.json               verdict, measures, energies, parameters, checksums of the inputs
  report.html               pictures and figures; opens offline in any browser
Fields are NIfTI images of vectors (intent 1007), LPS millimetres, as ITK and ANTs have them.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error.";

/// Arguments of `voxalign deform`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = EXAMPLES,
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign deform [OPTIONS] <FIXED> <MOVING> -o <DIR>"
)]
pub(crate) struct DeformArgs {
    /// The image that stays
    #[arg(value_name = "FIXED")]
    fixed: Option<PathBuf>,
    /// The image that is moved onto it
    #[arg(value_name = "MOVING")]
    moving: Option<PathBuf>,
    /// Folder for the results; made where it is not there
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// TOML file with options; those of the command line win
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Where the deformation starts: `auto` registers by an affine transform first, as `voxalign
    /// affine` does without options; `none` takes the headers as they are; FILE is an affine
    /// transform from fixed to moving [default: auto]
    #[arg(long, value_name = "auto|none|FILE")]
    affine: Option<AffineChoice>,

    #[command(flatten)]
    method: DeformMethodArgs,

    /// Voxels of the fixed image that count (above 0), on its grid
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    fixed_mask: Option<PathBuf>,
    /// Label map of the fixed image, to report the overlap before and after; not used to register
    #[arg(long, value_name = "LABELS", help_heading = "Masks and labels")]
    fixed_labels: Option<PathBuf>,
    /// Label map of the moving image, to report the overlap before and after
    #[arg(long, value_name = "LABELS", help_heading = "Masks and labels")]
    moving_labels: Option<PathBuf>,

    #[command(flatten)]
    output_options: OutputArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// Registers the images.
pub(crate) fn run(args: DeformArgs) -> Result<Outcome, Failure> {
    let args = match &args.config {
        Some(_) => with_config(&args, std::env::args_os().collect())?,
        None => args,
    };
    let needed = |value: Option<PathBuf>, what: &str| {
        value.ok_or_else(|| {
            Failure::input(format!("{what} is missing; see `voxalign deform --help`"))
        })
    };
    let channels = Channel::all(args.method.channels())?;
    let options = args.method.options(&channels)?;
    let affine = args.affine.unwrap_or_default();
    let paths = Paths {
        fixed: needed(args.fixed, "the fixed image FIXED")?,
        moving: needed(args.moving, "the moving image MOVING")?,
        channels,
        affine: affine.file().cloned(),
        fixed_mask: args.fixed_mask,
        fixed_labels: args.fixed_labels,
        moving_labels: args.moving_labels,
    };
    let output = needed(args.output, "the output folder -o DIR")?;
    let similarity = args.method.similarity();
    let job = Job {
        paths,
        config: args.config,
        output,
        affine,
        similarity,
        options,
        output_options: &args.output_options,
        run: &args.run,
    };
    job.check()?;
    job.run(&args.run.machine(Auto::Gpu)?)
}

/// The arguments with those of the configuration file before them.
fn with_config(args: &DeformArgs, typed: Vec<OsString>) -> Result<DeformArgs, Failure> {
    let Some(path) = &args.config else { return Ok(args.clone()) };
    let (mut merged, positionals) =
        config::merged(path, "deform", typed, |command| match command {
            Command::Deform(args) => Some(*args),
            _ => None,
        })?;
    for (name, value) in positionals {
        let slot = if name == "fixed" { &mut merged.fixed } else { &mut merged.moving };
        slot.get_or_insert(value);
    }
    Ok(merged)
}
