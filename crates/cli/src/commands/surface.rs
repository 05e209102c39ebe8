//! `voxalign surface`: the surface of labels, of each of many labels, or of an image at a level.

use super::{Cli, Command};
use crate::args::{JobArgs, RunArgs, caller};
use crate::failure::{Failure, Outcome};
use crate::{config, tables};
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::files::WhichImage;
use voxalign_jobs::machine::Auto;
use voxalign_jobs::surface::{Job, Options};

/// Arguments of `voxalign surface`.
#[derive(Debug, Clone, Args)]
#[command(
    args_override_self = true,
    arg_required_else_help = true,
    override_usage = "voxalign surface [OPTIONS] <IMAGE> (--label <N,...> | --level <VALUE>) -o <MESH>\n       \
                      voxalign surface [OPTIONS] <LABELS> --each [--label <N,...>] -o <DIR>",
    after_help = "\
Examples:
  voxalign surface labels.nii.gz --label 47 -o hippocampus.gii
  voxalign surface labels.nii.gz --label 47,48 -o both.vtk --report
      one surface of two labels together, and both.vtk.html to look at it
  voxalign surface labels.nii.gz --label 4 -o v.ply --largest-component --fill-holes --keep 0.25
      without crumbs and cavities, and a quarter of the triangles
  voxalign surface ct.nii.gz --level 300 -o skull.stl --sigma 0.7 --triangles 200000
      of an image: what is at least 300 HU
  voxalign surface white_matter.nii.gz --level 0.5 -o white.surf.gii
      of probabilities
  voxalign surface labels.nii.gz --each -o surfaces --label-names names.csv --report
      one mesh of every label, such as surfaces/label_17_Left-Hippocampus.gii
  voxalign surface labels.nii.gz --each --label 17,53 -o surfaces --format vtp --keep 0.5
  voxalign surface slice.nii.gz --label 3 -o outline.vtk
      of an image of two dimensions: its outlines
  voxalign surface --config job.toml labels.nii.gz -o out.gii
      options from a file: keys are the long option names, `image` the image

The surface is in world millimetres (RAS), its triangles counterclockwise from outside, closed also
where the object reaches the border of the image, and a manifold. Between centres of voxels it is
linear; voxels that touch along a diagonal alone are apart. Of labels the stairs of the voxels are
smoothed by --smoothing, which does not shrink; --smoothing 0 keeps them.

Of an image of two dimensions it is its outlines: closed lines with the inside on their left, around
holes the other way.

The format is that of the name: .gii, .surf.gii, .vtk, .vtp, .stl, .ply, or FreeSurfer's, such as
lh.white; of outlines .vtk, .vtp or .ply.

Written (older files with these names are replaced):
  MESH         the surface
  MESH.json    figures (area, volume, parts, handles, ...), how far the surface is from that of the
               voxels as they are, parameters, versions, checksums
  MESH.html    with --report: the surface upon slices and in 3D; opens offline
and with --each:
  DIR/label_N.gii, or label_N_NAME.gii    the surface of each label
  DIR/result.json                         the figures and the verdict of each, and of all
  DIR/report.html                         with --report

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad (open or folded, volume or
place not that of the voxels), 2 bad input or options (nothing is written), 3 internal error,
130 stopped."
)]
pub(crate) struct SurfaceArgs {
    /// A label map, or an image
    #[arg(value_name = "IMAGE")]
    image: Option<PathBuf>,
    /// The mesh to write; with --each the folder of the meshes
    #[arg(short, long, value_name = "MESH|DIR")]
    output: Option<PathBuf>,
    /// TOML file with options; those on the command line take precedence
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    which: WhichImage,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl SurfaceArgs {
    /// The job of an image and a mesh.
    fn job(&self) -> Result<Job, Failure> {
        let needed = |value: &Option<PathBuf>, what: &str| {
            value.clone().ok_or_else(|| {
                Failure::input(format!("{what} is missing; see `voxalign surface --help`"))
            })
        };
        let image = needed(&self.image, "the image")?;
        let what = if self.options.each { "the folder -o DIR" } else { "the mesh -o MESH" };
        let output = needed(&self.output, what)?;
        let Self { options, which, .. } = self.clone();
        Ok(Job { image, which, options, output })
    }

    /// Refuses options that others make meaningless.
    fn check(&self) -> Result<(), Failure> {
        // The name of the mesh may be on the command line.
        let usual = if self.options.each { "surfaces" } else { "mesh.vtp" };
        let output = self.output.clone().unwrap_or_else(|| usual.into());
        Ok(self.options.check(&output)?)
    }

    /// Takes the image from a configuration file, where the command line has none.
    fn fill(&mut self, positionals: Vec<(String, PathBuf)>) {
        for (_, path) in positionals {
            self.image.get_or_insert(path);
        }
    }
}

/// Makes the surface.
pub(crate) fn run(args: SurfaceArgs) -> Result<Outcome, Failure> {
    let file = args.config.clone();
    let (args, origin, notes) =
        config::complete(args, file, "surface", of_cli, SurfaceArgs::check, SurfaceArgs::fill)?;
    config::say(&notes, args.run.talk());
    with_all(&args).map_err(|e| origin.blame(e))
}

/// The arguments of this command.
fn of_cli(cli: Cli) -> Option<SurfaceArgs> {
    match cli.command {
        Command::Surface(args) => Some(*args),
        _ => None,
    }
}

/// Makes the surface, once all arguments are known.
fn with_all(args: &SurfaceArgs) -> Result<Outcome, Failure> {
    let job = args.job()?;
    let (caller, printer) = (caller("surface", args.config.as_ref()), args.run.printer());
    if args.job.dry_run {
        return tables::plan(&job.plan(&caller, &printer)?, args.job.json);
    }
    job.check(&caller)?;
    let machine = args.run.machine(Auto::Cpu)?;
    if job.options.each {
        let made = job.run_each(&machine, &caller, &printer)?;
        printer.finish();
        return tables::tell(&made.done, (args.job.json, args.run.talk()), tables::surfaces);
    }
    let made = job.run(&machine, &caller, &printer)?;
    printer.finish();
    tables::tell(&made.done, (args.job.json, args.run.talk()), tables::surface)
}
