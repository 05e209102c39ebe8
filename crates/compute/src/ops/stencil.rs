//! Finite differences on a grid.

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result};

/// Finite differences. A vector field over `n` voxels is one buffer of `3 n` elements: all x, then
/// all y, then all z components.
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

    /// The determinant of the derivative of `i + u[i]` for displacements `u` in voxels of their
    /// grid, by the differences of [`gradient`](Self::gradient): how much the volume grows; not above zero where the
    /// mapping folds.
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
