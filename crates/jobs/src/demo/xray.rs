//! A head made of ellipsoids, and X-ray images of it: a pose to find without any file of one's own.

use crate::Job as _;
use crate::drr::{self, Format, PoseChoice, Simulation};
use crate::error::Result;
use crate::files;
use crate::listener::{Listener, Quiet};
use crate::machine::Machine;
use crate::options::ReportOption;
use crate::pose;
use crate::projection::{Numbers, Preset, ViewOptions};
use crate::run::Caller;
use crate::staged::Staged;
use std::path::Path;
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_options::{Chosen, Given};
use voxalign_register::projection::phantom::Phantom;
use voxalign_register::projection::{Attenuation, pose_of};

/// By how much the head is turned in the X-ray images, degrees about x, y and z, through the middle of the CT.
pub const TURN: [f64; 3] = [6.0, -4.0, 9.0];
/// By how much it is moved, mm.
pub const SHIFT: [f64; 3] = [8.0, -6.0, 11.0];
/// The photons of a pixel where nothing is in the way.
pub const PHOTONS: f64 = 1e5;

/// A CT of the head, in Hounsfield units, with voxels of 2.5 mm.
///
/// # Errors
/// Memory that runs out.
pub fn ct() -> Result<Volume<f32>> {
    let volume = Phantom::head().volume(&grid()?)?;
    let water = Attenuation::at_energy(70.0)?.water() as f32;
    Ok(volume.map(|v| (1000.0 * (v / water - 1.0)).round()))
}

/// The grid of the CT.
fn grid() -> Result<Grid> {
    let (dims, size) = ([76, 96, 98], 2.5);
    let middle = Vector3::from(dims.map(|n| size * (n as f64 - 1.0) / 2.0));
    let to_world = Affine::new(Matrix3::identity() * size, -middle);
    Ok(Grid::new(dims, to_world)?)
}

/// How far a pose, rows of its matrix from the room to the world of the CT, has the corners of the CT at most from where they are in
/// the X-ray images, mm.
///
/// # Errors
/// A pose that cannot be inverted.
pub fn error(pose: [[f64; 4]; 3]) -> Result<f64> {
    let grid = grid()?;
    let truth =
        pose_of(grid.centre(), TURN.map(f64::to_radians).into(), SHIFT.into())?.inverse()?;
    Ok(Affine::from_rows(pose).inverse()?.largest_distance(&truth, &grid.corners()))
}

/// Writes the CT and its X-ray images into a folder, and gives the job that finds its pose by them.
///
/// # Errors
/// What the system says; memory that runs out.
pub fn write(
    folder: &Path,
    output: &Path,
    machine: &Machine,
    listener: &dyn Listener,
) -> Result<pose::Job> {
    let mut staged = Staged::new(folder, listener)?;
    let ct = ct()?;
    let words = files::write_options(DataType::I16, 3);
    image::write_volume(staged.path("ct.nii.gz")?, &ct, &words)?;
    staged.commit()?;
    let views = ViewOptions {
        presets: vec![Preset::Ap, Preset::Lateral],
        acquisition: Given::default().with("size", "256,256")?,
        ..ViewOptions::default()
    };
    let place = PoseChoice {
        motion: Given::default()
            .with("rotation", Numbers(TURN))?
            .with("translation", Numbers(SHIFT))?,
        ..PoseChoice::default()
    };
    let simulation = Simulation {
        rays: Chosen::default().with("step", 0.5)?,
        projection: Chosen::default().with("photons", PHOTONS)?,
        format: vec![Format::Png],
    };
    let path = folder.join("ct.nii.gz");
    let xrays = folder.join("xrays");
    let job = drr::Job {
        views,
        place,
        simulation,
        report: ReportOption::none(),
        ..drr::Job::new(&path, &xrays)
    };
    job.run(machine, &Caller::default(), &Quiet(listener))?;
    let images = ["ap.png", "lateral.png"].map(|name| xrays.join(name));
    let mut job = pose::Job::new(path, images, output);
    job.geometry = vec![xrays.join("views.toml")];
    Ok(job)
}
