//! Red-black successive over-relaxation (Ha 2011, section 2.3.5).

use voxalign_compute::Device;
use voxalign_options::Parameters;

use super::{Elasticity, Kind, Operator, Solution, Solver};
use crate::error::Result;

/// Iterations between two looks at the residual, each of which waits for the device.
const CHECK_EVERY: usize = 8;

/// The operator is inverted by sweeps of relaxation.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Sor {
    /// Its constants.
    #[parameter(flatten)]
    pub operator: Operator,
    /// Maximum number of iterations per velocity
    #[parameter(default = 200, least = 1)]
    pub solver_iterations: usize,
    /// Relative residual at which iterations stop
    #[parameter(
        default = 0.001,
        unit = "R",
        above = 0.0,
        below = 1.0,
        remedy = "give a relative residual between 0 and 1, such as 0.001"
    )]
    pub solver_tolerance: f64,
}

impl Kind for Sor {
    fn operator(&self) -> Option<&Operator> {
        Some(&self.operator)
    }

    fn build<D: Device>(
        &self,
        device: &D,
        dims: [usize; 3],
        spacing: [f64; 3],
    ) -> Result<Box<dyn Solver<D>>> {
        let of = self.operator.of(dims, spacing);
        Ok(Box::new(Relaxation::new(device, of, self.solver_iterations, self.solver_tolerance)?))
    }
}

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
