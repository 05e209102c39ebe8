//! A pair of images to be aligned: what is known before the search, and their scales.

use super::input::Source;
use super::moments::{Moments, moments};
use super::options::{AffineOptions, Init};
use super::pyramid;
use super::scales::Scaled;
use super::start::{describe, fit, remarks_on, slice_frame, start};
use super::{levels, thinned};
use crate::compare::field_overlap;
use crate::error::{RegisterError, Result, Role};
use crate::evidence::{Seen, middle_extent};
use crate::metric::level::{LevelImages, of_sums};
use crate::metric::{Level, LevelSettings};
use crate::search::StageRecord;
use crate::search::pose::{Freedom, Model};
use crate::similarity::Similarity;
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid, Matrix3};
use voxalign_options::{Choice, Text};

/// Default border width, as a fraction of the median extent.
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

/// The freedom that a number of degrees of freedom means.
pub(super) fn freedom_of(dof: usize, flat: bool) -> Result<Freedom> {
    match (dof, flat) {
        (3, true) | (6, false) => Ok(Freedom::Rigid),
        (4 | 7, true) | (7, false) => Ok(Freedom::Similarity),
        (9, false) => Ok(Freedom::Scales),
        (6 | 9 | 12, true) | (12, false) => Ok(Freedom::Affine),
        (_, true) => Err(RegisterError::option("dof", dof, "for 2D images give 3, 4 or 6")),
        (_, false) => Err(RegisterError::option("dof", dof, "for 3D images give 6, 7, 9 or 12")),
    }
}

/// Refuses images of different dimension, and such as are flat along another axis than the last.
pub(super) fn check_dimensions(fixed: &Grid, moving: &Grid) -> Result<()> {
    let dimensions = |g: &Grid| if g.is_2d() { 2 } else { 3 };
    if dimensions(fixed) != dimensions(moving) {
        let (fixed, moving) = (dimensions(fixed), dimensions(moving));
        return Err(RegisterError::Dimensions { fixed, moving });
    }
    for (role, grid) in [(Role::Fixed, fixed), (Role::Moving, moving)] {
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
            return Err(RegisterError::option(
                "levels",
                "empty",
                "give at least one spacing in mm",
            ));
        };
        let bright = seen.bright_backgrounds();
        let moments = [moments(device, fixed, bright[0])?, moments(device, moving, bright[1])?];
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

    /// Remarks on a start.
    pub(super) fn remarks_on(&self, init: &Init) -> Result<Vec<Text>> {
        let Init::Landmarks(pairs) = init else { return Ok(Vec::new()) };
        let found = fit(pairs, &self.fixed_grid, &self.moving_grid, self.largest)?;
        Ok(remarks_on(&found, self.largest, pairs.len()))
    }

    /// The fraction of the smaller field of view that is within the other.
    pub(super) fn overlap(&self, map: &Affine) -> f64 {
        field_overlap(&self.fixed_grid, &self.moving_grid, map)
    }

    /// The objective of the next stage, and its record, which describes it.
    pub(super) fn next(
        &mut self,
        device: &D,
        similarity: Similarity,
        options: &AffineOptions,
    ) -> Result<Option<(Level<D>, StageRecord)>> {
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
        let cost = similarity.name().to_owned();
        Ok(Some((level, StageRecord { spacing, samples, cost, bins, ..StageRecord::default() })))
    }
}
