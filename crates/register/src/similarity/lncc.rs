//! Local normalised cross correlation.

use super::{Images, Kind, NOISE, PendingEnergy};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_compute::{Device, Dims};
use voxalign_options::Parameters;

/// Local normalised cross correlation, -1 to 0:
/// [`local_correlation`](voxalign_compute::ops::Similarity::local_correlation). Also where brightness
/// changes slowly over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Lncc {
    /// Radius of the windows, voxels at the current scale
    #[parameter(default = 2, unit = "VOX", least = 1, most = 20, what = "whole number of voxels")]
    pub radius: usize,
}

impl Lncc {
    /// The radius of windows along each axis.
    fn radius(&self, dims: Dims) -> [usize; 3] {
        dims.map(|n| if n > 1 { self.radius } else { 0 })
    }
}

impl Kind for Lncc {
    fn has_energy(&self) -> bool {
        true
    }

    fn pressure(&self) -> f64 {
        0.5
    }

    fn leaves_out_what_left(&self) -> bool {
        false
    }

    fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        let Images { reference, moved, weights, dims, .. } = images;
        let (mut energy, radius) = (device.alloc::<f64>(1)?, self.radius(dims));
        device.local_correlation(
            reference,
            moved,
            weights,
            dims,
            radius,
            NOISE,
            derivative,
            &mut energy,
        )?;
        Ok(PendingEnergy::arriving(device.arriving(&energy)?, 1.0))
    }

    fn energy_of_both<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivatives: [&mut D::Buffer<f32>; 2],
    ) -> Result<PendingEnergy> {
        let Images { reference, moved, weights, dims, .. } = images;
        let (mut energy, radius) = (device.alloc::<f64>(1)?, self.radius(dims));
        let [of_moved, of_reference] = derivatives;
        device.local_correlation_of_both(
            moved,
            reference,
            weights,
            dims,
            radius,
            NOISE,
            of_moved,
            of_reference,
            &mut energy,
        )?;
        Ok(PendingEnergy::arriving(device.arriving(&energy)?, 1.0))
    }
}
