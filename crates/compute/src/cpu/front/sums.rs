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

/// A value in units, and its square, as [`Units::of`] has them.
#[inline(always)]
fn in_units(units: &Units, value: f32) -> [i64; 2] {
    let from = f64::from(value) - units.offset;
    let (first, second) = (from * units.scale, from * from * units.squares);
    // Not where it is not a number, either.
    match (first.abs() < 0.5 * LAST_FRACTION) & (second < 0.5 * LAST_FRACTION) {
        true => [whole(first), whole(second)],
        false => units.of(value),
    }
}

/// What the values of points, from an x on, that come in and go out add to the sums.
#[inline(always)]
pub(super) fn change(
    values: &[f32],
    units: &Units,
    x: usize,
    inwards: u64,
    outwards: u64,
) -> [i64; 2] {
    let mut sums = [0i64; 2];
    for (mut points, sign) in [(inwards, 1), (outwards, -1)] {
        while points != 0 {
            let place = x + points.trailing_zeros() as usize;
            // Bits beyond a row are no points.
            let value = values.get(place).map_or([0; 2], |v| in_units(units, *v));
            for (sum, v) in sums.iter_mut().zip(value) {
                *sum = sum.wrapping_add(sign * v);
            }
            points &= points - 1;
        }
    }
    sums
}

kernel! {
    /// Adds a row of values, 64 for each word of a set, to totals; the size is counted elsewhere.
    pub(super) fn add_row<V>(v, set: &[u64], values: &[f32], units: &Units, totals: &mut Totals) {
        let _ = v;
        let Units { offset, scale, squares } = *units;
        for (&word, values) in set.iter().zip(values.chunks(64)) {
            let (mut firsts, mut seconds) = ([0.0f64; 64], [0.0f64; 64]);
            let mut large = 0;
            for ((first, second), v) in firsts.iter_mut().zip(&mut seconds).zip(values) {
                let value = f64::from(*v) - offset;
                *first = value * scale;
                *second = value * value * squares;
                // Not where it is not a number, either.
                let is_small = (first.abs() < 0.5 * LAST_FRACTION) & (*second < 0.5 * LAST_FRACTION);
                large |= u64::from(!is_small);
            }
            let mut sums = [0i64; 4];
            if large == 0 {
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
