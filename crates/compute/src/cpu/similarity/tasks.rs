//! Blocks of rows and slices in which a similarity and its derivative are found, and what windows need beyond them.

use std::ops::Range;

use rayon::prelude::*;

use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, Lanes, Vectors};
use crate::error::Result;
use crate::host::zeroed;

/// A block of rows and slices, and what is found there: for each slice the rows of each derivative, and
/// the energy of each of them.
pub(super) struct Task<'a, const N: usize> {
    pub(super) rows: Range<usize>,
    pub(super) slices: Range<usize>,
    pub(super) derivatives: [Vec<&'a mut [f32]>; N],
    pub(super) energy: Vec<&'a mut [f64]>,
}

/// What decides how a grid is cut into tasks.
pub(super) struct Cut {
    pub(super) dims: Dims,
    /// How far what is found at a row depends on others along y and z.
    pub(super) reach: [usize; 2],
    /// Bytes that a task shall keep.
    pub(super) cache: usize,
    /// Bytes that are kept of a row of voxels, and of one of windows.
    pub(super) bytes: [usize; 2],
}

/// Does all tasks, which write the derivatives; the sum of their energies, in the order of the rows.
pub(super) fn run<const N: usize>(
    cpu: &Cpu,
    cut: &Cut,
    derivatives: [&mut [f32]; N],
    work: impl Fn(&mut Task<'_, N>) + Sync,
) -> Result<f64> {
    let ([nx, ny, nz], [ry, rz], [first, second]) = (cut.dims, cut.reach, cut.bytes);
    // As many rows as fit in the cache, but enough that those about them are not most of the work.
    let fitting = cut.cache.saturating_sub(2 * ry * first) / (first + second);
    let tiles = ny.div_ceil(fitting.max(4 * ry).max(8));
    let rows = ny.div_ceil(tiles);
    let tiles = ny.div_ceil(rows);
    let wanted = (3 * cpu.threads()).div_ceil(tiles);
    let slices = if cpu.threads() == 1 { nz } else { nz.div_ceil(wanted).max(4 * rz).max(1) };
    let mut energies = zeroed::<f64>(ny * nz)?;
    let mut tasks: Vec<Task<'_, N>> = (0..nz.div_ceil(slices) * tiles)
        .map(|task| {
            let (y, z) = (task % tiles * rows, task / tiles * slices);
            let (rows, slices) = (y..ny.min(y + rows), z..nz.min(z + slices));
            Task { rows, slices, derivatives: [const { Vec::new() }; N], energy: Vec::new() }
        })
        .collect();
    for (z, energy) in energies.chunks_mut(ny).enumerate() {
        for (task, energy) in tasks[z / slices * tiles..].iter_mut().zip(energy.chunks_mut(rows)) {
            task.energy.push(energy);
        }
    }
    for (which, derivative) in derivatives.into_iter().enumerate() {
        for (z, slice) in derivative.chunks_mut(nx * ny).enumerate() {
            let parts = slice.chunks_mut(nx * rows);
            for (task, part) in tasks[z / slices * tiles..].iter_mut().zip(parts) {
                task.derivatives[which].push(part);
            }
        }
    }
    if cpu.threads() == 1 {
        tasks.iter_mut().for_each(work);
    } else {
        cpu.install(|| tasks.par_iter_mut().with_max_len(1).for_each(&work));
    }
    drop(tasks);
    Ok(energies.iter().sum())
}

/// The places about some, within the axis.
pub(super) fn about(places: &Range<usize>, radius: usize, length: usize) -> Range<usize> {
    places.start.saturating_sub(radius)..length.min(places.end + radius)
}

/// Group `g` of a row, padded beyond its end.
#[inline(always)]
pub(super) fn load<V: Vectors>(v: V, row: &[f32], g: usize, fill: f32) -> V::F {
    let from = row.get(g * LANES..).unwrap_or(&[]);
    match from.first_chunk::<LANES>() {
        Some(all) => v.load(all),
        None => {
            let mut some: Lanes = [fill; LANES];
            some[..from.len()].copy_from_slice(from);
            v.load(&some)
        }
    }
}
