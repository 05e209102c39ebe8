//! Similarities as functions of sums over the overlap, and their derivatives in these sums.
//!
//! Each function returns the cost and its derivative in every sum it was given; the chain rule with the
//! derivatives of the sums gives the derivative in the map.

/// A cost and its derivative in every sum.
#[derive(Debug, Clone, PartialEq)]
pub struct CostAndDerivatives {
    /// The cost.
    pub cost: f64,
    /// Its derivative in each of the sums.
    pub derivatives: Vec<f64>,
}

/// The sums over an overlap that a similarity is a function of.
#[derive(Debug, Clone, Copy)]
pub enum Formula {
    /// Of the moving values and their squares in each bin of the fixed image: `N_i`, `S1_i`, `S2_i`.
    Ratio(fn(&[f64]) -> CostAndDerivatives),
    /// Of both images' values, squares and products: `1, x, y, x^2, y^2, x y`, no histogram.
    Moments(fn(&[f64]) -> CostAndDerivatives),
    /// Of the pairs of bins of both images, a joint histogram with this many columns.
    Joint(fn(&[f64], usize) -> CostAndDerivatives),
}

/// A similarity as a function of sums, for affine maps.
#[derive(Debug, Clone, Copy)]
pub struct OfSums {
    /// The function.
    pub formula: Formula,
    /// Bins of the fixed image, and of the moving image for joint histograms; 1 without a histogram.
    pub bins: usize,
    /// Whether intensities are on one scale, so that the moving image is normalised by the fixed one's
    /// numbers.
    pub one_scale: bool,
    /// Whether the fixed image is smoothed for coarse scales. Where its values only name bins, smoothing
    /// makes values between two tissues name a third, which costs accuracy there.
    pub smooths_fixed: bool,
}

/// Variance of an image below which it counts as constant. (Images are normalised to a variance of 1
/// before.)
const FLAT: f64 = 1e-9;

/// The fraction of a sum of squares below which a variance computed from it is noise: sums are in single precision,
/// and the region beside an object is constant up to that.
const NOISE: f64 = 1e-6;

/// Whether an image counts as constant, given the number of samples, their variance times that, and the sum of their squares.
pub(super) fn is_flat(n: f64, variance: f64, squares: f64) -> bool {
    let varies = variance > FLAT * n && variance > NOISE * squares;
    !varies
}

/// Overlap, as a fraction of the smaller image, below which an alignment is penalised.
pub const OVERLAP_WANTED: f64 = 0.5;

/// The penalty of a small overlap, and its derivative: `(1 - f / wanted)^2` below the wanted overlap. It keeps the
/// search from sliding the images off each other, where few samples agree by chance; it is zero, and so is its
/// derivative, at and above the wanted overlap.
#[must_use]
pub fn overlap_term(fraction: f64) -> (f64, f64) {
    let lack = 1.0 - fraction / OVERLAP_WANTED;
    if lack > 0.0 { (lack * lack, -2.0 * lack / OVERLAP_WANTED) } else { (0.0, 0.0) }
}

/// Holds derivatives against differences.
#[cfg(test)]
pub(super) fn taylor(f: impl Fn(&[f64]) -> CostAndDerivatives, at: &[f64]) {
    let base = f(at);
    assert_eq!(base.derivatives.len(), at.len());
    for i in 0..at.len() {
        let h = 1e-5 * at[i].abs().max(1e-2);
        let mut up = at.to_vec();
        up[i] += h;
        let mut down = at.to_vec();
        down[i] -= h;
        let derivative = (f(&up).cost - f(&down).cost) / (2.0 * h);
        let error = (derivative - base.derivatives[i]).abs();
        assert!(
            error < 1e-6 * (1.0 + derivative.abs()),
            "{i}: {derivative} {}",
            base.derivatives[i]
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_term_is_smooth() {
        assert_eq!(overlap_term(0.8), (0.0, 0.0));
        assert_eq!(overlap_term(0.0).0, 1.0);
        let h = 1e-6;
        let derivative = (overlap_term(0.2 + h).0 - overlap_term(0.2 - h).0) / (2.0 * h);
        assert!((derivative - overlap_term(0.2).1).abs() < 1e-6);
    }
}
