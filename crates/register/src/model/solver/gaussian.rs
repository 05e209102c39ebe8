//! Smoothing of forces by a Gaussian: the practical alternative to an operator.

use voxalign_compute::Device;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_options::Parameters;

use super::{Kind, Solution, Solver};
use crate::error::Result;

/// A Gaussian in place of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Gaussian {
    /// Standard deviation of the Gaussian, voxels at the current scale
    #[parameter(
        default = 1.732,
        unit = "VOX",
        above = 0.0,
        what = "number of voxels",
        says = "1.732; for pairs of images that are compared by mapped, mind, mi or nmi 3"
    )]
    pub sigma: f64,
}

impl Kind for Gaussian {
    fn build<D: Device>(
        &self,
        device: &D,
        dims: [usize; 3],
        _: [f64; 3],
    ) -> Result<Box<dyn Solver<D>>> {
        Ok(Box::new(Smoothing::new(device, dims, self.sigma)))
    }

    fn starts_from_last(&self) -> bool {
        false
    }
}

/// Velocities that are smoothed forces.
#[derive(Debug)]
pub struct Smoothing<D: Device> {
    device: D,
    dims: [usize; 3],
    sigma: f64,
}

impl<D: Device> Smoothing<D> {
    /// By a Gaussian of `sigma` voxels.
    pub fn new(device: &D, dims: [usize; 3], sigma: f64) -> Self {
        Self { device: device.clone(), dims, sigma }
    }
}

impl<D: Device> Solver<D> for Smoothing<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        self.device.gaussian(f, self.dims, [self.sigma; 3], GaussianMethod::Narrow, v)?;
        Ok(Solution { iterations: 1, residual: None })
    }

    fn residual(&mut self, _: &D::Buffer<f32>, _: &D::Buffer<f32>) -> Result<Option<f64>> {
        Ok(None)
    }
}
