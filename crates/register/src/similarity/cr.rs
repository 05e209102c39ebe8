//! The correlation ratio.

use super::sums::{Formula, is_flat};
use super::{CostAndDerivatives, Kind, OfSums};
use serde::{Deserialize, Serialize};
use voxalign_options::Parameters;

/// Correlation ratio: 1 - eta(moving | fixed), not symmetric in the images. Serves images of one kind and
/// of different kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Cr {
    /// Histogram bins
    #[parameter(default = 256, unit = "N", least = 4, most = 4096, what = "number")]
    pub bins: usize,
}

impl Kind for Cr {
    fn of_sums(&self) -> Option<OfSums> {
        Some(OfSums {
            formula: Formula::Ratio(correlation_ratio),
            bins: self.bins,
            one_scale: false,
            smooths_fixed: false,
        })
    }
}

/// Correlation ratio: `1 - eta = (sum_i N_i var_i) / (N var)`, with the sums `N_i`, `S1_i`, `S2_i` of every bin
/// (eqs. 2 to 4 of Li et al. 2015). Between 0 (the fixed image determines the moving one) and 1 (no relation); 1
/// where the overlap is empty or the moving image constant in it.
#[must_use]
pub fn correlation_ratio(sums: &[f64]) -> CostAndDerivatives {
    let (mut n, mut s1, mut s2) = (0.0, 0.0, 0.0);
    let mut within = 0.0;
    for bin in sums.chunks_exact(3) {
        n += bin[0];
        s1 += bin[1];
        s2 += bin[2];
        if bin[0] > 0.0 {
            within += bin[2] - bin[1] * bin[1] / bin[0];
        }
    }
    let total = if n > 0.0 { s2 - s1 * s1 / n } else { 0.0 };
    if n <= 0.0 || is_flat(n, total, s2) {
        return CostAndDerivatives { cost: 1.0, derivatives: vec![0.0; sums.len()] };
    }
    let cost = within / total;
    let mean = s1 / n;
    let mut derivatives = Vec::with_capacity(sums.len());
    for bin in sums.chunks_exact(3) {
        let m = if bin[0] > 0.0 { bin[1] / bin[0] } else { 0.0 };
        derivatives.push((m * m - cost * mean * mean) / total);
        derivatives.push(-2.0 * (m - cost * mean) / total);
        derivatives.push((1.0 - cost) / total);
    }
    CostAndDerivatives { cost, derivatives }
}

#[cfg(test)]
mod tests {
    use super::super::sums::taylor;
    use super::*;

    #[test]
    fn derivatives_match_differences() {
        taylor(correlation_ratio, &[10., 3., 12., 20., -8., 30., 5., 4., 6., 0.5, 0.1, 0.3]);
    }

    #[test]
    fn extremes() {
        // y is a function of the bin: the ratio is 0. The same mean in every bin: 1.
        let exact = correlation_ratio(&[2.0, 2.0, 2.0, 3.0, 6.0, 12.0]);
        assert!(exact.cost.abs() < 1e-12);
        let none = correlation_ratio(&[2.0, 0.0, 2.0, 4.0, 0.0, 9.0]);
        assert!((none.cost - 1.0).abs() < 1e-12);
        assert_eq!(correlation_ratio(&[0.0; 6]).cost, 1.0);
        assert_eq!(correlation_ratio(&[5.0, 5.0, 5.0]).cost, 1.0);
    }

    /// What is left of the sums of a constant is no variance.
    #[test]
    fn noise_of_sums_is_no_variance() {
        let (n, noise) = (1e5, 1.0 + 1e-7);
        let sums =
            [n, -1.3 * n, 1.69 * n * (2.0 - noise), n, -1.3 * n, 1.69 * n * (3.0 * noise - 2.0)];
        assert_eq!(correlation_ratio(&sums).cost, 1.0);
    }
}
