//! `voxalign drr`: X-ray images of a CT, simulated.

use crate::args::{JobArgs, RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::tables;
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::drr::{Job, PoseChoice, Simulation};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::projection::{CtOptions, ViewOptions};

/// Arguments of `voxalign drr`.
#[derive(Debug, Clone, Args)]
#[command(
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
    /// The CT: NIfTI, NRRD, MetaImage, or a folder of DICOM
    #[arg(value_name = "CT")]
    ct: PathBuf,
    /// Folder for the results
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    material: CtOptions,
    #[command(flatten)]
    views: ViewOptions,
    #[command(flatten)]
    place: PoseChoice,
    #[command(flatten)]
    simulation: Simulation,
    /// Write no report.html
    #[arg(long, help_heading = "Output")]
    no_report: bool,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// Simulates the images.
pub(crate) fn run(args: DrrArgs) -> Result<Outcome, Failure> {
    let (talk, json) = (args.run.talk(), args.job.json);
    let DrrArgs { ct, output, material, views, place, simulation, no_report, .. } = args;
    let job = Job { ct, material, views, place, simulation, no_report, output };
    let (caller, printer) = (caller("drr", None), args.run.printer());
    if args.job.dry_run {
        return tables::plan(&job.plan(&caller, &printer)?, json);
    }
    job.check(&caller)?;
    let machine = args.run.machine(Auto::Cpu)?;
    let done = job.run(&machine, &caller, &printer)?;
    printer.finish();
    tables::tell(&done, (json, talk), tables::drr)
}
