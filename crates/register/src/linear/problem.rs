//! Two images to be aligned: what is known of them before any search, and their scales.

use super::input::Source;
use super::options::{AffineOptions, Init};
use super::pyramid::{self, Scaled};
use super::stage::About;
use super::start::{describe, fit, remarks_on, slice_frame, start};
use super::{levels, register, thinned};
use crate::compare::field_overlap;
use crate::error::{RegisterError, Result};
use crate::evidence::{Seen, middle_extent};
use crate::metric::level::{LevelImages, of_sums};
use crate::metric::range::robust_range;
use crate::metric::{Level, LevelSettings};
use crate::search::pose::{Freedom, Model};
use crate::similarity::Similarity;
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid, Matrix3, Vector3};

/// Width of a border that is not given, as a part of the middle one of the extents.
const BORDER: f64 = 1.0 / 40.0;

/// Two images at all scales, and what does not depend on the scale.
pub(super) struct Problem<D: Device> {
    pub(super) fixed_grid: Grid,
    pub(super) moving_grid: Grid,
    /// Width of the border of the moving image, mm.
    pub(super) border: f64,
    /// Sample spacings, mm, coarse to fine.
    pub(super) levels: Vec<f64>,
    /// All freedom that is asked for.
    pub(super) largest: Freedom,
    pub(super) model: Model,
    /// Of the fixed and of the moving image.
    pub(super) moments: [Moments; 2],
    /// The images as evidence looks at them.
    pub(super) seen: Seen,
    /// The scales that are to come.
    images: std::vec::IntoIter<(Scaled<D>, Scaled<D>)>,
}

/// The freedom that the degrees of freedom stand for.
fn freedom_of(dof: usize, flat: bool) -> Result<Freedom> {
    match (dof, flat) {
        (3, true) | (6, false) => Ok(Freedom::Rigid),
        (4 | 7, true) | (7, false) => Ok(Freedom::Similarity),
        (9, false) => Ok(Freedom::Scales),
        (6 | 9 | 12, true) | (12, false) => Ok(Freedom::Affine),
        (_, true) => Err(register::option("dof", dof, "for 2D images give 3, 4 or 6")),
        (_, false) => Err(register::option("dof", dof, "for 3D images give 6, 7, 9 or 12")),
    }
}

/// Refuses images of different dimension, and such as are flat along another axis than the last.
fn check_dimensions(fixed: &Grid, moving: &Grid) -> Result<()> {
    let dimensions = |g: &Grid| if g.is_2d() { 2 } else { 3 };
    if dimensions(fixed) != dimensions(moving) {
        let (fixed, moving) = (dimensions(fixed), dimensions(moving));
        return Err(RegisterError::Dimensions { fixed, moving });
    }
    for (role, grid) in [("fixed", fixed), ("moving", moving)] {
        let [x, y, _] = grid.dims();
        if x < 2 || y < 2 {
            let axis = if x < 2 { 'x' } else { 'y' };
            return Err(RegisterError::FlatAxis { role, axis, dims: grid.dims() });
        }
    }
    Ok(())
}

impl<D: Device> Problem<D> {
    /// Of two images on a device.
    pub(super) fn new(device: &D, source: Source<'_, D>, options: &AffineOptions) -> Result<Self> {
        let [fixed_grid, moving_grid] = source.grids().map(Grid::clone);
        let flat = fixed_grid.is_2d();
        let largest = freedom_of(options.dof, flat)?;
        if let Some(wanted) = &options.levels {
            levels::check(&wanted.0, &fixed_grid, &moving_grid)?;
        }
        let usual = || levels::usual(&fixed_grid, &moving_grid);
        let wanted = options.levels.as_ref().map_or_else(usual, |levels| levels.0.clone());
        let mut levels = levels::usable(&wanted, &fixed_grid, &moving_grid);
        if options.levels.is_none() && thinned::needs_another(&levels, &fixed_grid) {
            // The search compares alignments by some of the voxels before all of them count.
            levels.extend(levels.last().copied());
        }
        check_dimensions(&fixed_grid, &moving_grid)?;
        let built = pyramid::build(device, source, &levels, of_sums(&options.first_similarity())?)?;
        let (images, seen) = (built.levels, built.seen);
        let Some((fixed, moving)) = images.first() else {
            return Err(register::option("levels", "empty", "give at least one spacing in mm"));
        };
        let moments = [moments(device, fixed)?, moments(device, moving)?];
        let frame = |grid| if flat { slice_frame(grid) } else { Matrix3::identity() };
        let model = Model {
            centre: moments[0].centre,
            frame: frame(&fixed_grid),
            target: frame(&moving_grid),
            radius: moments[0].radius,
            flat,
        };
        let images = images.into_iter();
        let border = options.apodise.unwrap_or_else(|| BORDER * middle_extent(&moving_grid));
        Ok(Self { fixed_grid, moving_grid, border, levels, largest, model, moments, seen, images })
    }

    /// The start transform, fixed world to moving world. Where it does not follow from the images, they have
    /// to overlap under it.
    pub(super) fn start(&self, init: &Init) -> Result<Affine> {
        let start = self.start_unseen(init)?;
        if !matches!(init, Init::Moments) && self.overlap(&start) <= 0.0 {
            return Err(RegisterError::NoOverlap { start: describe(init) });
        }
        Ok(start)
    }

    /// The same, wherever it leads.
    pub(super) fn start_unseen(&self, init: &Init) -> Result<Affine> {
        start(init, &self.fixed_grid, &self.moving_grid, &self.moments, self.largest)
    }

    /// What to say of a start.
    pub(super) fn remarks_on(&self, init: &Init) -> Result<Vec<String>> {
        let Init::Landmarks(pairs) = init else { return Ok(Vec::new()) };
        let found = fit(pairs, &self.fixed_grid, &self.moving_grid, self.largest)?;
        Ok(remarks_on(&found, self.largest, pairs.len()))
    }

    /// The part of the smaller field of view that is within the other.
    pub(super) fn overlap(&self, map: &Affine) -> f64 {
        field_overlap(&self.fixed_grid, &self.moving_grid, map)
    }

    /// The objective of the next stage, and what it is made of.
    pub(super) fn next(
        &mut self,
        device: &D,
        similarity: Similarity,
        options: &AffineOptions,
    ) -> Result<Option<(Level<D>, About)>> {
        let Some((fixed, moving)) = self.images.next() else { return Ok(None) };
        let index = self.levels.len() - 1 - self.images.len();
        let last = self.images.len() == 0;
        let (fixed, share) =
            thinned::thinned(device, fixed, thinned::most(index, last, similarity))?;
        let settings = LevelSettings {
            similarity,
            border: self.border,
            scheme: options.scheme.unwrap_or_default(),
            joint: options.joint,
        };
        let images = LevelImages {
            fixed_grid: fixed.grid,
            fixed: fixed.values,
            fixed_weight: fixed.weight,
            share,
            moving_grid: moving.grid,
            moving: moving.values,
            moving_mask: moving.weight,
        };
        let level = Level::new(device, images, settings)?;
        let (spacing, samples) = (level.fixed_grid().spacing(), level.samples());
        let bins = similarity.of_sums().map_or(1, |s| s.bins);
        Ok(Some((level, About { spacing, samples, bins, similarity })))
    }
}

/// Centre of mass (world mm), root-mean-square distance from it, and principal axes (columns, by
/// falling spread) of an image: voxels count by weight times how far they are above the
/// background.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) centre: Vector3<f64>,
    pub(super) radius: f64,
    pub(super) axes: nalgebra::Matrix3<f64>,
}

/// The moments of an image, which is read back for it.
fn moments<D: Device>(device: &D, image: &Scaled<D>) -> Result<Moments> {
    let values = device.download(&image.values)?;
    let weight = image.weight.as_ref().map(|w| device.download(w)).transpose()?;
    Ok(moments_of(&image.grid, &values, weight.as_deref()))
}

fn moments_of(grid: &Grid, values: &[f32], weight: Option<&[f32]>) -> Moments {
    let (low, high) = robust_range(values, 0.02, 0.98).unwrap_or((0.0, 1.0));
    let [nx, ny, _] = grid.dims();
    let mut n = 0.0;
    let mut s = Vector3::zeros();
    let mut ss = nalgebra::Matrix3::zeros();
    let origin = grid.centre();
    for (i, &v) in values.iter().enumerate() {
        let w = f64::from((v.min(high) - low).max(0.0)) * weight.map_or(1.0, |w| f64::from(w[i]));
        if w > 0.0 {
            let index = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / (nx * ny)) as f64);
            let p = grid.index_to_world(index) - origin;
            n += w;
            s += p * w;
            ss += p * p.transpose() * w;
        }
    }
    if n <= 0.0 {
        let radius = grid.extent().iter().fold(0.0f64, |a, &b| a.max(b)) / 4.0;
        return Moments { centre: origin, radius, axes: nalgebra::Matrix3::identity() };
    }
    let mean = s / n;
    let spread = ss / n - mean * mean.transpose();
    let radius = spread.trace().max(1e-12).sqrt();
    let eigen = spread.symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
    let axes =
        nalgebra::Matrix3::from_columns(&order.map(|k| eigen.eigenvectors.column(k).into_owned()));
    Moments { centre: origin + mean, radius, axes }
}
