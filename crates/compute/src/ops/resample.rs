//! Resampling by reverse mapping: interpolation of an image between its voxels.
//!
//! An output grid, a map from its indices to positions of the input grid, and a rule of
//! interpolation. Voxel `i` of an axis of `n` voxels covers the positions from `i − ½` to `i + ½`,
//! so a grid covers `−½ ≤ p ≤ n − ½` (both ends included) along each axis. A position outside of
//! that, or one that is not a number, gets the value for outside. Inside it is first moved to the
//! nearest of `0 ≤ p ≤ n − 1`. All of this holds for axes of size 1 as well, so a 2D image is an
//! image of depth 1, which is met at `−½ ≤ z ≤ ½`.
//!
//! Positions are exact to 10⁻³ voxel; along the rows of the output they are computed in `f32` as
//! differences from points, 256 voxels apart or nearer, that were computed in `f64`. At integer
//! positions each interpolation gives the exact value of the voxel (cubic: to rounding), and a
//! constant stays exactly that constant (cubic: to rounding).

use voxalign_compute_macros::forwarded;

use crate::error::{ComputeError, Result, check_len, voxels};
use crate::{AffineMap, Dims};

use super::filter::Filter;

/// The largest number of voxels of an image that can be resampled in one piece.
pub const MAX_VOXELS: usize = i32::MAX as usize;

/// The largest size of an axis of an image that can be resampled.
pub const MAX_AXIS: usize = 1 << 23;

/// How values between voxels are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interpolation {
    /// The value of the nearest voxel; half-way the one of higher index.
    Nearest,
    /// Trilinear.
    #[default]
    Linear,
    /// The cubic B-spline through the values, mirrored at the first and the last voxel
    /// (P. Thévenaz, T. Blu, M. Unser, "Interpolation revisited", IEEE TMI 19(7), 2000). Each call
    /// makes the coefficients anew, in a temporary of the size of the source.
    Cubic,
    /// The cubic B-spline with the source as its coefficients, which
    /// [`bspline_prefilter`](Resample::bspline_prefilter) made once for many calls.
    CubicCoefficients,
}

/// How labels between voxels are chosen. No label appears that the neighbours do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LabelInterpolation {
    /// The label of the nearest voxel; half-way the one of higher index.
    Nearest,
    /// The label with the largest sum of trilinear weights among the eight neighbours, and of
    /// equal sums the smallest label.
    #[default]
    Majority,
}

/// Resampling of scalar images, vector fields and labels.
///
/// A vector field over `n` voxels is one buffer of `3 n` elements: all x, then all y, then all z
/// components, in voxels of its own grid.
///
/// What is resampled, an image, labels or a field, has at most [`MAX_VOXELS`] (2^31 - 1) voxels and
/// [`MAX_AXIS`] (2^23) along an axis: places in it are counted in 32 bits. A larger one is refused with
/// [`ComputeError::Argument`] before anything is done; resample it in pieces. The output may be as large as
/// the memory, and so may the data of [`bspline_prefilter`](Self::bspline_prefilter).
#[forwarded]
pub trait Resample: Filter {
    /// `out[i] = src(map i)` for the indices `i` of the grid `out_dims`.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a map that is not finite; a source of more than [`MAX_VOXELS`] or [`MAX_AXIS`]
    /// ([`ComputeError::Argument`]).
    #[allow(clippy::too_many_arguments)]
    fn warp_affine(
        &self,
        src: &Self::Buffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out[i] = src(map (i + u[i]))` for the indices `i` of the grid `out_dims`, with the
    /// displacements `u` in voxels of that grid.
    ///
    /// # Errors
    /// As [`warp_affine`](Self::warp_affine).
    #[allow(clippy::too_many_arguments)]
    fn warp_field(
        &self,
        src: &Self::Buffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: &Self::Buffer<f32>,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The labels `out[i] = src(map (i + u[i]))`; without a field `u` is zero.
    ///
    /// # Errors
    /// As [`warp_affine`](Self::warp_affine).
    #[allow(clippy::too_many_arguments)]
    fn warp_labels(
        &self,
        src: &Self::Buffer<i32>,
        src_dims: Dims,
        map: &AffineMap,
        field: Option<&Self::Buffer<f32>>,
        out_dims: Dims,
        rule: LabelInterpolation,
        outside: i32,
        out: &mut Self::Buffer<i32>,
    ) -> Result<()>;

    /// The displacement of doing `inner` first and then `outer`:
    /// `out[i] = v[i] + L⁻¹ u(map (i + v[i]))`, where `v` is `inner` on the grid `dims`, `u` is
    /// `outer` on the grid `outer_dims`, and `L` is the linear part of `map`, which carries
    /// indices of `dims` to indices of `outer_dims`. On one grid the map is the identity and
    /// `out = v + u ∘ (id + v)`.
    ///
    /// Linear interpolation; positions outside of the grid of `outer`, however far, take the
    /// displacement of the nearest point of the grid. A displacement that is not a number gives one.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a map that is not finite or not invertible; an outer field of more than
    /// [`MAX_VOXELS`] or [`MAX_AXIS`] ([`ComputeError::Argument`]).
    fn compose_fields(
        &self,
        outer: &Self::Buffer<f32>,
        outer_dims: Dims,
        map: &AffineMap,
        inner: &Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The same displacements on another grid: `out[i] = L⁻¹ u(map i)`, where `u` is `field` on the
    /// grid `src_dims` and `L` the linear part of `map`. Linear interpolation; positions outside
    /// take the displacement of the nearest point of the grid.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a map that is not finite or not invertible; a field of more than
    /// [`MAX_VOXELS`] or [`MAX_AXIS`] ([`ComputeError::Argument`]).
    fn resample_field(
        &self,
        field: &Self::Buffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Turns an image, in place, into the coefficients of the cubic B-spline through it, mirrored
    /// at the first and the last voxel (M. Unser, A. Aldroubi, M. Eden, "B-spline signal
    /// processing", IEEE TSP 41(2), 1993). Axes of size 1 are left as they are.
    ///
    /// # Errors
    /// Wrong lengths or sizes.
    fn bspline_prefilter(&self, data: &mut Self::Buffer<f32>, dims: Dims) -> Result<()>;

    /// As [`warp_affine`](Self::warp_affine) with linear interpolation, after a Gaussian over the
    /// source that keeps what the output grid is too coarse for from aliasing: see
    /// [`antialias_sigma`]. Uses temporaries of the size of the source where there is something to smooth.
    ///
    /// # Errors
    /// As [`warp_affine`](Self::warp_affine).
    fn resize(
        &self,
        src: &Self::Buffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        outside: f32,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()> {
        check_map(map)?;
        let sigma = antialias_sigma(map);
        let n = voxels("source sizes", src_dims)?;
        if (0..3).all(|a| src_dims[a] == 1 || sigma[a] < super::filter::SIGMA_NONE) {
            return self.warp_affine(
                src,
                src_dims,
                map,
                out_dims,
                Interpolation::Linear,
                outside,
                out,
            );
        }
        let mut smooth = self.alloc(n)?;
        self.gaussian(src, src_dims, sigma, super::filter::GaussianMethod::Recursive, &mut smooth)?;
        self.warp_affine(&smooth, src_dims, map, out_dims, Interpolation::Linear, outside, out)
    }
}

/// The map from the indices of a grid `out_dims` to those of a grid `src_dims` that covers exactly
/// the same field of view: `p = s i + (s − 1)/2` with `s = n_src / n_out` along each axis.
pub fn grid_map(src_dims: Dims, out_dims: Dims) -> AffineMap {
    let mut map = [[0.0; 4]; 3];
    for (a, row) in map.iter_mut().enumerate() {
        let scale = src_dims[a] as f64 / out_dims[a].max(1) as f64;
        row[a] = scale;
        row[3] = 0.5 * (scale - 1.0);
    }
    map
}

/// The sizes of a grid with voxels `factors` times as long, rounded up; with [`grid_map`] it covers
/// the same field of view. Factors of zero count as one.
pub fn downsampled_dims(dims: Dims, factors: [usize; 3]) -> Dims {
    [0, 1, 2].map(|a| dims[a].div_ceil(factors[a].max(1)).max(1))
}

/// The standard deviations, in voxels of the source, of the Gaussian that makes the resolution of
/// the source that of the output: both are taken to have a Gaussian point spread with the full width
/// at half maximum of their voxel, and the variances differ by that of the smoothing (M. Cardoso et
/// al., "Scale factor point spread function matching", MICCAI 2015). Zero where the output is finer.
pub fn antialias_sigma(map: &AffineMap) -> [f64; 3] {
    const SIGMA_OF_FWHM: f64 = 0.424_660_900_144_009_5; // 1 / (2 sqrt(2 ln 2))
    map.map(|[x, y, z, _]| SIGMA_OF_FWHM * (x * x + y * y + z * z - 1.0).max(0.0).sqrt())
}

/// The inverse of the linear part of a map.
///
/// # Errors
/// If the map is not finite or has no inverse.
pub fn inverse_linear(map: &AffineMap) -> Result<[[f64; 3]; 3]> {
    check_map(map)?;
    let m = map;
    let minor = |r: usize, c: usize| {
        let (r1, r2, c1, c2) = ((r + 1) % 3, (r + 2) % 3, (c + 1) % 3, (c + 2) % 3);
        m[r1][c1] * m[r2][c2] - m[r1][c2] * m[r2][c1]
    };
    let determinant: f64 = (0..3).map(|c| m[0][c] * minor(0, c)).sum();
    let inverse = [0, 1, 2].map(|r| [0, 1, 2].map(|c| minor(c, r) / determinant));
    if determinant != 0.0 && inverse.iter().flatten().all(|v| v.is_finite()) {
        Ok(inverse)
    } else {
        Err(ComputeError::argument("map", format!("{map:?}"), "invertible"))
    }
}

/// Checks that a map has only finite numbers.
///
/// # Errors
/// If it has not.
pub fn check_map(map: &AffineMap) -> Result<()> {
    if map.iter().flatten().all(|v| v.is_finite()) {
        Ok(())
    } else {
        Err(ComputeError::argument("map", format!("{map:?}"), "finite"))
    }
}

/// Checks the arguments of [`Resample::warp_affine`], [`Resample::warp_field`] and
/// [`Resample::warp_labels`], given the lengths of the source, of the field if there is one, and of
/// the output.
///
/// # Errors
/// As there.
pub fn check_warp(
    (src, src_dims): (usize, Dims),
    map: &AffineMap,
    field: Option<usize>,
    (out, out_dims): (usize, Dims),
) -> Result<()> {
    let n = check_source(src_dims)?;
    check_map(map)?;
    check_len("source", n, src)?;
    let n = voxels("output sizes", out_dims)?;
    check_len("output", n, out)?;
    field.map_or(Ok(()), |field| check_len("field", 3 * n, field))
}

/// Checks the arguments of [`Resample::compose_fields`]; returns the inverse of the linear part of the map.
///
/// # Errors
/// As there.
pub fn check_compose(
    (outer, outer_dims): (usize, Dims),
    map: &AffineMap,
    (inner, dims): (usize, Dims),
    out: usize,
) -> Result<[[f64; 3]; 3]> {
    let n = check_source(outer_dims)?;
    let inverse = inverse_linear(map)?;
    check_len("outer field", 3 * n, outer)?;
    let n = voxels("sizes", dims)?;
    check_len("inner field", 3 * n, inner)?;
    check_len("output", 3 * n, out)?;
    Ok(inverse)
}

/// Checks the arguments of [`Resample::resample_field`]; returns the inverse of the linear part of the map.
///
/// # Errors
/// As there.
pub fn check_resample_field(
    (field, src_dims): (usize, Dims),
    map: &AffineMap,
    (out, out_dims): (usize, Dims),
) -> Result<[[f64; 3]; 3]> {
    let n = check_source(src_dims)?;
    let inverse = inverse_linear(map)?;
    check_len("field", 3 * n, field)?;
    check_len("output", 3 * voxels("output sizes", out_dims)?, out)?;
    Ok(inverse)
}

/// The sizes of a source, the steps in memory along its axes (zero for an axis of size 1), and the
/// map to it, with the axes in an order in which the first is longer than one voxel, if any is. As
/// axes of size 1 take no part in the order in memory, this only renames the others.
pub(crate) fn in_order(dims: Dims, map: &AffineMap) -> (Dims, [usize; 3], AffineMap) {
    let (mut dims, mut map) = (dims, *map);
    for _ in 0..2 {
        if dims[0] == 1 {
            dims.rotate_left(1);
            map.rotate_left(1);
        }
    }
    let steps = [1, dims[0], dims[0] * dims[1]];
    (dims, [0, 1, 2].map(|a| if dims[a] > 1 { steps[a] } else { 0 }), map)
}

/// Checks the sizes of a grid that is resampled, and gives its number of voxels.
///
/// # Errors
/// Sizes of zero, more than [`MAX_AXIS`] along an axis, or more than [`MAX_VOXELS`] in all.
pub fn check_source(dims: Dims) -> Result<usize> {
    let n = voxels("source sizes", dims)?;
    if n > MAX_VOXELS || dims.iter().any(|&d| d > MAX_AXIS) {
        return Err(ComputeError::argument(
            "source sizes",
            format!("{dims:?}"),
            "at most 2^23 along an axis and 2^31 - 1 voxels in all; resample it in pieces",
        ));
    }
    Ok(n)
}
