//! Affine maps in fixed point.

use crate::error::{ComputeError, Result};
use crate::{AffineMap, Dims};

/// Fractional bits of the entries of a map and of exact coordinates.
pub const MAP_BITS: u32 = 32;
/// Fractional bits of the coordinate of a sample, which are the bits of its interpolation weights.
pub const COORDINATE_BITS: u32 = 8;
/// One pixel in the coordinate of a sample.
pub const PIXEL: i64 = 1 << COORDINATE_BITS;

/// The bits that rounding to the coordinate of a sample cuts off.
pub(crate) const CUT: u32 = MAP_BITS - COORDINATE_BITS;
/// Half of the last bit that is kept.
const HALF: i64 = 1 << (CUT - 1);

/// The most pixels along an axis.
pub const MOST_PIXELS: usize = 1 << 20;
/// The largest entry of the matrix.
const MOST_MATRIX: f64 = 256.0;
/// The largest offset, in pixels.
const MOST_OFFSET: f64 = (1u64 << 28) as f64;

/// An affine map from the index of a fixed pixel to an index of the moving image, in whole numbers with
/// [`MAP_BITS`] fractional bits.
///
/// Every entry of the map in `f64` is rounded to nearest, ties away from zero. The exact coordinate of the fixed pixel
/// `i` along axis `r` is `C_r = Σ_a M_ra i_a + o_r`, without rounding: with at most 2²⁰ pixels along an axis, entries of at
/// most 2⁸ and offsets of at most 2²⁸ pixels, it is below 2⁶² and no sum overflows. The coordinate of the *sample* has
/// [`COORDINATE_BITS`] fractional bits: `q_r = ⌊(C_r + 2²³) / 2²⁴⌋`, that is, rounded to nearest, ties up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedPointMap {
    /// Rows of the matrix.
    pub matrix: [[i64; 3]; 3],
    /// Where the first fixed pixel goes.
    pub offset: [i64; 3],
}

impl FixedPointMap {
    /// The map, rounded.
    ///
    /// # Errors
    /// [`ComputeError::Argument`] if an entry of the matrix is above 256 in size, an offset above 2²⁸ pixels, or one of
    /// them is not a number.
    pub fn new(map: &AffineMap) -> Result<Self> {
        let scale = (1u64 << MAP_BITS) as f64;
        let rounded = |what, value: f64, most: f64, expected| {
            if value.abs() <= most {
                Ok((value * scale).round() as i64)
            } else {
                Err(ComputeError::argument(what, value, expected))
            }
        };
        let (mut matrix, mut offset) = ([[0; 3]; 3], [0; 3]);
        for (r, row) in map.iter().enumerate() {
            for a in 0..3 {
                let what = "an entry of the map between pixels";
                matrix[r][a] = rounded(what, row[a], MOST_MATRIX, "at most 256 in size")?;
            }
            let what = "an offset of the map between pixels";
            offset[r] = rounded(what, row[3], MOST_OFFSET, "at most 2^28 pixels")?;
        }
        Ok(Self { matrix, offset })
    }

    /// The map in `f64`, exactly.
    #[must_use]
    pub fn to_affine(&self) -> AffineMap {
        let unit = (1u64 << MAP_BITS) as f64;
        let mut map = AffineMap::default();
        for (r, row) in map.iter_mut().enumerate() {
            for a in 0..3 {
                row[a] = self.matrix[r][a] as f64 / unit;
            }
            row[3] = self.offset[r] as f64 / unit;
        }
        map
    }

    /// The exact coordinate of a fixed pixel along axis `r`, plus half of the last bit that the coordinate of its sample
    /// has: cut by 24 bits it is that coordinate.
    #[must_use]
    pub(crate) fn rounded_up(&self, pixel: [usize; 3], r: usize) -> i64 {
        let product = |a: usize| self.matrix[r][a] * pixel[a] as i64;
        product(0) + product(1) + product(2) + self.offset[r] + HALF
    }

    /// The coordinate of the sample at a fixed pixel, with [`COORDINATE_BITS`] fractional bits.
    #[must_use]
    pub fn coordinate(&self, pixel: [usize; 3]) -> [i64; 3] {
        [0, 1, 2].map(|r| self.rounded_up(pixel, r) >> CUT)
    }
}

/// Refuses images with more than [`MOST_PIXELS`] along an axis, or none.
pub(crate) fn check_dims(what: &'static str, dims: Dims) -> Result<()> {
    match dims.iter().all(|&n| (1..=MOST_PIXELS).contains(&n)) {
        true => Ok(()),
        false => Err(ComputeError::argument(
            what,
            format!("{dims:?}"),
            "between 1 and 2^20 pixels along each axis",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IDENTITY;

    #[test]
    fn entries_are_rounded_to_nearest_and_ties_go_away_from_zero() {
        let unit = (1u64 << MAP_BITS) as f64;
        let mut map = IDENTITY;
        map[0][1] = 0.5 / unit;
        map[1][0] = -0.5 / unit;
        map[2][0] = 0.49 / unit;
        let found = FixedPointMap::new(&map).unwrap();
        assert_eq!((found.matrix[0][1], found.matrix[1][0], found.matrix[2][0]), (1, -1, 0));
        assert_eq!(found.matrix[0][0], 1 << MAP_BITS);
        assert_eq!(FixedPointMap::new(&found.to_affine()).unwrap(), found);
    }

    #[test]
    fn coordinates_are_rounded_to_nearest_and_ties_go_up() {
        let at = |offset: f64| {
            let mut map = IDENTITY;
            map[0][3] = offset;
            FixedPointMap::new(&map).unwrap().coordinate([0; 3])[0]
        };
        assert_eq!([at(1.0), at(0.5 / 256.0), at(-0.5 / 256.0)], [256, 1, 0]);
        assert_eq!([at(0.499 / 256.0), at(-0.501 / 256.0), at(-2.0)], [0, -1, -512]);
    }

    #[test]
    fn the_largest_maps_do_not_overflow_and_larger_ones_are_refused() {
        let map = [[256.0, 256.0, 256.0, (1u64 << 28) as f64]; 3];
        let last = MOST_PIXELS - 1;
        let found = FixedPointMap::new(&map).unwrap().coordinate([last; 3]);
        let exact = 256i128 * (3 * 256 * last as i128 + (1 << 28));
        assert_eq!(found.map(i128::from), [exact; 3]);
        for wrong in [256.5, f64::NAN, f64::INFINITY] {
            let mut map = IDENTITY;
            map[1][2] = wrong;
            assert!(FixedPointMap::new(&map).is_err());
        }
        let mut map = IDENTITY;
        map[1][3] = -(2f64.powi(28)) - 1.0;
        assert!(FixedPointMap::new(&map).is_err());
        assert!(
            check_dims("x", [1, MOST_PIXELS + 1, 1]).is_err()
                && check_dims("x", [0, 1, 1]).is_err()
        );
    }
}
