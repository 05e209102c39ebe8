//! Joint histograms with cubic B-spline windows over the moving values, and their derivative.

use super::sampler::{Moving, PerMap, Prepared};
use super::sums::{flush, outer};
use crate::cpu::simd::{LANES, Lanes, Vectors, kernel};
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
#[inline(always)]
pub(in crate::cpu) fn place<V: Vectors>(v: V, c: &Columns, y: V::F) -> (V::I, V::F, V::M) {
    let u = v.mul(v.sub(y, v.splat(c.low)), v.splat(c.per_value));
    let u = v.add(u, v.splat(c.first));
    let (first, last) = (v.splat(c.first), v.splat(c.last));
    let within = v.and(v.le(first, u), v.le(u, last));
    let u = v.min(v.max(u, first), last);
    let i = v.to_int(u);
    (v.add_int(i, v.splat_int(-1)), v.sub(u, v.to_float(i)), within)
}

/// The four weights of the cubic B-spline.
#[inline(always)]
pub(in crate::cpu) fn weights<V: Vectors>(v: V, t: V::F) -> [V::F; 4] {
    let sixth = v.splat(1.0 / 6.0);
    let s = v.sub(v.splat(1.0), t);
    let (t2, s2) = (v.mul(t, t), v.mul(s, s));
    let (t3, s3) = (v.mul(t2, t), v.mul(s2, s));
    let half = v.splat(0.5);
    let two_thirds = v.splat(2.0 / 3.0);
    [
        v.mul(s3, sixth),
        v.add(v.sub(two_thirds, t2), v.mul(t3, half)),
        v.add(v.sub(two_thirds, s2), v.mul(s3, half)),
        v.mul(t3, sixth),
    ]
}

/// The derivatives of the four weights.
#[inline(always)]
pub(in crate::cpu) fn derivatives<V: Vectors>(v: V, t: V::F) -> [V::F; 4] {
    let half = v.splat(0.5);
    let three_halves = v.splat(1.5);
    let s = v.sub(v.splat(1.0), t);
    let (t2, s2) = (v.mul(t, t), v.mul(s, s));
    [
        v.sub(v.splat(0.0), v.mul(s2, half)),
        v.sub(v.mul(t2, three_halves), v.add(t, t)),
        v.sub(v.add(s, s), v.mul(s2, three_halves)),
        v.mul(t2, half),
    ]
}

kernel! {
    /// Adds the joint histogram of some runs to `out`, `bins x columns`.
    pub(super) fn histogram<V>(
        v,
        layout: &SampleLayout,
        runs: &[Run],
        moving: &Moving<'_>,
        map: &PerMap,
        columns: &ParzenBins,
        out: &mut [f64],
    ) {
        let columns = Columns::new(columns);
        // Two rows in turn: neighbouring lanes often fall into the same column, and would wait for
        // each other's sum.
        let mut rows = [vec![0.0f32; columns.count], vec![0.0f32; columns.count]];
        for run in runs {
            let [even, odd] = &mut rows;
            let prepared = Prepared::new(v, moving, layout, map, run);
            let end = run.start + run.len as usize;
            let mut at = run.start;
            while at < end {
                if let Some(sample) = prepared.sample::<false>(at, (end - at).min(LANES)) {
                    let (column, t, _) = place(v, &columns, sample.y);
                    let b = weights(v, t);
                    let mut taps: [Lanes; 4] = [[0.0; LANES]; 4];
                    for k in 0..4 {
                        v.store(v.mul(b[k], sample.w), &mut taps[k]);
                    }
                    let mut first = [0; LANES];
                    v.store_int(column, &mut first);
                    for l in 0..LANES {
                        let row = if l % 2 == 0 { &mut *even } else { &mut *odd };
                        let c = first[l] as usize;
                        if let Some(four) = row.get_mut(c..c + 4) {
                            for k in 0..4 {
                                four[k] += taps[k][l];
                            }
                        }
                    }
                }
                at += LANES;
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
}

kernel! {
    /// Adds the derivative, in the map, of a function of the joint histogram to `out`; `table` holds
    /// the function's derivative in each entry.
    pub(super) fn gradient<V>(
        v,
        layout: &SampleLayout,
        runs: &[Run],
        moving: &Moving<'_>,
        map: &PerMap,
        columns: &ParzenBins,
        table: &[f32],
        out: &mut [f64; 12],
    ) {
        let columns = Columns::new(columns);
        for run in runs {
            let bin = run.bin as usize;
            let row = &table[bin * columns.count..(bin + 1) * columns.count];
            let prepared = Prepared::new(v, moving, layout, map, run);
            let zero = v.splat(0.0);
            let mut g = [zero; 12];
            let end = run.start + run.len as usize;
            let mut at = run.start;
            while at < end {
                if let Some(sample) = prepared.sample::<true>(at, (end - at).min(LANES)) {
                    let (column, t, within) = place(v, &columns, sample.y);
                    let (b, d) = (weights(v, t), derivatives(v, t));
                    let mut value = zero;
                    let mut derivative = zero;
                    for k in 0..4 {
                        let c = v.gather(&row[k..], column);
                        value = v.add(value, v.mul(c, b[k]));
                        derivative = v.add(derivative, v.mul(c, d[k]));
                    }
                    let c = v.select(within, v.mul(derivative, v.splat(columns.per_value)), zero);
                    let c = v.mul(c, sample.w);
                    for r in 0..3 {
                        let mut term = v.mul(c, sample.dy[r]);
                        if let Some(dw) = sample.dw {
                            term = v.add(term, v.mul(value, dw[r]));
                        }
                        outer(v, &mut g, r, term, &sample.local);
                    }
                }
                at += LANES;
            }
            flush(v, &g, run.origin, out);
        }
    }
}
