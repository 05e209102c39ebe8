//! Mean squared difference.

use super::sums::Formula;
use super::{CostAndDerivatives, Images, Kind, OfSums, PendingEnergy};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::elementwise::{param, scalar, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_options::Parameters;

/// Mean squared difference, `Σ w (m − f)² / Σ w`: for one kind of image with intensities on one scale. Of
/// affine maps it is divided by the fixed image's variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Ssd {}

impl Kind for Ssd {
    fn of_sums(&self) -> Option<OfSums> {
        Some(OfSums {
            formula: Formula::Moments(squared_difference),
            bins: 1,
            one_scale: true,
            smooths_fixed: true,
        })
    }

    fn has_energy(&self) -> bool {
        true
    }

    fn curvature(&self) -> Option<f64> {
        Some(2.0)
    }

    fn pressure(&self) -> f64 {
        12.0
    }

    fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        let Images { reference, moved, weights, .. } = images;
        if let Some(weights) = weights {
            let energy = weighted(device, reference, moved, weights, derivative)?;
            return Ok(PendingEnergy::known(energy));
        }
        let n = reference.len().max(1) as f64;
        let mut sum = device.alloc::<f64>(1)?;
        let what = [Reduction::SumSquaredDifference(0, 1)];
        device.reduce_into(&[moved, reference], &what, &mut sum)?;
        let derivatives = (x(0) - x(1)) * param(0);
        device.eval(&derivatives, &[moved, reference], &[(2.0 / n) as f32], None, derivative)?;
        Ok(PendingEnergy::arriving(device.arriving(&sum)?, n))
    }
}

/// The mean squared difference `Σ w (m − f)² / Σ w` and its derivative.
fn weighted<D: Device>(
    device: &D,
    fixed: &D::Buffer<f32>,
    moved: &D::Buffer<f32>,
    weights: &D::Buffer<f32>,
    derivative: &mut D::Buffer<f32>,
) -> Result<f64> {
    let mut total = device.alloc::<f64>(1)?;
    device.reduce_into(&[weights], &[Reduction::Sum(0)], &mut total)?;
    let derivatives = (x(0) - x(1)) * x(2) * 2.0 / scalar(0);
    device.eval(&derivatives, &[moved, fixed, weights], &[], Some(&total), derivative)?;
    // Σ w d² / Σ w is half of Σ derivative d.
    let dots = device
        .reduce(&[derivative, moved, fixed], &[Reduction::Dot(0, 1), Reduction::Dot(0, 2)])?;
    Ok(0.5 * (dots[0] - dots[1]))
}

/// Mean squared difference, `sum w (x - y)^2 / sum w`, from the moments
/// `1, x, y, x^2, y^2, x y`. In units of the fixed image's variance, as images are normalised.
#[must_use]
pub fn squared_difference(m: &[f64]) -> CostAndDerivatives {
    let n = m[0];
    if n <= 0.0 {
        return CostAndDerivatives { cost: 4.0, derivatives: vec![0.0; 6] };
    }
    let cost = (m[3] + m[4] - 2.0 * m[5]) / n;
    CostAndDerivatives { cost, derivatives: vec![-cost / n, 0.0, 0.0, 1.0 / n, 1.0 / n, -2.0 / n] }
}

#[cfg(test)]
mod tests {
    use super::super::sums::taylor;
    use super::*;

    #[test]
    fn derivatives_match_differences() {
        taylor(squared_difference, &[30.0, 4.0, -3.0, 40.0, 35.0, 20.0]);
    }

    #[test]
    fn extremes() {
        assert!(squared_difference(&[3.0, 6.0, 6.0, 14.0, 14.0, 14.0]).cost.abs() < 1e-12);
        assert_eq!(squared_difference(&[0.0; 6]).cost, 4.0);
    }
}
