//! Images as data terms: at one scale, and on one grid.

use crate::error::Result;
use rayon::prelude::*;
use voxalign_compute::ops::elementwise::{constant, param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::{Interpolation, downsampled_dims, grid_map};
use voxalign_compute::{AffineMap, Device, DeviceBuffer, Dims};
use voxalign_image::{Affine, Grid, ImageView, Vector3};

/// An image on a device.
pub struct DeviceImage<D: Device> {
    /// Its grid.
    pub grid: Grid,
    /// Its values, x fastest.
    pub values: D::Buffer<f32>,
    /// The value outside of its grid.
    pub outside: f32,
    /// Whether tissue reaches the border of its grid: what is beyond is unknown then, and not
    /// background.
    pub open: bool,
}

/// The grid with voxels `factors` times as long over the same field of view.
///
/// # Errors
/// Sizes that make no grid.
pub fn coarser(grid: &Grid, factors: [usize; 3]) -> Result<Grid> {
    let dims = downsampled_dims(grid.dims(), factors);
    let map = Affine::from_rows(grid_map(grid.dims(), dims));
    Ok(Grid::new(dims, map.then(grid.to_world()))?)
}

/// The least and the largest coordinates of a box, from its lowest to its highest corner, under an affine map.
pub(crate) fn box_around(
    [low, high]: [Vector3<f64>; 2],
    map: impl Fn(Vector3<f64>) -> Vector3<f64>,
) -> [Vector3<f64>; 2] {
    let mut found = [Vector3::repeat(f64::MAX), Vector3::repeat(f64::MIN)];
    for corner in 0..8usize {
        let end = |a: usize| if corner >> a & 1 == 1 { high[a] } else { low[a] };
        let at = map(Vector3::from_fn(|a, _| end(a)));
        found = [found[0].inf(&at), found[1].sup(&at)];
    }
    found
}

/// The smallest spacing of a grid along its axes of more than one voxel, mm.
#[must_use]
pub fn finest(grid: &Grid) -> f64 {
    let (spacing, dims) = (grid.spacing(), grid.dims());
    let finest = (0..3).filter(|&a| dims[a] > 1).map(|a| spacing[a]).fold(f64::MAX, f64::min);
    if finest < f64::MAX { finest } else { spacing[0] }
}

/// The factors along each axis, at least 1, that make voxels about as long as `target`, mm.
#[must_use]
pub fn factors_for(grid: &Grid, target: f64) -> [usize; 3] {
    let (spacing, dims) = (grid.spacing(), grid.dims());
    [0, 1, 2].map(|a| match dims[a] {
        1 => 1,
        // An axis keeps some voxels.
        n => ((target / spacing[a] + 1e-6).floor() as usize).clamp(1, (n / 8).max(1)),
    })
}

/// The spacing beyond which, relative to the finest, an axis is that of thick slices, and the most finer slices for each of these.
const THICK: f64 = 1.5;
const SLICES: f64 = 3.0;

/// A spacing, mm, of finer slices where those of an image are thick.
#[must_use]
pub fn finer_slices(spacing: [f64; 3], flat: bool) -> [f64; 3] {
    if flat {
        return spacing;
    }
    let finest = spacing[0].min(spacing[1]).min(spacing[2]);
    spacing.map(|h| if h > THICK * finest { finest.max(h / SLICES) } else { h })
}

/// How many voxels of fields there are in one of an image along each axis, where fields are found on [finer slices](finer_slices) than its own: as
/// many as come closest to these.
#[must_use]
pub fn slice_parts(dims: [usize; 3], spacing: [f64; 3]) -> [usize; 3] {
    let finer = finer_slices(spacing, dims[2] == 1);
    [0, 1, 2].map(|a| if dims[a] == 1 { 1 } else { (spacing[a] / finer[a]).round() as usize })
}

/// The grid of such fields: the field of view of the image, with each thick slice [divided](slice_parts). Between thick slices linear
/// interpolation has no inverse for much of what is found on finer ones.
///
/// # Errors
/// More voxels than can be addressed.
pub fn with_divided_slices(grid: &Grid) -> Result<Grid> {
    let spacing = grid.spacing();
    let parts = slice_parts(grid.dims(), spacing);
    if parts == [1; 3] {
        return Ok(grid.clone());
    }
    Ok(grid.with_spacing([0, 1, 2].map(|a| spacing[a] / parts[a] as f64))?)
}

impl<D: Device> DeviceImage<D> {
    /// The image with [finer slices](finer_slices) where its own are thick, by cubic splines, within the range of its values: linear
    /// interpolation loses what splines find between slices. Slices that are so thick that finer ones are thick as well, as of a heart, tell too
    /// little of what is between them, and stay.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn with_finer_slices(self, device: &D) -> Result<Self> {
        let (from, spacing) = (self.grid.dims(), self.grid.spacing());
        let mut finer = finer_slices(spacing, self.grid.is_2d());
        if finer_slices(finer, self.grid.is_2d()) != finer {
            finer = spacing;
        }
        let to = [0, 1, 2].map(|a| (from[a] as f64 * spacing[a] / finer[a]).round() as usize);
        if from == to {
            return Ok(self);
        }
        let map = grid_map(from, to);
        let grid = Grid::new(to, Affine::from_rows(map).then(self.grid.to_world()))?;
        let range = [Reduction::Min(0), Reduction::Max(0)];
        let range = device.reduce(&[&self.values], &range)?;
        let mut values = device.alloc::<f32>(grid.len())?;
        let cubic = Interpolation::Cubic;
        device.warp_affine(&self.values, from, &map, to, cubic, self.outside, &mut values)?;
        let within = x(0).max(param(0)).min(param(1));
        let range = [range[0] as f32, range[1] as f32];
        device.eval_in_place(&within, &mut values, &[], &range, None)?;
        Ok(Self { grid, values, ..self })
    }

    /// The image with voxels of about the length `target`, mm, smoothed against aliasing.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn at(&self, device: &D, target: f64) -> Result<Self> {
        let grid = coarser(&self.grid, factors_for(&self.grid, target))?;
        let (from, to) = (self.grid.dims(), grid.dims());
        let mut values = device.alloc::<f32>(grid.len())?;
        if from == to {
            device.copy(&self.values, &mut values)?;
        } else {
            let map = grid_map(from, to);
            device.resize(&self.values, from, &map, to, self.outside, &mut values)?;
        }
        Ok(Self { grid, values, outside: self.outside, open: self.open })
    }
}

/// The part of a face of a grid that tissue must cover to count as reaching the border.
const FACE: f64 = 0.02;

/// Whether tissue reaches the border of a grid: covers at least a fiftieth of one of its faces.
#[must_use]
pub fn reaches_border(image: ImageView<'_>, is_tissue: impl Fn(f32) -> bool + Sync) -> bool {
    let dims = image.dims();
    let [nx, ny, _] = dims;
    let count = |voxels: &mut dyn Iterator<Item = &f32>| voxels.filter(|&&v| is_tissue(v)).count();
    let slices = || image.data().par_chunks_exact(nx * ny);
    // Along x and y the faces are in all slices.
    let across_x = |x: usize| slices().map(|s| count(&mut s.iter().skip(x).step_by(nx))).sum();
    let across_y = |y: usize| slices().map(|s| count(&mut s[y * nx..(y + 1) * nx].iter())).sum();
    let across_z = |z: usize| slices().skip(z).take(1).map(|s| count(&mut s.iter())).sum();
    covers_a_face(dims, |a, at| match a {
        0 => across_x(at),
        1 => across_y(at),
        _ => across_z(at),
    })
}

/// As [`reaches_border`], of the tissue above a value of an image on a device.
pub(crate) fn reaches_border_on<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    dims: Dims,
    above: f32,
) -> Result<bool> {
    let counts = device.slice_counts(values, dims, above)?;
    Ok(covers_a_face(dims, |a, at| counts[a][at] as usize))
}

/// Whether tissue covers enough of a face, of which `count` counts the voxels in the slice of a number across an axis.
fn covers_a_face(dims: Dims, count: impl Fn(usize, usize) -> usize) -> bool {
    let voxels: usize = dims.iter().product();
    (0..3).filter(|&a| dims[a] > 1).any(|a| {
        let least = FACE * (voxels / dims[a]) as f64;
        [0, dims[a] - 1].into_iter().any(|at| count(a, at) as f64 >= least)
    })
}

/// 1 where all images that are [open](DeviceImage::open) show something after a displacement of the
/// grid, else 0; none where that is everywhere, or nowhere. What is within `border` voxels of the border of an image counts as outside of it.
///
/// # Errors
/// Memory that runs out.
pub fn seen<D: Device>(
    device: &D,
    images: &[Moved<D>],
    border: usize,
    field: &D::Buffer<f32>,
    dims: Dims,
) -> Result<Option<D::Buffer<f32>>> {
    let open = images.iter().filter(|m| m.image.open);
    seen_at(device, open.map(|m| (&m.image.grid, m.map)), border, field, dims)
}

/// As [`seen`], of the grids of all images that are open, with the maps from indices of the grid to theirs.
///
/// # Errors
/// Memory that runs out.
pub fn seen_at<'a, D: Device>(
    device: &D,
    open: impl Iterator<Item = (&'a Grid, AffineMap)>,
    border: usize,
    field: &D::Buffer<f32>,
    dims: Dims,
) -> Result<Option<D::Buffer<f32>>> {
    let mut all: Option<D::Buffer<f32>> = None;
    for (grid, mut map) in open {
        // The grid without its borders, along axes that are longer than these.
        let less = grid.dims().map(|n| if n > 4 * border { border } else { 0 });
        let from = [0, 1, 2].map(|a| grid.dims()[a] - 2 * less[a]);
        map.iter_mut().zip(less).for_each(|(row, less)| row[3] -= less as f64);
        let linear = Interpolation::Linear;
        let mut ones = device.alloc::<f32>(from.iter().product())?;
        device.eval_in_place(&constant(1.0), &mut ones, &[], &[], None)?;
        let mut inside = device.alloc::<f32>(dims.iter().product())?;
        device.warp_field(&ones, from, &map, field, dims, linear, 0.0, &mut inside)?;
        device.eval_in_place(&x(0).gt(0.99), &mut inside, &[], &[], None)?;
        all = both(device, all, Some(inside))?;
    }
    let Some(all) = all else { return Ok(None) };
    let found = device.reduce(&[&all], &[Reduction::Min(0), Reduction::Max(0)])?;
    Ok((found[0] < found[1]).then_some(all))
}

/// A field of a grid of sizes `from` on one of sizes `to`: zero where there is none yet, and nothing new where
/// both are the same.
///
/// # Errors
/// Memory that runs out.
pub fn onto<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    from: Dims,
    to: Dims,
) -> Result<Option<D::Buffer<f32>>> {
    if from == to {
        return Ok(None);
    }
    let mut out = device.alloc::<f32>(3 * to.iter().product::<usize>())?;
    if from != [0; 3] {
        device.resample_field(field, from, &grid_map(from, to), to, &mut out)?;
    }
    Ok(Some(out))
}

/// The product of two weights; the one that is there where the other is missing. Where it is zero everywhere, the
/// first.
///
/// # Errors
/// Memory that runs out.
pub fn both<D: Device>(
    device: &D,
    first: Option<D::Buffer<f32>>,
    second: Option<D::Buffer<f32>>,
) -> Result<Option<D::Buffer<f32>>> {
    match (first, second) {
        (Some(first), Some(second)) => {
            let mut product = device.alloc::<f32>(first.len())?;
            device.eval(&(x(0) * x(1)), &[&first, &second], &[], None, &mut product)?;
            let most = device.reduce(&[&product], &[Reduction::Max(0)])?[0];
            Ok(Some(if most > 0.0 { product } else { first }))
        }
        (first, second) => Ok(first.or(second)),
    }
}

/// A mask (0 and 1) as weights of the voxels of a coarser grid.
///
/// # Errors
/// Memory that runs out.
pub fn weights_at<D: Device>(
    device: &D,
    mask: Option<&DeviceImage<D>>,
    target: f64,
) -> Result<Option<D::Buffer<f32>>> {
    let Some(mask) = mask else { return Ok(None) };
    let mut weights = mask.at(device, target)?.values;
    clamp_weights(device, &mut weights)?;
    Ok(Some(weights))
}

/// Brings weights to the range from 0 to 1, which smoothing may leave by a little.
///
/// # Errors
/// Memory that runs out.
pub fn clamp_weights<D: Device>(device: &D, weights: &mut D::Buffer<f32>) -> Result<()> {
    Ok(device.eval_in_place(&x(0).max(0.0).min(1.0), weights, &[], &[], None)?)
}

/// An image that is warped onto a grid.
pub struct Moved<D: Device> {
    /// The image at the scale.
    pub image: DeviceImage<D>,
    /// From indices of the grid to those of the image.
    pub map: AffineMap,
}

impl<D: Device> Moved<D> {
    /// An image that `affine` (world to world) carries from `grid` to its own.
    #[must_use]
    pub fn new(image: DeviceImage<D>, grid: &Grid, affine: &Affine) -> Self {
        let map = Self::map_of(grid, affine, &image.grid);
        Self { image, map }
    }

    /// Several of them.
    #[must_use]
    pub fn all(images: Vec<DeviceImage<D>>, grid: &Grid, affine: &Affine) -> Vec<Self> {
        images.into_iter().map(|image| Self::new(image, grid, affine)).collect()
    }

    /// From indices of a grid, through an affine map of the worlds, to those of an image.
    #[must_use]
    pub fn map_of(grid: &Grid, affine: &Affine, image: &Grid) -> AffineMap {
        grid.to_world().then(affine).then(image.to_index()).rows()
    }

    /// The image on the grid, under a displacement field of it.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn warp_to(
        &self,
        device: &D,
        field: &D::Buffer<f32>,
        dims: Dims,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let DeviceImage { grid, values, outside, .. } = &self.image;
        let (from, linear) = (grid.dims(), Interpolation::Linear);
        device.warp_field(values, from, &self.map, field, dims, linear, *outside, out)?;
        Ok(())
    }
}
