//! `voxalign anatomy`: registers two anatomies of tissue probabilities, images, surfaces, curves and points.

use super::{Cli, Command};
use crate::args::{JobArgs, RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::{config, tables};
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::anatomy::{Job, Start};
use voxalign_jobs::deform::{AffineChoice, DeformMethod};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::{OutputOptions, Products, of_deform, positive};
use voxalign_jobs::pair::MaskPaths;

const EXAMPLES: &str = "\
Examples:
  voxalign anatomy template.toml patient.toml -o out
      everything that the two files list pulls together: an affine registration first, then a
      deformation
  voxalign anatomy template.toml patient.toml -o out --model symmetric --schedule 4x100,2x50
      exchanging the files inverts the result, where both say the same of weights and widths
  voxalign anatomy template.toml patient.toml -o out --init landmarks
      the search of the affine part starts at the landmarks of the anatomies
  voxalign anatomy left.toml right.toml -o out --affine none --spacing 1
      of surfaces alone, which lie on each other already, on a grid of 1 mm around them
  voxalign anatomy a.toml b.toml -o out --fixed-labels la.nii.gz --moving-labels lb.nii.gz
      with the overlap of labels that take no part, before and after
  voxalign anatomy template.toml patient.toml -o out --dry-run
      which files would be read and written, and how much memory is needed
  voxalign demo anatomy
      the same of files that the program makes

An anatomy is a TOML file that lists what there is, each under a name by which the two files are
matched. Paths are relative to the file. For example:

  [[probability]]              # of a class of tissue, 0 to 1; compared by squared differences
  name = \"white\"
  image = [\"wm_myelinated.nii.gz\", \"wm_other.nii.gz\"]   # several are added to one class
  # volume = 2                 # of a 4D file, from 0; a list for several

  [[probability]]
  name = \"cerebellum\"
  labels = \"labels.nii.gz\"     # labels as a probability
  label = [38, 39]
  sigma = 1.0                  # smoothed by a Gaussian, mm

  [[image]]                    # an ordinary image
  name = \"t1\"
  image = \"t1.nii.gz\"
  similarity = \"lncc\"          # ssd, lncc, mi, nmi; radius and bins as of `voxalign deform`

  [[surface]]                  # a mesh, without correspondence
  name = \"hippocampus_left\"
  mesh = \"hippocampus_left.surf.gii\"
  oriented = true              # false where triangles go round in any direction (varifold)
  weight = 0.01
  width = 5.0                  # of the kernel, mm
  kernel = \"gaussian\"          # or cauchy

  [[surface]]                  # made of labels, as by `voxalign surface`
  name = \"thalamus_left\"
  labels = \"labels.nii.gz\"
  label = 10                   # a number, or a list that is one structure; or names:
  # label = \"Left-Thalamus\"    # as the table label_names = \"names.csv\" has them
  smoothing = 15               # also triangles or keep, largest_component, fill_holes

  [[surface]]                  # made of an image
  name = \"white_matter\"
  image = \"wm.nii.gz\"
  level = 0.5                  # below = true for what is at most as large

  [[curve]]                    # lines, as surfaces; of labels in two dimensions their outlines
  name = \"central_sulcus_left\"
  mesh = \"central_sulcus_left.vtk\"

  [[points]]                   # without correspondence
  name = \"cloud\"
  points = \"cloud.csv\"         # or mesh, whose vertices are taken

  [[landmarks]]                # corresponding points, in the same order in both files
  name = \"commissures\"
  points = \"commissures.csv\"

Weights, widths, kernels, orientation and similarities are those of the fixed file; the moving one may
say the same again. What a surface is made of, and how, each file says for itself. space = \"lps\" is for meshes and points whose files do not say so.

Written to DIR (older files with these names are replaced, or removed where none is written):
  warp.nii.gz, inverse_warp.nii.gz, affine.tfm, affine.fsl.mat
                            the transforms, as of `voxalign deform`
  warped/NAME.nii.gz        moving images and probabilities on the grid of the fixed ones
  moving_on_fixed/NAME.*    moving surfaces, curves and points in the fixed world
  fixed_on_moving/NAME.*    fixed ones in the moving world
  result.json               verdict, overlaps, distances, measures, parameters, checksums
  report.html               pictures and figures; opens offline in any browser
and where --outputs names them: composite.nii.gz, inverse_composite.nii.gz, jacobian.nii.gz.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// Arguments of `voxalign anatomy`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = EXAMPLES,
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign anatomy [OPTIONS] <FIXED.toml> <MOVING.toml> -o <DIR>",
    mut_arg("similarity", |a| a.hide(true)),
    mut_arg("radius", |a| a.hide(true)),
    mut_arg("bins", |a| a.hide(true)),
    mut_arg("channel", |a| a.hide(true))
)]
pub(crate) struct AnatomyArgs {
    /// The file of the fixed anatomy
    #[arg(value_name = "FIXED.toml")]
    fixed: Option<PathBuf>,
    /// The file of the moving anatomy, which is registered to it
    #[arg(value_name = "MOVING.toml")]
    moving: Option<PathBuf>,
    /// Folder for the results; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// TOML file with options; those on the command line take precedence
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Affine transform to start from: `auto` runs an affine registration first, of the first image, else of all
    /// probabilities, else of the nearest places of the shapes; `none` uses the coordinates as they are; FILE is an
    /// affine transform, fixed to moving [default: auto]
    #[arg(long, value_name = "auto|none|FILE")]
    affine: Option<AffineChoice>,
    /// Where the search of the affine registration that comes first starts: `landmarks` are those of the
    /// anatomies, others are as of `voxalign affine` [default: moments]
    #[arg(long, value_name = "landmarks|header|centre|moments|identity|FILE")]
    init: Option<Start>,
    /// Spacing of the grid around the shapes of anatomies without images, mm [default: the longest side of the
    /// fixed ones over 80]
    #[arg(long, value_name = "MM", value_parser = positive, allow_hyphen_values = true)]
    spacing: Option<f64>,

    #[command(flatten)]
    method: DeformMethod,
    #[command(flatten)]
    masks: MaskPaths,
    #[command(flatten)]
    written: OutputOptions,
    /// Which files to write, separated by commas: warp, inverse_warp, affine, composite,
    /// inverse_composite, warped (all that is carried along: images, probabilities, shapes), jacobian, or
    /// `all`; result.json is always written, and report.html unless --no-report says otherwise
    /// [default: warp,inverse_warp,affine,warped]
    #[arg(long, value_name = "NAME,...", value_parser = of_deform, help_heading = "Output")]
    outputs: Option<Products>,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl AnatomyArgs {
    /// The job, once all arguments are known.
    fn as_job(&self, needed: bool) -> Result<Job, Failure> {
        let path = |value: &Option<PathBuf>, what: &str| match value {
            Some(path) => Ok(path.clone()),
            None if needed => {
                Err(Failure::input(format!("{what} is missing; see `voxalign anatomy --help`")))
            }
            None => Ok(PathBuf::new()),
        };
        Ok(Job {
            fixed: path(&self.fixed, "the fixed anatomy FIXED.toml")?,
            moving: path(&self.moving, "the moving anatomy MOVING.toml")?,
            masks: self.masks.clone(),
            method: self.method.clone(),
            spacing: self.spacing,
            affine: self.affine.clone(),
            init: self.init.clone(),
            written: self.written.clone(),
            outputs: self.outputs.clone(),
            output: path(&self.output, "the output folder -o DIR")?,
        })
    }

    /// Refuses options that others make meaningless.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.as_job(false)?.check_options()?)
    }

    fn fill(&mut self, positionals: Vec<(String, PathBuf)>) {
        for (name, value) in positionals {
            let slot = if name == "fixed" { &mut self.fixed } else { &mut self.moving };
            slot.get_or_insert(value);
        }
    }
}

/// Registers the anatomies.
pub(crate) fn run(args: AnatomyArgs) -> Result<Outcome, Failure> {
    let file = args.config.clone();
    let (args, origin, notes) =
        config::complete(args, file, "anatomy", of_cli, AnatomyArgs::check, AnatomyArgs::fill)?;
    config::say(&notes, args.run.talk());
    with_all(&args).map_err(|e| origin.blame(e))
}

/// The arguments of this command.
fn of_cli(cli: Cli) -> Option<AnatomyArgs> {
    match cli.command {
        Command::Anatomy(args) => Some(*args),
        _ => None,
    }
}

/// Registers the anatomies, once all arguments are known.
fn with_all(args: &AnatomyArgs) -> Result<Outcome, Failure> {
    let job = args.as_job(true)?;
    let (caller, printer) = (caller("anatomy", args.config.as_ref()), args.run.printer());
    if args.job.dry_run {
        return tables::plan(&job.plan(&caller, &printer)?, args.job.json);
    }
    job.check(&caller, &printer)?;
    let (machine, read) = args.run.machine_and(Auto::Gpu, || Ok(job.read(&caller, &printer)?))?;
    let done = job.run_with(&machine, read, &caller, &printer)?;
    printer.finish();
    tables::tell(&done, (args.job.json, args.run.talk()), tables::anatomy)
}
