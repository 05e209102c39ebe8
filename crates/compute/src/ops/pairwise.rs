//! Sums over all pairs of points of two sets, weighted by a kernel of their distance: the inner products of
//! currents and varifolds.
//!
//! With `m` targets `x`, `n` sources `y` and weights `β` of some components, the sums are `γ_i = Σ_j k(x_i, y_j) β_j`
//! (L. K. Ha, 2011, equation 3.7). They take `m n` evaluations: they are exact, and the reference for what is quicker.

use voxalign_compute_macros::forwarded;

use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len};

/// How the kernel falls off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KernelShape {
    /// `exp(−|x − y|² / λ²)`
    #[default]
    Gaussian,
    /// `1 / (1 + |x − y|² / λ²)`
    Cauchy,
}

/// A kernel of the distance between two points, with its width `λ` in the units of their coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadialKernel {
    /// How it falls off.
    pub shape: KernelShape,
    /// The width `λ`, above 0.
    pub width: f64,
}

impl RadialKernel {
    /// Its value at a distance.
    #[must_use]
    pub fn at(&self, distance: f64) -> f64 {
        let r = (distance / self.width).powi(2);
        match self.shape {
            KernelShape::Gaussian => (-r).exp(),
            KernelShape::Cauchy => 1.0 / (1.0 + r),
        }
    }

    /// The scale of coordinates with which the kernel is `2^(−r²)`, or `1 / (1 + r²)`.
    pub(crate) fn scale(&self) -> f64 {
        match self.shape {
            KernelShape::Gaussian => std::f64::consts::LOG2_E.sqrt() / self.width,
            KernelShape::Cauchy => 1.0 / self.width,
        }
    }

    /// The factor of `Σ_j (k or k²) (β_j · α_i) (x_i − y_j)` in scaled coordinates for the derivative.
    pub(crate) fn derivative_factor(&self) -> f64 {
        -2.0 / (self.width * self.width * self.scale())
    }
}

/// The sources that are added up in single precision before they are in double precision.
pub(crate) const TILE: usize = 128;

/// Farther apart than this, squared and scaled, a Gaussian is nothing. That is so from 126 on: rounding has its room.
pub(crate) const REACH: f32 = 127.0;

/// Sums over all pairs of points.
///
/// Points are three floats each: all x, then all y, then all z. Weights have 1, 3 or 6 components, one behind the other.
/// Distances and kernels are computed in `f32`, sums over pieces of 128 sources too, and these are added in `f64`: the
/// error is some 10⁻⁶ of the sum of absolute values, and where a kernel is narrow beside the coordinates `c`, some
/// `10⁻⁷ |c| |x − y| / λ²` of each. A Gaussian below 2⁻¹²⁶, 9.3 widths away, is nothing; a tile of 128 sources that is so far
/// from some targets that follow each other is passed by, which changes no bit: lists in which neighbours follow each other take less
/// time. Bits depend on the input and the kind of device alone.
///
/// # Errors
/// Both operators: wrong lengths; other numbers of components; a width that is not above 0.
#[forwarded]
pub trait Pairwise: Memory {
    /// `out_i = Σ_j k(x_i, y_j) β_j`.
    ///
    /// # Errors
    /// As said at [`Pairwise`].
    fn pair_sums(
        &self,
        kernel: &RadialKernel,
        targets: &Self::Buffer<f32>,
        sources: &Self::Buffer<f32>,
        weights: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The same, and `derivatives_i = Σ_j ∇ₓ k(x_i, y_j) (β_j · α_i)` with the moments `α` of the targets: what moving a
    /// target changes.
    ///
    /// # Errors
    /// As said at [`Pairwise`].
    #[allow(clippy::too_many_arguments)]
    fn pair_sums_with_derivatives(
        &self,
        kernel: &RadialKernel,
        targets: &Self::Buffer<f32>,
        moments: &Self::Buffer<f32>,
        sources: &Self::Buffer<f32>,
        weights: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
        derivatives: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// The numbers of targets, sources and components.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) targets: usize,
    pub(crate) sources: usize,
    pub(crate) components: usize,
}

/// Checks the arguments of the operators, by the lengths of their buffers.
pub(crate) fn check(
    kernel: &RadialKernel,
    [targets, sources, weights, out]: [usize; 4],
    with_derivatives: Option<[usize; 2]>,
) -> Result<Sizes> {
    if !(kernel.width > 0.0 && kernel.width.is_finite()) {
        return Err(ComputeError::argument("width of the kernel", kernel.width, "above 0"));
    }
    let (points, others) = (targets / 3, sources / 3);
    check_len("targets", 3 * points, targets)?;
    check_len("sources", 3 * others, sources)?;
    let per = |len: usize, points: usize| len.checked_div(points);
    let components = per(weights, others).or(per(out, points)).unwrap_or(1);
    if ![1, 3, 6].contains(&components) {
        return Err(ComputeError::argument("components of the weights", components, "1, 3 or 6"));
    }
    check_len("weights", components * others, weights)?;
    check_len("output", components * points, out)?;
    if let Some([moments, derivatives]) = with_derivatives {
        check_len("moments", components * points, moments)?;
        check_len("derivatives", 3 * points, derivatives)?;
    }
    Ok(Sizes { targets: points, sources: others, components })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_fall_off_by_their_width() {
        for (shape, at_width) in
            [(KernelShape::Gaussian, (-1f64).exp()), (KernelShape::Cauchy, 0.5)]
        {
            let kernel = RadialKernel { shape, width: 2.5 };
            assert!((kernel.at(2.5) - at_width).abs() < 1e-12 && kernel.at(0.0) == 1.0);
        }
    }
}
