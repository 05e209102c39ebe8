//! The direct solver at first, then a few iterations from the last solution (Ha 2011, section 2.3.4).

use voxalign_compute::Device;

use super::cg::ConjugateGradients;
use super::fft::Direct;
use super::sor::Relaxation;
use super::{Elasticity, Solution, Solver};
use crate::error::Result;

/// Iterations of a call where nothing else is said; 4 to 6 are enough for the small changes from
/// step to step of a flow.
const ITERATIONS: usize = 4;
/// The direct solver takes over again where the relative residual is above so many tolerances.
const BOUND: f64 = 10.0;
/// The most calls from one look at the residual to the next.
const LONGEST: usize = 8;

/// The direct solver where needed, else iterations.
pub struct Hybrid<D: Device> {
    direct: Direct<D>,
    iterative: Iterative<D>,
    iterations: usize,
    tolerance: f64,
    /// Whether there is a solution to start from.
    is_warm: bool,
    /// Calls until the residual is looked at, and how many there were the last time.
    left: usize,
    interval: usize,
}

enum Iterative<D: Device> {
    Relaxation(Box<Relaxation<D>>),
    Gradients(Box<ConjugateGradients<D, Elasticity>>),
}

impl<D: Device> Hybrid<D> {
    /// With so many iterations a call: sweeps of relaxation, each of which is one pass over memory,
    /// or conjugate gradients where components depend on each other or there are no two colours.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        of: Elasticity,
        iterations: Option<usize>,
        tolerance: f64,
    ) -> Result<Self> {
        let iterations = iterations.unwrap_or(ITERATIONS);
        // A factor of 1 stands for a grid without colours (or an operator without neighbours).
        let colours = of.operator.beta == 0.0 && of.operator.relaxation(of.dims) > 1.0;
        let iterative = if colours {
            Iterative::Relaxation(Box::new(Relaxation::new(device, of, iterations, tolerance)?))
        } else {
            let solver = ConjugateGradients::new(device, of, of.len(), iterations, tolerance)?;
            Iterative::Gradients(Box::new(solver))
        };
        let direct = Direct::new(device, of)?;
        Ok(Self { direct, iterative, iterations, tolerance, is_warm: false, left: 0, interval: 0 })
    }

    fn directly(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        self.is_warm = true;
        (self.left, self.interval) = (0, 0);
        self.direct.solve(f, v)
    }
}

impl<D: Device> Solver<D> for Hybrid<D> {
    /// The residual is looked at in the first call after a direct solution, and then ever more
    /// rarely, up to every eighth: a look costs as much as a sweep.
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        if !self.is_warm {
            return self.directly(f, v);
        }
        let mut solution = Solution { iterations: self.iterations, residual: None };
        match &mut self.iterative {
            Iterative::Relaxation(solver) => {
                for _ in 0..self.iterations {
                    solver.sweep(f, v)?;
                }
            }
            Iterative::Gradients(solver) => solution = solver.solve(f, v)?,
        }
        if solution.residual.is_none() {
            if self.left > 0 {
                self.left -= 1;
                return Ok(solution);
            }
            self.interval = (2 * self.interval).clamp(1, LONGEST);
            self.left = self.interval - 1;
            solution.residual = self.residual(f, v)?;
        }
        // A residual that is not a number is not within the bound.
        if solution.residual.is_some_and(|r| r <= BOUND * self.tolerance) {
            return Ok(solution);
        }
        let direct = self.directly(f, v)?;
        Ok(Solution { iterations: solution.iterations + direct.iterations, ..direct })
    }

    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>> {
        match &mut self.iterative {
            Iterative::Relaxation(solver) => solver.residual(f, v),
            Iterative::Gradients(solver) => solver.residual(f, v),
        }
    }
}
