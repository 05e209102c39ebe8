//! `voxalign affine`: registers two images by a rigid, similarity or affine transform.

use super::{Cli, Command};
use crate::args::{JobArgs, PairArgs, RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::{config, tables};
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::affine::Job;
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::{AffineMethod, OutputOptions, Products, of_affine};
use voxalign_jobs::pair::{MaskPaths, Which};

const EXAMPLES: &str = "\
Examples:
  voxalign affine t1_template.nii.gz t1_person.nii.gz -o out
      12 degrees of freedom, full search, normalised mutual information
  voxalign affine mr.nii.gz ct.nii.gz -o out --dof 6
      rigid, across modalities
  voxalign affine visit1.nii.gz visit2.nii.gz -o out --dof 6 --search local --init header
      small motion, no search over rotations
  voxalign affine a.nii.gz b.nii.gz -o out --search-angles 30,30,180
      full search, at most 30 degrees about x and y, any angle about z
  voxalign affine a.nii.gz b.nii.gz -o out --init landmarks:points_a.csv,points_b.csv --search local
      from corresponding points on, for images that lie far apart
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
    method: AffineMethod,

    #[command(flatten)]
    masks: MaskPaths,
    #[command(flatten)]
    which: Which,
    /// Weight of each voxel of the fixed image (0 or more), on its grid
    #[arg(long, value_name = "IMAGE", help_heading = "Masks and labels")]
    fixed_weight: Option<PathBuf>,

    #[command(flatten)]
    written: OutputOptions,
    /// Which files to write, separated by commas: affine, warped, or `all`; result.json is always written, and
    /// report.html unless --no-report says otherwise [default: all]
    #[arg(long, value_name = "NAME,...", value_parser = of_affine, help_heading = "Output")]
    outputs: Option<Products>,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl AffineArgs {
    /// Refuses options that others make meaningless.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.method.check()?)
    }
}

/// Registers the images.
pub(crate) fn run(args: AffineArgs) -> Result<Outcome, Failure> {
    let file = args.pair.config.clone();
    let fill = |args: &mut AffineArgs, positionals| args.pair.fill(positionals);
    let (args, origin, notes) =
        config::complete(args, file, "affine", of_cli, AffineArgs::check, fill)?;
    config::say(&notes, args.run.talk());
    with_all(args).map_err(|e| origin.blame(e))
}

/// The arguments of this command.
fn of_cli(cli: Cli) -> Option<AffineArgs> {
    match cli.command {
        Command::Affine(args) => Some(*args),
        _ => None,
    }
}

/// Registers the images, once all arguments are known.
fn with_all(args: AffineArgs) -> Result<Outcome, Failure> {
    let (paths, output) = args.pair.paths((args.masks, args.which), "affine")?;
    let AffineArgs { fixed_weight, method, written, outputs, .. } = args;
    let job = Job { paths, fixed_weight, method, written, outputs, output };
    let (caller, printer) = (caller("affine", args.pair.config.as_ref()), args.run.printer());
    if args.job.dry_run {
        return tables::plan(&job.plan(&caller, &printer)?, args.job.json);
    }
    job.check(&caller)?;
    let (machine, read) = args.run.machine_and(Auto::Gpu, || Ok(job.read(&caller, &printer)?))?;
    let done = job.run_with(&machine, read, &caller, &printer)?;
    printer.finish();
    tables::tell(&done, (args.job.json, args.run.talk()), tables::affine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::path::Path;

    /// The arguments that were typed, with those of a file.
    fn with_config(file: &Path, typed: &[&str]) -> Result<AffineArgs, Failure> {
        told(file, typed).map(|(args, _)| args)
    }

    /// The same with what is said.
    fn told(file: &Path, typed: &[&str]) -> Result<(AffineArgs, Vec<String>), Failure> {
        let typed: Vec<_> = typed.iter().map(OsString::from).collect();
        let mut merged = config::merged(file, "affine", &typed, of_cli, AffineArgs::check)?;
        merged.args.pair.fill(merged.positionals);
        Ok((merged.args, merged.notes))
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
        let merged = with_config(Path::new(file), &typed).unwrap();
        assert_eq!((merged.method.dof, merged.method.bins), (Some(9), Some(40)));
        assert_eq!(merged.pair.fixed, Some("other.nii".into()));
        assert_eq!(merged.pair.moving, Some("m.nii".into()));
        assert!(merged.written.wants_report());
    }

    #[test]
    fn what_the_command_line_makes_meaningless_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        let path = file.to_str().unwrap();
        std::fs::write(&file, "bins = 40\nsearch-angles = 30\nsearch-steps = [60, 18]\n").unwrap();
        let typed = ["voxalign", "affine", "--config", path, "--cost", "ncc", "--search", "local"];
        let (args, notes) = told(&file, &typed).unwrap();
        assert!(args.method.bins.is_none() && args.method.search_angles.is_none());
        assert!(args.method.search_steps.is_none());
        for (note, key) in notes.iter().zip(["'search-angles'", "'search-steps'", "'bins'"]) {
            assert!(note.contains("job.toml") && note.contains(key), "{note}");
        }
        assert_eq!(notes.len(), 3);
        // What was typed is never left out, and what is wrong with the file alone is no conflict.
        let typed = ["voxalign", "affine", "--config", path, "--cost", "ncc", "--bins", "9"];
        let said = told(&file, &typed).unwrap_err().to_string();
        assert!(said.contains("--bins is for") && !said.contains("job.toml"), "{said}");
        std::fs::write(&file, "cost = 'ncc'\nbins = 40\n").unwrap();
        let typed = ["voxalign", "affine", "--config", path];
        let said = told(&file, &typed).unwrap_err().to_string();
        assert!(said.contains("--bins is for") && said.contains("the key 'bins' of '"), "{said}");
        let typed = ["voxalign", "affine", "--config", path, "--cost", "nmi"];
        assert_eq!(told(&file, &typed).unwrap().0.method.bins, Some(40));
    }

    #[test]
    fn text_in_another_encoding_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(&file, b"dof = 6\n# M\xfcller\n").unwrap();
        let typed = ["voxalign", "affine", "--config", file.to_str().unwrap()];
        let said = told(&file, &typed).unwrap_err().to_string();
        assert!(said.contains("line 2") && said.contains("save it as UTF-8"), "{said}");
        assert!(said.contains("job.toml") && !said.contains("check the path"), "{said}");
    }

    #[test]
    fn a_bad_value_is_blamed_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.toml");
        std::fs::write(&file, "cost = 'xx'\n").unwrap();
        let typed = ["voxalign", "affine", "--config", file.to_str().unwrap()];
        let e = with_config(&file, &typed).unwrap_err();
        let text = e.to_string();
        assert!(text.contains("job.toml") && text.contains("--cost"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
