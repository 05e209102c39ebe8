//! `voxalign affine`: registers two images by a rigid, similarity or affine transform.

mod job;
mod record;
mod table;

pub(crate) use job::{Job, Paths, register_only};

use super::{Cli, Command};
use crate::args::{MethodArgs, OutputArgs, Products, RunArgs, of_affine};
use crate::config;
use crate::device::Auto;
use crate::failure::{Failure, Outcome};
use crate::registration::{PairArgs, PairMaskArgs, Run};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  voxalign affine t1_template.nii.gz t1_person.nii.gz -o out
      12 degrees of freedom, full search, correlation ratio
  voxalign affine mr.nii.gz ct.nii.gz -o out --dof 6 --cost nmi
      rigid, across modalities
  voxalign affine visit1.nii.gz visit2.nii.gz -o out --dof 6 --search local --init header
      small motion, no search over rotations
  voxalign affine a.nii.gz b.nii.gz -o out --search-angles 30,30,180
      full search, at most 30 degrees about x and y, any angle about z
  voxalign affine --config job.toml -o out
      all options from a file: keys are the long option names, `fixed` and `moving` the
      images; the command line takes precedence; paths are relative to the current folder

Written to DIR (older files with these names are replaced, or removed where none is written):
  affine.tfm      the transform, fixed to moving world, for ITK and ANTs
  affine.fsl.mat  the same for FSL
  warped.nii.gz   the moving image on the grid of the fixed one
  result.json     verdict, figures, parameters, versions, checksums of the inputs
  report.html     pictures and figures; opens offline in any browser

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign affine`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = EXAMPLES,
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign affine [OPTIONS] <FIXED> <MOVING> -o <DIR>"
)]
pub(crate) struct AffineArgs {
    #[command(flatten)]
    pair: PairArgs,

    #[command(flatten)]
    method: MethodArgs,

    #[command(flatten)]
    masks: PairMaskArgs,
    /// Mask of the moving image, on its grid: only voxels above 0 count
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    moving_mask: Option<PathBuf>,
    /// Weight of each voxel of the fixed image (0 or more), on its grid
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    fixed_weight: Option<PathBuf>,

    #[command(flatten)]
    output_options: OutputArgs,
    /// Which files to write, separated by commas: affine, warped; result.json is always written,
    /// and report.html unless --no-report says otherwise [default: all]
    #[arg(long, value_name = "NAME,...", value_parser = of_affine, help_heading = "Output")]
    outputs: Option<Products>,
    #[command(flatten)]
    run: RunArgs,
}

/// Registers the images.
pub(crate) fn run(args: AffineArgs) -> Result<Outcome, Failure> {
    let args = match &args.pair.config {
        Some(path) => with_config(path, std::env::args_os().collect())?,
        None => args,
    };
    let (pair, output) = args.pair.paths(&args.masks, "affine")?;
    let paths = Paths { pair, moving_mask: args.moving_mask, fixed_weight: args.fixed_weight };
    let job = Job {
        program: "voxalign affine",
        paths,
        method: &args.method,
        run: Run::new(&args.pair.config, &output, &args.output_options, &args.run)
            .only(args.outputs.as_ref()),
    };
    job.check()?;
    job.run(&args.run.machine(Auto::Gpu)?)
}

/// The arguments that were `typed`, with those of the configuration file before them.
fn with_config(path: &Path, typed: Vec<OsString>) -> Result<AffineArgs, Failure> {
    let (mut merged, positionals) =
        config::merged(path, "affine", typed, |cli: Cli| match cli.command {
            Command::Affine(args) => Some(*args),
            _ => None,
        })?;
    merged.pair.fill(positionals);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(
            &file,
            "fixed = 'f.nii'\nmoving = 'm.nii'\ndof = 6\nbins = 40\nreport = false\n",
        )
        .unwrap();
        let file = file.to_str().unwrap();
        let typed = ["voxalign", "affine", "--config", file, "--dof", "9", "--report", "other.nii"];
        let merged =
            with_config(Path::new(file), typed.iter().map(OsString::from).collect()).unwrap();
        assert_eq!((merged.method.dof, merged.method.bins), (Some(9), Some(40)));
        assert_eq!(merged.pair.fixed, Some("other.nii".into()));
        assert_eq!(merged.pair.moving, Some("m.nii".into()));
        assert!(merged.output_options.wants_report());
    }

    #[test]
    fn a_bad_value_is_blamed_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(&file, "cost = 'xx'\n").unwrap();
        let typed = ["voxalign", "affine", "--config", file.to_str().unwrap()];
        let e = with_config(&file, typed.iter().map(OsString::from).collect()).unwrap_err();
        let text = e.to_string();
        assert!(text.contains("job.toml") && text.contains("--cost"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
