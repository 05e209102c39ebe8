//! `voxalign affine`: registers two images by a rigid, similarity or affine transform.

mod job;
mod record;
mod table;

pub(crate) use job::{Job, Paths, register_only};

use crate::args::{Command, MethodArgs, OutputArgs, RunArgs};
use crate::config;
use crate::device::Auto;
use crate::failure::{Failure, Outcome};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  voxalign affine t1_template.nii.gz t1_person.nii.gz -o out
      12 degrees of freedom, full search, correlation ratio
  voxalign affine mr.nii.gz ct.nii.gz -o out --dof 6 --cost nmi
      rigid, between kinds of image
  voxalign affine visit1.nii.gz visit2.nii.gz -o out --dof 6 --search local --init header
      small motion, no search over rotations
  voxalign affine a.nii.gz b.nii.gz -o out --search-angles 30,30,180
      full search, at most 30 degrees about x and y, any angle about z
  voxalign affine --config job.toml -o out
      every option from a file: keys are the long option names, `fixed` and `moving` the
      images; the command line wins; paths are relative to the current folder

Written to DIR (older files of these names are replaced or, with --no-report, removed):
  affine.tfm      the transform, fixed to moving world, for ITK and ANTs
  affine.fsl.mat  the same for FSL
  warped.nii.gz   the moving image on the grid of the fixed one
  result.json     verdict, figures, parameters, versions, checksums of the inputs
  report.html     pictures and figures; opens offline in any browser

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error.";

/// Arguments of `voxalign affine`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = EXAMPLES,
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign affine [OPTIONS] <FIXED> <MOVING> -o <DIR>"
)]
pub(crate) struct AffineArgs {
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

    #[command(flatten)]
    method: MethodArgs,

    /// Voxels of the fixed image that count (above 0), on its grid
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    fixed_mask: Option<PathBuf>,
    /// Voxels of the moving image that count (above 0), on its grid
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    moving_mask: Option<PathBuf>,
    /// How much each voxel of the fixed image counts (not negative), on its grid
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    fixed_weight: Option<PathBuf>,
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
pub(crate) fn run(args: AffineArgs) -> Result<Outcome, Failure> {
    let args = match &args.config {
        Some(_) => with_config(&args, std::env::args_os().collect())?,
        None => args,
    };
    let needed = |value: Option<PathBuf>, what: &str| {
        value.ok_or_else(|| {
            Failure::input(format!("{what} is missing; see `voxalign affine --help`"))
        })
    };
    let method = args.method;
    let paths = Paths {
        fixed: needed(args.fixed, "the fixed image FIXED")?,
        moving: needed(args.moving, "the moving image MOVING")?,
        fixed_mask: args.fixed_mask,
        moving_mask: args.moving_mask,
        fixed_weight: args.fixed_weight,
        fixed_labels: args.fixed_labels,
        moving_labels: args.moving_labels,
    };
    let output = needed(args.output, "the output folder -o DIR")?;
    let machine = args.run.machine(Auto::Gpu)?;
    let job = Job {
        program: "voxalign affine",
        paths,
        config: args.config,
        output,
        method: &method,
        output_options: &args.output_options,
        run: &args.run,
        machine: &machine,
    };
    job.run()
}

/// The arguments with those of the configuration file before them.
fn with_config(args: &AffineArgs, typed: Vec<OsString>) -> Result<AffineArgs, Failure> {
    let Some(path) = &args.config else { return Ok(args.clone()) };
    let (mut merged, positionals) =
        config::merged(path, "affine", typed, |command| match command {
            Command::Affine(args) => Some(*args),
            _ => None,
        })?;
    for (name, value) in positionals {
        let slot = if name == "fixed" { &mut merged.fixed } else { &mut merged.moving };
        slot.get_or_insert(value);
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn parse(arguments: &[&str]) -> AffineArgs {
        match Cli::try_parse_from(arguments).unwrap().command {
            Command::Affine(args) => *args,
            other => panic!("{other:?}"),
        }
    }

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
        let args = parse(&typed);
        let merged = with_config(&args, typed.iter().map(OsString::from).collect()).unwrap();
        assert_eq!((merged.method.dof, merged.method.bins), (Some(9), Some(40)));
        assert_eq!(merged.fixed, Some("other.nii".into()));
        assert_eq!(merged.moving, Some("m.nii".into()));
        assert!(merged.output_options.wants_report());
    }

    #[test]
    fn a_bad_value_is_blamed_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(&file, "cost = 'xx'\n").unwrap();
        let typed = ["voxalign", "affine", "--config", file.to_str().unwrap()];
        let args = parse(&typed);
        let e = with_config(&args, typed.iter().map(OsString::from).collect()).unwrap_err();
        let text = e.to_string();
        assert!(text.contains("job.toml") && text.contains("--cost"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
