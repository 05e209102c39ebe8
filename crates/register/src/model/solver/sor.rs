//! Red-black successive over-relaxation (Ha 2011, section 2.3.5).

use voxalign_compute::Device;

use super::{Elasticity, Solution, Solver};
use crate::error::Result;

/// Iterations between two looks at the residual, each of which waits for the device.
const CHECK_EVERY: usize = 8;

/// Sweeps with the best factor.
#[derive(Debug)]
pub struct Relaxation<D: Device> {
    device: D,
    of: Elasticity,
    omega: f64,
    iterations: usize,
    tolerance: f64,
    work: D::Buffer<f32>,
}

impl<D: Device> Relaxation<D> {
    /// At most `iterations` sweeps a call, until the relative residual is below `tolerance`.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(device: &D, of: Elasticity, iterations: usize, tolerance: f64) -> Result<Self> {
        let omega = of.operator.relaxation(of.dims);
        let work = device.alloc(of.len())?;
        Ok(Self { device: device.clone(), of, omega, iterations, tolerance, work })
    }

    /// The same with another factor, between 0 and 2.
    #[must_use]
    pub fn with_factor(self, omega: f64) -> Self {
        Self { omega, ..self }
    }

    /// One sweep. The solution is in the buffer that was given, which is another one than before.
    pub(super) fn sweep(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<()> {
        let Elasticity { operator, dims } = self.of;
        self.device.elastic_sweep(&operator, self.omega, f, v, dims, &mut self.work)?;
        std::mem::swap(v, &mut self.work);
        Ok(())
    }
}

impl<D: Device> Solver<D> for Relaxation<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        let mut solution = Solution::default();
        while solution.iterations < self.iterations {
            self.sweep(f, v)?;
            solution.iterations += 1;
            let is_last = solution.iterations == self.iterations;
            if is_last || solution.iterations.is_multiple_of(CHECK_EVERY) {
                solution.residual = self.residual(f, v)?;
                if solution.residual.is_some_and(|r| r <= self.tolerance) {
                    break;
                }
            }
        }
        Ok(solution)
    }

    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>> {
        self.of.relative_residual(&self.device, f, v, &mut self.work).map(Some)
    }
}
