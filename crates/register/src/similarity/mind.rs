//! Modality-independent neighbourhood descriptors: the difference of self-similarity contexts.

use super::{Images, Kind, NOISE, PendingEnergy};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_compute::Device;
use voxalign_compute::ops::similarity::Contexts;
use voxalign_options::Parameters;

/// Modality-independent neighbourhood descriptors (MIND), as self-similarity contexts, from 0:
/// [`self_similarity`](voxalign_compute::ops::Similarity::self_similarity). What is compared is how alike the patches around a voxel are to
/// each other, which images of different kinds have in common where intensities have nothing to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Mind {
    /// Radius of the patches, voxels at the current scale
    #[parameter(default = 1, unit = "VOX", least = 1, most = 8, what = "whole number of voxels")]
    pub patch_radius: usize,
    /// Distance from a voxel to the patches around it that are compared, voxels at the current scale
    #[parameter(default = 1, unit = "VOX", least = 1, most = 8, what = "whole number of voxels")]
    pub patch_distance: usize,
}

impl Mind {
    fn contexts(&self) -> Contexts {
        Contexts { radius: self.patch_radius, distance: self.patch_distance, noise: NOISE }
    }
}

impl Kind for Mind {
    fn has_energy(&self) -> bool {
        true
    }

    fn temporaries(&self) -> u64 {
        // The entries of contexts, and their sums over windows.
        24
    }

    fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        let Images { reference, moved, weights, dims, .. } = images;
        let (contexts, mut energy) = (self.contexts(), device.alloc::<f64>(1)?);
        device.self_similarity(
            reference,
            moved,
            weights,
            dims,
            &contexts,
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
        let (contexts, mut energy) = (self.contexts(), device.alloc::<f64>(1)?);
        let [of_moved, of_reference] = derivatives;
        device.self_similarity_of_both(
            moved,
            reference,
            weights,
            dims,
            &contexts,
            of_moved,
            of_reference,
            &mut energy,
        )?;
        Ok(PendingEnergy::arriving(device.arriving(&energy)?, 1.0))
    }
}
