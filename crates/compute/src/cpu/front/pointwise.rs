//! Signs of forces that a point has by its values alone.

use super::rows::{About, BESIDE, Block, Near, ROWS, Region, room};
use crate::cpu::simd::kernel;
use crate::ops::front::Layout;

/// Points of a word from which on all of it are looked at.
const MANY: u32 = 12;

/// What a force is of the value of a point.
#[derive(Clone, Copy)]
pub(super) enum Speed<'a> {
    /// Nothing.
    None,
    /// The value.
    Field(&'a [f32]),
    /// That of two means, with their weights.
    TwoMeans { image: &'a [f32], weights: [f64; 2], means: [f64; 2] },
}

impl<'a> Speed<'a> {
    /// The speed at a point.
    #[inline(always)]
    pub(super) fn at(&self, point: usize) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Field(values) => f64::from(values[point]),
            Self::TwoMeans { image, weights, means } => {
                speed_of(f64::from(image[point]), weights, means)
            }
        }
    }

    /// The signs at up to 64 points from one on.
    #[inline(always)]
    fn signs(&self, first: usize, count: usize) -> [u64; 2] {
        let mut signs = [0u64; 2];
        match *self {
            Self::None => {}
            Self::Field(values) => {
                for (bit, value) in values[first..first + count].iter().enumerate() {
                    signs[0] |= u64::from(*value > 0.0) << bit;
                    signs[1] |= u64::from(*value < 0.0) << bit;
                }
            }
            Self::TwoMeans { image, weights, means } => {
                let mut speeds = [0.0f64; 64];
                for (speed, v) in speeds.iter_mut().zip(&image[first..first + count]) {
                    *speed = speed_of(f64::from(*v), weights, means);
                }
                for (bit, speed) in speeds.iter().enumerate() {
                    signs[0] |= u64::from(*speed > 0.0) << bit;
                    signs[1] |= u64::from(*speed < 0.0) << bit;
                }
            }
        }
        signs
    }

    /// The signs at the front of up to 64 points from one on: outside and inside.
    #[inline(always)]
    fn at_front(&self, first: usize, count: usize, [outer, inner]: [u64; 2]) -> [u64; 2] {
        if (outer | inner).count_ones() >= MANY {
            let [p, n] = self.signs(first, count);
            return [p & outer, n & inner];
        }
        let mut signs = [0u64; 2];
        for (side, of_front) in [outer, inner].into_iter().enumerate() {
            let mut left = of_front;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                let value = self.at(first + bit);
                let moves = if side == 0 { value > 0.0 } else { value < 0.0 };
                signs[side] |= u64::from(moves) << bit;
                left &= left - 1;
            }
        }
        signs
    }
}

/// The speed of two means at a value.
#[inline(always)]
fn speed_of(value: f64, weights: [f64; 2], means: [f64; 2]) -> f64 {
    let [inside, outside] = [means[0] - value, means[1] - value];
    weights[1] * (outside * outside) - weights[0] * (inside * inside)
}

/// Rows about those that are looked at.
#[derive(Default)]
pub(super) struct Rows {
    rows: [Vec<u64>; 2],
    line: [Vec<u64>; 4],
}

kernel! {
    /// The signs of all points of rows from one on.
    pub(super) fn everywhere<V>(
        v, layout: &Layout, speed: &Speed<'_>, first: usize, inside: &mut [u64], outside: &mut [u64],
    ) {
        let _ = v;
        let (a_row, nx) = (layout.row_words(), layout.dims()[0]);
        for (i, (p, n)) in inside.iter_mut().zip(outside).enumerate() {
            let (row, x) = (first + i / a_row, 64 * (i % a_row));
            [*p, *n] = speed.signs(nx * row + x, 64.min(nx - x));
        }
    }
}

kernel! {
    /// The signs at the front of a region, in those bits of its words that `of` has; the first word of `signs` is one of the set.
    pub(super) fn at_front<V>(
        v, layout: &Layout, speed: &Speed<'_>, set: &[u64], region: &Region, of: &[u64], scratch: &mut Rows, first: usize,
        inside: &mut [u64], outside: &mut [u64],
    ) {
        let _ = v;
        let (a_row, nx) = (layout.row_words(), layout.dims()[0]);
        let block = Block::new(layout, region);
        let Block { stride, beside_z, tall, deep, .. } = block;
        let near = Near::new(layout, tall);
        let [rows, out] = scratch.rows.each_mut().map(|r| room(r, stride * tall * deep));
        let [wide, narrow, wide1, narrow1] = scratch.line.each_mut().map(|r| room(r, stride));
        block.load(set, rows, out);
        for z in beside_z..deep - beside_z {
            for y in ROWS..tall - ROWS {
                let row = y + tall * z;
                let Some(number) = block.row(y, z) else { continue };
                let within = About::new(&near, rows, stride, row, [&mut *wide, &mut *narrow]);
                let beyond = About::new(&near, out, stride, row, [&mut *wide1, &mut *narrow1]);
                let (rows, out) = (&rows[row * stride..][..stride], &out[row * stride..][..stride]);
                for (i, &of) in of.iter().enumerate() {
                    let (k, word) = (i + BESIDE, region.words.start + i);
                    let front = [within.word(k) & out[k] & of, beyond.word(k) & rows[k] & of];
                    let mut signs = [0u64; 2];
                    if front != [0; 2] {
                        let x = 64 * word;
                        signs = speed.at_front(nx * number + x, 64.min(nx - x), front);
                    }
                    let at = number * a_row + word - first;
                    inside[at] = inside[at] & !of | signs[0];
                    outside[at] = outside[at] & !of | signs[1];
                }
            }
        }
    }
}
