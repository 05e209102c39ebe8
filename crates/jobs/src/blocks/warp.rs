//! An image of any size, resampled block by block.

use crate::error::{Error, Result};
use crate::files::changed;
use crate::listener::{Listener, check};
use rayon::prelude::*;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::{Affine, Displacement, Grid, Transform, Vector3, VectorField, Volume, memory};
use voxalign_io::image::{DataType, Region};
use voxalign_io::pyramid::{Pixels, PyramidSource, PyramidWriter};
use voxalign_register::resample::{MovingImage, meets};

/// Pixels at once, which bound the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of the result: whole tiles, at least one.
    pub(crate) result: usize,
    /// Of the moving image, for a block of the result; one that needs more is cut in two.
    pub(crate) moving: usize,
}

impl Default for Limits {
    /// Some hundred megabytes.
    fn default() -> Self {
        Self { result: 1 << 22, moving: 1 << 26 }
    }
}

/// A resampling of an image on a grid, of which a block at a time is in memory.
#[derive(Debug)]
pub(crate) struct Warp<'a, D: Device> {
    pub(crate) device: &'a D,
    /// The image, a channel each, all of the same sizes; their finest levels are resampled.
    pub(crate) sources: &'a [Arc<dyn PyramidSource>],
    /// Of the result.
    pub(crate) grid: &'a Grid,
    /// From points of the result to points of the image (world mm).
    pub(crate) transform: &'a Transform,
    pub(crate) interpolation: Interpolation,
    /// Where the image is not, as a stored value.
    pub(crate) outside: f32,
    pub(crate) limits: Limits,
}

/// What was resampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Warped {
    /// Whether any pixel of it shows something of the image.
    pub(crate) met: bool,
    /// How many values the stored type clamps.
    pub(crate) clamped: usize,
    /// How many it rounds.
    pub(crate) rounded: usize,
}

impl<D: Device> Warp<'_, D> {
    /// Writes the share of one of `ranks` processes: every `ranks`-th block of the finest level. What is written does not
    /// depend on how many they are, nor on the threads.
    ///
    /// # Errors
    /// What is wrong with the image; what fails on the device; what cannot be written; a wish to stop.
    pub(crate) fn write(
        &self,
        writer: &PyramidWriter,
        data_type: DataType,
        (rank, ranks): (usize, usize),
        listener: &dyn Listener,
    ) -> Result<Warped> {
        let mut done = Warped::default();
        let blocks = blocks(self.grid.dims(), writer.levels()[0].tile, self.limits.result);
        for region in blocks.into_iter().skip(rank).step_by(ranks.max(1)) {
            check(listener)?;
            let part = part_of(self.grid, &region)?;
            done.met = done.met || self.meets(&part)?;
            let channels = self.values(&region)?;
            for values in &channels {
                let (clamped, rounded) = changed(values, data_type);
                done.clamped += clamped;
                done.rounded += rounded;
            }
            writer.write(&region, stored(&channels, data_type)?.view())?;
        }
        Ok(done)
    }

    /// The first channel, whole: what is read is bounded, the result is held.
    ///
    /// # Errors
    /// As of [`write`](Self::write); too little memory for the result.
    pub(crate) fn volume(&self, listener: &dyn Listener) -> Result<(Volume<f32>, Warped)> {
        let dims = self.grid.dims();
        let mut data = memory::zeroed(self.grid.len())?;
        let mut done = Warped::default();
        let tile = if dims[2] > 1 { [64; 3] } else { [512, 512, 1] };
        for region in blocks(dims, tile, self.limits.result) {
            check(listener)?;
            done.met = done.met || self.meets(&part_of(self.grid, &region)?)?;
            if let Some(values) = self.values(&region)?.first() {
                paste(values, &region, &mut data, &Region::whole(dims));
            }
        }
        Ok((Volume::new(self.grid.clone(), data)?, done))
    }

    /// The grid of the image.
    fn moving(&self) -> Result<&Grid> {
        let first = self.sources.first().and_then(|source| source.levels().first());
        Ok(&first.ok_or_else(|| Error::input("the image has no channel"))?.grid)
    }

    /// Whether a pixel of a part of the result shows something of the image.
    fn meets(&self, part: &Grid) -> Result<bool> {
        let moving = self.moving()?;
        Ok(self.way(part)?.region(moving, self.margin()).is_some()
            && meets(part, self.transform, moving))
    }

    /// Pixels beyond those between which a value lies: what a cubic B-spline has from further away is less than a
    /// hundred-thousandth, as it falls to 0.268 of itself from pixel to pixel.
    fn margin(&self) -> f64 {
        match self.interpolation {
            Interpolation::Nearest => 1.0,
            Interpolation::Linear => 2.0,
            Interpolation::Cubic | Interpolation::CubicCoefficients => 16.0,
        }
    }

    /// The values of a region of the result, of each channel.
    fn values(&self, region: &Region) -> Result<Vec<Vec<f32>>> {
        let part = part_of(self.grid, region)?;
        let moving = self.moving()?;
        let way = self.way(&part)?;
        let Some(needed) = way.region(moving, self.margin()) else {
            let one = || memory::collected((0..region.len()).map(|_| self.outside));
            return Ok(self.sources.iter().map(|_| one()).collect::<memory::Result<_>>()?);
        };
        if needed.len() > self.limits.moving
            && let Some(halves) = halves(region)
        {
            // Both are needed whole no more.
            drop(way);
            let mut all = Vec::new();
            for _ in self.sources {
                all.push(memory::zeroed(region.len())?);
            }
            for half in &halves {
                for (values, whole) in self.values(half)?.iter().zip(&mut all) {
                    paste(values, half, whole, region);
                }
            }
            return Ok(all);
        }
        let own = part_of(moving, &needed)?;
        let of = |source: &Arc<dyn PyramidSource>| -> Result<Vec<f32>> {
            let offset = source.info().offset as f32;
            let values = match source.block(0, &needed)? {
                Pixels::U8(pixels) => {
                    memory::collected(pixels.iter().map(|&v| f32::from(v) - offset))
                }
                Pixels::U16(pixels) => {
                    memory::collected(pixels.iter().map(|&v| f32::from(v) - offset))
                }
            };
            let image = Volume::new(own.clone(), values?)?;
            let onto = MovingImage::new(self.device, image)?.onto(
                &part,
                &way.transform,
                self.interpolation,
                self.outside,
            )?;
            Ok(onto.into_parts().1)
        };
        self.sources.iter().map(of).collect()
    }

    /// The transform of a part of the result, and where it leads: of a chain with displacement fields all pixels are
    /// mapped, and what they move beyond the middle becomes a field of the part.
    fn way(&self, part: &Grid) -> Result<Way> {
        let moving = self.moving()?;
        let dims = part.dims();
        let at = |index: [usize; 3]| part.index_to_world(Vector3::from(index.map(|i| i as f64)));
        if self.transform.to_affine().is_ok() {
            let corner =
                |i: usize| at([0, 1, 2].map(|a| if i >> a & 1 == 1 { dims[a] - 1 } else { 0 }));
            let mut bounds = Bounds::default();
            (0..8).for_each(|i| {
                bounds.add(moving.world_to_index(self.transform.apply(corner(i))));
            });
            return Ok(Way { transform: self.transform.clone(), bounds });
        }
        let middle = at(dims.map(|n| n / 2));
        let common = self.transform.apply(middle) - middle;
        let n = part.len();
        let mut steps: Vec<f32> = memory::zeroed(3 * n)?;
        let (x, rest) = steps.split_at_mut(n);
        let (y, z) = rest.split_at_mut(n);
        let rows = x.par_chunks_mut(dims[0]).zip(y.par_chunks_mut(dims[0]));
        let rows = rows.zip(z.par_chunks_mut(dims[0])).enumerate();
        let bounds = rows.map(|(row, ((x, y), z))| {
            let mut bounds = Bounds::default();
            for i in 0..x.len() {
                let from = at([i, row % dims[1], row / dims[1]]);
                let to = self.transform.apply(from);
                bounds.add(moving.world_to_index(to));
                let step = to - from - common;
                (x[i], y[i], z[i]) = (step[0] as f32, step[1] as f32, step[2] as f32);
            }
            bounds
        });
        let bounds = bounds.reduce(Bounds::default, Bounds::with);
        let field = Displacement::new(VectorField::new(part.clone(), steps)?);
        let common = Transform::Affine(Affine::translation(common));
        let transform = Transform::Composite(vec![Transform::Displacement(field), common]);
        Ok(Way { transform, bounds })
    }
}

/// A transform of a part of the result.
struct Way {
    transform: Transform,
    /// Indices of the moving image.
    bounds: Bounds,
}

/// The smallest and the largest index of points.
#[derive(Debug, Clone, Copy)]
struct Bounds([Vector3<f64>; 2]);

impl Default for Bounds {
    /// Of no point.
    fn default() -> Self {
        Self([Vector3::repeat(f64::INFINITY), Vector3::repeat(f64::NEG_INFINITY)])
    }
}

impl Bounds {
    fn add(&mut self, index: Vector3<f64>) {
        let [low, high] = &mut self.0;
        (*low, *high) = (low.inf(&index), high.sup(&index));
    }

    fn with(self, other: Self) -> Self {
        let ([low, high], [from, to]) = (self.0, other.0);
        Self([low.inf(&from), high.sup(&to)])
    }
}

impl Way {
    /// The pixels of an image that it leads to, with a margin; none where it leads past the image.
    fn region(&self, image: &Grid, margin: f64) -> Option<Region> {
        let ([low, high], dims) = (self.bounds.0, image.dims());
        // Conversions keep to what the type holds.
        let start = [0, 1, 2].map(|a| (low[a].floor() - margin).max(0.0) as usize);
        let end =
            [0, 1, 2].map(|a| ((high[a].ceil() + margin + 1.0).max(0.0) as usize).min(dims[a]));
        let size = [0, 1, 2].map(|a| end[a].saturating_sub(start[a]));
        (!size.contains(&0)).then_some(Region { start, size })
    }
}

/// The grid of a part of another one.
fn part_of(grid: &Grid, region: &Region) -> Result<Grid> {
    let first = grid.index_to_world(Vector3::from(region.start.map(|i| i as f64)));
    Ok(Grid::new(region.size, Affine::new(grid.to_world().matrix, first))?)
}

/// All blocks of an image, of whole tiles and at most so many pixels, or of one tile.
fn blocks(dims: [usize; 3], tile: [usize; 3], most: usize) -> Vec<Region> {
    let mut block = tile;
    // The shortest sides grow first, up to those of the image.
    loop {
        let shortest = (0..3).filter(|&a| block[a] < dims[a]).min_by_key(|&a| block[a]);
        let Some(a) = shortest else { break };
        let next = |b: usize| if a == b { block[b].saturating_mul(2) } else { block[b] };
        let next = [0, 1, 2].map(next);
        if next.iter().fold(1, |n: usize, &b| n.saturating_mul(b)) > most {
            break;
        }
        block = next;
    }
    let mut all = Vec::new();
    for z in (0..dims[2]).step_by(block[2]) {
        for y in (0..dims[1]).step_by(block[1]) {
            for x in (0..dims[0]).step_by(block[0]) {
                let start = [x, y, z];
                let size = [0, 1, 2].map(|a| block[a].min(dims[a] - start[a]));
                all.push(Region { start, size });
            }
        }
    }
    all
}

/// A region in two, along its longest side; none where it is a pixel.
fn halves(region: &Region) -> Option<[Region; 2]> {
    let axis = (0..3).max_by_key(|&a| region.size[a]).filter(|&a| region.size[a] > 1)?;
    let mut both = [*region; 2];
    let first = region.size[axis] / 2;
    both[0].size[axis] = first;
    both[1].start[axis] += first;
    both[1].size[axis] -= first;
    Some(both)
}

/// Puts the values of a region into those of another one that it is within.
fn paste(values: &[f32], region: &Region, out: &mut [f32], whole: &Region) {
    let [nx, ny, _] = region.size;
    for (row, values) in values.chunks_exact(nx).enumerate() {
        let [x, y, z] = [0, 1, 2].map(|a| region.start[a] - whole.start[a]);
        let (y, z) = (y + row % ny, z + row / ny);
        let at = x + whole.size[0] * (y + whole.size[1] * z);
        out[at..at + nx].copy_from_slice(values);
    }
}

/// Values as they are handed over to be written: rounded, half to even, and held within the type.
fn stored(channels: &[Vec<f32>], data_type: DataType) -> Result<Pixels> {
    let (low, high) = data_type.range().unwrap_or((0.0, 65535.0));
    let whole = |v: &f32| (f64::from(*v).round_ties_even().clamp(low, high) - low) as u16;
    let n = channels.iter().map(Vec::len).sum();
    let values = channels.iter().flatten();
    Ok(match data_type {
        DataType::U8 | DataType::I8 => {
            let mut pixels = memory::room(n)?;
            pixels.extend(values.map(|v| whole(v) as u8));
            Pixels::U8(pixels)
        }
        _ => {
            let mut pixels = memory::room(n)?;
            pixels.extend(values.map(whole));
            Pixels::U16(pixels)
        }
    })
}

/// The value of background of an image, by the rule of [`crate::files::background`]; all of its first channel is read
/// where its type has a sign.
///
/// # Errors
/// What is wrong with the image; a wish to stop.
pub(crate) fn background(
    source: &dyn PyramidSource,
    limits: Limits,
    listener: &dyn Listener,
) -> Result<f32> {
    let offset = source.info().offset;
    if offset == 0 {
        return Ok(0.0);
    }
    let Some(level) = source.levels().first() else { return Ok(0.0) };
    let (mut below, mut smallest) = (0usize, 0i32);
    for region in blocks(level.dims(), level.tile, limits.result) {
        check(listener)?;
        let mut add = |value: i32| {
            below += usize::from(value < 0);
            smallest = smallest.min(value);
        };
        match source.block(0, &region)? {
            Pixels::U8(pixels) => pixels.iter().for_each(|&v| add(i32::from(v) - offset)),
            Pixels::U16(pixels) => pixels.iter().for_each(|&v| add(i32::from(v) - offset)),
        }
    }
    Ok(if below.saturating_mul(100) < level.grid.len() { 0.0 } else { smallest as f32 })
}

#[cfg(test)]
mod tests;
