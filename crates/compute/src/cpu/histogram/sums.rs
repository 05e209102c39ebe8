//! Binned sums and their derivatives.

use super::sampler::{Moving, PerMap, Prepared, dispatch, to_image};
use crate::cpu::Simd;
use crate::cpu::lanes::{LANES, Lanes, Plain};
use crate::ops::histogram::{Run, SampleLayout, Terms};

/// Most terms of any kind.
const MOST: usize = 6;

/// The terms as the kernels see them: values in x and y, and which depend on y.
trait Kind {
    const COUNT: usize;
    /// Terms with a derivative in y.
    const ACTIVE: &'static [usize];
    unsafe fn values<L: Lanes>(x: L, y: L) -> [L; MOST];
    /// Derivatives of the active terms in y.
    unsafe fn slopes<L: Lanes>(x: L, y: L) -> [L; 3];
}

struct Ratio;

impl Kind for Ratio {
    const COUNT: usize = 3;
    const ACTIVE: &'static [usize] = &[1, 2];
    #[inline(always)]
    unsafe fn values<L: Lanes>(_: L, y: L) -> [L; MOST] {
        // SAFETY: as the lanes'.
        unsafe {
            let zero = L::splat(0.0);
            [L::splat(1.0), y, y.mul(y), zero, zero, zero]
        }
    }
    #[inline(always)]
    unsafe fn slopes<L: Lanes>(_: L, y: L) -> [L; 3] {
        // SAFETY: as the lanes'.
        unsafe { [L::splat(1.0), y.add(y), L::splat(0.0)] }
    }
}

struct Moments;

impl Kind for Moments {
    const COUNT: usize = 6;
    const ACTIVE: &'static [usize] = &[2, 4, 5];
    #[inline(always)]
    unsafe fn values<L: Lanes>(x: L, y: L) -> [L; MOST] {
        // SAFETY: as the lanes'.
        unsafe { [L::splat(1.0), x, y, x.mul(x), y.mul(y), x.mul(y)] }
    }
    #[inline(always)]
    unsafe fn slopes<L: Lanes>(x: L, y: L) -> [L; 3] {
        // SAFETY: as the lanes'.
        unsafe { [L::splat(1.0), y.add(y), x] }
    }
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
    macro_rules! go {
        ($kind:ident, $grad:literal) => {
            dispatch!(simd, kernel::<$kind, $grad>, (
                layout: &SampleLayout,
                runs: &[Run],
                moving: &Moving<'_>,
                map: &PerMap,
                out: &mut [f64],
            ))
        };
    }
    match (terms, gradient) {
        (Terms::Ratio, false) => go!(Ratio, false),
        (Terms::Ratio, true) => go!(Ratio, true),
        (Terms::Moments, false) => go!(Moments, false),
        (Terms::Moments, true) => go!(Moments, true),
    }
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn kernel<L: Lanes, K: Kind, const GRAD: bool>(
    layout: &SampleLayout,
    runs: &[Run],
    moving: &Moving<'_>,
    map: &PerMap,
    out: &mut [f64],
) {
    let (sums, derivatives) = out.split_at_mut(layout.bins * K::COUNT);
    for run in runs {
        // SAFETY: the instruction set is the caller's; the layout pads its arrays by a vector.
        unsafe {
            let prepared = Prepared::<L>::new(moving, layout, map, run);
            let zero = L::splat(0.0);
            let mut s = [zero; MOST];
            let mut g = [[zero; 12]; 3];
            let mut border = [[zero; 12]; MOST];
            let mut any_border = false;
            let mut at = run.start;
            let end = run.start + run.len as usize;
            while at < end {
                let count = (end - at).min(LANES);
                if let Some(v) = prepared.sample::<GRAD>(at, count) {
                    let x = prepared.fixed(at);
                    let values = K::values(x, v.y);
                    s[0] = s[0].add(v.w);
                    for k in 1..K::COUNT {
                        s[k] = s[k].add(v.w.mul(values[k]));
                    }
                    if GRAD {
                        let slopes = K::slopes(x, v.y);
                        for k in 0..K::ACTIVE.len() {
                            let c = v.w.mul(slopes[k]);
                            for r in 0..3 {
                                outer(&mut g[k], r, c.mul(v.dy[r]), &v.local);
                            }
                        }
                        if let Some(dw) = v.dw {
                            any_border = true;
                            for k in 0..K::COUNT {
                                for r in 0..3 {
                                    let c = if k == 0 { dw[r] } else { dw[r].mul(values[k]) };
                                    outer(&mut border[k], r, c, &v.local);
                                }
                            }
                        }
                    }
                }
                at += LANES;
            }
            let bin = run.bin as usize;
            for k in 0..K::COUNT {
                sums[bin * K::COUNT + k] += s[k].sum();
            }
            if GRAD {
                let of_bin = &mut derivatives[bin * K::COUNT * 12..(bin + 1) * K::COUNT * 12];
                for (k, &term) in K::ACTIVE.iter().enumerate() {
                    flush(&g[k], run.origin, &mut of_bin[term * 12..]);
                }
                if any_border {
                    for (k, b) in border.iter().take(K::COUNT).enumerate() {
                        flush(b, run.origin, &mut of_bin[k * 12..]);
                    }
                }
            }
        }
    }
}

/// Adds `c * (local, 1)` to row `r` of a 3x4 sum.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(super) unsafe fn outer<L: Lanes>(sum: &mut [L; 12], r: usize, c: L, local: &[L; 3]) {
    // SAFETY: the caller's.
    unsafe {
        for a in 0..3 {
            sum[4 * r + a] = sum[4 * r + a].add(c.mul(local[a]));
        }
        sum[4 * r + 3] = sum[4 * r + 3].add(c);
    }
}

/// Adds lane sums over local coordinates to `out`.
///
/// # Safety
/// As [`Lanes`].
#[inline(always)]
pub(super) unsafe fn flush<L: Lanes>(sum: &[L; 12], origin: [u32; 3], out: &mut [f64]) {
    // SAFETY: the caller's.
    unsafe {
        let mut totals = [0.0; 12];
        for (t, v) in totals.iter_mut().zip(sum) {
            *t = v.sum();
        }
        to_image(totals, origin, out);
    }
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
            // SAFETY: plain lanes need no instruction set; the layout pads its arrays by a vector.
            let (sample, x) = unsafe {
                let prepared = Prepared::<Plain>::new(moving, layout, map, run);
                (prepared.sample::<true>(at, 1), prepared.fixed(at).to_array()[0])
            };
            let Some(v) = sample else { continue };
            // SAFETY: as above.
            let first = |l: Plain| f64::from(unsafe { l.to_array() }[0]);
            let (w, x, y) = (first(v.w), f64::from(x), first(v.y));
            let (values, slopes) = match terms {
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
                        let c = w * slopes[k] * first(v.dy[r]) + values[k] * dw;
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
