//! Joint histograms with cubic B-spline windows over the moving values, and their derivative.

use super::sampler::{Moving, PerMap, Prepared, dispatch};
use super::sums::{flush, outer};
use crate::cpu::Simd;
use crate::cpu::lanes::{LANES, Lanes};
use crate::ops::histogram::{ParzenBins, Run, SampleLayout};

/// Where values fall among the columns.
pub(in crate::cpu) struct Columns {
    low: f32,
    pub(in crate::cpu) per_value: f32,
    first: f32,
    last: f32,
    count: usize,
}

impl Columns {
    pub(in crate::cpu) fn new(bins: &ParzenBins) -> Self {
        Self {
            low: bins.low,
            per_value: bins.per_value(),
            first: ParzenBins::MARGIN as f32,
            last: (bins.count - 1 - ParzenBins::MARGIN) as f32,
            count: bins.count,
        }
    }
}

/// The lowest column of the four that sixteen values touch, their place between the middle two,
/// and which values are within the range (others are held at its ends).
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(in crate::cpu) unsafe fn place<L: Lanes>(c: &Columns, y: L) -> (L::Int, L, L::Mask) {
    // SAFETY: the caller's.
    unsafe {
        let u = y.sub(L::splat(c.low)).mul(L::splat(c.per_value)).add(L::splat(c.first));
        let (first, last) = (L::splat(c.first), L::splat(c.last));
        let within = L::and(first.le(u), u.le(last));
        let u = u.max(first).min(last);
        let i = u.trunc();
        (L::int_add(i, L::int_splat(-1)), u.sub(L::float(i)), within)
    }
}

/// The four weights of the cubic B-spline.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(in crate::cpu) unsafe fn weights<L: Lanes>(t: L) -> [L; 4] {
    // SAFETY: the caller's.
    unsafe {
        let one = L::splat(1.0);
        let sixth = L::splat(1.0 / 6.0);
        let s = one.sub(t);
        let (t2, s2) = (t.mul(t), s.mul(s));
        let (t3, s3) = (t2.mul(t), s2.mul(s));
        let half = L::splat(0.5);
        let two_thirds = L::splat(2.0 / 3.0);
        [
            s3.mul(sixth),
            two_thirds.sub(t2).add(t3.mul(half)),
            two_thirds.sub(s2).add(s3.mul(half)),
            t3.mul(sixth),
        ]
    }
}

/// The derivatives of the four weights.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(in crate::cpu) unsafe fn slopes<L: Lanes>(t: L) -> [L; 4] {
    // SAFETY: the caller's.
    unsafe {
        let one = L::splat(1.0);
        let half = L::splat(0.5);
        let three_halves = L::splat(1.5);
        let s = one.sub(t);
        let (t2, s2) = (t.mul(t), s.mul(s));
        [
            L::splat(0.0).sub(s2.mul(half)),
            t2.mul(three_halves).sub(t.add(t)),
            s.add(s).sub(s2.mul(three_halves)),
            t2.mul(half),
        ]
    }
}

/// Adds the joint histogram of some runs to `out`, `bins x columns`.
pub(super) fn histogram(
    simd: Simd,
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    columns: &ParzenBins,
    out: &mut [f64],
) {
    let columns = &Columns::new(columns);
    dispatch!(simd, histogram_kernel, (
        layout: &SampleLayout,
        runs: &[Run],
        moving: &Moving<'_>,
        map: &PerMap,
        columns: &Columns,
        out: &mut [f64],
    ));
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn histogram_kernel<L: Lanes>(
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    columns: &Columns,
    out: &mut [f64],
) {
    // Two rows in turn: neighbouring lanes often fall into the same column, and would wait for
    // each other's sum.
    let mut rows = [vec![0.0f32; columns.count], vec![0.0f32; columns.count]];
    for run in runs {
        let [even, odd] = &mut rows;
        // SAFETY: the instruction set is the caller's; the layout pads its arrays by a vector.
        unsafe {
            let prepared = Prepared::<L>::new(moving, layout, map, run);
            let end = run.start + run.len as usize;
            let mut at = run.start;
            while at < end {
                if let Some(v) = prepared.sample::<false>(at, (end - at).min(LANES)) {
                    let (column, t, _) = place(columns, v.y);
                    let b = weights(t);
                    let taps = [
                        b[0].mul(v.w).to_array(),
                        b[1].mul(v.w).to_array(),
                        b[2].mul(v.w).to_array(),
                        b[3].mul(v.w).to_array(),
                    ];
                    let column = L::int_to_array(column);
                    for l in 0..LANES {
                        let row = if l % 2 == 0 { &mut *even } else { &mut *odd };
                        let c = column[l] as usize;
                        if let Some(four) = row.get_mut(c..c + 4) {
                            for k in 0..4 {
                                four[k] += taps[k][l];
                            }
                        }
                    }
                }
                at += LANES;
            }
        }
        let bin = run.bin as usize;
        let target = &mut out[bin * columns.count..(bin + 1) * columns.count];
        for ((t, a), b) in target.iter_mut().zip(even.iter_mut()).zip(odd.iter_mut()) {
            *t += f64::from(*a) + f64::from(*b);
            *a = 0.0;
            *b = 0.0;
        }
    }
}

/// Adds the derivative, in the map, of a function of the joint histogram to `out`; `table` holds
/// the function's derivative in each entry.
#[allow(clippy::too_many_arguments)]
pub(super) fn gradient(
    simd: Simd,
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    columns: &ParzenBins,
    table: &[f32],
    out: &mut [f64; 12],
) {
    let columns = &Columns::new(columns);
    dispatch!(simd, gradient_kernel, (
        layout: &SampleLayout,
        runs: &[Run],
        moving: &Moving<'_>,
        map: &PerMap,
        columns: &Columns,
        table: &[f32],
        out: &mut [f64; 12],
    ));
}

/// # Safety
/// As [`Lanes`]; `table` must hold `bins x columns` entries.
#[inline(always)]
unsafe fn gradient_kernel<L: Lanes>(
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    columns: &Columns,
    table: &[f32],
    out: &mut [f64; 12],
) {
    for run in runs {
        let bin = run.bin as usize;
        let row = &table[bin * columns.count..(bin + 1) * columns.count];
        // SAFETY: the instruction set is the caller's; the layout pads its arrays by a vector; the
        // four columns of a value are within the row (`place` keeps them there).
        unsafe {
            let prepared = Prepared::<L>::new(moving, layout, map, run);
            let mut g = [L::splat(0.0); 12];
            let end = run.start + run.len as usize;
            let mut at = run.start;
            while at < end {
                if let Some(v) = prepared.sample::<true>(at, (end - at).min(LANES)) {
                    let (column, t, within) = place(columns, v.y);
                    let (b, d) = (weights(t), slopes(t));
                    let mut value = L::splat(0.0);
                    let mut slope = L::splat(0.0);
                    for k in 0..4 {
                        let c = L::gather(row.as_ptr().add(k), column);
                        value = value.add(c.mul(b[k]));
                        slope = slope.add(c.mul(d[k]));
                    }
                    let c = slope.mul(L::splat(columns.per_value)).keep(within).mul(v.w);
                    for r in 0..3 {
                        let mut term = c.mul(v.dy[r]);
                        if let Some(dw) = v.dw {
                            term = term.add(value.mul(dw[r]));
                        }
                        outer(&mut g, r, term, &v.local);
                    }
                }
                at += LANES;
            }
            flush(&g, run.origin, out);
        }
    }
}
