//! Cropping to the object: the common bounding box of both images (Ha 2011, section 2.3.9.1).
//!
//! The time of a registration grows with the voxels of its grid, and much of an image is often
//! background, where no force acts. The foreground of both images, with a guard around it, makes a
//! box of the fixed grid; the registration is done there, and its field is put back.

use crate::attachment::images::box_around;
use crate::error::Result;
use rayon::prelude::*;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::ops::values::slice_counts;
use voxalign_compute::{AffineMap, Device, IDENTITY};
use voxalign_image::{Affine, Grid, ImageError, ImageView, Vector3, Volume, memory};

/// A box of voxels of a grid; never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct IndexBox {
    /// The first voxel.
    pub start: [usize; 3],
    /// Voxels along each axis, at least 1.
    pub size: [usize; 3],
}

impl IndexBox {
    /// All of a grid.
    #[must_use]
    pub fn whole(grid: &Grid) -> Self {
        Self { start: [0; 3], size: grid.dims() }
    }

    /// One past the last voxel along each axis.
    #[must_use]
    pub fn end(&self) -> [usize; 3] {
        [0, 1, 2].map(|a| self.start[a].saturating_add(self.size[a]))
    }

    /// Whether it is all of a grid.
    #[must_use]
    pub fn is_whole(&self, grid: &Grid) -> bool {
        *self == Self::whole(grid)
    }

    /// Its voxels as a part of those of a grid.
    #[must_use]
    pub fn part(&self, grid: &Grid) -> f64 {
        (0..3).map(|a| self.size[a] as f64 / grid.dims()[a] as f64).product()
    }

    /// The smallest box with both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let start = [0, 1, 2].map(|a| self.start[a].min(other.start[a]));
        let size = [0, 1, 2].map(|a| self.end()[a].max(other.end()[a]) - start[a]);
        Self { start, size }
    }

    /// The box, grown as little as may be to sizes that suit, as far as the grid goes; an axis
    /// along which no size suits stays as it is.
    #[must_use]
    pub fn grown(&self, grid: &Grid, suits: impl Fn(usize) -> bool) -> Self {
        let (dims, mut grown) = (grid.dims(), *self);
        for a in (0..3).filter(|&a| dims[a] > 1) {
            if let Some(size) = (self.size[a]..=dims[a]).find(|&n| suits(n)) {
                let before = (size - self.size[a]) / 2;
                grown.start[a] = self.start[a].saturating_sub(before).min(dims[a] - size);
                grown.size[a] = size;
            }
        }
        grown
    }

    /// The box, grown to have points of the world, mm, with a guard around each, as far as the grid goes.
    #[must_use]
    pub fn around(&self, grid: &Grid, points: &[Vector3<f64>], guard: Guard) -> Self {
        let (dims, spacing, mut grown) = (grid.dims(), grid.spacing(), *self);
        for at in points.iter().map(|p| grid.world_to_index(*p)) {
            for a in (0..3).filter(|&a| dims[a] > 1 && at[a].is_finite()) {
                let margin = (guard.margin.max(0.0) / spacing[a]).max(guard.voxels as f64);
                let most = (dims[a] - 1) as f64;
                let first = (at[a] - margin).floor().clamp(0.0, most) as usize;
                let end = (at[a] + margin).ceil().clamp(0.0, most) as usize + 1;
                let (start, last) = (grown.start[a].min(first), grown.end()[a].max(end));
                (grown.start[a], grown.size[a]) = (start, last - start);
            }
        }
        grown
    }

    fn check(&self, grid: &Grid) -> Result<()> {
        let inside = (0..3).all(|a| self.size[a] > 0 && self.end()[a] <= grid.dims()[a]);
        if inside {
            return Ok(());
        }
        Err(ImageError::GridMismatch {
            first: format!("a box of {:?} voxels from {:?}", self.size, self.start),
            second: grid.to_string(),
        }
        .into())
    }
}

/// The margin around the foreground; by default 16 mm, and at least 4 voxels.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Guard {
    /// On each side, mm. More than the anatomy is displaced, so that no force acts at the border.
    pub margin: f64,
    /// The least number of voxels on each side.
    pub voxels: usize,
}

impl Guard {
    /// That around what another image shows, which is as far as displacements there are smoothed with those beyond: some six voxels of a scale of
    /// four. With 4 voxels in place of 24 a head of 2 mm onto half of its slices ended 0.49 voxels off in place of 0.35 (greedy).
    pub const VIEW: Self = Self { margin: 16.0, voxels: 24 };
}

impl Default for Guard {
    fn default() -> Self {
        Self { margin: 16.0, voxels: 4 }
    }
}

/// The fraction of the voxels of a slice that must be foreground for the slice to count: single bright voxels in
/// the air (noise, broken detectors) are no reason to keep it.
const LEAST: f64 = 1e-3;

/// The smallest box with the foreground of an image, the values above a threshold such as that of
/// [`foreground_threshold`](super::calibrate::foreground_threshold): from the first to the last slice along each
/// axis in which at least one voxel in a thousand is foreground. `None` if there is no such slice.
///
/// # Errors
/// Memory that runs out.
pub fn foreground_box<'a>(image: impl Into<ImageView<'a>>, above: f32) -> Result<Option<IndexBox>> {
    let image = image.into();
    let counts = slice_counts(image.bring()?, image.dims(), above)?;
    Ok(box_of(image.dims(), &counts))
}

/// The box of an image with so many voxels of the foreground in each slice along each axis.
pub(super) fn box_of(dims: [usize; 3], counts: &[Vec<u64>; 3]) -> Option<IndexBox> {
    let mut found = IndexBox { start: [0; 3], size: [1; 3] };
    let voxels: usize = dims.iter().product();
    for (a, counts) in counts.iter().enumerate() {
        let least = ((voxels / dims[a]) as f64 * LEAST).max(1.0);
        let counts_here = |n: &u64| *n as f64 >= least;
        let first = counts.iter().position(counts_here)?;
        let last = counts.iter().rposition(counts_here)?;
        found.start[a] = first;
        found.size[a] = last + 1 - first;
    }
    Some(found)
}

/// The box of the fixed grid in which two images are aligned: the foreground box of the fixed image
/// and that of the moving image, carried into the fixed grid by the inverse of `affine` (fixed world
/// to moving world), with a guard around both, as far as the fixed grid goes. Where one image has no
/// foreground box, all of the fixed grid.
///
/// # Errors
/// An affine map that cannot be inverted, a box that is not inside its grid.
pub fn common_box(
    fixed: (&Grid, Option<IndexBox>),
    moving: (&Grid, Option<IndexBox>),
    affine: &Affine,
    guard: Guard,
) -> Result<IndexBox> {
    let grid = fixed.0;
    let (Some(ours), Some(theirs)) = (fixed.1, moving.1) else {
        return Ok(IndexBox::whole(grid));
    };
    ours.check(grid)?;
    theirs.check(moving.0)?;
    let to_fixed = moving.0.to_world().then(&affine.inverse()?).then(grid.to_index());
    let [low, high] = faces(&theirs, &to_fixed);
    let [first, last] = faces(&ours, &<Affine>::identity());
    Ok(covering(grid, [low.inf(&first), high.sup(&last)], guard))
}

/// The part of a box of a grid that another image can be compared with: where that image goes on beyond its grid, as its foreground reaches
/// the border, nothing of it is known there, and the box ends with that grid, carried into this one by the inverse of `affine` (this
/// world to the other's), and a guard around it. All of the box where the other image ends within its grid, or does not meet it.
///
/// # Errors
/// An affine map that cannot be inverted, a box that is not inside its grid.
pub fn in_view(
    grid: &Grid,
    found: IndexBox,
    (other, shown): (&Grid, Option<IndexBox>),
    affine: &Affine,
    guard: Guard,
) -> Result<IndexBox> {
    found.check(grid)?;
    let (all, dims) = (IndexBox::whole(other), other.dims());
    let at_border = |shown: IndexBox| {
        (0..3).any(|a| dims[a] > 1 && (shown.start[a] == 0 || shown.end()[a] == dims[a]))
    };
    if !shown.is_some_and(at_border) {
        return Ok(found);
    }
    let to_here = other.to_world().then(&affine.inverse()?).then(grid.to_index());
    let [low, high] = faces(&all, &to_here);
    let meets =
        |a: usize| low[a] < found.end()[a] as f64 - 0.5 && high[a] > found.start[a] as f64 - 0.5;
    if !(0..3).filter(|&a| grid.dims()[a] > 1).all(meets) {
        return Ok(found);
    }
    let seen = covering(grid, [low, high], guard);
    let start = [0, 1, 2].map(|a| found.start[a].max(seen.start[a]));
    let end = [0, 1, 2].map(|a| found.end()[a].min(seen.end()[a]));
    Ok(IndexBox { start, size: [0, 1, 2].map(|a| end[a] - start[a]) })
}

/// The least and the largest positions of a box, from outer face to outer face, under a map of indices.
fn faces<From, To>(of: &IndexBox, map: &Affine<From, To>) -> [Vector3<f64>; 2] {
    let at_face = |n: [usize; 3]| Vector3::from(n.map(|n| n as f64 - 0.5));
    box_around([at_face(of.start), at_face(of.end())], |at| map.apply(at))
}

/// The box of a grid that covers positions between two of it, with a guard around, as far as the grid goes.
fn covering(grid: &Grid, [low, high]: [Vector3<f64>; 2], guard: Guard) -> IndexBox {
    let (dims, spacing) = (grid.dims(), grid.spacing());
    let mut found = IndexBox::whole(grid);
    for a in (0..3).filter(|&a| dims[a] > 1) {
        let margin = (guard.margin.max(0.0) / spacing[a]).max(guard.voxels as f64);
        let first = (low[a] + 0.5 - margin + 1e-6).floor().clamp(0.0, (dims[a] - 1) as f64);
        let end = (high[a] + 0.5 + margin - 1e-6).ceil().clamp(first + 1.0, dims[a] as f64);
        found.start[a] = first as usize;
        found.size[a] = (end - first) as usize;
    }
    found
}

/// The grid of a box: its voxels stay where they are in the world.
///
/// # Errors
/// A box that is not inside the grid.
pub fn crop_grid(grid: &Grid, to: &IndexBox) -> Result<Grid> {
    to.check(grid)?;
    let first = Vector3::from_fn(|a, _| to.start[a] as f64);
    let offset = grid.index_to_world(first);
    Ok(Grid::new(to.size, Affine::new(grid.to_world().matrix, offset))?)
}

/// The part of an image on a device in a box, on the grid of that.
///
/// # Errors
/// A box that is not inside the grid, memory that runs out.
pub(super) fn crop_on<D: Device>(
    device: &D,
    (grid, values): (&Grid, &D::Buffer<f32>),
    to: &IndexBox,
) -> Result<(Grid, D::Buffer<f32>)> {
    let part = crop_grid(grid, to)?;
    let mut map = IDENTITY;
    (0..3).for_each(|a| map[a][3] = to.start[a] as f64);
    let mut out = device.alloc::<f32>(part.len())?;
    let nearest = Interpolation::Nearest;
    device.warp_affine(values, grid.dims(), &map, to.size, nearest, 0.0, &mut out)?;
    Ok((part, out))
}

/// The part of an image in a box.
///
/// # Errors
/// A box that is not inside the grid.
pub fn crop<'a>(image: impl Into<ImageView<'a>>, to: &IndexBox) -> Result<Volume<f32>> {
    let image = image.into();
    let grid = crop_grid(image.grid(), to)?;
    let mut data = memory::zeroed::<f32>(grid.len())?;
    let ([nx, ny, _], [width, height, _]) = (image.dims(), to.size);
    let values = image.bring()?;
    data.par_chunks_exact_mut(width * height).enumerate().for_each(|(z, slice)| {
        for (y, row) in slice.chunks_exact_mut(width).enumerate() {
            let first = ((to.start[2] + z) * ny + to.start[1] + y) * nx + to.start[0];
            row.copy_from_slice(&values[first..first + width]);
        }
    });
    Ok(Volume::new(grid, data)?)
}

/// A displacement field of a box as one of the whole grid, both in voxels: all x, then all y, then
/// all z.
///
/// Inside of the box it is as it was. Outside, each voxel takes the vector of the nearest voxel of
/// the box, times a factor that falls linearly from 1 at the box to 0 at some distance. That distance
/// is the margin of the guard, but at least the guard's voxels, and at least twice the largest
/// displacement at the faces of the box that are inside of the grid: so fading alone changes no
/// length by more than half, and folds nothing.
///
/// # Errors
/// A box that is not inside the grid, a field of other sizes than the box, memory that runs out.
pub fn paste_field<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    whole: &Grid,
    at: &IndexBox,
    guard: Guard,
) -> Result<D::Buffer<f32>> {
    at.check(whole)?;
    let (dims, spacing, end) = (whole.dims(), whole.spacing(), at.end());
    let mut largest: f64 = 0.0;
    for a in 0..3 {
        let faces = [(at.start[a] > 0, 0), (end[a] < dims[a], at.size[a] - 1)];
        for (_, face) in faces.into_iter().filter(|f| f.0) {
            let mut plane = at.size;
            plane[a] = 1;
            let mut values = device.alloc::<f32>(3 * plane.iter().product::<usize>())?;
            let map = shifted_along(a, face as f64);
            device.resample_field(field, at.size, &map, plane, &mut values)?;
            let mut norms = device.alloc::<f64>(3)?;
            device.field_norms(&values, spacing, &mut norms)?;
            largest = device.download(&norms)?.first().map_or(largest, |&l| largest.max(l));
        }
    }
    let voxel = (0..3).filter(|&a| dims[a] > 1).map(|a| spacing[a]).fold(0.0, f64::max);
    let reach = guard.margin.max(guard.voxels as f64 * voxel).max(2.0 * largest);
    let weight = device.upload_vec(distances(whole, at, reach)?)?;

    let mut out = device.alloc::<f32>(3 * whole.len())?;
    let mut map = IDENTITY;
    (0..3).for_each(|a| map[a][3] = -(at.start[a] as f64));
    device.resample_field(field, at.size, &map, dims, &mut out)?;
    device.blend_fields(None, &weight, &mut out)?;
    Ok(out)
}

fn shifted_along(axis: usize, by: f64) -> AffineMap {
    let mut map = IDENTITY;
    map[axis][3] = by;
    map
}

/// The distance of each voxel of a grid from a box, as a fraction of `reach` (mm), at most 1.
fn distances(whole: &Grid, at: &IndexBox, reach: f64) -> Result<Vec<f32>> {
    let (dims, spacing, end) = (whole.dims(), whole.spacing(), at.end());
    // Along each axis: the square of the distance in mm.
    let axis = |a: usize| -> Vec<f64> {
        let away = |i: usize| i.abs_diff(i.clamp(at.start[a], end[a] - 1)) as f64 * spacing[a];
        (0..dims[a]).map(|i| away(i).powi(2)).collect()
    };
    let [xs, ys, zs] = [0, 1, 2].map(axis);
    let mut out = memory::zeroed::<f32>(whole.len())?;
    out.par_chunks_exact_mut(dims[0] * dims[1]).zip(&zs).for_each(|(slice, dz)| {
        for (row, dy) in slice.chunks_exact_mut(dims[0]).zip(&ys) {
            for (value, dx) in row.iter_mut().zip(&xs) {
                *value = ((dx + dy + dz).sqrt() / reach).min(1.0) as f32;
            }
        }
    });
    Ok(out)
}

#[cfg(test)]
mod tests;
