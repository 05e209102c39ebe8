//! The direct solver at first, then a few iterations from the last solution (Ha 2011, section 2.3.4).

use voxalign_compute::Device;
use voxalign_options::Parameters;

use super::cg::ConjugateGradients;
use super::fft::Direct;
use super::sor::Relaxation;
use super::{Elasticity, Kind, Operator, Solution, Solver};
use crate::error::Result;

/// Sweeps of a call where nothing else is said. Two leave about half of the change from step to step
/// of a flow, which the next ones take up; nothing adds up, and more made no registration better.
const SWEEPS: usize = 2;
/// Conjugate gradients, which begin anew at each call.
const GRADIENTS: usize = 4;

/// The relative residual at which iterations end before that.
const TOLERANCE: f64 = 1e-3;

/// The operator is inverted exactly the first time, then by a few iterations from the last solution.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Hybrid {
    /// Its constants.
    #[parameter(flatten)]
    pub operator: Operator,
    /// Maximum number of iterations per velocity
    #[parameter(default = None, least = 1, says = "2 sweeps, or 4 conjugate gradient iterations with beta", remedy = "give a number of 1 or more")]
    pub solver_iterations: Option<usize>,
}

impl Hybrid {
    /// The most iterations of a call that starts from the last solution: sweeps where components do not depend on each
    /// other, else conjugate gradients.
    #[must_use]
    pub fn most_iterations(&self) -> usize {
        let usual = if self.operator.beta == 0.0 { SWEEPS } else { GRADIENTS };
        self.solver_iterations.unwrap_or(usual)
    }
}

impl Kind for Hybrid {
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
        Ok(Box::new(HybridSolver::new(device, of, self.solver_iterations, TOLERANCE)?))
    }
}

/// The direct solver at first, then iterations.
pub struct HybridSolver<D: Device> {
    direct: Direct<D>,
    iterative: Iterative<D>,
    iterations: usize,
    /// Whether there is a solution to start from.
    is_warm: bool,
}

enum Iterative<D: Device> {
    Relaxation(Box<Relaxation<D>>),
    Gradients(Box<ConjugateGradients<D, Elasticity>>),
}

impl<D: Device> HybridSolver<D> {
    /// With this many iterations per call: sweeps of relaxation, each of which is one pass over memory, or
    /// conjugate gradients where components are coupled or there are no two colours.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        of: Elasticity,
        iterations: Option<usize>,
        tolerance: f64,
    ) -> Result<Self> {
        // A factor of 1 stands for a grid without colours (or an operator without neighbours).
        let colours = of.operator.beta == 0.0 && of.operator.relaxation(of.dims) > 1.0;
        let usual = if colours { SWEEPS } else { GRADIENTS };
        let iterations = iterations.unwrap_or(usual);
        let iterative = if colours {
            Iterative::Relaxation(Box::new(Relaxation::new(device, of, iterations, tolerance)?))
        } else {
            let solver = ConjugateGradients::new(device, of, of.len(), iterations, tolerance)?;
            Iterative::Gradients(Box::new(solver))
        };
        let direct = Direct::new(device, of)?;
        Ok(Self { direct, iterative, iterations, is_warm: false })
    }
}

impl<D: Device> Solver<D> for HybridSolver<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        if !self.is_warm {
            self.is_warm = true;
            return self.direct.solve(f, v);
        }
        match &mut self.iterative {
            Iterative::Relaxation(solver) => {
                for _ in 0..self.iterations {
                    solver.sweep(f, v)?;
                }
                Ok(Solution { iterations: self.iterations, residual: None })
            }
            Iterative::Gradients(solver) => solver.solve(f, v),
        }
    }

    fn restart(&mut self) {
        self.is_warm = false;
    }

    fn start_from_last(&mut self) {
        self.is_warm = true;
    }

    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>> {
        match &mut self.iterative {
            Iterative::Relaxation(solver) => solver.residual(f, v),
            Iterative::Gradients(solver) => solver.residual(f, v),
        }
    }
}
