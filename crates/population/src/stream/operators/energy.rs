//! The energy of each image.

use super::{Miso, Stack};
use crate::error::Result;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{ComputeError, Device};

/// The sum of the squares of the voxels of each image, or of their differences to a reference.
#[derive(Debug, Clone, Default)]
pub struct Energy<'a> {
    /// The values of the reference, on the grid of the images.
    pub reference: Option<&'a [f32]>,
}

/// The energies of images.
#[derive(Debug, Clone, PartialEq)]
pub struct Energies {
    /// Of each image.
    pub each: Vec<f64>,
    /// Of all together; the same for any order of the images.
    pub total: f64,
}

impl<D: Device> Miso<D> for Energy<'_> {
    type State = (Option<D::Buffer<f32>>, Vec<f64>);
    type Output = Energies;

    fn start(&self, device: &D, stack: &Stack) -> Result<Self::State> {
        let reference = match self.reference {
            Some(values) if values.len() != stack.voxels() => {
                return Err(length("reference", stack.voxels(), values.len()).into());
            }
            Some(values) => Some(device.upload(values)?),
            None => None,
        };
        Ok((reference, vec![0.0; stack.count]))
    }

    fn add(
        &self,
        device: &D,
        item: usize,
        image: &D::Buffer<f32>,
        (reference, each): &mut Self::State,
    ) -> Result<()> {
        let found = match reference {
            Some(r) => device.reduce(&[image, r], &[Reduction::SumSquaredDifference(0, 1)])?,
            None => device.reduce(&[image], &[Reduction::SumSquares(0)])?,
        };
        each[item] = found[0];
        Ok(())
    }

    fn finish(&self, _: &D, _: &Stack, (_, each): Self::State) -> Result<Energies> {
        let mut sorted = each.clone();
        sorted.sort_by(f64::total_cmp);
        Ok(Energies { total: sorted.iter().sum(), each })
    }
}

pub(super) fn length(what: &'static str, expected: usize, found: usize) -> ComputeError {
    ComputeError::Length { what, expected, found }
}
