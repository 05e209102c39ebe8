//! Which solver, with what constants.

use serde::{Deserialize, Serialize};
use voxalign_compute::Device;
use voxalign_compute::ops::elastic::{Boundary, ElasticOperator};

use super::{Elasticity, Solver, cg, fft, gaussian, hybrid, sor};
use crate::choice::choices;
use crate::error::{RegisterError, Result};

/// How velocities are made of forces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum SolverKind {
    /// Exactly, in frequencies.
    Fft,
    /// By red-black successive over-relaxation.
    Sor,
    /// By conjugate gradients.
    Cg,
    /// Exactly the first time, then by a few iterations from the last solution.
    #[default]
    Hybrid,
    /// By a Gaussian in place of the operator.
    Gaussian,
}

choices! { SolverKind:
    Fft "fft" "The operator is inverted exactly, by FFT",
    Sor "sor" "The operator is inverted by successive over-relaxation",
    Cg "cg" "The operator is inverted by conjugate gradients",
    Hybrid "hybrid" "Exactly by FFT at first, then by a few iterations that start from the last \
                     solution",
    Gaussian "gaussian" "Gaussian smoothing instead of the operator",
}

choices! { Boundary:
    Zero "zero" "The velocity is zero beyond the border",
    Periodic "periodic" "The grid is periodic",
}

/// What a solver can be told. The constants of the operator are those of
/// [`elastic`](voxalign_compute::ops::elastic), with lengths in units of the smallest voxel spacing.
#[derive(Debug, Clone, PartialEq)]
pub struct SolverOptions {
    /// Which one.
    pub kind: SolverKind,
    /// Weight of the Laplacian in the operator, not negative; by default 0.01.
    pub alpha: f64,
    /// Weight of the gradient of the divergence, not negative; by default 0.
    pub beta: f64,
    /// Weight of the velocity itself, not negative, and above 0 with periodic boundaries or without
    /// a Laplacian; by default 0.001. (The defaults of the three are those of section 2.3.4 of Ha 2011.)
    pub gamma: f64,
    /// What is beyond the border of the grid.
    pub boundary: Boundary,
    /// Standard deviation of the Gaussian ([`SolverKind::Gaussian`]), voxels, above 0; by default 1.732.
    pub sigma: f64,
    /// The most iterations of a call; by default 200, and for those of the hybrid solver that start
    /// from the last solution 2 sweeps or 4 conjugate gradients.
    pub iterations: Option<usize>,
    /// The relative residual at which iterations end, between 0 and 1; by default 1/1000.
    pub tolerance: f64,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self {
            kind: SolverKind::default(),
            alpha: 0.01,
            beta: 0.0,
            gamma: 0.001,
            boundary: Boundary::default(),
            sigma: 1.732,
            iterations: None,
            tolerance: 1e-3,
        }
    }
}

impl SolverOptions {
    /// What is usual for a solver: the frequencies of a grid that repeats itself are some times
    /// faster to find than sines, and the others need no frequencies.
    #[must_use]
    pub fn of(kind: SolverKind) -> Self {
        let boundary = match kind {
            SolverKind::Fft => Boundary::Periodic,
            _ => Boundary::Zero,
        };
        Self { kind, boundary, ..Self::default() }
    }

    /// The most iterations of a call with what is left open decided: of the hybrid solver those that start from the
    /// last solution. 0 of solvers that do not iterate.
    #[must_use]
    pub fn most_iterations(&self) -> usize {
        match self.kind {
            SolverKind::Fft | SolverKind::Gaussian => 0,
            SolverKind::Sor | SolverKind::Cg => self.iterations.unwrap_or(ITERATIONS),
            SolverKind::Hybrid => self.iterations.unwrap_or(hybrid::usual(self.beta)),
        }
    }

    /// Whether a grid of `n` voxels along an axis suits the transforms of the solver: theirs are
    /// fast for lengths that are products of small primes.
    #[must_use]
    pub fn suits(&self, n: usize) -> bool {
        let mut rest = match (self.kind, self.boundary) {
            (SolverKind::Fft, Boundary::Periodic) if n.is_multiple_of(2) => n,
            (SolverKind::Fft, Boundary::Periodic) => return false,
            (SolverKind::Fft, Boundary::Zero) => n + 1,
            _ => 1,
        };
        for prime in [2, 3, 5, 7] {
            while rest.is_multiple_of(prime) && rest > 0 {
                rest /= prime;
            }
        }
        rest == 1
    }

    /// The operator on a grid of a spacing.
    #[must_use]
    pub fn operator(&self, spacing: [f64; 3]) -> ElasticOperator {
        let Self { alpha, beta, gamma, boundary, .. } = *self;
        ElasticOperator { alpha, beta, gamma, spacing, boundary }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`RegisterError::Option`] for a value that cannot be used.
    pub fn check(&self) -> Result<()> {
        let wrong = |option, value: String, remedy: &str| {
            Err(RegisterError::Option { option, value, remedy: remedy.into() })
        };
        if self.kind == SolverKind::Gaussian {
            if !(self.sigma.is_finite() && self.sigma > 0.0) {
                let remedy = "give a number of voxels above 0, such as 1.732";
                return wrong("sigma", self.sigma.to_string(), remedy);
            }
            return Ok(());
        }
        for (option, value, usual) in [
            ("alpha", self.alpha, "0.01"),
            ("beta", self.beta, "0"),
            ("gamma", self.gamma, "0.001"),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                let remedy = format!("give a number of 0 or more, such as {usual}");
                return wrong(option, value.to_string(), &remedy);
            }
        }
        if self.gamma == 0.0 && (self.alpha == 0.0 || self.boundary == Boundary::Periodic) {
            let remedy = "the operator then has no inverse for constant forces; give a number \
                          above 0, such as 0.001";
            return wrong("gamma", "0".into(), remedy);
        }
        if self.iterations == Some(0) {
            return wrong("solver iterations", "0".into(), "give a number of 1 or more");
        }
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            let remedy = "give a relative residual between 0 and 1, such as 0.001";
            return wrong("solver tolerance", self.tolerance.to_string(), remedy);
        }
        Ok(())
    }
}

/// The most iterations of a call where nothing else is said.
const ITERATIONS: usize = 200;

/// The solver that the options ask for, on a grid of these sizes and this spacing along x, y and z (in
/// the unit of the velocities). Its buffers are made here, and used by every call.
///
/// # Errors
/// [`RegisterError::Option`] for a value that cannot be used; sizes that make no grid; memory that
/// runs out.
pub fn build<D: Device>(
    device: &D,
    dims: [usize; 3],
    spacing: [f64; 3],
    options: &SolverOptions,
) -> Result<Box<dyn Solver<D>>> {
    options.check()?;
    let of = Elasticity { operator: options.operator(spacing), dims };
    if options.kind != SolverKind::Gaussian {
        // What the options cannot be blamed for.
        of.operator.check()?;
    }
    voxalign_compute::error::voxels("the grid of a solver", dims)?;
    let (tolerance, iterations) = (options.tolerance, options.iterations);
    let most = options.most_iterations();
    Ok(match options.kind {
        SolverKind::Fft => Box::new(fft::Direct::new(device, of)?),
        SolverKind::Sor => Box::new(sor::Relaxation::new(device, of, most, tolerance)?),
        SolverKind::Cg => {
            let len = of.len();
            Box::new(cg::ConjugateGradients::new(device, of, len, most, tolerance)?)
        }
        SolverKind::Hybrid => Box::new(hybrid::Hybrid::new(device, of, iterations, tolerance)?),
        SolverKind::Gaussian => Box::new(gaussian::Smoothing::new(device, dims, options.sigma)),
    })
}
