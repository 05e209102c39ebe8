//! The coefficients of the cubic B-spline through an image.

use crate::Dims;
use crate::cpu::lines::{LineFilter, filter_axes};
use crate::cpu::simd::{Lanes, kernel};
use crate::cpu::{Cpu, Simd};

/// Turns an image into its coefficients, in place.
pub(super) fn prefilter(cpu: &Cpu, data: &mut [f32], dims: Dims) {
    filter_axes(cpu, None, dims, dims.map(|n| (n > 1).then_some(Prefilter)), data);
}

/// The inverse of the sampled cubic B-spline along one axis.
struct Prefilter;

impl LineFilter for Prefilter {
    fn run(&self, simd: Simd, lines: &mut [Lanes], _: &mut Vec<Lanes>) {
        solve(simd, lines);
    }
}

/// The pole of the recursion: sqrt(3) − 2.
const POLE: f64 = -0.267_949_192_431_122_7;

/// The powers of the pole from here on are below the precision of the sums.
const HORIZON: usize = 30;

kernel! {
    /// A causal and an anticausal recursion of first order, started as for a signal mirrored at
    /// its first and last sample.
    fn solve<V>(v, lines: &mut [Lanes]) {
        let n = lines.len();
        let Some(last) = n.checked_sub(1).filter(|&last| last > 0) else { return };
        // The sum over the mirrored signal, of period 2 (n − 1).
        let period = i32::try_from(2 * last).unwrap_or(i32::MAX);
        let mut sum = v.widen(v.load(&lines[0]));
        for (k, line) in lines.iter().enumerate().take(HORIZON).skip(1) {
            let mut weight = POLE.powi(k as i32);
            if k < last {
                weight += POLE.powi(period - k as i32);
            }
            sum = v.add_wide(sum, v.mul_wide(v.splat_wide(weight), v.widen(v.load(line))));
        }
        let start = 1.0 / (1.0 - POLE.powi(period));
        let gain = v.splat_wide((1.0 - POLE) * (1.0 - 1.0 / POLE));
        let pole = v.splat_wide(POLE);
        let mut state = v.mul_wide(v.mul_wide(sum, v.splat_wide(start)), gain);
        v.store(v.narrow(state), &mut lines[0]);
        let mut before = state;
        for line in &mut lines[1..] {
            before = state;
            let input = v.mul_wide(gain, v.widen(v.load(line)));
            state = v.add_wide(input, v.mul_wide(pole, state));
            v.store(v.narrow(state), line);
        }
        let end = v.splat_wide(POLE / (POLE * POLE - 1.0));
        state = v.mul_wide(end, v.add_wide(state, v.mul_wide(pole, before)));
        v.store(v.narrow(state), &mut lines[last]);
        for line in lines[..last].iter_mut().rev() {
            state = v.mul_wide(pole, v.sub_wide(state, v.widen(v.load(line))));
            v.store(v.narrow(state), line);
        }
    }
}
