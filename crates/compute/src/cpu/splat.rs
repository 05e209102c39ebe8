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

/// The points of a chunk by the tasks that they give something to: task `t` has
/// `order[starts[t]..starts[t + 1]]`, numbers counted from the first point of the chunk.
struct Sorted {
    first: usize,
    starts: Vec<u32>,
    order: Vec<u16>,
}

impl Sorted {
    fn new(points: Points<'_>, chunk: usize, space: &Space, tasks: usize) -> Self {
        let first = chunk * POINTS;
        let range = first..points.count.min(first + POINTS);
        // A point gives to the task of its first slice, and to that of its second one where that is another.
        let tasks_of = |i: usize| {
            let found = along(points.along(i, space.axis), space.dims[space.axis], space.beyond);
            found.map(|(ends, ..)| ends.map(|end| end / SLICES))
        };
        let each: Vec<_> = range.map(tasks_of).collect();
        let mut starts = vec![0u32; tasks + 1];
        for [a, b] in each.iter().flatten() {
            starts[a + 1] += 1;
            starts[b + 1] += u32::from(a != b);
        }
        for task in 0..tasks {
            starts[task + 1] += starts[task];
        }
        let mut next = starts.clone();
        let mut order = vec![0u16; starts.last().map_or(0, |&n| n as usize)];
        for (i, of) in each.iter().enumerate() {
            let Some([a, b]) = *of else { continue };
            for task in [Some(a), (a != b).then_some(b)].into_iter().flatten() {
                order[next[task] as usize] = i as u16;
                next[task] += 1;
            }
        }
        Self { first, starts, order }
    }

    fn of_task(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let range = self.starts[task] as usize..self.starts[task + 1] as usize;
        self.order[range].iter().map(|&i| self.first + usize::from(i))
    }
}

/// The grid that is added to.
#[derive(Clone, Copy)]
struct Space {
    dims: Dims,
    beyond: Beyond,
    /// The last axis of more than one voxel.
    axis: usize,
}

/// Adds what points give to some slices of the grid, of which the first voxel is `first`.
fn add(
    sums: &mut [i64],
    first: usize,
    (points, numbers): (Points<'_>, impl Iterator<Item = usize>),
    values: &[f32],
    unit: f64,
    space: &Space,
    slices: &std::ops::Range<usize>,
) {
    let ([nx, ny, _], axis) = (space.dims, space.axis);
    for i in numbers {
        let Some(cell) = Cell::new(points.at(i), space.dims, space.beyond) else { continue };
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
        let what = [Reduction::MaxAbs(0), Reduction::CountNonFinite(0)];
        let found = self.reduce(&[values], &what)?;
        let unit = units(found[0], found[1], bits_for(count));
        let back = 1.0 / unit;
        let values = values.as_slice();
        let points = Points { positions: positions.as_slice(), count, of };
        let axis = (0..3).rev().find(|&a| dims[a] > 1).unwrap_or(2);
        let slice = dims[..axis].iter().product::<usize>();
        let (space, tasks) = (Space { dims, beyond, axis }, dims[axis].div_ceil(SLICES));
        let chunks = count.div_ceil(POINTS);
        let sorted = self.collect(chunks, |chunk| Sorted::new(points, chunk, &space, tasks));
        for c in 0..components {
            let values = &values[c * count..][..count];
            let out = &mut out.as_mut_slice()[c * voxels..][..voxels];
            self.chunks_mut(out, SLICES * slice, |task, out| {
                let first = task * SLICES * slice;
                let slices = task * SLICES..task * SLICES + out.len() / slice;
                let mut sums = vec![0i64; out.len()];
                for chunk in &sorted {
                    let numbers = (points, chunk.of_task(task));
                    add(&mut sums, first, numbers, values, unit, &space, &slices);
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
