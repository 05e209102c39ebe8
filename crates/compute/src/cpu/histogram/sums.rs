//! Binned sums and their derivatives.

use super::sampler::{Moving, PerMap, Prepared, to_image};
use crate::cpu::Simd;
use crate::cpu::simd::{LANES, Lanes, Portable, Vectors, kernel};
use crate::ops::histogram::{Run, SampleLayout, Terms};

/// Most terms of any kind.
const MOST: usize = 6;

/// Of the terms of a kind, those with a derivative in y.
const fn active(moments: bool) -> &'static [usize] {
    if moments { &[2, 4, 5] } else { &[1, 2] }
}

/// The terms of a sample: as [`Terms::Moments`] has them, or as [`Terms::Ratio`].
#[inline(always)]
fn values<V: Vectors, const MOMENTS: bool>(v: V, x: V::F, y: V::F) -> [V::F; MOST] {
    let (zero, one) = (v.splat(0.0), v.splat(1.0));
    if MOMENTS {
        [one, x, y, v.mul(x, x), v.mul(y, y), v.mul(x, y)]
    } else {
        [one, y, v.mul(y, y), zero, zero, zero]
    }
}

/// Derivatives of the active terms in y.
#[inline(always)]
fn term_derivatives<V: Vectors, const MOMENTS: bool>(v: V, x: V::F, y: V::F) -> [V::F; 3] {
    [v.splat(1.0), v.add(y, y), if MOMENTS { x } else { v.splat(0.0) }]
}

/// Adds the sums of some runs to `out`: `bins x terms`, then `bins x terms x 12` derivatives.
#[allow(clippy::too_many_arguments)]
pub(super) fn chunk(
    simd: Simd,
    terms: Terms,
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    gradient: bool,
    out: &mut [f64],
) {
    match (terms, gradient) {
        (Terms::Ratio, false) => sums::<false, false>(simd, layout, runs, moving, map, out),
        (Terms::Ratio, true) => sums::<false, true>(simd, layout, runs, moving, map, out),
        (Terms::Moments, false) => sums::<true, false>(simd, layout, runs, moving, map, out),
        (Terms::Moments, true) => sums::<true, true>(simd, layout, runs, moving, map, out),
    }
}

kernel! {
    fn sums<V, const MOMENTS: bool, const GRAD: bool>(
        v,
        layout: &SampleLayout,
        runs: &[Run],
        moving: &Moving<'_>,
        map: &PerMap,
        out: &mut [f64],
    ) {
        let terms = if MOMENTS { Terms::Moments.count() } else { Terms::Ratio.count() };
        let active = active(MOMENTS);
        let (sums, derivatives) = out.split_at_mut(layout.bins * terms);
        for run in runs {
            let prepared = Prepared::new(v, moving, layout, map, run);
            let zero = v.splat(0.0);
            let mut s = [zero; MOST];
            let mut g = [[zero; 12]; 3];
            let mut border = [[zero; 12]; MOST];
            let mut any_border = false;
            let mut at = run.start;
            let end = run.start + run.len as usize;
            while at < end {
                let count = (end - at).min(LANES);
                if let Some(sample) = prepared.sample::<GRAD>(at, count) {
                    let x = prepared.fixed(at);
                    let values = values::<V, MOMENTS>(v, x, sample.y);
                    s[0] = v.add(s[0], sample.w);
                    for k in 1..terms {
                        s[k] = v.add(s[k], v.mul(sample.w, values[k]));
                    }
                    if GRAD {
                        let of_terms = term_derivatives::<V, MOMENTS>(v, x, sample.y);
                        for k in 0..active.len() {
                            let c = v.mul(sample.w, of_terms[k]);
                            for r in 0..3 {
                                outer(v, &mut g[k], r, v.mul(c, sample.dy[r]), &sample.local);
                            }
                        }
                        if let Some(dw) = sample.dw {
                            any_border = true;
                            for k in 0..terms {
                                for r in 0..3 {
                                    let c = if k == 0 { dw[r] } else { v.mul(dw[r], values[k]) };
                                    outer(v, &mut border[k], r, c, &sample.local);
                                }
                            }
                        }
                    }
                }
                at += LANES;
            }
            let bin = run.bin as usize;
            for k in 0..terms {
                sums[bin * terms + k] += v.sum(s[k]);
            }
            if GRAD {
                let of_bin = &mut derivatives[bin * terms * 12..(bin + 1) * terms * 12];
                for (k, &term) in active.iter().enumerate() {
                    flush(v, &g[k], run.origin, &mut of_bin[term * 12..]);
                }
                if any_border {
                    for (k, b) in border.iter().take(terms).enumerate() {
                        flush(v, b, run.origin, &mut of_bin[k * 12..]);
                    }
                }
            }
        }
    }
}

/// Adds `c * (local, 1)` to row `r` of a 3x4 sum.
#[inline(always)]
pub(super) fn outer<V: Vectors>(v: V, sum: &mut [V::F; 12], r: usize, c: V::F, local: &[V::F; 3]) {
    for a in 0..3 {
        sum[4 * r + a] = v.add(sum[4 * r + a], v.mul(c, local[a]));
    }
    sum[4 * r + 3] = v.add(sum[4 * r + 3], c);
}

/// Adds lane sums over local coordinates to `out`.
#[inline(always)]
pub(super) fn flush<V: Vectors>(v: V, sum: &[V::F; 12], origin: [u32; 3], out: &mut [f64]) {
    let mut totals = [0.0; 12];
    for (t, lanes) in totals.iter_mut().zip(sum) {
        *t = v.sum(*lanes);
    }
    to_image(totals, origin, out);
}

/// The check of [`chunk`]: every sample adds to the counters of its bin, one by one, in double
/// precision.
pub(super) fn direct(
    terms: Terms,
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    gradient: bool,
    out: &mut [f64],
) {
    let count = terms.count();
    let (sums, derivatives) = out.split_at_mut(layout.bins * count);
    for run in runs {
        for at in run.start..run.start + run.len as usize {
            let prepared = Prepared::new(Portable, moving, layout, map, run);
            let Some(v) = prepared.sample::<true>(at, 1) else { continue };
            let first = |lanes: Lanes| f64::from(lanes[0]);
            let (w, x, y) = (first(v.w), first(prepared.fixed(at)), first(v.y));
            let (values, of_terms) = match terms {
                Terms::Ratio => ([1.0, y, y * y, 0., 0., 0.], [0.0, 1.0, 2.0 * y, 0., 0., 0.]),
                Terms::Moments => {
                    ([1.0, x, y, x * x, y * y, x * y], [0.0, 0.0, 1.0, 0.0, 2.0 * y, x])
                }
            };
            let bin = run.bin as usize;
            for k in 0..count {
                sums[bin * count + k] += w * values[k];
                if gradient {
                    for r in 0..3 {
                        let dw = v.dw.map_or(0.0, |d| first(d[r]));
                        let c = w * of_terms[k] * first(v.dy[r]) + values[k] * dw;
                        let row = &mut derivatives[(bin * count + k) * 12 + 4 * r..];
                        for a in 0..3 {
                            row[a] += c * (f64::from(run.origin[a]) + first(v.local[a]));
                        }
                        row[3] += c;
                    }
                }
            }
        }
    }
}
