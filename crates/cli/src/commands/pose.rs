//! `voxalign pose`: the rigid pose of a CT by X-ray images of it.

use super::{Cli, Command};
use crate::args::{CtArgs, JobArgs, ReportArgs, RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::{config, tables};
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::choice;
use voxalign_jobs::pose::{Job, Method, Pixels, StartOptions, StreamOptions};
use voxalign_jobs::projection::{CtOptions, Whole};

/// Arguments of `voxalign pose`.
#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign pose [OPTIONS] <CT> [XRAY]... -o <DIR>",
    after_help = "\
Examples:
  voxalign pose ct.nii.gz front.png side.png --geometry views.toml -o out
      by two images, whose views are the tables of views.toml in the same order
  voxalign pose ct.nii.gz sim -o out
      by the images in a folder that voxalign drr wrote, as it is
  voxalign pose ct.nii.gz xa1.dcm xa2.dcm -o out --pixels intensity
      by DICOM images whose headers say where they were taken from
  voxalign pose bone.nii.gz cam1.tif cam2.tif -o out --units relative \\
      --geometry cam1.txt --geometry cam2.txt --init start.tfm --range 10,10
      a bone by two calibrated cameras (MayaCam; those of OpenCV alike), near a start
  voxalign pose bone.nii.gz cam1.tif cam2.tif -o out --units relative --geometry views.toml \\
      --init points:bone.csv,seen.csv
      from where points of bone.csv (label,x,y,z) are in the images: seen.csv (label,view,column,row)
  voxalign pose bone.nii.gz cam1.tif -o out --units relative --geometry views.toml --search full
      all rotations, with the CT in the middle of what the views show: give a 'region' around a bone
  voxalign pose ct.nii.gz front.png --geometry views.toml -o out --similarity mi --sampling 0.05
      mutual information of a twentieth of the pixels
  voxalign pose ct.nii.gz front.png side.png --geometry views.toml -o out --refine distance
      distances from source to detector are not sure: they are refined with the pose, and out/views.toml has them
  voxalign pose ct.nii.gz --stream front/ --stream side/ --geometry views.toml -o out
      follow the CT over the images of two folders, one pose a line
  grabber | voxalign pose ct.nii.gz --stream - --geometry views.toml -o out --json
      over raw frames of 16 bits, one of each view in turn; each line is the JSON of a pose
  voxalign pose --config job.toml -o out
      all options from a file: keys are the long option names, `ct` the CT and `xrays` the images;
      the command line takes precedence; paths are relative to the current folder

The search begins with the CT in the room of the views as in its own world, or where --init puts it,
looks at many poses within --range, and refines the best of them from coarse to fine pixels, until the
pose stands still. Where the verdict would be bad, it looks at all rotations, unless --search says how far.
What an image shows and the CT does not (metal, markers, text) is found by its values and left out, and values
that are a bent function of attenuations are straightened, which a remark says: --metal keep and --response keep
leave them alone.
The numbers of a pose are those of voxalign drr: turned through --centre, then moved.

Written to DIR (older files with these names are replaced):
  affine.tfm       the pose: from the room (fixed) to the world of the CT (moving), for ITK and ANTs
  ct_to_room.tfm   its inverse: where in the room a point of the CT is
  drr_NAME.nii.gz  the simulated image of each view at the pose
  views.toml       with --refine the views as they were refined, for --geometry of pose and drr
  result.json      verdict, pose, uncertainty, cost along each parameter, parameters, checksums
  report.html      X-ray and simulated images before and after, edges, costs; opens offline
With --stream track.csv has the pose of each frame, affine.tfm the last one that is good, and there are no
simulated images. A lost track is said at once, and searched for from then on; where the stream breaks off,
what was found before is written.

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C."
)]
pub(crate) struct PoseArgs {
    #[command(flatten)]
    of_ct: CtArgs,
    /// X-ray images: PNG, TIFF, DICOM, NIfTI; none where the views of --geometry name them; or a folder that `voxalign drr` wrote
    #[arg(value_name = "XRAY")]
    xrays: Vec<PathBuf>,
    /// Where the images were taken from, in their order: TOML tables, MayaCam 2, cameras of OpenCV (YAML, XML) or plastimatch's
    /// projection matrices; more than once for several files [default: the headers of DICOM]
    #[arg(long, value_name = "FILE", help_heading = "Views")]
    geometry: Vec<PathBuf>,
    /// Of X-ray files with several frames: the number of one, from 0; one for all files, or one for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "Views")]
    frame: Vec<usize>,
    /// What the values of the X-ray images are [default: what headers of DICOM say, else attenuation]
    #[arg(long, value_name = "WHAT", value_parser = choice::<Pixels>(), help_heading = "Views")]
    pixels: Option<Pixels>,
    /// The part of each X-ray image that counts: the first column and row, and how many; instead of the 'region' of a table
    /// of views
    #[arg(long, value_name = "COLUMN,ROW,COLUMNS,ROWS", help_heading = "Views")]
    region: Option<Whole<4>>,
    #[command(flatten)]
    start: StartOptions,
    #[command(flatten)]
    method: Method,
    #[command(flatten)]
    material: CtOptions,
    #[command(flatten)]
    frames: StreamOptions,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl PoseArgs {
    /// The job of a CT and a folder for the results.
    fn job(&self, (ct, output): (PathBuf, PathBuf)) -> Job {
        let Self {
            xrays, geometry, frame, pixels, region, start, material, method, frames, ..
        } = self.clone();
        let no_report = self.report.no_report;
        Job {
            ct,
            xrays,
            geometry,
            frame,
            pixels,
            region,
            start,
            material,
            method,
            frames,
            no_report,
            output,
        }
    }

    /// Refuses options that others make meaningless.
    fn check(&self) -> Result<(), Failure> {
        Ok(self.job(Default::default()).check_options()?)
    }
}

/// Finds the pose.
pub(crate) fn run(args: PoseArgs) -> Result<Outcome, Failure> {
    let file = args.of_ct.config.clone();
    let fill = |args: &mut PoseArgs, positionals| {
        let xrays = args.of_ct.fill(positionals);
        if args.xrays.is_empty() {
            args.xrays = xrays;
        }
    };
    let (args, origin, notes) =
        config::complete(args, file, "pose", of_cli, PoseArgs::check, fill)?;
    config::say(&notes, args.run.talk());
    with_all(&args).map_err(|e| origin.blame(e))
}

/// The arguments of this command.
fn of_cli(cli: Cli) -> Option<PoseArgs> {
    match cli.command {
        Command::Pose(args) => Some(*args),
        _ => None,
    }
}

/// Finds the pose, once all arguments are known.
fn with_all(args: &PoseArgs) -> Result<Outcome, Failure> {
    let job = args.job(args.of_ct.paths("pose")?);
    let (caller, printer) = (caller("pose", args.of_ct.config.as_ref()), args.run.printer());
    if args.job.dry_run {
        return tables::plan(&job.plan(&caller, &printer)?, args.job.json);
    }
    job.check(&caller)?;
    let machine = args.run.machine(Auto::Gpu)?;
    let (json, talk) = (args.job.json, args.run.talk());
    if job.is_sequence() {
        let mut lines = tables::Frames::new(json, talk);
        let done = job.track(&machine, &caller, &printer, &mut |frame| {
            printer.finish();
            lines.line(frame);
            Ok(())
        })?;
        return Ok(lines.end(&done));
    }
    let done = job.run(&machine, &caller, &printer)?;
    printer.finish();
    tables::tell(&done, (json, talk), tables::pose)
}
