//! Sums of values in whole units, inside a set and of all points.

use crate::cpu::simd::kernel;
use crate::ops::front::{Totals, Units};

/// Numbers below this have a fraction left: added to the middle between two powers of two they are rounded to whole numbers.
const LAST_FRACTION: f64 = (1u64 << 52) as f64;
const MIDDLE: f64 = 1.5 * LAST_FRACTION;

/// A number below half of [`LAST_FRACTION`], to the nearest whole one.
#[inline(always)]
fn whole(value: f64) -> i64 {
    (value + MIDDLE).to_bits().wrapping_sub(MIDDLE.to_bits()) as i64
}

kernel! {
    /// Adds a row of values, 64 for each word of a set, to totals; the size is counted elsewhere.
    pub(super) fn add_row<V>(v, set: &[u64], values: &[f32], units: &Units, totals: &mut Totals) {
        let _ = v;
        let Units { offset, scale, squares } = *units;
        for (&word, values) in set.iter().zip(values.chunks(64)) {
            let (mut firsts, mut seconds) = ([0.0f64; 64], [0.0f64; 64]);
            let mut small = true;
            for ((first, second), v) in firsts.iter_mut().zip(&mut seconds).zip(values) {
                let value = f64::from(*v) - offset;
                *first = value * scale;
                *second = value * value * squares;
                // Not where it is not a number, either.
                small &= first.abs() < 0.5 * LAST_FRACTION && *second < 0.5 * LAST_FRACTION;
            }
            let mut sums = [0i64; 4];
            if small {
                for (bit, (first, second)) in firsts.iter().zip(&seconds).enumerate() {
                    let inside = (word >> bit & 1).wrapping_neg() as i64;
                    let (first, second) = (whole(*first), whole(*second));
                    sums[0] = sums[0].wrapping_add(first & inside);
                    sums[1] = sums[1].wrapping_add(second & inside);
                    sums[2] = sums[2].wrapping_add(first);
                    sums[3] = sums[3].wrapping_add(second);
                }
            } else {
                for (bit, v) in values.iter().enumerate() {
                    let inside = (word >> bit & 1).wrapping_neg() as i64;
                    let [first, second] = units.of(*v);
                    sums[0] = sums[0].wrapping_add(first & inside);
                    sums[1] = sums[1].wrapping_add(second & inside);
                    sums[2] = sums[2].wrapping_add(first);
                    sums[3] = sums[3].wrapping_add(second);
                }
            }
            totals.sum = totals.sum.wrapping_add(sums[0]);
            totals.squares = totals.squares.wrapping_add(sums[1]);
            totals.all = totals.all.wrapping_add(sums[2]);
            totals.all_squares = totals.all_squares.wrapping_add(sums[3]);
        }
    }
}

kernel! {
    /// The signs of a row of values, 64 a word.
    pub(super) fn signs_of_row<V>(v, values: &[f32], inside: &mut [u64], outside: &mut [u64]) {
        let _ = v;
        for ((p, n), values) in inside.iter_mut().zip(outside).zip(values.chunks(64)) {
            (*p, *n) = (0, 0);
            for (bit, value) in values.iter().enumerate() {
                *p |= u64::from(*value > 0.0) << bit;
                *n |= u64::from(*value < 0.0) << bit;
            }
        }
    }
}

kernel! {
    /// The same of two means.
    pub(super) fn signs_of_means<V>(
        v, values: &[f32], weights: [f64; 2], means: [f64; 2], inside: &mut [u64], outside: &mut [u64],
    ) {
        let _ = v;
        for ((p, n), values) in inside.iter_mut().zip(outside).zip(values.chunks(64)) {
            (*p, *n) = (0, 0);
            let mut speeds = [0.0f64; 64];
            for (speed, v) in speeds.iter_mut().zip(values) {
                *speed = speed_of(f64::from(*v), weights, means);
            }
            for (bit, speed) in speeds.iter().enumerate() {
                *p |= u64::from(*speed > 0.0) << bit;
                *n |= u64::from(*speed < 0.0) << bit;
            }
        }
    }
}

/// The speed of two means at a value.
#[inline(always)]
pub(super) fn speed_of(value: f64, weights: [f64; 2], means: [f64; 2]) -> f64 {
    let [inside, outside] = [means[0] - value, means[1] - value];
    weights[1] * (outside * outside) - weights[0] * (inside * inside)
}
