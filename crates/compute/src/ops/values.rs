//! Values of images: taken over from the memory of others, and counted.

use rayon::prelude::*;
use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len, voxels};
use crate::host::zeroed;

/// The type of numbers in the memory of others, which are aligned to their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// One byte, of which any but 0 is true.
    Bool,
    /// Whole numbers of 8 bits.
    I8,
    /// Of 8 bits, not negative.
    U8,
    /// Of 16 bits.
    I16,
    /// Of 16 bits, not negative.
    U16,
    /// Of 32 bits.
    I32,
    /// Of 32 bits, not negative.
    U32,
    /// Of 64 bits.
    I64,
    /// Of 64 bits, not negative.
    U64,
    /// Half precision of IEEE 754.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Number {
    /// All of them, in the order of the numbers by which kernels know them.
    pub const ALL: [Self; 12] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
    ];

    /// Bytes of one.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// Where an image is in memory: its first voxel, and the steps along each axis, all in numbers of its type. Steps may be
/// negative, and 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strided {
    /// The type of the numbers.
    pub number: Number,
    /// The place of the first voxel.
    pub first: usize,
    /// From a voxel to the next along each axis.
    pub steps: [isize; 3],
}

impl Strided {
    /// From the first to the last place of an image of some sizes; none where that is no place.
    #[must_use]
    pub fn places(&self, dims: Dims) -> Option<[usize; 2]> {
        let first = isize::try_from(self.first).ok()?;
        let mut ends = [first; 2];
        for (&n, &step) in dims.iter().zip(&self.steps) {
            let way = isize::try_from(n.checked_sub(1)?).ok()?.checked_mul(step)?;
            let end = &mut ends[usize::from(way > 0)];
            *end = end.checked_add(way)?;
        }
        Some([usize::try_from(ends[0]).ok()?, usize::try_from(ends[1]).ok()?])
    }
}

/// The most bins of each axis of [`Values::pair_counts`].
pub const MOST_BINS: usize = 256;

/// Values of images: taken over, and counted.
///
/// All results are whole numbers, or have the bits of their values: they are the same on all devices, but for the bits of those
/// that are not numbers (NaN).
#[forwarded]
pub trait Values: Memory {
    /// The values of an image that is somewhere in `bytes`, as floats, x fastest: of 64 bits and of 32 those that are
    /// nearest, of two the even one, and beyond the largest infinite.
    ///
    /// # Errors
    /// Sizes without voxels, places that are not in the bytes, an output of another length.
    fn values_of(
        &self,
        bytes: &Self::Buffer<u8>,
        at: &Strided,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// How many voxels have values in each pair of [bins](bin_of), `bins` along each of the two ranges, those of the second image
    /// slowest. Voxels count where both values are finite and the weight, if there is one, is above 0.
    ///
    /// # Errors
    /// Different lengths; no bins or more than [`MOST_BINS`], ranges that are not finite.
    fn pair_counts(
        &self,
        first: &Self::Buffer<f32>,
        second: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        ranges: [[f64; 2]; 2],
        bins: usize,
    ) -> Result<Vec<u64>>;

    /// How many voxels are above a value, in each slice across x, then y, then z.
    ///
    /// # Errors
    /// Wrong lengths or sizes.
    fn slice_counts(
        &self,
        image: &Self::Buffer<f32>,
        dims: Dims,
        above: f32,
    ) -> Result<[Vec<u64>; 3]>;
}

/// The bin of a value, of bins of equal width along a range; values beyond its ends belong to the last bins, and all to the
/// first where there is no width.
#[inline]
#[must_use]
pub fn bin_of(value: f64, [low, high]: [f64; 2], bins: usize) -> usize {
    let width = high - low;
    let part = if width > 0.0 { (value - low) / width } else { 0.0 };
    ((part * bins as f64) as usize).min(bins - 1)
}

/// Checks the arguments of [`Values::values_of`]; the number of voxels.
///
/// # Errors
/// As there.
pub fn check_values(bytes: usize, at: &Strided, dims: Dims, out: usize) -> Result<usize> {
    let n = voxels("sizes", dims)?;
    check_len("output", n, out)?;
    let there = bytes / at.number.bytes();
    match at.places(dims) {
        Some([_, last]) if last < there => Ok(n),
        _ => Err(ComputeError::argument(
            "places of an image",
            format!("{at:?} of {there} numbers"),
            "within the numbers that there are",
        )),
    }
}

/// Checks the arguments of [`Values::pair_counts`].
///
/// # Errors
/// As there.
pub fn check_pair_counts(
    images: [usize; 2],
    weights: Option<usize>,
    ranges: [[f64; 2]; 2],
    bins: usize,
) -> Result<()> {
    check_len("second image", images[0], images[1])?;
    if let Some(weights) = weights {
        check_len("weights", images[0], weights)?;
    }
    if bins == 0 || bins > MOST_BINS {
        return Err(ComputeError::argument("bins", bins, "between 1 and 256"));
    }
    match ranges.as_flattened().iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err(ComputeError::argument("ranges", format!("{ranges:?}"), "finite numbers")),
    }
}

/// Checks the arguments of [`Values::slice_counts`].
///
/// # Errors
/// As there.
pub fn check_slice_counts(image: usize, dims: Dims) -> Result<()> {
    check_len("image", voxels("sizes", dims)?, image)
}

/// As [`Values::slice_counts`], of values on the host, on all threads of the pool that this is called in.
///
/// # Errors
/// As there.
pub fn slice_counts(values: &[f32], dims: Dims, above: f32) -> Result<[Vec<u64>; 3]> {
    check_slice_counts(values.len(), dims)?;
    let none = || Ok([zeroed(dims[0])?, zeroed(dims[1])?, zeroed(dims[2])?]);
    let [nx, ny, _] = dims;
    let of_slice = |(z, slice): (usize, &[f32])| {
        let mut counts: [Vec<u64>; 3] = none()?;
        for (y, row) in slice.chunks_exact(nx).enumerate() {
            let mut of_row = 0;
            for (sum, v) in counts[0].iter_mut().zip(row) {
                let here = u64::from(*v > above);
                *sum += here;
                of_row += here;
            }
            counts[1][y] += of_row;
            counts[2][z] += of_row;
        }
        Ok(counts)
    };
    let add = |mut to: [Vec<u64>; 3], from: [Vec<u64>; 3]| {
        to.as_mut_slice().iter_mut().zip(&from).for_each(|(to, from)| {
            to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        });
        Ok(to)
    };
    values
        .par_chunks_exact(nx * ny)
        .enumerate()
        .map(of_slice)
        .try_reduce_with(add)
        .unwrap_or_else(none)
}
