//! Bins of fixed and moving values, and windows over those of the moving image.

use super::map::COORDINATE_BITS;
use crate::device::Element;
use crate::error::{ComputeError, Result, check_len};

/// The bin of a fixed pixel that takes no part.
pub const NO_SAMPLE: u8 = 255;
/// The most bins of either image.
pub const MOST_BINS: usize = 128;
/// Fractional bits of a place among the moving bins.
pub const PLACE_BITS: u32 = 8;
/// The sum of the four weights of a cubic window.
pub const WINDOW_SUM: i32 = 4096;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// The value of a pixel: of 8 or 16 bits.
pub trait Pixel: sealed::Sealed + Element + Into<u32> + super::lent::Lend {
    /// Its bits.
    const BITS: u32;
}

impl Pixel for u8 {
    const BITS: u32 = 8;
}

impl Pixel for u16 {
    const BITS: u32 = 16;
}

/// The bins of the fixed image: value `v` is in bin `⌊(v − low) bins / (high − low + 1)⌋`; values outside of the range are
/// in that of the nearer end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedBins {
    low: u16,
    high: u16,
    count: usize,
}

fn check_range(low: u16, high: u16, count: usize) -> Result<()> {
    if low > high {
        let value = format!("{low} to {high}");
        return Err(ComputeError::argument("the range of values", value, "rising"));
    }
    if !(2..=MOST_BINS).contains(&count) {
        return Err(ComputeError::argument("the number of bins", count, "between 2 and 128"));
    }
    Ok(())
}

impl FixedBins {
    /// So many bins between two values, both included.
    ///
    /// # Errors
    /// [`ComputeError::Argument`] for fewer than 2 bins or more than 128, or a range that falls.
    pub fn new(low: u16, high: u16, count: usize) -> Result<Self> {
        check_range(low, high, count)?;
        Ok(Self { low, high, count })
    }

    /// The number of bins.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The bin of a value.
    #[must_use]
    pub fn bin(&self, value: impl Pixel) -> u8 {
        let (low, high) = (u32::from(self.low), u32::from(self.high));
        let from_low = value.into().clamp(low, high) - low;
        (from_low * self.count as u32 / (high - low + 1)) as u8
    }

    /// The bins of some pixels; [`NO_SAMPLE`] where there is a mask and it is 0.
    ///
    /// # Errors
    /// [`ComputeError::Length`] if they are not equally many.
    pub fn fill<P: Pixel>(&self, values: &[P], mask: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        check_len("bins of the fixed image", values.len(), out.len())?;
        // Most images have few values: a table of all is cheaper than divisions.
        let most = (1usize << P::BITS) - 1;
        let bin = |v: usize| self.bin(v as u16);
        let table: Vec<u8> = (0..=most).map(bin).collect();
        let of = |v: P| table.get(Into::<u32>::into(v) as usize).copied().unwrap_or(NO_SAMPLE);
        match mask {
            None => out.iter_mut().zip(values).for_each(|(out, &v)| *out = of(v)),
            Some(mask) => {
                check_len("mask of the fixed image", values.len(), mask.len())?;
                for ((out, &v), &inside) in out.iter_mut().zip(values).zip(mask) {
                    *out = if inside == 0 { NO_SAMPLE } else { of(v) };
                }
            }
        }
        Ok(())
    }
}

/// How a sample counts among the moving bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// As 1, in its bin. There is no derivative.
    Plain,
    /// By the four weights of a cubic B-spline about its place, whose sum is exactly [`WINDOW_SUM`]; there are
    /// three columns more than bins.
    Cubic,
}

/// The bins of the moving image.
///
/// Let `R = high − low + 1`, and `f` the largest number up to 8 with `R 2^f ≤ 2¹⁶`. An interpolated value is cut to `f`
/// fractional bits and held within the range: `t = clamp(⌊v 2^f⌋, low 2^f, high 2^f) − low 2^f`. Its place among the bins, with
/// [`PLACE_BITS`] fractional bits, is `p = min(⌊t K / 2¹⁶⌋, 256 bins − 1)` with `K = ⌈bins 2²⁴ / (R 2^f)⌉`: a value on the
/// border between two bins is in the upper one, and where `R` is a power of two a whole value is in the bin that
/// [`FixedBins`] have for it. All products fit in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovingBins {
    low: u16,
    high: u16,
    count: usize,
    bits: u32,
    factor: u32,
}

impl MovingBins {
    /// So many bins between two values, both included.
    ///
    /// # Errors
    /// As [`FixedBins::new`].
    pub fn new(low: u16, high: u16, count: usize) -> Result<Self> {
        check_range(low, high, count)?;
        let range = u64::from(high) - u64::from(low) + 1;
        let bits = (0..=8).rev().find(|f| range << f <= 1 << 16).unwrap_or(0);
        let factor = ((count as u64) << 24).div_ceil(range << bits) as u32;
        Ok(Self { low, high, count, bits, factor })
    }

    /// The number of bins.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The range of values.
    #[must_use]
    pub fn range(&self) -> (u16, u16) {
        (self.low, self.high)
    }

    /// The fractional bits `f` that values are cut to.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The factor `K`.
    #[must_use]
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// Bins per unit of the value, as `K` has it: the derivative of the place in bins.
    #[must_use]
    pub fn per_value(&self) -> f64 {
        f64::from(self.factor) * f64::from(1u32 << self.bits) / f64::from(1u32 << 24)
    }

    /// The columns of a joint histogram.
    #[must_use]
    pub fn columns(&self, window: Window) -> usize {
        self.count + if window == Window::Cubic { 3 } else { 0 }
    }

    /// The place of a value that was cut to [`bits`](Self::bits) fractional bits.
    #[must_use]
    pub fn place(&self, value: u32) -> u32 {
        let (low, high) = (u32::from(self.low) << self.bits, u32::from(self.high) << self.bits);
        let t = value.clamp(low, high) - low;
        ((t * self.factor) >> 16).min(self.last())
    }

    /// The last place.
    pub(crate) fn last(&self) -> u32 {
        ((self.count as u32) << PLACE_BITS) - 1
    }

    /// The bits that are cut off an interpolated value: one that was made in `axes` axes has 8 for each.
    pub(crate) fn cut(&self, axes: u32) -> u32 {
        COORDINATE_BITS * axes - self.bits
    }
}

/// The weights of a cubic window, or their derivatives, at the 256 places within a bin: of columns `m` to `m + 3` for a
/// place `256 m + t`.
pub type WindowTable = [[i32; 4]; 256];

/// The cubic B-spline in whole numbers: weights whose sum is exactly [`WINDOW_SUM`] at every place, and derivatives (in
/// the place, per bin) whose sum is exactly 0.
///
/// Each is rounded to nearest, and what the sum then lacks goes to the largest weight, or to the larger derivative in size, of
/// equal ones the first. The table is symmetric where the spline is, but for that.
#[must_use]
pub fn window_tables() -> (WindowTable, WindowTable) {
    let (mut weights, mut slopes) = ([[0; 4]; 256], [[0; 4]; 256]);
    for (i, (weight, slope)) in weights.iter_mut().zip(&mut slopes).enumerate() {
        // Exact: with n = i/256 the numerators of the spline over 6·256³ are whole numbers.
        let (t, s) = (i as i64, 256 - i as i64);
        let cube = 256i64.pow(3);
        let numerators = [
            s.pow(3),
            4 * cube - 6 * 256 * t * t + 3 * t.pow(3),
            4 * cube - 6 * 256 * s * s + 3 * s.pow(3),
            t.pow(3),
        ];
        *weight = rounded(numerators, 6 * cube, i64::from(WINDOW_SUM));
        // Over 2·256²; the derivative of the third is minus that of the second, mirrored.
        let square = [-s * s, 3 * t * t - 4 * 256 * t, 4 * 256 * s - 3 * s * s, t * t];
        *slope = rounded(square, 2 * 256 * 256, 0);
    }
    (weights, slopes)
}

/// Fractions times [`WINDOW_SUM`], rounded so that their sum is as given.
fn rounded(numerators: [i64; 4], denominator: i64, sum: i64) -> [i32; 4] {
    let scaled = |n: i64| (2 * n * i64::from(WINDOW_SUM) + denominator).div_euclid(2 * denominator);
    let mut out = numerators.map(scaled);
    let mut largest = 0;
    for k in 1..4 {
        if out[k].abs() > out[largest].abs() {
            largest = k;
        }
    }
    out[largest] += sum - out.iter().sum::<i64>();
    out.map(|v| v as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tables_are_the_spline_and_their_sums_are_exact() {
        let (weights, slopes) = window_tables();
        for i in 0..256 {
            assert_eq!(weights[i].iter().sum::<i32>(), WINDOW_SUM);
            assert_eq!(slopes[i].iter().sum::<i32>(), 0);
            let spline = |d: f64| {
                let d = d.abs();
                match d {
                    _ if d < 1.0 => 2.0 / 3.0 - d * d + d * d * d / 2.0,
                    _ if d < 2.0 => (2.0 - d).powi(3) / 6.0,
                    _ => 0.0,
                }
            };
            let t = i as f64 / 256.0;
            for k in 0..4 {
                let d = t + 1.0 - k as f64;
                let off = f64::from(weights[i][k]) - 4096.0 * spline(d);
                assert!(off.abs() <= 1.6, "{i} {k} {off}");
                let slope = (spline(d + 1e-5) - spline(d - 1e-5)) / 2e-5;
                let off = f64::from(slopes[i][k]) - 4096.0 * slope;
                assert!(off.abs() <= 1.6, "{i} {k} {off}");
            }
            assert!(slopes[i].iter().map(|s| s.abs()).sum::<i32>() <= 6146);
        }
    }

    #[test]
    fn masks_and_ranges_are_kept() {
        let bins = FixedBins::new(10, 19, 5).unwrap();
        let mut out = [0; 6];
        bins.fill(&[0u8, 10, 12, 19, 255, 14], Some(&[1, 1, 1, 1, 1, 0]), &mut out).unwrap();
        assert_eq!(out, [0, 0, 1, 4, 4, NO_SAMPLE]);
        assert!(bins.fill(&[0u16; 2], None, &mut out).is_err());
        assert!(FixedBins::new(5, 4, 8).is_err() && FixedBins::new(0, 9, 129).is_err());
        assert!(MovingBins::new(0, 9, 1).is_err());
        assert!(FixedBins::new(0, 65535, 128).unwrap().bin(65535u16) == 127);
    }

    proptest! {
        #[test]
        fn places_rise_and_stay_within(low: u16, more in 0u16..=u16::MAX, count in 2usize..=128, part in 0.0f64..1.0) {
            let high = low.saturating_add(more);
            let bins = MovingBins::new(low, high, count).unwrap();
            let f = bins.bits();
            let range = f64::from(high) - f64::from(low) + 1.0;
            let value = f64::from(low) + part * (f64::from(high) - f64::from(low));
            let cut = (value * f64::from(1u32 << f)) as u32;
            let place = bins.place(cut);
            prop_assert!(place <= bins.last() && bins.place(cut + 1) >= place);
            let exact = (f64::from(cut) / f64::from(1u32 << f) - f64::from(low)) / range * count as f64 * 256.0;
            prop_assert!((f64::from(place) - exact).abs() <= 1.01, "{place} {exact}");
            prop_assert_eq!(bins.place(0), 0);
        }

        #[test]
        fn whole_values_of_bytes_are_in_the_same_bin_on_both_sides(low in 0u16..200, count in 2usize..=128, at in 0u16..256) {
            for range in [1u16, 2, 4, 8, 16, 32] {
                let high = low + range - 1;
                let (fixed, moving) = (FixedBins::new(low, high, count).unwrap(), MovingBins::new(low, high, count).unwrap());
                let v = at.clamp(low, high);
                prop_assert_eq!(u32::from(fixed.bin(v)), moving.place(u32::from(v) << moving.bits()) >> PLACE_BITS);
            }
        }
    }
}
