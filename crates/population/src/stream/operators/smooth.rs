//! Gaussian smoothing.

use super::{Mimo, Stack, option};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::filter::GaussianMethod;

/// Smooths each image by a Gaussian.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smooth {
    /// Its standard deviation, mm.
    pub sigma: f64,
    /// How it is computed.
    pub method: GaussianMethod,
}

impl<D: Device> Mimo<D> for Smooth {
    /// Sizes, and the standard deviation in voxels.
    type Work = ([usize; 3], [f64; 3]);

    fn workspace(&self, _: &D, stack: &Stack) -> Result<Self::Work> {
        if !(self.sigma.is_finite() && self.sigma >= 0.0) {
            return Err(option("sigma", self.sigma, "give a finite number of 0 mm or more"));
        }
        Ok((stack.dims, stack.spacing.map(|s| self.sigma / s)))
    }

    fn apply(
        &self,
        device: &D,
        image: &D::Buffer<f32>,
        _: &[f64],
        (dims, sigma): &mut Self::Work,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        Ok(device.gaussian(image, *dims, *sigma, self.method, out)?)
    }
}
