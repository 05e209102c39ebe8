//! The pixels of all slices as samples.

use crate::attachment::images::{DeviceImage, coarser, factors_for, finest, weights_at};
use crate::error::{RegisterError, Result};
use rayon::prelude::*;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::{Affine, Grid, Vector3, memory};

/// The images of a 2D-3D registration on a device, as they are compared.
pub(crate) struct SliceImages<D: Device> {
    /// The slices, each of a grid of which one dimension is 1.
    pub(crate) slices: Vec<DeviceImage<D>>,
    /// The weights of the pixels of each, from 0 to 1; 1 where there are none.
    pub(crate) weights: Vec<Option<DeviceImage<D>>>,
    /// The image that is moved.
    pub(crate) moving: DeviceImage<D>,
    /// 1 where it shows something that counts, else 0; none where it does all over, and is background beyond its grid.
    pub(crate) shown: Option<DeviceImage<D>>,
}

impl<D: Device> SliceImages<D> {
    /// The smallest distance of pixels of a slice, mm.
    fn finest(&self) -> f64 {
        self.slices.iter().map(|s| finest(&s.grid)).fold(f64::MAX, f64::min)
    }

    /// The distance of pixels and voxels, mm, at a scale.
    pub(super) fn target(&self, factor: usize) -> f64 {
        self.finest() * factor as f64
    }
}

/// The pixels of all slices at a scale, one slice after the other.
pub(super) struct Pixels<D: Device> {
    /// Their values.
    pub(super) values: D::Buffer<f32>,
    /// Their weights times their areas, in the largest area of a pixel.
    pub(super) weights: D::Buffer<f32>,
    /// The grids of the slices.
    pub(super) grids: Vec<Grid>,
    /// Their areas in the largest, and this, mm².
    pub(super) areas: Vec<f64>,
    pub(super) largest: f64,
    /// The largest distance of pixels, mm.
    pub(super) spacing: f64,
}

/// The area of a pixel, mm².
pub(super) fn area(grid: &Grid) -> f64 {
    let m = &grid.to_world().matrix;
    let of = |a: usize| Vector3::new(m[(0, a)], m[(1, a)], m[(2, a)]);
    let mut across = (0..3).filter(|&a| grid.dims()[a] > 1);
    match (across.next(), across.next()) {
        (Some(a), Some(b)) => of(a).cross(&of(b)).norm(),
        _ => 1.0,
    }
}

impl<D: Device> Pixels<D> {
    /// Of slices whose pixels are about as far apart as `target`, mm.
    pub(super) fn new(device: &D, images: &SliceImages<D>, target: f64) -> Result<Self> {
        let grids = images.slices.iter().map(|s| coarser(&s.grid, factors_for(&s.grid, target)));
        let grids = grids.collect::<Result<Vec<_>>>()?;
        let largest = grids.iter().map(area).fold(0.0, f64::max);
        let areas: Vec<f64> = grids.iter().map(|g| area(g) / largest).collect();
        let count = grids.iter().map(Grid::len).sum();
        let (mut values, mut weights) = (memory::room(count)?, memory::room::<f32>(count)?);
        for ((slice, given), area) in images.slices.iter().zip(&images.weights).zip(&areas) {
            let at = slice.at(device, target)?;
            let n = at.values.len();
            values.extend_from_slice(&device.into_host(at.values)?);
            match weights_at(device, given.as_ref(), target)? {
                Some(own) => {
                    let own = device.into_host(own)?;
                    weights.extend(own.iter().map(|w| (f64::from(*w) * area) as f32));
                }
                None => weights.extend(std::iter::repeat_n(*area as f32, n)),
            }
        }
        let spacing = grids.iter().map(longest).fold(0.0, f64::max);
        let (values, weights) = (device.upload_vec(values)?, device.upload_vec(weights)?);
        Ok(Self { values, weights, grids, areas, largest, spacing })
    }

    /// Where they are after a map of the world: all x, all y, all z.
    pub(super) fn points(&self, device: &D, map: &Affine) -> Result<D::Buffer<f32>> {
        Ok(device.upload_vec(points(&self.grids, map)?)?)
    }

    /// The area of every pixel in the largest, where they are not all alike.
    pub(super) fn unlike(&self) -> Result<Option<Vec<f32>>> {
        if self.areas.iter().all(|&a| (a - 1.0).abs() < 1e-6) {
            return Ok(None);
        }
        let of = |(grid, &area): (&Grid, &f64)| std::iter::repeat_n(area as f32, grid.len());
        Ok(Some(memory::collected(self.grids.iter().zip(&self.areas).flat_map(of))?))
    }

    /// The pixels of each slice.
    pub(super) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.grids.iter().scan(0, |start, grid| {
            let range = *start..*start + grid.len();
            *start = range.end;
            Some(range)
        })
    }

    /// What is said of a slice that cannot be used.
    pub(super) fn refused(&self, number: usize, what: &str, remedy: &str) -> RegisterError {
        let centre = self.grids[number].centre();
        let at = format!("({:.1}, {:.1}, {:.1})", centre.x, centre.y, centre.z);
        let (of, what) = (self.grids.len(), format!(", around {at} mm, {what}"));
        RegisterError::Slice { number, of, what, remedy: remedy.to_owned() }
    }
}

/// The largest distance of pixels of a slice, mm.
fn longest(grid: &Grid) -> f64 {
    let (spacing, dims) = (grid.spacing(), grid.dims());
    (0..3).filter(|&a| dims[a] > 1).map(|a| spacing[a]).fold(0.0, f64::max)
}

/// The voxels of grids after a map of the world, one grid after the other: all x, all y, all z.
///
/// # Errors
/// Memory that runs out.
pub(crate) fn points(grids: &[Grid], map: &Affine) -> Result<Vec<f32>> {
    let count: usize = grids.iter().map(Grid::len).sum();
    let mut all: Vec<f32> = memory::zeroed(3 * count)?;
    let mut start = 0;
    for grid in grids {
        let [nx, ny, _] = grid.dims();
        let rows = grid.to_world().then(map).rows();
        for (a, row) in rows.iter().enumerate() {
            let from = a * count + start;
            let out = &mut all[from..from + grid.len()];
            out.par_chunks_mut(nx).enumerate().for_each(|(line, out)| {
                let (j, k) = ((line % ny) as f64, (line / ny) as f64);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = (row[0] * i as f64 + row[1] * j + row[2] * k + row[3]) as f32;
                }
            });
        }
        start += grid.len();
    }
    Ok(all)
}
