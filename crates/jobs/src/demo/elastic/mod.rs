//! A breast between two pads, made by the program: a deformation by tissue to find without any file of one's own, and its
//! distance from the truth.
//!
//! The moving image is the breast at rest, the fixed one the same between the pads, each with noise of its own.

mod organ;
mod press;

use crate::deform::AffineChoice;
use crate::elastic::Job;
use crate::error::Result;
use crate::files;
use crate::listener::Listener;
use crate::pair::{MaskPaths, PairPaths};
use crate::staged::Staged;
use organ::{AIR, MUSCLE, Organ};
use press::Pressed;
use rayon::prelude::*;
use std::path::Path;
use voxalign_image::{
    Affine, Displacement, Grid, LabelMap, Matrix3, Transform, Vector3, VectorField, Volume, memory,
};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::{self, Geometry};

/// How much nearer the pads come to each other, mm.
pub const COMPRESSION_MM: f64 = 16.0;

/// Edge length of the cells of the registered mesh, mm; those of the mesh that is pressed are finer.
pub const SPACING_MM: f64 = 10.0;

/// The seed of texture and noise.
pub const SEED: u64 = 1;

/// The standard deviation of the noise; fat is 180.
pub const NOISE: f64 = 5.0;

/// Both images, the tissues in them, and the displacement between them.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Between the pads.
    pub fixed: Volume<f32>,
    /// At rest.
    pub moving: Volume<f32>,
    /// Tissues: 1 fat, 2 gland, 3 lesion, 4 muscle, 0 air.
    pub fixed_labels: LabelMap,
    /// The same at rest.
    pub moving_labels: LabelMap,
    /// From each voxel of the fixed image to where its tissue is at rest, mm; 0 in air far from it.
    pub truth: VectorField,
}

/// Distances from the truth over the breast without the muscle, mm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// The mean.
    pub mean: f64,
    /// What 95 % of the voxels are below.
    pub most: f64,
}

/// Where at rest what is at a voxel came from, by its number and its place.
type Came<'a> = &'a (dyn Fn(usize, Vector3<f64>) -> Option<Vector3<f64>> + Sync);

/// The grid of both images.
fn grid() -> Result<Grid> {
    let (dims, voxel) = ([84, 64, 74], 2.0);
    let first = Vector3::new(-83.0, -26.0, -73.0);
    Ok(Grid::new(dims, Affine::new(Matrix3::identity() * voxel, first))?)
}

/// A value for each voxel, by its place.
fn each<T: Send + Sync + Copy + Default>(
    grid: &Grid,
    of: impl Fn(usize, Vector3<f64>) -> T + Sync,
) -> Result<Vec<T>> {
    let [nx, ny, _] = grid.dims();
    let value = |i: usize| {
        let index = [i % nx, i / nx % ny, i / (nx * ny)].map(|v| v as f64);
        of(i, grid.index_to_world(Vector3::from(index)))
    };
    Ok(memory::par_collected((0..grid.len()).into_par_iter().map(value))?)
}

impl Pair {
    /// Makes them: the same bits every time.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new() -> Result<Self> {
        let (grid, organ) = (grid()?, Organ::new(SEED));
        let pressed = Pressed::new(&organ, &grid, COMPRESSION_MM)?;
        let back = each(&grid, |_, x| pressed.back(x))?;
        let image = |which: u64, at: Came<'_>| {
            let seen = each(&grid, |i, x| {
                let value = at(i, x).map_or(0.0, |x| organ.intensity(x));
                let value = value + NOISE * organ::noise(SEED, which, i as u64);
                value.clamp(0.0, 255.0).round() as f32
            })?;
            let tissue = each(&grid, |i, x| at(i, x).map_or(AIR, |x| organ.tissue(x)))?;
            Ok::<_, crate::Error>((
                Volume::new(grid.clone(), seen)?,
                LabelMap::new(grid.clone(), tissue)?,
            ))
        };
        let (moving, moving_labels) = image(1, &|_, x| Some(x))?;
        let (fixed, fixed_labels) = image(2, &|i, x| back[i].map(|by| by + x))?;
        let mut truth = VectorField::zeros(grid.clone());
        let moved = back.iter().enumerate().filter_map(|(i, by)| by.map(|by| (i, by)));
        moved.for_each(|(i, by)| truth.set(i, by));
        Ok(Self { fixed, moving, fixed_labels, moving_labels, truth })
    }

    /// Writes them into a folder, which is made where it is not there, and gives the job that registers them: by a mesh of the breast
    /// between the pads, of one soft tissue, whose muscle is held.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path, output: &Path, listener: &dyn Listener) -> Result<Job> {
        let mut staged = Staged::new(folder, listener)?;
        let bytes = files::write_options(DataType::U8, 3);
        image::write_volume(staged.path("fixed.nii.gz")?, &self.fixed, &bytes)?;
        image::write_volume(staged.path("moving.nii.gz")?, &self.moving, &bytes)?;
        image::write_labels(staged.path("fixed_labels.nii.gz")?, &self.fixed_labels, &bytes)?;
        image::write_labels(staged.path("moving_labels.nii.gz")?, &self.moving_labels, &bytes)?;
        let truth = Transform::Displacement(Displacement::new(self.truth.clone()));
        transform::write(staged.path("true_warp.nii.gz")?, &truth, &Geometry::default())?;
        staged.commit()?;
        let masks = MaskPaths {
            fixed_labels: Some(folder.join("fixed_labels.nii.gz")),
            moving_labels: Some(folder.join("moving_labels.nii.gz")),
            ..MaskPaths::default()
        };
        let mut job = Job::new(folder.join("fixed.nii.gz"), folder.join("moving.nii.gz"), output);
        job.paths = PairPaths { masks, ..job.paths };
        // The pads do not move the patient.
        job.affine = Some(AffineChoice::None);
        job.mesh.mesh_mask = Some(folder.join("fixed_labels.nii.gz"));
        job.mesh.mesh_spacing = Some(SPACING_MM);
        job.mesh.fix_label = vec![MUSCLE];
        Ok(job)
    }

    /// How far the breast is from where it belongs without a deformation, and with the one that a run of the
    /// [job](Self::write) left in its folder.
    ///
    /// # Errors
    /// A folder without `warp.nii.gz`.
    pub fn errors(&self, output: &Path) -> Result<[Errors; 2]> {
        let found = transform::read(output.join("warp.nii.gz"), &Geometry::default())?;
        let before = self.error(&|x| x)?;
        Ok([before, self.error(&|x| found.apply(x))?])
    }

    fn error(&self, map: &(dyn Fn(Vector3<f64>) -> Vector3<f64> + Sync)) -> Result<Errors> {
        let off = each(self.fixed.grid(), |i, x| (map(x) - x - self.truth.get(i)).norm())?;
        let labels = self.fixed_labels.data().iter();
        let of_breast = off.iter().zip(labels).filter(|(_, label)| ![AIR, MUSCLE].contains(label));
        let mut off = memory::collected(of_breast.map(|(off, _)| *off))?;
        off.sort_by(f64::total_cmp);
        let mean = off.iter().sum::<f64>() / off.len().max(1) as f64;
        let most = off.get(off.len() * 95 / 100).copied().unwrap_or(f64::NAN);
        Ok(Errors { mean, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All tissue came from where the same tissue is at rest, the muscle stands still, and the pads made the breast narrower.
    #[test]
    fn the_breast_is_pressed_as_it_is_said() {
        let pair = Pair::new().unwrap();
        let (fixed, grid) = (&pair.fixed_labels, pair.fixed.grid());
        let width = |labels: &LabelMap| {
            let [nx, ny, _] = grid.dims();
            let place =
                |i: usize| Vector3::from([i % nx, i / nx % ny, i / (nx * ny)].map(|v| v as f64));
            let breast = |i: &usize| {
                (1..4).contains(&labels.data()[*i]) && grid.index_to_world(place(*i)).y > 42.0
            };
            let x = (0..grid.len()).filter(breast).map(|i| i % nx);
            let (low, high) = x.fold((nx, 0), |(low, high), x| (low.min(x), high.max(x)));
            2.0 * (high + 1 - low) as f64
        };
        let narrower = width(&pair.moving_labels) - width(fixed);
        assert!((narrower - COMPRESSION_MM).abs() <= 4.0, "{narrower}");
        let counts = |labels: &LabelMap| {
            [1, 2, 3, 4].map(|l| labels.data().iter().filter(|v| **v == l).count() as f64)
        };
        let ratios = counts(fixed).into_iter().zip(counts(&pair.moving_labels));
        let ratios: Vec<f64> = ratios.map(|(a, b)| a / b).collect();
        assert!(ratios.iter().all(|r| (0.85..1.1).contains(r)), "{ratios:?}");
        let muscle = fixed.data().iter().enumerate().filter(|(_, l)| **l == MUSCLE);
        let still = muscle.map(|(i, _)| pair.truth.get(i).norm()).fold(0.0, f64::max);
        assert!(still < 1.0, "{still}");
        let before = pair.error(&|x| x).unwrap();
        let none = pair.error(&|x| x + pair.truth.sample_clamped(x)).unwrap();
        println!("{before:?}, volumes {ratios:?}, muscle moves by {still}");
        assert!(before.mean > 1.5 && before.most > 4.0 && none.most < 1e-3, "{before:?} {none:?}");
        // But for the noise, the fixed image is the moving one, moved.
        let organ = Organ::new(SEED);
        let off = each(grid, |i, x| {
            let value = organ.intensity(x + pair.truth.get(i)).clamp(0.0, 255.0);
            (fixed.data()[i] != AIR).then_some(f64::from(pair.fixed.data()[i]) - value)
        });
        let off: Vec<f64> = off.unwrap().into_iter().flatten().collect();
        let deviation = (off.iter().map(|v| v * v).sum::<f64>() / off.len() as f64).sqrt();
        assert!((deviation / NOISE - 1.0).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn the_same_bits_every_time() {
        let pool = |n: usize| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        let [one, two] = [1, 3].map(|n| pool(n).install(|| Pair::new().unwrap()));
        assert!(one.fixed == two.fixed && one.moving == two.moving && one.truth == two.truth);
    }
}
