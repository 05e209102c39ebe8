//! Linear interpolation at points and its adjoint on the CPU.

use rayon::prelude::*;

use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::reduce::Reduction;
use crate::ops::splat::{
    Beyond, Cell, Extent, SplatScheme, along, bits_for, check, check_slopes, units,
};
use crate::ops::{Reduce, Splat};
use voxalign_image::memory;

/// The points of a task.
const POINTS: usize = 4096;
/// The slices of the grid, along its last axis of more than one voxel, that a task adds to.
const SLICES: usize = 4;
/// Added to a number below 2^51 it makes its last bits the nearest whole number.
const MIDDLE: f64 = 1.5 * (1u64 << 52) as f64;

/// Positions of points, as they are given.
#[derive(Clone, Copy)]
struct Points<'a> {
    positions: &'a [f32],
    count: usize,
    of: Option<Dims>,
}

impl Points<'_> {
    /// Where point `i` is along an axis.
    #[inline]
    fn along(&self, i: usize, axis: usize) -> f32 {
        let p = self.positions[axis * self.count + i];
        match (self.of, axis) {
            (None, _) => p,
            (Some([nx, ..]), 0) => (i % nx) as f32 + p,
            (Some([nx, ny, _]), 1) => (i / nx % ny) as f32 + p,
            (Some([nx, ny, _]), _) => (i / (nx * ny)) as f32 + p,
        }
    }

    #[inline]
    fn at(&self, i: usize) -> [f32; 3] {
        [self.along(i, 0), self.along(i, 1), self.along(i, 2)]
    }
}

/// Calls `f` with the number of every chunk of points, and that chunk of each of the lists in `data`.
fn by_points(
    cpu: &Cpu,
    data: &mut [f32],
    points: usize,
    f: impl Fn(usize, &mut [&mut [f32]]) + Send + Sync,
) -> Result<()> {
    let tasks = points.div_ceil(POINTS);
    let lists = data.len() / points.max(1);
    let mut chunks: Vec<Vec<&mut [f32]>> = memory::room(tasks)?;
    for _ in 0..tasks {
        chunks.push(memory::room(lists)?);
    }
    for list in data.chunks_mut(points.max(1)) {
        for (chunk, part) in chunks.iter_mut().zip(list.chunks_mut(POINTS)) {
            chunk.push(part);
        }
    }
    if cpu.threads() == 1 {
        chunks.iter_mut().enumerate().for_each(|(task, chunk)| f(task, chunk));
    } else {
        cpu.install(|| chunks.par_iter_mut().enumerate().for_each(|(task, c)| f(task, c)));
    }
    Ok(())
}

/// The values of the voxels of a cell.
#[inline]
fn corners(image: &[f32], dims: Dims, cell: &Cell) -> [[[f32; 2]; 2]; 2] {
    let [nx, ny, _] = dims;
    cell.ends[2].map(|z| cell.ends[1].map(|y| cell.ends[0].map(|x| image[x + nx * (y + ny * z)])))
}

/// The interpolated value, always in this order.
#[inline]
fn value(v: &[[[f32; 2]; 2]; 2], w: &[[f32; 2]; 3]) -> f32 {
    let row = |r: &[f32; 2]| w[0][0] * r[0] + w[0][1] * r[1];
    let plane = |p: &[[f32; 2]; 2]| w[1][0] * row(&p[0]) + w[1][1] * row(&p[1]);
    w[2][0] * plane(&v[0]) + w[2][1] * plane(&v[1])
}

/// Its derivatives.
#[inline]
fn slopes(v: &[[[f32; 2]; 2]; 2], w: &[[f32; 2]; 3], inside: [bool; 3]) -> [f32; 3] {
    let mut slopes = [0.0; 3];
    for a in 0..3 {
        if inside[a] {
            let mut along = *w;
            along[a] = [-1.0, 1.0];
            slopes[a] = value(v, &along);
        }
    }
    slopes
}

impl Cpu {
    /// Values at points.
    fn gathered(
        &self,
        image: &[f32],
        (dims, beyond): (Dims, Beyond),
        points: Points<'_>,
        voxels: usize,
        out: &mut [f32],
    ) -> Result<()> {
        by_points(self, out, points.count, |task, out| {
            for k in 0..out.first().map_or(0, |first| first.len()) {
                let cell = Cell::new(points.at(task * POINTS + k), dims, beyond);
                for (out, image) in out.iter_mut().zip(image.chunks_exact(voxels)) {
                    out[k] = cell
                        .as_ref()
                        .map_or(0.0, |c| value(&corners(image, dims, c), &c.weights()));
                }
            }
        })
    }

    /// Derivatives of values at points, times moments.
    fn gathered_slopes(
        &self,
        image: &[f32],
        (dims, beyond): (Dims, Beyond),
        points: Points<'_>,
        voxels: usize,
        moments: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        by_points(self, out, points.count, |task, out| {
            for k in 0..out.first().map_or(0, |first| first.len()) {
                let point = task * POINTS + k;
                let mut sum = [0.0f32; 3];
                if let Some(cell) = Cell::new(points.at(point), dims, beyond) {
                    let weights = cell.weights();
                    let of_component =
                        image.chunks_exact(voxels).zip(moments.chunks_exact(points.count));
                    for (image, moments) in of_component {
                        let found = slopes(&corners(image, dims, &cell), &weights, cell.inside);
                        for (sum, slope) in sum.iter_mut().zip(found) {
                            *sum += moments[point] * slope;
                        }
                    }
                }
                for (out, sum) in out.iter_mut().zip(sum) {
                    out[k] = sum;
                }
            }
        })
    }
}

/// Adds what points of a chunk give to some slices of the grid, of which the first voxel is `first`.
fn add(
    sums: &mut [i64],
    first: usize,
    points: (Points<'_>, std::ops::Range<usize>),
    values: &[f32],
    (dims, beyond): (Dims, Beyond),
    unit: f64,
    (axis, slices): (usize, std::ops::Range<usize>),
) {
    let [nx, ny, _] = dims;
    let (points, range) = points;
    for i in range {
        let Some((ends, ..)) = along(points.along(i, axis), dims[axis], beyond) else { continue };
        if !slices.contains(&ends[0]) && !slices.contains(&ends[1]) {
            continue;
        }
        let Some(cell) = Cell::new(points.at(i), dims, beyond) else { continue };
        let (w, v) = (cell.weights(), f64::from(values[i]) * unit);
        for (&z, &wz) in cell.ends[2].iter().zip(&w[2]) {
            for (&y, &wy) in cell.ends[1].iter().zip(&w[1]) {
                for (&x, &wx) in cell.ends[0].iter().zip(&w[0]) {
                    if !slices.contains(&[x, y, z][axis]) {
                        continue;
                    }
                    let units = v * f64::from(wz * wy * wx) + MIDDLE;
                    let units = units.to_bits().wrapping_sub(MIDDLE.to_bits()) as i64;
                    let sum = &mut sums[x + nx * (y + ny * z) - first];
                    *sum = sum.wrapping_add(units);
                }
            }
        }
    }
}

impl Splat for Cpu {
    fn splat(
        &self,
        values: &CpuBuffer<f32>,
        positions: &CpuBuffer<f32>,
        of: Option<Dims>,
        dims: Dims,
        beyond: Beyond,
        _: SplatScheme,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(dims, positions.len(), of, out.len(), values.len())?;
        let Extent { points: count, voxels, components } = extent;
        let found =
            self.reduce(&[values], &[Reduction::MaxAbs(0), Reduction::CountNonFinite(0)])?;
        let unit = units(found[0], found[1], bits_for(count));
        let back = 1.0 / unit;
        let (values, points) =
            (values.as_slice(), Points { positions: positions.as_slice(), count, of });
        let axis = (0..3).rev().find(|&a| dims[a] > 1).unwrap_or(2);
        let slice = dims[..axis].iter().product::<usize>();
        // Which slices the points of each chunk touch.
        let chunks = count.div_ceil(POINTS);
        let range_of = |chunk: usize| chunk * POINTS..count.min((chunk + 1) * POINTS);
        let touched = self.collect(chunks, |chunk| {
            let ends = range_of(chunk)
                .filter_map(|i| along(points.along(i, axis), dims[axis], beyond))
                .map(|(ends, ..)| ends);
            ends.fold([usize::MAX, 0], |[low, high], [a, b]| {
                [low.min(a.min(b)), high.max(a.max(b))]
            })
        });
        for c in 0..components {
            let values = &values[c * count..][..count];
            let out = &mut out.as_mut_slice()[c * voxels..][..voxels];
            self.chunks_mut(out, SLICES * slice, |task, out| {
                let first = task * SLICES * slice;
                let slices = task * SLICES..task * SLICES + out.len() / slice;
                let mut sums = vec![0i64; out.len()];
                for (chunk, &[low, high]) in touched.iter().enumerate() {
                    if low < slices.end && high >= slices.start {
                        let of_chunk = (points, range_of(chunk));
                        let space = (axis, slices.clone());
                        add(&mut sums, first, of_chunk, values, (dims, beyond), unit, space);
                    }
                }
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = (sum as f64 * back) as f32;
                }
            });
        }
        Ok(())
    }

    fn gather(
        &self,
        image: &CpuBuffer<f32>,
        dims: Dims,
        beyond: Beyond,
        positions: &CpuBuffer<f32>,
        of: Option<Dims>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(dims, positions.len(), of, image.len(), out.len())?;
        let points = Points { positions: positions.as_slice(), count: extent.points, of };
        let voxels = extent.voxels;
        self.gathered(image.as_slice(), (dims, beyond), points, voxels, out.as_mut_slice())
    }

    fn gather_with_slopes(
        &self,
        image: &CpuBuffer<f32>,
        dims: Dims,
        beyond: Beyond,
        positions: &CpuBuffer<f32>,
        of: Option<Dims>,
        moments: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
        slopes: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(dims, positions.len(), of, image.len(), out.len())?;
        check_slopes(&extent, moments.len(), slopes.len())?;
        let points = Points { positions: positions.as_slice(), count: extent.points, of };
        let (image, space, voxels) = (image.as_slice(), (dims, beyond), extent.voxels);
        self.gathered(image, space, points, voxels, out.as_mut_slice())?;
        let (moments, slopes) = (moments.as_slice(), slopes.as_mut_slice());
        self.gathered_slopes(image, space, points, voxels, moments, slopes)
    }
}
