//! Normalised cross correlation.

use super::sums::{Formula, is_flat};
use super::{CostAndDerivatives, Kind, OfSums};
use serde::{Deserialize, Serialize};
use voxalign_options::Parameters;

/// Normalised cross correlation over the whole overlap: 1 - NCC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Ncc {}

impl Kind for Ncc {
    fn of_sums(&self) -> Option<OfSums> {
        Some(OfSums {
            formula: Formula::Moments(cross_correlation),
            bins: 1,
            one_scale: false,
            smooths_fixed: true,
        })
    }
}

/// Normalised cross correlation: `1 - cov(x, y) / sqrt(var x var y)`, between 0 and 2, from the
/// moments `1, x, y, x^2, y^2, x y`; 1 where one of the images is constant in the overlap.
#[must_use]
pub fn cross_correlation(m: &[f64]) -> CostAndDerivatives {
    let n = m[0];
    let flat = CostAndDerivatives { cost: 1.0, derivatives: vec![0.0; 6] };
    if n <= 0.0 {
        return flat;
    }
    let (mx, my) = (m[1] / n, m[2] / n);
    let vx = m[3] - m[1] * mx;
    let vy = m[4] - m[2] * my;
    let c = m[5] - m[1] * my;
    if is_flat(n, vx, m[3]) || is_flat(n, vy, m[4]) {
        return flat;
    }
    let root = (vx * vy).sqrt();
    let r = c / root;
    // d r = dc / root - r / 2 (dvx / vx + dvy / vy)
    let (a, b) = (r / (2.0 * vx), r / (2.0 * vy));
    let derivatives = vec![
        -(mx * my / root - a * mx * mx - b * my * my),
        -(-my / root + 2.0 * a * mx),
        -(-mx / root + 2.0 * b * my),
        a,
        b,
        -1.0 / root,
    ];
    CostAndDerivatives { cost: 1.0 - r, derivatives }
}

#[cfg(test)]
mod tests {
    use super::super::sums::taylor;
    use super::*;

    #[test]
    fn derivatives_match_differences() {
        taylor(cross_correlation, &[30.0, 4.0, -3.0, 40.0, 35.0, 20.0]);
    }

    #[test]
    fn extremes() {
        assert!(cross_correlation(&[3.0, 6.0, 6.0, 14.0, 14.0, 14.0]).cost.abs() < 1e-12);
        assert_eq!(cross_correlation(&[0.0; 6]).cost, 1.0);
        assert_eq!(cross_correlation(&[2.0, 2.0, 4.0, 2.0, 10.0, 4.0]).cost, 1.0);
    }

    /// What is left of the sums of a constant is no variance, and what comes of it no correlation: it once was 4.4.
    #[test]
    fn noise_of_sums_is_no_variance() {
        let n = 1e5;
        let sums = [n, -1.3 * n, 0.2 * n, 1.69 * n * (1.0 + 1e-7), 0.5 * n, -0.26 * n + 3e2];
        assert_eq!(cross_correlation(&sums).cost, 1.0);
    }
}
