//! Mutual information, plain and normalised.

use super::information::information;
use super::joint::Joint;
use super::sums::Formula;
use super::{CostAndDerivatives, Images, Kind, OfSums, PendingEnergy};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_compute::Device;
use voxalign_options::Parameters;

/// Mutual information: -MI in nats, of the joint histogram. Also between kinds of image.
///
/// Rows are hard bins of the fixed image, columns windows over the moving one; where both move, both are
/// windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Mi {
    /// Histogram bins
    #[parameter(default = 64, unit = "N", least = 8, most = 512, what = "number")]
    pub bins: usize,
}

/// Normalised mutual information: -(H(F) + H(M)) / H(F, M), -2 to -1.
///
/// The histogram is that of [`Mi`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Nmi {
    /// Histogram bins
    #[parameter(default = 32, unit = "N", least = 8, most = 512, what = "number")]
    pub bins: usize,
}

/// Kinds that are functions of a joint histogram.
macro_rules! of_joint {
    ($($kind:ident: $function:ident;)*) => {$(
        impl Kind for $kind {
            fn of_sums(&self) -> Option<OfSums> {
                Some(OfSums {
                    formula: Formula::Joint($function),
                    bins: self.bins,
                    one_scale: false,
                    smooths_fixed: true,
                })
            }

            fn has_energy(&self) -> bool {
                true
            }

            fn pressure(&self) -> f64 {
                0.05
            }

            fn energy<D: Device>(
                &self,
                device: &D,
                images: Images<'_, D>,
                derivative: &mut D::Buffer<f32>,
            ) -> Result<PendingEnergy> {
                let joint = Joint { device, images, bins: self.bins };
                Ok(PendingEnergy::known(joint.energy($function, derivative)?))
            }
        }
    )*};
}

of_joint! {
    Mi: mutual_information;
    Nmi: normalised_mutual_information;
}

/// Mutual information, `-(H(F) + H(M) - H(F, M))` in nats, from a joint histogram.
#[must_use]
pub fn mutual_information(joint: &[f64], columns: usize) -> CostAndDerivatives {
    information(joint, columns, |[hf, hm, hj]| (-(hf + hm - hj), [-1.0, -1.0, 1.0]))
}

/// Normalised mutual information (C. Studholme, D. L. G. Hill and D. J. Hawkes 1999, Pattern Recognition 32,
/// 71-86), `-(H(F) + H(M)) / H(F, M)`, between -2 (each image determines the other) and -1 (independent), from a
/// joint histogram; -1 where both are constant.
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
        taylor(|j| mutual_information(j, 4), &joint);
        taylor(|j| normalised_mutual_information(j, 4), &joint);
    }

    #[test]
    fn extremes() {
        let identity = [1.0, 0.0, 0.0, 1.0];
        assert!((mutual_information(&identity, 2).cost + 2f64.ln()).abs() < 1e-12);
        assert_eq!(mutual_information(&[0.0; 4], 2).cost, 0.0);
        assert!((normalised_mutual_information(&identity, 2).cost + 2.0).abs() < 1e-12);
        assert!((normalised_mutual_information(&[1.0; 4], 2).cost + 1.0).abs() < 1e-12);
    }
}
