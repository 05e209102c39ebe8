//! The kinds of solver with their parameters.

use super::cg::Cg;
use super::fft::Fft;
use super::gaussian::Gaussian;
use super::hybrid::Hybrid;
use super::sor::Sor;
use super::{Elasticity, Solver};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::elastic::{Boundary, ElasticOperator};
use voxalign_options::{Choice, OptionError, Parameters};

/// The constants of the elastic operator ([`elastic`](voxalign_compute::ops::elastic)), with lengths in units of the
/// smallest voxel spacing. The defaults are those of section 2.3.4 of Ha (2011).
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Operator {
    /// Weight of the Laplacian
    #[parameter(default = 0.01, unit = "A", least = 0.0)]
    pub alpha: f64,
    /// Weight of the gradient of the divergence
    #[parameter(default = 0.0, unit = "B", least = 0.0)]
    pub beta: f64,
    /// Weight of the velocity itself; must be above 0 with periodic boundaries or without a Laplacian
    #[parameter(default = 0.001, unit = "C", least = 0.0)]
    pub gamma: f64,
    /// Boundary condition of the operator
    #[parameter(default = Boundary::Zero)]
    pub boundary: Boundary,
}

impl Operator {
    /// The operator on a grid of a spacing.
    #[must_use]
    pub fn on(&self, spacing: [f64; 3]) -> ElasticOperator {
        let Self { alpha, beta, gamma, boundary } = *self;
        ElasticOperator { alpha, beta, gamma, spacing, boundary }
    }

    /// Refuses constants for which the operator has no inverse.
    fn check_inverse(&self) -> Result<(), OptionError> {
        if self.gamma == 0.0 && (self.alpha == 0.0 || self.boundary == Boundary::Periodic) {
            let remedy = "the operator then has no inverse for constant forces; give a number \
                          above 0, such as 0.001";
            return Err(OptionError::value("gamma", 0, remedy));
        }
        Ok(())
    }
}

/// What a kind of solver implements.
pub trait Kind: Parameters {
    /// The operator that it inverts, where it inverts one.
    fn operator(&self) -> Option<&Operator> {
        None
    }

    /// The number whose small prime factors make its transforms fast, for `n` voxels along an axis; none for a length that
    /// does not suit it, 1 where all do.
    fn transform_length(&self, n: usize) -> Option<usize> {
        let _ = n;
        Some(1)
    }

    /// The solver on a grid of these sizes and this spacing.
    ///
    /// # Errors
    /// Memory that runs out.
    fn build<D: Device>(
        &self,
        device: &D,
        dims: [usize; 3],
        spacing: [f64; 3],
    ) -> Result<Box<dyn Solver<D>>>;

    /// Whether a call starts from what the last one left.
    fn starts_from_last(&self) -> bool {
        true
    }
}

/// How forces are smoothed into velocities: by inverting the elastic operator `-alpha Laplacian - beta grad div + gamma`, or
/// by a Gaussian.
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "solver", heading = "Smoothness", each = each_solver)]
pub enum SolverKind {
    /// The operator is inverted exactly, by FFT.
    Fft(Fft),
    /// The operator is inverted by successive over-relaxation.
    Sor(Sor),
    /// The operator is inverted by conjugate gradients.
    Cg(Cg),
    /// Exactly by FFT at first, then by a few iterations that start from the last solution.
    Hybrid(Hybrid),
    /// Gaussian smoothing instead of the operator.
    Gaussian(Gaussian),
}

impl Default for SolverKind {
    fn default() -> Self {
        Self::GAUSSIAN
    }
}

impl SolverKind {
    /// The operator that it inverts; none of a Gaussian.
    #[must_use]
    pub fn operator(&self) -> Option<&Operator> {
        each_solver!(self, kind => kind.operator())
    }

    /// Whether a call starts from what the last one left.
    #[must_use]
    pub fn starts_from_last(&self) -> bool {
        each_solver!(self, kind => kind.starts_from_last())
    }

    /// Whether a grid of `n` voxels along an axis suits the transforms of the solver: theirs are
    /// fast for lengths that are products of small primes.
    #[must_use]
    pub fn suits(&self, n: usize) -> bool {
        let length = each_solver!(self, kind => kind.transform_length(n));
        let Some(mut rest) = length else { return false };
        for prime in [2, 3, 5, 7] {
            while rest.is_multiple_of(prime) && rest > 0 {
                rest /= prime;
            }
        }
        rest == 1
    }

    /// Checks every value, and that the operator has an inverse.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn check_all(&self) -> Result<(), OptionError> {
        self.check()?;
        self.operator().map_or(Ok(()), Operator::check_inverse)
    }

    /// The solver on a grid of these sizes and this spacing along x, y and z (in the unit of the velocities). Its
    /// buffers are made here, and used by every call.
    ///
    /// # Errors
    /// A value that cannot be used; sizes that make no grid; memory that runs out.
    pub fn build<D: Device>(
        &self,
        device: &D,
        dims: [usize; 3],
        spacing: [f64; 3],
    ) -> Result<Box<dyn Solver<D>>> {
        self.check_all()?;
        if let Some(operator) = self.operator() {
            // What the options cannot be blamed for.
            operator.on(spacing).check()?;
        }
        voxalign_compute::error::voxels("the grid of a solver", dims)?;
        each_solver!(self, kind => kind.build(device, dims, spacing))
    }
}

impl Operator {
    /// The parameters of solvers.
    pub(super) fn of(&self, dims: [usize; 3], spacing: [f64; 3]) -> Elasticity {
        Elasticity { operator: self.on(spacing), dims }
    }
}
