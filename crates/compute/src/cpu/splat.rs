//! Interpolation at points and its adjoint on the CPU.

use rayon::prelude::*;

use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::flow::SINGULAR;
use crate::ops::reduce::Reduction;
use crate::ops::splat::{
    Along, Extent, Lattice, ORIGIN_NEAR, ORIGIN_STEPS, SplatScheme, Spline, around, bits_for,
    check, check_derivatives, check_origins, units,
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
pub(super) struct Places<'a> {
    positions: &'a [f32],
    count: usize,
    of: Option<Dims>,
}

impl<'a> Places<'a> {
    /// Positions of this many points, or displacements of a grid.
    pub(super) fn new(positions: &'a [f32], count: usize, of: Option<Dims>) -> Self {
        Self { positions, count, of }
    }

    /// Their number.
    pub(super) fn count(&self) -> usize {
        self.count
    }

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
    pub(super) fn at(&self, i: usize) -> [f32; 3] {
        [self.along(i, 0), self.along(i, 1), self.along(i, 2)]
    }
}

/// Calls `f` with the first point of every chunk, and that chunk of each of the lists in `data`.
pub(super) fn by_points(
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
        chunks.iter_mut().enumerate().for_each(|(task, chunk)| f(task * POINTS, chunk));
    } else {
        cpu.install(|| chunks.par_iter_mut().enumerate().for_each(|(task, c)| f(task * POINTS, c)));
    }
    Ok(())
}

/// The interpolated value, always in this order.
#[inline(always)]
pub(super) fn value<const N: usize>(image: &[f32], dims: Dims, cell: &[Along<N>; 3]) -> f32 {
    let [nx, ny, _] = dims;
    let mut sum = 0.0;
    for (&z, wz) in cell[2].index.iter().zip(&cell[2].weight) {
        let mut plane = 0.0;
        for (&y, wy) in cell[1].index.iter().zip(&cell[1].weight) {
            let row = nx * (y + ny * z);
            let mut line = 0.0;
            for (&x, wx) in cell[0].index.iter().zip(&cell[0].weight) {
                line += wx * image[row + x];
            }
            plane += wy * line;
        }
        sum += wz * plane;
    }
    sum
}

/// The same with derivatives instead of the weights along x, along y and along z, each in that order.
#[inline(always)]
pub(super) fn derivatives_of<const N: usize>(
    image: &[f32],
    dims: Dims,
    cell: &[Along<N>; 3],
) -> [f32; 3] {
    let ([nx, ny, _], [x, y, z]) = (dims, cell);
    let mut sums = [0.0f32; 3];
    for k in 0..N {
        let mut planes = [0.0f32; 3];
        for j in 0..N {
            let row = nx * (y.index[j] + ny * z.index[k]);
            let (mut line, mut along) = (0.0, 0.0);
            for i in 0..N {
                let value = image[row + x.index[i]];
                line += x.weight[i] * value;
                along += x.derivative[i] * value;
            }
            planes[0] += y.weight[j] * along;
            planes[1] += y.derivative[j] * line;
            planes[2] += y.weight[j] * line;
        }
        sums[0] += z.weight[k] * planes[0];
        sums[1] += z.weight[k] * planes[1];
        sums[2] += z.derivative[k] * planes[2];
    }
    sums
}

/// An image with the grid that points see.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) values: &'a [f32],
    pub(super) voxels: usize,
    pub(super) lattice: Lattice,
}

impl Cpu {
    /// Values at points.
    fn gathered<const N: usize>(
        &self,
        field: Field<'_>,
        points: Places<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let Lattice { dims, beyond, .. } = field.lattice;
        by_points(self, out, points.count, |first, out| {
            for k in 0..out.first().map_or(0, |first| first.len()) {
                let cell = around::<N>(points.at(first + k), dims, beyond);
                for (out, image) in out.iter_mut().zip(field.values.chunks_exact(field.voxels)) {
                    out[k] = cell.as_ref().map_or(0.0, |c| value(image, dims, c));
                }
            }
        })
    }

    /// Derivatives of values at points, times moments.
    fn gathered_gradients<const N: usize>(
        &self,
        field: Field<'_>,
        points: Places<'_>,
        moments: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let Lattice { dims, beyond, .. } = field.lattice;
        by_points(self, out, points.count, |first, out| {
            for k in 0..out.first().map_or(0, |first| first.len()) {
                let point = first + k;
                let mut sum = [0.0f32; 3];
                if let Some(cell) = around::<N>(points.at(point), dims, beyond) {
                    let images = field.values.chunks_exact(field.voxels);
                    for (image, moments) in images.zip(moments.chunks_exact(points.count)) {
                        for (sum, derivative) in
                            sum.iter_mut().zip(derivatives_of(image, dims, &cell))
                        {
                            *sum += moments[point] * derivative;
                        }
                    }
                }
                for (out, sum) in out.iter_mut().zip(sum) {
                    out[k] = sum;
                }
            }
        })
    }

    /// Fixed-point units per value, for the values of this many points.
    fn units_of(&self, values: &CpuBuffer<f32>, count: usize) -> Result<f64> {
        let what = [Reduction::MaxAbs(0), Reduction::CountNonFinite(0)];
        let found = self.reduce(&[values], &what)?;
        Ok(units(found[0], found[1], bits_for(count)))
    }

    /// Sums at voxels.
    fn splatted<const N: usize>(
        &self,
        values: &CpuBuffer<f32>,
        points: Places<'_>,
        lattice: Lattice,
        extent: Extent,
        out: &mut [f32],
    ) -> Result<()> {
        let Extent { points: count, voxels, components } = extent;
        let unit = self.units_of(values, count)?;
        let back = 1.0 / unit;
        let (values, dims) = (values.as_slice(), lattice.dims);
        let axis = (0..3).rev().find(|&a| dims[a] > 1).unwrap_or(2);
        let slice = dims[..axis].iter().product::<usize>();
        let (space, tasks) = (Space { lattice, axis }, dims[axis].div_ceil(SLICES));
        let chunks = count.div_ceil(POINTS);
        let sorted =
            self.try_collect(chunks, |chunk| Sorted::new::<N>(points, chunk, &space, tasks))?;
        for c in 0..components {
            let values = &values[c * count..][..count];
            let out = &mut out[c * voxels..][..voxels];
            self.chunks_mut(out, SLICES * slice, |task, out| {
                let first = task * SLICES * slice;
                let slices = task * SLICES..task * SLICES + out.len() / slice;
                let mut sums = vec![0i64; out.len()];
                for chunk in &sorted {
                    let numbers = (points, chunk.of_task(task));
                    add::<N>(&mut sums, first, numbers, values, unit, &space, &slices);
                }
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = (sum as f64 * back) as f32;
                }
            });
        }
        Ok(())
    }
}

impl Cpu {
    /// Adds sums at the voxels that points reach.
    fn added<const N: usize>(
        &self,
        values: &CpuBuffer<f32>,
        points: Places<'_>,
        lattice: Lattice,
        extent: Extent,
        out: &mut [f32],
    ) -> Result<()> {
        let Extent { points: count, voxels, components } = extent;
        let unit = self.units_of(values, count)?;
        let back = 1.0 / unit;
        let (values, Lattice { dims, beyond, .. }) = (values.as_slice(), lattice);
        // What each point gives to each of its voxels.
        let mut given: Vec<(u32, u32, f32)> = memory::room(count * N.pow(3))?;
        for i in 0..count {
            let Some(cell) = around::<N>(points.at(i), dims, beyond) else { continue };
            for (&z, &wz) in cell[2].index.iter().zip(&cell[2].weight) {
                for (&y, &wy) in cell[1].index.iter().zip(&cell[1].weight) {
                    for (&x, &wx) in cell[0].index.iter().zip(&cell[0].weight) {
                        let voxel = x + dims[0] * (y + dims[1] * z);
                        given.push((voxel as u32, i as u32, wz * wy * wx));
                    }
                }
            }
        }
        // Sums are of whole numbers, so that their order does not matter.
        self.install(|| given.par_sort_unstable_by_key(|g| g.0));
        for of_voxel in given.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(voxel, ..)) = of_voxel.first() else { continue };
            for c in 0..components {
                let of_point = |&(_, i, weight): &(u32, u32, f32)| {
                    let units = f64::from(values[c * count + i as usize]) * unit;
                    let units = units * f64::from(weight) + MIDDLE;
                    units.to_bits().wrapping_sub(MIDDLE.to_bits()) as i64
                };
                let sum = of_voxel.iter().map(of_point).fold(0i64, i64::wrapping_add);
                out[c * voxels + voxel as usize] += (sum as f64 * back) as f32;
            }
        }
        Ok(())
    }
}

/// The residual to a position at an origin, its square, and the step of Newton's method from there.
#[derive(Clone, Copy)]
struct Rest {
    square: f64,
    step: [f64; 3],
}

impl Rest {
    fn new<const N: usize>(field: Field<'_>, at: [f64; 3], to: [f64; 3]) -> Self {
        let Lattice { dims, beyond, .. } = field.lattice;
        let (mut r, mut m) = ([0.0; 3], [[0.0; 3]; 3]);
        let cell = around::<N>(at.map(|p| p as f32), dims, beyond);
        for (a, image) in field.values.chunks_exact(field.voxels).enumerate() {
            if let Some(cell) = &cell {
                r[a] = f64::from(value(image, dims, cell));
                m[a] = derivatives_of(image, dims, cell).map(f64::from);
            }
            r[a] += at[a] - to[a];
            m[a][a] += 1.0;
        }
        let minor = |a: usize, b: usize| {
            let ([a1, a2], [b1, b2]) = ([(a + 1) % 3, (a + 2) % 3], [(b + 1) % 3, (b + 2) % 3]);
            m[a1][b1] * m[a2][b2] - m[a1][b2] * m[a2][b1]
        };
        let c = [0, 1, 2].map(|a| [minor(a, 0), minor(a, 1), minor(a, 2)]);
        let determinant = m[0][0] * c[0][0] + m[0][1] * c[0][1] + m[0][2] * c[0][2];
        let solved = |a: usize| -(c[0][a] * r[0] + c[1][a] * r[1] + c[2][a] * r[2]) / determinant;
        let regular = determinant.abs() > f64::from(SINGULAR);
        let step = if regular { [0, 1, 2].map(solved) } else { r.map(|r| -r) };
        Self { square: r[0] * r[0] + r[1] * r[1] + r[2] * r[2], step }
    }
}

/// The origin of a position, from a start on.
fn origin<const N: usize>(field: Field<'_>, to: [f64; 3], mut at: [f64; 3]) -> [f64; 3] {
    let mut rest = Rest::new::<N>(field, at, to);
    for _ in 0..ORIGIN_STEPS {
        if rest.square <= ORIGIN_NEAR * ORIGIN_NEAR {
            break;
        }
        let next = [0, 1, 2].map(|a| at[a] + rest.step[a]);
        let found = Rest::new::<N>(field, next, to);
        if found.square < rest.square {
            (at, rest) = (next, found);
        } else {
            rest.step = rest.step.map(|s| 0.5 * s);
        }
    }
    at
}

/// The points of a chunk by the tasks that they give something to: task `t` has
/// `order[starts[t]..starts[t + 1]]`, numbers counted from the first point of the chunk.
struct Sorted {
    first: usize,
    starts: Vec<u32>,
    order: Vec<u16>,
}

impl Sorted {
    fn new<const N: usize>(
        points: Places<'_>,
        chunk: usize,
        space: &Space,
        tasks: usize,
    ) -> Result<Self> {
        let first = chunk * POINTS;
        let range = first..points.count.min(first + POINTS);
        // A point gives to every task that has one of its slices.
        let tasks_of = |i: usize| {
            let Lattice { dims, beyond, .. } = space.lattice;
            let p = points.along(i, space.axis);
            let mut tasks = [usize::MAX; N];
            if let Some(found) = Along::<N>::new(p, dims[space.axis], beyond) {
                for (k, &index) in found.index.iter().enumerate() {
                    let task = index / SLICES;
                    if !tasks[..k].contains(&task) {
                        tasks[k] = task;
                    }
                }
            }
            tasks
        };
        let each: Vec<_> = range.map(tasks_of).collect();
        let mut starts: Vec<u32> = memory::room(tasks + 1)?;
        starts.resize(tasks + 1, 0);
        for &task in each.iter().flatten().filter(|&&task| task < tasks) {
            starts[task + 1] += 1;
        }
        for task in 0..tasks {
            starts[task + 1] += starts[task];
        }
        let mut next = starts.clone();
        let entries = starts.last().map_or(0, |&n| n as usize);
        let mut order: Vec<u16> = memory::room(entries)?;
        order.resize(entries, 0);
        for (i, of) in each.iter().enumerate() {
            for &task in of.iter().filter(|&&task| task < tasks) {
                order[next[task] as usize] = i as u16;
                next[task] += 1;
            }
        }
        Ok(Self { first, starts, order })
    }

    fn of_task(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let range = self.starts[task] as usize..self.starts[task + 1] as usize;
        self.order[range].iter().map(|&i| self.first + usize::from(i))
    }
}

/// The grid that is added to.
#[derive(Clone, Copy)]
struct Space {
    lattice: Lattice,
    /// The last axis of more than one voxel.
    axis: usize,
}

/// Adds what points give to some slices of the grid, of which the first voxel is `first`.
fn add<const N: usize>(
    sums: &mut [i64],
    first: usize,
    (points, numbers): (Places<'_>, impl Iterator<Item = usize>),
    values: &[f32],
    unit: f64,
    space: &Space,
    slices: &std::ops::Range<usize>,
) {
    let Lattice { dims, beyond, .. } = space.lattice;
    let ([nx, ny, _], axis) = (dims, space.axis);
    for i in numbers {
        let Some(cell) = around::<N>(points.at(i), dims, beyond) else { continue };
        let v = f64::from(values[i]) * unit;
        for (&z, &wz) in cell[2].index.iter().zip(&cell[2].weight) {
            for (&y, &wy) in cell[1].index.iter().zip(&cell[1].weight) {
                for (&x, &wx) in cell[0].index.iter().zip(&cell[0].weight) {
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
        lattice: Lattice,
        _: SplatScheme,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), of, out.len(), values.len())?;
        let points = Places::new(positions.as_slice(), extent.points, of);
        let out = out.as_mut_slice();
        match lattice.spline {
            Spline::Linear => self.splatted::<2>(values, points, lattice, extent, out),
            Spline::Cubic => self.splatted::<4>(values, points, lattice, extent, out),
        }
    }

    fn add_splat(
        &self,
        values: &CpuBuffer<f32>,
        positions: &CpuBuffer<f32>,
        lattice: Lattice,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), None, out.len(), values.len())?;
        let points = Places::new(positions.as_slice(), extent.points, None);
        let out = out.as_mut_slice();
        match lattice.spline {
            Spline::Linear => self.added::<2>(values, points, lattice, extent, out),
            Spline::Cubic => self.added::<4>(values, points, lattice, extent, out),
        }
    }

    fn origins(
        &self,
        field: &CpuBuffer<f32>,
        lattice: Lattice,
        positions: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let count = check_origins(lattice, field.len(), positions.len(), out.len())?;
        let points = Places::new(positions.as_slice(), count, None);
        let values = field.as_slice();
        let field = Field { values, voxels: values.len() / 3, lattice };
        by_points(self, out.as_mut_slice(), count, |first, out| {
            for k in 0..out.first().map_or(0, |first| first.len()) {
                let to = points.at(first + k).map(f64::from);
                let start = [0, 1, 2].map(|a| out.get(a).map_or(0.0, |o| f64::from(o[k])));
                let found = match lattice.spline {
                    Spline::Linear => origin::<2>(field, to, start),
                    Spline::Cubic => origin::<4>(field, to, start),
                };
                for (out, found) in out.iter_mut().zip(found) {
                    out[k] = found as f32;
                }
            }
        })
    }

    fn gather(
        &self,
        image: &CpuBuffer<f32>,
        lattice: Lattice,
        positions: &CpuBuffer<f32>,
        of: Option<Dims>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), of, image.len(), out.len())?;
        let points = Places::new(positions.as_slice(), extent.points, of);
        let field = Field { values: image.as_slice(), voxels: extent.voxels, lattice };
        match lattice.spline {
            Spline::Linear => self.gathered::<2>(field, points, out.as_mut_slice()),
            Spline::Cubic => self.gathered::<4>(field, points, out.as_mut_slice()),
        }
    }

    fn gather_with_gradients(
        &self,
        image: &CpuBuffer<f32>,
        lattice: Lattice,
        positions: &CpuBuffer<f32>,
        of: Option<Dims>,
        moments: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
        derivatives: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), of, image.len(), out.len())?;
        check_derivatives(&extent, moments.len(), derivatives.len())?;
        self.gather(image, lattice, positions, of, out)?;
        let points = Places::new(positions.as_slice(), extent.points, of);
        let field = Field { values: image.as_slice(), voxels: extent.voxels, lattice };
        let (moments, derivatives) = (moments.as_slice(), derivatives.as_mut_slice());
        match lattice.spline {
            Spline::Linear => self.gathered_gradients::<2>(field, points, moments, derivatives),
            Spline::Cubic => self.gathered_gradients::<4>(field, points, moments, derivatives),
        }
    }
}
