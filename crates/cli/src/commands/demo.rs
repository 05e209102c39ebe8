//! `voxalign demo`: registers a real pair of brains that is part of the program.

use super::affine::{Job, Paths};
use crate::args::{MethodArgs, OutputArgs, RunArgs};
use crate::device::Auto;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::output;
use crate::progress::Talk;
use crate::registration::{PairPaths, Run};
use crate::staging::Staging;
use clap::Args;
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, AffineParameters, LabelMap, Vector3, Volume};
use voxalign_io::image::{self, DataType};

const FIXED: &[u8] = include_bytes!("../../../../data/icbm152_t1.nii.gz");
const FIXED_LABELS: &[u8] = include_bytes!("../../../../data/icbm152_tissues.nii.gz");
const MOVING: &[u8] = include_bytes!("../../../../data/colin27_brain.nii.gz");
const MOVING_LABELS: &[u8] = include_bytes!("../../../../data/colin27_tissues.nii.gz");

/// By how much the header of the moving image is turned about x, y and z, degrees.
const TURN: [f64; 3] = [25.0, -40.0, 60.0];
/// By how much it is shifted, mm.
const SHIFT: [f64; 3] = [30.0, -20.0, 25.0];

/// Arguments of `voxalign demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The fixed image is the ICBM 152 template, the moving image one person's brain (Colin 27), both at
2 mm. As both lie in the same space already, the header of the moving image is first turned by 25,
-40 and 60 degrees about x, y and z and shifted by 30, -20 and 25 mm, so that there is something
to find. The inputs are written to DIR/inputs, the results to DIR as by `voxalign affine`.")]
pub(crate) struct DemoArgs {
    /// Folder for inputs and results
    #[arg(short, long, value_name = "DIR", default_value = "voxalign-demo")]
    output: PathBuf,
    #[command(flatten)]
    output_options: OutputArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// The pair: images and label maps.
pub(crate) struct Pair {
    pub(crate) fixed: Volume<f32>,
    pub(crate) moving: Volume<f32>,
    fixed_labels: LabelMap,
    moving_labels: LabelMap,
}

impl Pair {
    /// The pair, the header of the moving image turned and shifted.
    pub(crate) fn load() -> Result<Self, Failure> {
        let volume = |name: &str, bytes: &[u8]| image::read_volume_from_bytes(name, bytes);
        let (fixed, _) = volume("icbm152_t1.nii.gz", FIXED)?;
        let (moving, _) = volume("colin27_brain.nii.gz", MOVING)?;
        let labels = |name: &str, bytes: &[u8]| image::read_labels_from_bytes(name, bytes);
        let fixed_labels = labels("icbm152_tissues.nii.gz", FIXED_LABELS)?;
        let moving_labels = labels("colin27_tissues.nii.gz", MOVING_LABELS)?;
        let motion = motion(moving.grid().centre());
        let moved = moving.grid().moved(&motion)?;
        let moved_labels = moving_labels.grid().moved(&motion)?;
        Ok(Self {
            fixed,
            moving: moving.with_grid(moved)?,
            fixed_labels,
            moving_labels: moving_labels.with_grid(moved_labels)?,
        })
    }

    /// Writes the pair into a folder, which is made where it is not there.
    pub(crate) fn write(&self, folder: &Path) -> Result<Paths, Failure> {
        let mut staging = Staging::new(folder)?;
        let bytes = files::write_options(DataType::U8, 3);
        image::write_volume(staging.path("fixed.nii.gz")?, &self.fixed, &bytes)?;
        image::write_volume(staging.path("moving.nii.gz")?, &self.moving, &bytes)?;
        image::write_labels(staging.path("fixed_labels.nii.gz")?, &self.fixed_labels, &bytes)?;
        image::write_labels(staging.path("moving_labels.nii.gz")?, &self.moving_labels, &bytes)?;
        staging.commit()?;
        let pair = PairPaths {
            fixed: folder.join("fixed.nii.gz"),
            moving: folder.join("moving.nii.gz"),
            fixed_labels: Some(folder.join("fixed_labels.nii.gz")),
            moving_labels: Some(folder.join("moving_labels.nii.gz")),
            ..PairPaths::default()
        };
        Ok(Paths { pair, ..Paths::default() })
    }
}

/// The motion of the header, about the middle of the image.
fn motion(centre: Vector3<f64>) -> Affine {
    let parameters = AffineParameters {
        rotation: Vector3::from(TURN.map(f64::to_radians)),
        translation: Vector3::from(SHIFT),
        ..AffineParameters::identity(centre)
    };
    parameters.to_affine()
}

/// Writes the pair and registers it.
pub(crate) fn run(args: &DemoArgs) -> Result<Outcome, Failure> {
    // Before anything is written, as the device may not be there.
    let machine = args.run.machine(Auto::Gpu)?;
    let inputs = args.output.join("inputs");
    let is_new = [&inputs, &args.output].map(|folder| !folder.exists());
    let paths = Pair::load()?.write(&inputs)?;
    if args.run.talk() > Talk::Quiet {
        output::line("fixed:  the ICBM 152 template; moving: one person's brain, Colin 27 (2 mm)");
        output::line(&format!(
            "the header of the moving image is turned by {}, {} and {} degrees about x, y and z \
             and shifted by {}, {} and {} mm",
            TURN[0], TURN[1], TURN[2], SHIFT[0], SHIFT[1], SHIFT[2]
        ));
    }
    let job = Job {
        program: "voxalign demo",
        paths,
        method: &MethodArgs::default(),
        run: Run::new(&None, &args.output, &args.output_options, &args.run),
    };
    let ended = job.check().and_then(|()| job.run(&machine, job.read()?));
    if ended.is_err() && is_new[0] {
        // Without a result the pair is of no use.
        let _ = std::fs::remove_dir_all(&inputs);
        if is_new[1] {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(&args.output);
        }
    }
    ended
}
