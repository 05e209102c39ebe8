//! `voxalign drr`: X-ray images of a CT, simulated.

use super::{Cli, Command};
use crate::args::{CtArgs, JobArgs, ReportArgs, RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::{config, tables};
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::drr::{Job, PoseChoice, Simulation};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::projection::{CtOptions, ViewOptions};

/// Arguments of `voxalign drr`.
#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign drr [OPTIONS] <CT> -o <DIR>",
    after_help = "\
Examples:
  voxalign drr ct.nii.gz -o out --view ap,lateral
      from the front and from the right, on detectors that show the whole CT
  voxalign drr dicom_folder -o out --primary 30 --secondary -15 --size 1024,1024 --pixel 0.3
      a C-arm 30 degrees to the left (LAO) and 15 to the feet (caudal)
  voxalign drr ct.nii.gz -o out --gantry 90 --source-to-detector 1540 --format dicom --energy 1500
      a treatment machine with its source at the patient's left, and its megavolts
  voxalign drr ct.nii.gz -o out --geometry views.toml --pose found/affine.tfm
      the views of a file, of the CT as `voxalign pose` found it
  voxalign drr ct.nii.gz -o out --labels bones.nii.gz --only 3,4 --values intensity --photons 1e5
      some bones alone, as a detector counts 100000 photons, with noise
  voxalign drr --config job.toml -o out
      all options from a file: keys are the long option names, `ct` the CT; the command line takes
      precedence; paths are relative to the current folder

The CT lies in the room of the views as in its own world, RAS mm, turned and moved as --rotation and
--translation say. A ray that leaves the source meets the centre of a pixel; what it loses is the
integral of attenuations, 1/mm, which follow from Hounsfield units and the energy of the photons.

Written to DIR (older files with these names are replaced):
  NAME.png, NAME.nii.gz, ...   an image of each view; NAME_0000, NAME_0001, ... of a sequence
  views.toml                   the views, for --geometry here and of `voxalign pose`
  result.json                  parameters, geometry, versions, checksums of the inputs
  report.html                  the images, and where sources and detectors are; opens offline

Exit codes: 0 done, 2 bad input or options (nothing is written), 3 internal error, 130 stopped."
)]
pub(crate) struct DrrArgs {
    #[command(flatten)]
    of_ct: CtArgs,
    #[command(flatten)]
    material: CtOptions,
    #[command(flatten)]
    views: ViewOptions,
    #[command(flatten)]
    place: PoseChoice,
    #[command(flatten)]
    simulation: Simulation,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl DrrArgs {
    /// The job of a CT and a folder for the results.
    fn job(&self, (ct, output): (PathBuf, PathBuf)) -> Job {
        let Self { material, views, place, simulation, .. } = self.clone();
        let no_report = self.report.no_report;
        Job { ct, material, views, place, simulation, no_report, output }
    }

    /// Refuses options that others make meaningless.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.job(Default::default()).check_options()?)
    }
}

/// Simulates the images.
pub(crate) fn run(args: DrrArgs) -> Result<Outcome, Failure> {
    let file = args.of_ct.config.clone();
    let fill = |args: &mut DrrArgs, positionals| drop(args.of_ct.fill(positionals));
    let (args, origin, notes) = config::complete(args, file, "drr", of_cli, DrrArgs::check, fill)?;
    config::say(&notes, args.run.talk());
    with_all(&args).map_err(|e| origin.blame(e))
}

/// The arguments of this command.
fn of_cli(cli: Cli) -> Option<DrrArgs> {
    match cli.command {
        Command::Drr(args) => Some(*args),
        _ => None,
    }
}

/// Simulates the images, once all arguments are known.
fn with_all(args: &DrrArgs) -> Result<Outcome, Failure> {
    let job = args.job(args.of_ct.paths("drr")?);
    let (caller, printer) = (caller("drr", args.of_ct.config.as_ref()), args.run.printer());
    if args.job.dry_run {
        return tables::plan(&job.plan(&caller, &printer)?, args.job.json);
    }
    job.check(&caller)?;
    let machine = args.run.machine(Auto::Cpu)?;
    let done = job.run(&machine, &caller, &printer)?;
    printer.finish();
    tables::tell(&done, (args.job.json, args.run.talk()), tables::drr)
}
