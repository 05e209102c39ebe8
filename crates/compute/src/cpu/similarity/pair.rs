//! Joint histograms of two images on one grid, and the derivative of a function of them.
//!
//! Histograms are counted in fixed point, with 2^31 units for the largest weight, so that they do not
//! depend on how the voxels are shared among the threads. An entry is wrong by at most half a unit for
//! each of its voxels, beside the rounding of the windows.

use crate::cpu::histogram::windows::{Columns, derivatives as window_derivatives, place, weights};
use crate::cpu::simd::{LANE, LANES, Vectors, kernel};
use crate::cpu::{Cpu, CpuBuffer};
use crate::error::Result;
use crate::host::zeroed;
use crate::ops::histogram::{Binning, ParzenBins};
use voxalign_image::memory::collected;

/// The voxels of a task of derivatives.
const TASK: usize = 1 << 15;
/// And of a histogram at least.
const FEWEST: usize = 1 << 17;
/// Units of the largest weight.
const UNITS: f64 = (1u64 << 31) as f64;
/// Tables of at most this many counters are replicated.
const SMALL: usize = 1 << 15;

/// Two images and their bins.
pub(super) struct Pair<'a> {
    fixed: &'a [f32],
    moving: &'a [f32],
    weights: Option<&'a [f32]>,
    rows: Rows,
    columns: Columns,
}

/// Where values fall among the rows, as [`Binning::bin`] has it.
#[derive(Clone, Copy)]
struct Rows {
    low: f32,
    per_value: f32,
    last: f32,
    /// Entries of a row.
    width: i32,
}

impl<'a> Pair<'a> {
    pub(super) fn new(
        fixed: &'a CpuBuffer<f32>,
        moving: &'a CpuBuffer<f32>,
        weights: Option<&'a CpuBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
    ) -> Self {
        let span = rows.high - rows.low;
        Self {
            fixed: fixed.as_slice(),
            moving: moving.as_slice(),
            weights: weights.map(CpuBuffer::as_slice),
            rows: Rows {
                low: rows.low,
                per_value: if span > 0.0 { rows.bins as f32 / span } else { 0.0 },
                last: (rows.bins - 1) as f32,
                width: columns.count as i32,
            },
            columns: Columns::new(columns),
        }
    }
}

/// Sixteen voxels from `at` on; zeros after the end.
#[inline(always)]
fn sixteen(image: &[f32], at: usize) -> [f32; LANES] {
    let from = image.get(at..).unwrap_or(&[]);
    match from.first_chunk() {
        Some(all) => *all,
        None => {
            let mut some = [0.0; LANES];
            some[..from.len()].copy_from_slice(from);
            some
        }
    }
}

/// Sixteen weights; 0 where one is negative or not finite, so that sums and whole numbers made of them are
/// the same at every SIMD level.
#[inline(always)]
fn counted<V: Vectors>(v: V, weights: &[f32], at: usize) -> V::F {
    let (zero, infinity) = (v.splat(0.0), v.splat(f32::INFINITY));
    let w = v.load(&sixteen(weights, at));
    v.select(v.and(v.lt(zero, w), v.lt(w, infinity)), w, zero)
}

/// The lowest of the four entries that sixteen voxels touch, the place between the middle two, and
/// which values are within the range.
#[inline(always)]
fn entries<V: Vectors>(v: V, pair: &Pair<'_>, at: usize) -> (V::I, V::F, V::M) {
    let rows = pair.rows;
    let f = v.load(&sixteen(pair.fixed, at));
    let m = v.load(&sixteen(pair.moving, at));
    let row = v.mul(v.sub(f, v.splat(rows.low)), v.splat(rows.per_value));
    let row = v.to_int(v.min(v.max(row, v.splat(0.0)), v.splat(rows.last)));
    let (column, t, within) = place(v, &pair.columns, m);
    (v.add_int(v.mul_int(row, v.splat_int(rows.width)), column), t, within)
}

/// The sums of weights, given the largest.
pub(super) fn histogram(cpu: &Cpu, pair: &Pair<'_>, most: f64, entries: usize) -> Result<Vec<f64>> {
    if !(most > 0.0 && most.is_finite()) {
        return zeroed(entries);
    }
    let scale = (UNITS / most) as f32;
    let n = pair.fixed.len();
    let each = if entries <= SMALL { 4 } else { 1 };
    let size = n.div_ceil(each * cpu.threads()).max(FEWEST);
    let parts = cpu.try_collect(n.div_ceil(size), |task| {
        let range = task * size..n.min((task + 1) * size);
        // Neighbours often fall into the same entries, and would wait for each other's sum.
        let copies = if entries <= SMALL { 2 } else { 1 };
        let mut counts = zeroed::<u64>(copies * entries)?;
        count(cpu.simd(), pair, range, scale, &mut counts);
        let (sums, other) = counts.split_at_mut(entries);
        sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += *other);
        counts.truncate(entries);
        Ok(counts)
    })?;
    let mut sums = zeroed::<u64>(entries)?;
    for part in &parts {
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    let unit = 1.0 / f64::from(scale);
    Ok(collected(sums.into_iter().map(|sum| sum as f64 * unit))?)
}

kernel! {
    /// Counts voxels; `counts` are one or two tables.
    fn count<V>(
        v,
        pair: &Pair<'_>,
        range: std::ops::Range<usize>,
        scale: f32,
        counts: &mut [u64],
    ) {
        let two = counts.len() >= 2 * (pair.rows.last as usize + 1) * pair.rows.width as usize;
        let half = if two { counts.len() / 2 } else { 0 };
        let (even, odd) = (0, half);
        for at in range.clone().step_by(LANES) {
            let (entry, t, _) = entries(v, pair, at);
            let mut w = v.splat(scale);
            if let Some(weights) = pair.weights {
                w = v.mul(w, counted(v, weights, at));
            }
            if range.end - at < LANES {
                let within = v.lt(v.load(&LANE), v.splat((range.end - at) as f32));
                w = v.select(within, w, v.splat(0.0));
            }
            let b = weights(v, t);
            let mut taps = [[0; LANES]; 4];
            for k in 0..4 {
                v.store_int(v.to_int(v.add(v.mul(b[k], w), v.splat(0.5))), &mut taps[k]);
            }
            let mut first = [0; LANES];
            v.store_int(entry, &mut first);
            for l in 0..LANES {
                let table = if l % 2 == 0 { even } else { odd };
                let first = first[l] as usize;
                if let Some(four) = counts[table..].get_mut(first..first + 4) {
                    for k in 0..4 {
                        four[k] += taps[k][l] as u64;
                    }
                }
            }
        }
    }
}

/// Writes the derivative of the function whose derivatives are in `table`.
pub(super) fn derivatives(cpu: &Cpu, pair: &Pair<'_>, table: &[f32], derivative: &mut [f32]) {
    cpu.chunks_mut(derivative, TASK, |task, out| {
        of_chunk(cpu.simd(), pair, table, task * TASK, out);
    });
}

kernel! {
    /// The derivative from voxel `first` on.
    fn of_chunk<V>(v, pair: &Pair<'_>, table: &[f32], first: usize, out: &mut [f32]) {
        for (i, out) in out.chunks_mut(LANES).enumerate() {
            let at = first + i * LANES;
            let (entry, t, within) = entries(v, pair, at);
            let d = window_derivatives(v, t);
            let mut derivative = v.splat(0.0);
            for k in 0..4 {
                derivative = v.add(derivative, v.mul(v.gather(&table[k..], entry), d[k]));
            }
            let derivative = v.mul(derivative, v.splat(pair.columns.per_value));
            let mut derivative = v.select(within, derivative, v.splat(0.0));
            if let Some(weights) = pair.weights {
                derivative = v.mul(derivative, counted(v, weights, at));
            }
            let mut values = [0.0; LANES];
            v.store(derivative, &mut values);
            out.copy_from_slice(&values[..out.len()]);
        }
    }
}

/// Writes a spline of values, whose coefficients are in `table`, and its derivative.
pub(super) fn map(
    cpu: &Cpu,
    values: &[f32],
    columns: &ParzenBins,
    table: &[f32],
    out: [&mut [f32]; 2],
) {
    let columns = Columns::new(columns);
    cpu.chunks_mut_of(out, TASK, |task, out| {
        spline_of_chunk(cpu.simd(), &columns, values, table, task * TASK, out);
    });
}

kernel! {
    /// The spline and its derivative from voxel `first` on.
    fn spline_of_chunk<V>(
        v,
        columns: &Columns,
        values: &[f32],
        table: &[f32],
        first: usize,
        out: [&mut [f32]; 2],
    ) {
        let [mapped, derivatives] = out;
        let chunks = mapped.chunks_mut(LANES).zip(derivatives.chunks_mut(LANES));
        for (i, (mapped, derivatives)) in chunks.enumerate() {
            let (column, t, within) = place(v, columns, v.load(&sixteen(values, first + i * LANES)));
            let (b, d) = (weights(v, t), window_derivatives(v, t));
            let (mut value, mut derivative) = (v.splat(0.0), v.splat(0.0));
            for k in 0..4 {
                let coefficient = v.gather(&table[k..], column);
                value = v.add(value, v.mul(coefficient, b[k]));
                derivative = v.add(derivative, v.mul(coefficient, d[k]));
            }
            let derivative = v.mul(derivative, v.splat(columns.per_value));
            let (mut of_values, mut of_derivatives) = ([0.0; LANES], [0.0; LANES]);
            v.store(value, &mut of_values);
            v.store(v.select(within, derivative, v.splat(0.0)), &mut of_derivatives);
            mapped.copy_from_slice(&of_values[..mapped.len()]);
            derivatives.copy_from_slice(&of_derivatives[..derivatives.len()]);
        }
    }
}
