//! Sums over samples that the derivative in the map is made of.

use super::{JointRule, TALLIES};
use crate::error::{Result, check_len};

/// Sums that are kept: three of forces, nine of moments with the lower bits of coordinates, nine with the upper ones.
pub(crate) const NUMBERS: usize = 21;
/// The lower bits of a coordinate.
pub(crate) const LOW_BITS: u32 = 14;

/// The place of the sum of `h_d` and a coordinate's lower or upper bits.
pub(crate) const fn moment(d: usize, e: usize, upper: bool) -> usize {
    3 + 3 * d + e + if upper { 9 } else { 0 }
}

/// The sums over samples of `h_d` and of `h_d q_e`, of the slope and the coordinate of a sample: see the [module](super).
///
/// With a table `L = 2^k ∂F/∂n` of the derivatives of a function in the entries of the histogram, `F` changes by
/// `Σ_d force_d · unit · 2^-k` where all samples are moved by one pixel along `d`, with the [unit](Self::unit). Moments have 8 fractional bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JointSlopes {
    /// `Σ h_d`
    pub force: [i128; 3],
    /// `Σ h_d q_e`
    pub moment: [[i128; 3]; 3],
    /// The number of samples.
    pub samples: u64,
    /// Those of them that were not in the first brick.
    pub elsewhere: u64,
}

impl JointSlopes {
    /// From the numbers that [`joint_add`](super::Joint::joint_add) has added, or from their sums over devices and ranks. Two numbers stand for a sum,
    /// and the same sum may be other numbers: compare what this makes of them.
    ///
    /// # Errors
    /// [`ComputeError::Length`](crate::ComputeError::Length) if there are not as many.
    pub fn from_numbers(numbers: &[i64]) -> Result<Self> {
        check_len("sums of slopes", 2 * NUMBERS + TALLIES, numbers.len())?;
        let sum = |k: usize| i128::from(numbers[2 * k]) + (i128::from(numbers[2 * k + 1]) << 32);
        let of = |d, e| sum(moment(d, e, false)) + (sum(moment(d, e, true)) << LOW_BITS);
        Ok(Self {
            force: [0, 1, 2].map(sum),
            moment: [0, 1, 2].map(|d| [0, 1, 2].map(|e| of(d, e))),
            samples: numbers[2 * NUMBERS] as u64,
            elsewhere: numbers[2 * NUMBERS + 1] as u64,
        })
    }

    /// What one unit of a force is, in what the table has, per pixel of the moving image.
    #[must_use]
    pub fn unit(rule: &JointRule, wide: bool) -> f64 {
        let window = f64::from(super::WINDOW_SUM);
        window * rule.moving_bins.per_value() * if wide { 256.0 } else { 1.0 }
    }
}

/// Adds a sum of 64 bits to the two numbers that stand for it.
pub(crate) fn add_split(out: &mut [i64], value: i64) {
    out[0] += value & 0xffff_ffff;
    out[1] += value >> 32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_sums_are_the_sums() {
        let mut numbers = [0; 2 * NUMBERS + TALLIES];
        let values = [i64::MAX, i64::MIN, -1, 1 << 32, -(1 << 40) - 5, 77];
        for value in values {
            add_split(&mut numbers[..2], value);
            add_split(&mut numbers[2 * moment(1, 2, true)..], value);
        }
        let sum: i128 = values.iter().map(|&v| i128::from(v)).sum();
        let found = JointSlopes::from_numbers(&numbers).unwrap();
        assert_eq!((found.force[0], found.moment[1][2]), (sum, sum << LOW_BITS));
        assert!(JointSlopes::from_numbers(&numbers[1..]).is_err());
    }
}
