//! Maximum and minimum over all images, voxel by voxel, and over all voxels.

use super::{Miso, Stack};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::memory;

/// The largest or the smallest value of each voxel over all images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl<D: Device> Miso<D> for Extreme {
    type State = D::Buffer<f32>;
    type Output = Vec<f32>;

    fn start(&self, device: &D, stack: &Stack) -> Result<D::Buffer<f32>> {
        let none = match self {
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
        };
        Ok(device.upload_vec(memory::filled(stack.voxels(), none)?)?)
    }

    fn add(
        &self,
        device: &D,
        _: usize,
        image: &D::Buffer<f32>,
        state: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let better = match self {
            Self::Max => x(0).max(x(1)),
            Self::Min => x(0).min(x(1)),
        };
        Ok(device.eval_in_place(&better, state, &[image], &[], None)?)
    }

    fn finish(&self, device: &D, _: &Stack, mut state: D::Buffer<f32>) -> Result<Vec<f32>> {
        // Which of 0 and −0 came last must not show: −0 + 0 is 0.
        device.eval_in_place(&(x(0) + 0.0), &mut state, &[], &[], None)?;
        Ok(device.into_host(state)?)
    }
}

/// The largest absolute value of all voxels of all images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargestValue;

impl<D: Device> Miso<D> for LargestValue {
    type State = f64;
    type Output = f64;

    fn start(&self, _: &D, _: &Stack) -> Result<f64> {
        Ok(0.0)
    }

    fn add(&self, device: &D, _: usize, image: &D::Buffer<f32>, most: &mut f64) -> Result<()> {
        *most = most.max(device.reduce(&[image], &[Reduction::MaxAbs(0)])?[0]);
        Ok(())
    }

    fn finish(&self, _: &D, _: &Stack, most: f64) -> Result<f64> {
        Ok(most)
    }
}
