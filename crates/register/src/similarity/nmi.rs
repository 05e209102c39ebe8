//! Normalised mutual information.

use super::information::information;
use super::joint::Joint;
use super::sums::Formula;
use super::{CostAndDerivatives, Images, Kind, OfSums, PendingEnergy};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_compute::Device;
use voxalign_options::Parameters;

/// Normalised mutual information: -(H(F) + H(M)) / H(F, M), -2 to -1.
///
/// Rows are hard bins of the fixed image, columns windows over the moving one; where both move, both are
/// windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Nmi {
    /// Histogram bins
    #[parameter(default = 32, unit = "N", least = 8, most = 512, what = "number")]
    pub bins: usize,
}

impl Kind for Nmi {
    fn of_sums(&self) -> Option<OfSums> {
        Some(OfSums {
            formula: Formula::Joint(normalised_mutual_information),
            bins: self.bins,
            one_scale: false,
            smooths_fixed: true,
        })
    }

    fn has_energy(&self) -> bool {
        true
    }

    fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        let joint = Joint { device, images, bins: self.bins };
        Ok(PendingEnergy::known(joint.energy(normalised_mutual_information, derivative)?))
    }
}

/// Normalised mutual information (Studholme et al. 1999), `-(H(F) + H(M)) / H(F, M)`, between -2
/// and -1, from a joint histogram.
#[must_use]
pub fn normalised_mutual_information(joint: &[f64], columns: usize) -> CostAndDerivatives {
    information(joint, columns, |[hf, hm, hj]| {
        if hj <= 1e-12 {
            return (-1.0, [0.0; 3]);
        }
        let nmi = (hf + hm) / hj;
        (-nmi, [-1.0 / hj, -1.0 / hj, nmi / hj])
    })
}

#[cfg(test)]
mod tests {
    use super::super::sums::taylor;
    use super::*;

    #[test]
    fn derivatives_match_differences() {
        let joint = [4.0, 1.0, 0.5, 2.0, 8.0, 1.0, 0.3, 2.0, 5.0, 1.0, 1.5, 2.5];
        taylor(|j| normalised_mutual_information(j, 4), &joint);
    }

    #[test]
    fn extremes() {
        let identity = [1.0, 0.0, 0.0, 1.0];
        assert!((normalised_mutual_information(&identity, 2).cost + 2.0).abs() < 1e-12);
        assert!((normalised_mutual_information(&[1.0; 4], 2).cost + 1.0).abs() < 1e-12);
    }
}
