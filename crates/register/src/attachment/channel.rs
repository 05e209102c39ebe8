//! Image data terms of one channel, driven by its similarity.

use super::{Attachment, Gradient, Maps, Needs};
use crate::error::Result;
use crate::similarity::{PendingEnergy, Similarity};
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_image::Grid;

/// How the images of a channel are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelSimilarity {
    /// The number of the channel.
    pub channel: usize,
    /// The similarity, with an [energy](Similarity::has_energy).
    pub similarity: Similarity,
    /// The factor of its energy.
    pub weight: f64,
}

impl ChannelSimilarity {
    fn weigh<D: Device>(&self, device: &D, derivative: &mut D::Buffer<f32>) -> Result<()> {
        if self.weight != 1.0 {
            device.eval_in_place(
                &(x(0) * param(0)),
                derivative,
                &[],
                &[self.weight as f32],
                None,
            )?;
        }
        Ok(())
    }
}

impl<D: Device> Attachment<D> for ChannelSimilarity {
    fn needs(&self) -> Needs<'_, D> {
        Needs::images(self.channel..self.channel + 1)
    }

    /// [`Kind::energy`](crate::similarity::Kind::energy) of the moved image and its reference times the weight, or
    /// [`energy_of_both`](crate::similarity::Kind::energy_of_both) where each is the other's reference.
    ///
    /// # Errors
    /// As there.
    fn evaluate(
        &mut self,
        device: &D,
        at: &Maps<'_, D>,
        out: &mut Gradient<'_, D>,
    ) -> Result<PendingEnergy> {
        let (Some(&images), Some(derivative)) = (at.images.first(), out.derivatives.first_mut())
        else {
            return Ok(PendingEnergy::default());
        };
        let energy = match out.reference_derivatives.first_mut() {
            None => {
                let energy = self.similarity.energy(device, images, derivative)?;
                self.weigh(device, derivative)?;
                energy
            }
            Some(other) => {
                let energy = self.similarity.energy_of_both(device, images, [derivative, other])?;
                self.weigh(device, derivative)?;
                self.weigh(device, other)?;
                energy
            }
        };
        Ok(energy.times(self.weight))
    }

    fn curvature(&self) -> Option<f64> {
        self.similarity.curvature().map(|of_voxel| self.weight * of_voxel)
    }

    fn leaves_out_what_left(&self) -> bool {
        self.similarity.leaves_out_what_left()
    }

    fn bytes(&self, grid: &Grid) -> u64 {
        4 * self.similarity.temporaries() * grid.len() as u64
    }
}
