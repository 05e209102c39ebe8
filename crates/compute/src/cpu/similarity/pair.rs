//! Joint histograms of two images on one grid, and the slope of a function of them.
//!
//! Histograms are counted in fixed point, with 2^31 units for the largest weight, so that they do not
//! depend on how the voxels are shared among the threads. An entry is wrong by at most half a unit for
//! each of its voxels, beside the rounding of the windows.

use crate::cpu::histogram::windows::{Columns, dispatch, place, slopes as window_slopes, weights};
use crate::cpu::lanes::{LANES, Lanes};
use crate::cpu::{Cpu, CpuBuffer, Simd};
use crate::ops::histogram::{Binning, ParzenBins};

/// The voxels of a task of slopes.
const TASK: usize = 1 << 15;
/// And of a histogram at least.
const FEWEST: usize = 1 << 17;
/// Units of the largest weight.
const UNITS: f64 = (1u64 << 31) as f64;
/// Tables of at most so many counters are had several times.
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

/// The lowest of the four entries that sixteen voxels touch, the place between the middle two, and
/// which values are within the range.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn entries<L: Lanes>(pair: &Pair<'_>, at: usize) -> (L::Int, L, L::Mask) {
    // SAFETY: the caller's; loads are of arrays of sixteen.
    unsafe {
        let rows = pair.rows;
        let f = L::load(sixteen(pair.fixed, at).as_ptr());
        let m = L::load(sixteen(pair.moving, at).as_ptr());
        let row = f.sub(L::splat(rows.low)).mul(L::splat(rows.per_value));
        let row = row.max(L::splat(0.0)).min(L::splat(rows.last)).trunc();
        let (column, t, within) = place(&pair.columns, m);
        (L::int_add(L::int_mul(row, L::int_splat(rows.width)), column), t, within)
    }
}

/// The sums of weights, given the largest.
pub(super) fn histogram(cpu: &Cpu, pair: &Pair<'_>, most: f64, entries: usize) -> Vec<f64> {
    if !(most > 0.0 && most.is_finite()) {
        return vec![0.0; entries];
    }
    let scale = (UNITS / most) as f32;
    let n = pair.fixed.len();
    let each = if entries <= SMALL { 4 } else { 1 };
    let size = n.div_ceil(each * cpu.threads()).max(FEWEST);
    let parts = cpu.collect(n.div_ceil(size), |task| {
        let range = task * size..n.min((task + 1) * size);
        // Neighbours often fall into the same entries, and would wait for each other's sum.
        let copies = if entries <= SMALL { 2 } else { 1 };
        let mut counts = vec![0u64; copies * entries];
        count(cpu.simd(), pair, range, scale, &mut counts);
        let (sums, other) = counts.split_at_mut(entries);
        sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += *other);
        counts.truncate(entries);
        counts
    });
    let mut sums = vec![0u64; entries];
    for part in &parts {
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    let unit = 1.0 / f64::from(scale);
    sums.into_iter().map(|sum| sum as f64 * unit).collect()
}

/// Counts voxels; `counts` are one or two tables.
fn count(
    simd: Simd,
    pair: &Pair<'_>,
    range: std::ops::Range<usize>,
    scale: f32,
    counts: &mut [u64],
) {
    dispatch!(simd, count_kernel, (
        pair: &Pair<'_>,
        range: std::ops::Range<usize>,
        scale: f32,
        counts: &mut [u64],
    ));
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn count_kernel<L: Lanes>(
    pair: &Pair<'_>,
    range: std::ops::Range<usize>,
    scale: f32,
    counts: &mut [u64],
) {
    let two = counts.len() >= 2 * (pair.rows.last as usize + 1) * pair.rows.width as usize;
    let half = if two { counts.len() / 2 } else { 0 };
    let (even, odd) = (0, half);
    for at in range.clone().step_by(LANES) {
        // SAFETY: the instruction set is the caller's; loads are of arrays of sixteen.
        let (first, taps) = unsafe {
            let (first, t, _) = entries::<L>(pair, at);
            let mut w = L::splat(scale);
            if let Some(weights) = pair.weights {
                w = w.mul(L::load(sixteen(weights, at).as_ptr()));
            }
            if range.end - at < LANES {
                w = w.keep(L::first(range.end - at));
            }
            let b = weights(t);
            let mut units = [[0; LANES]; 4];
            for k in 0..4 {
                units[k] = L::int_to_array(b[k].mul(w).add(L::splat(0.5)).trunc());
            }
            (L::int_to_array(first), units)
        };
        for l in 0..LANES {
            let table = if l % 2 == 0 { even } else { odd };
            if let Some(four) = counts[table..].get_mut(first[l] as usize..first[l] as usize + 4) {
                for k in 0..4 {
                    four[k] += taps[k][l] as u64;
                }
            }
        }
    }
}

/// Writes the slope of the function whose derivatives are in `table`.
pub(super) fn slopes(cpu: &Cpu, pair: &Pair<'_>, table: &[f32], slope: &mut [f32]) {
    cpu.chunks_mut(slope, TASK, |task, out| {
        of_chunk(cpu.simd(), pair, table, task * TASK, out);
    });
}

/// The slope from voxel `first` on.
fn of_chunk(simd: Simd, pair: &Pair<'_>, table: &[f32], first: usize, out: &mut [f32]) {
    // The kernel reads entries of the table that follow from the rows and columns.
    assert!(table.len() >= (pair.rows.last as usize + 1) * pair.rows.width as usize);
    dispatch!(simd, slope_kernel, (
        pair: &Pair<'_>,
        table: &[f32],
        first: usize,
        out: &mut [f32],
    ));
}

/// # Safety
/// As [`Lanes`]; `table` must hold `bins x columns` entries.
#[inline(always)]
unsafe fn slope_kernel<L: Lanes>(pair: &Pair<'_>, table: &[f32], first: usize, out: &mut [f32]) {
    for (i, out) in out.chunks_mut(LANES).enumerate() {
        let at = first + i * LANES;
        // SAFETY: the instruction set is the caller's; loads are of arrays of sixteen; rows and
        // columns are held within the table.
        let values = unsafe {
            let (entry, t, within) = entries::<L>(pair, at);
            let d = window_slopes(t);
            let mut slope = L::splat(0.0);
            for k in 0..4 {
                slope = slope.add(L::gather(table.as_ptr().add(k), entry).mul(d[k]));
            }
            let mut slope = slope.mul(L::splat(pair.columns.per_value)).keep(within);
            if let Some(weights) = pair.weights {
                slope = slope.mul(L::load(sixteen(weights, at).as_ptr()));
            }
            slope.to_array()
        };
        out.copy_from_slice(&values[..out.len()]);
    }
}
