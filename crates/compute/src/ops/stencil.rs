//! Finite differences on a grid.

use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len, voxels};

/// Finite differences. A vector field over `n` voxels is one buffer of `3 n` elements: all x, then
/// all y, then all z components.
#[forwarded]
pub trait Stencil: Memory {
    /// The gradient along the axes of the grid: central differences
    /// `(s[i+1] − s[i−1]) / (2 h)`, at the first and the last voxel one-sided ones, `(s[1] − s[0]) / h`
    /// and `(s[n−1] − s[n−2]) / h`, with the `spacing` h of each axis; zero along an axis of size 1.
    /// A spacing may be negative, for an axis that is flipped. `out` is a vector field.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a spacing that is zero or not finite.
    fn gradient(
        &self,
        src: &Self::Buffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The divergence of a vector field along the axes of the grid: the sum over the axes of the
    /// derivative of each component along its axis, by the differences of
    /// [`gradient`](Self::gradient).
    ///
    /// # Errors
    /// Wrong lengths or sizes; a spacing that is zero or not finite.
    fn divergence(
        &self,
        field: &Self::Buffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The Laplacian, the sum over the axes of second differences `(s[i+1] − 2 s[i] + s[i−1]) / h²` with the
    /// `spacing` h of each axis; before the first and after the last voxel the image continues with the value
    /// there. Symmetric, and equal to the divergence by one-sided differences of a gradient that is zero across the
    /// border. An axis of size 1 adds nothing, so that the stencil of a 2D image has five points.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a spacing that is zero or not finite, or whose square is not.
    fn laplacian(
        &self,
        src: &Self::Buffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The determinant of the derivative of `i + u[i]` for displacements `u` in voxels of their grid, by the
    /// differences of [`gradient`](Self::gradient): the volume scale factor; not above zero where the mapping
    /// folds.
    ///
    /// # Errors
    /// Wrong lengths or sizes.
    fn jacobian_determinant(
        &self,
        field: &Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// Checks the arguments of [`Stencil::gradient`].
///
/// # Errors
/// As there.
pub fn check_gradient(src: usize, dims: Dims, spacing: [f64; 3], out: usize) -> Result<()> {
    let n = voxels("sizes", dims)?;
    check_len("source", n, src)?;
    check_len("output", 3 * n, out)?;
    check_spacing(spacing)
}

/// Checks the arguments of [`Stencil::divergence`].
///
/// # Errors
/// As there.
pub fn check_divergence(field: usize, dims: Dims, spacing: [f64; 3], out: usize) -> Result<()> {
    check_determinant(field, dims, out)?;
    check_spacing(spacing)
}

/// Checks the arguments of [`Stencil::laplacian`], and gives the [factors](laplacian_factors).
///
/// # Errors
/// As there.
pub fn check_laplacian(src: usize, dims: Dims, spacing: [f64; 3], out: usize) -> Result<[f32; 3]> {
    let n = voxels("sizes", dims)?;
    check_len("source", n, src)?;
    check_len("output", n, out)?;
    laplacian_factors(spacing)
}

/// Checks the arguments of [`Stencil::jacobian_determinant`].
///
/// # Errors
/// As there.
pub fn check_determinant(field: usize, dims: Dims, out: usize) -> Result<()> {
    let n = voxels("sizes", dims)?;
    check_len("field", 3 * n, field)?;
    check_len("output", n, out)
}

/// Checks the spacing of a grid.
///
/// # Errors
/// A spacing that is zero or not finite.
pub fn check_spacing(spacing: [f64; 3]) -> Result<()> {
    match spacing.iter().find(|h| !(h.is_finite() && **h != 0.0)) {
        None => Ok(()),
        Some(h) => Err(ComputeError::argument("spacing", h, "finite and not zero")),
    }
}

/// The factors of second differences along each axis: one over the square of the spacing.
///
/// # Errors
/// A spacing that is zero or not finite, or whose square does not fit in `f32`.
pub fn laplacian_factors(spacing: [f64; 3]) -> Result<[f32; 3]> {
    check_spacing(spacing)?;
    let factors = spacing.map(|h| (1.0 / (h * h)) as f32);
    match factors.iter().position(|f| !f.is_normal()) {
        None => Ok(factors),
        Some(a) => {
            let expected = "such that its inverse square is a normal number in single precision";
            Err(ComputeError::argument("spacing", spacing[a], expected))
        }
    }
}
