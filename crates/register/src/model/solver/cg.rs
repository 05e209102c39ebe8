//! Conjugate gradients for any operator (Ha 2011, section 2.3.6).
//!
//! The step lengths stay on the device: reductions leave them in a buffer from which the fused
//! updates of the vectors read them. They are written as ratios of products of the vectors at hand,
//! `α = p·r / p·q` and `β = −z·q / p·q` with `q = A p`, which are the usual ones where directions are
//! conjugate, and need nothing from the iteration before.

use std::sync::LazyLock;

use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{Expr, scalar, select, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_options::Parameters;

use super::{Kind, LinearOperator, Operator, Solution, Solver, relative};
use crate::error::Result;

/// Iterations between two looks at the residual, each of which waits for the device.
const CHECK_EVERY: usize = 4;

/// The expressions of the updates. A direction without a product (a solution that is exact) is not
/// followed.
struct Updates {
    residual: Expr,
    forward: Expr,
    back: Expr,
    direction: Expr,
}

static UPDATES: LazyLock<Updates> = LazyLock::new(|| {
    let ratio = select(scalar(1).gt(0.0), scalar(0) / scalar(1), 0.0);
    Updates {
        residual: x(1) - x(0),
        forward: x(0) + &ratio * x(1),
        back: x(0) - &ratio * x(1),
        direction: x(1) - ratio * x(0),
    }
});

/// The operator is inverted by conjugate gradients.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Cg {
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

impl Kind for Cg {
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
        let (most, tolerance) = (self.solver_iterations, self.solver_tolerance);
        Ok(Box::new(ConjugateGradients::new(device, of, of.len(), most, tolerance)?))
    }
}

/// Conjugate gradients for the operator `A`, with an approximate inverse of it or without.
pub struct ConjugateGradients<D: Device, A> {
    device: D,
    operator: A,
    iterations: usize,
    tolerance: f64,
    inverse: Option<Preconditioner<D>>,
    residual: D::Buffer<f32>,
    direction: D::Buffer<f32>,
    product: D::Buffer<f32>,
    steps: D::Buffer<f64>,
    corrections: D::Buffer<f64>,
}

/// An approximate inverse, and a vector for its product with the residual.
struct Preconditioner<D: Device> {
    inverse: Box<dyn LinearOperator<D>>,
    out: D::Buffer<f32>,
}

impl<D: Device, A: LinearOperator<D>> ConjugateGradients<D, A> {
    /// For vectors of `len` numbers; at most `iterations` a call, until the relative residual is
    /// below `tolerance`.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        operator: A,
        len: usize,
        iterations: usize,
        tolerance: f64,
    ) -> Result<Self> {
        Ok(Self {
            operator,
            iterations,
            tolerance,
            inverse: None,
            residual: device.alloc(len)?,
            direction: device.alloc(len)?,
            product: device.alloc(len)?,
            steps: device.alloc(3)?,
            corrections: device.alloc(3)?,
            device: device.clone(),
        })
    }

    /// The same with an approximate inverse of the operator.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn with_inverse(self, inverse: Box<dyn LinearOperator<D>>, len: usize) -> Result<Self> {
        let out = self.device.alloc(len)?;
        Ok(Self { inverse: Some(Preconditioner { inverse, out }), ..self })
    }

    /// `r = f − A v`.
    fn residual_of(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<()> {
        self.operator.product(&self.device, v, &mut self.residual)?;
        let update = &UPDATES.residual;
        Ok(self.device.eval_in_place(update, &mut self.residual, &[f], &[], None)?)
    }

    /// The first direction: the residual, or its product with the approximate inverse.
    fn first_direction(&mut self) -> Result<()> {
        match &mut self.inverse {
            None => Ok(self.device.copy(&self.residual, &mut self.direction)?),
            Some(p) => p.inverse.product(&self.device, &self.residual, &mut self.direction),
        }
    }

    /// One iteration; leaves the square of the residual in the corrections.
    fn step(&mut self, v: &mut D::Buffer<f32>) -> Result<()> {
        let Self { device, residual, direction, product, steps, corrections, .. } = self;
        self.operator.product(device, direction, product)?;
        let sums = [Reduction::Dot(0, 1), Reduction::Dot(0, 2), Reduction::SumSquares(1)];
        device.reduce_into(&[direction, residual, product], &sums, steps)?;
        device.eval_in_place(&UPDATES.forward, v, &[direction], &[], Some(steps))?;
        device.eval_in_place(&UPDATES.back, residual, &[product], &[], Some(steps))?;
        let sums = [Reduction::Dot(0, 2), Reduction::Dot(1, 2), Reduction::SumSquares(3)];
        let next = match &mut self.inverse {
            None => &*residual,
            Some(p) => {
                p.inverse.product(device, residual, &mut p.out)?;
                &p.out
            }
        };
        device.reduce_into(&[next, direction, product, residual], &sums, corrections)?;
        Ok(device.eval_in_place(&UPDATES.direction, direction, &[next], &[], Some(corrections))?)
    }
}

impl<D: Device, A: LinearOperator<D>> Solver<D> for ConjugateGradients<D, A> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        let residual = self.residual(f, v)?.unwrap_or(0.0);
        let mut solution = Solution { iterations: 0, residual: Some(residual) };
        if residual <= self.tolerance {
            return Ok(solution);
        }
        let force = self.device.reduce(&[f], &[Reduction::SumSquares(0)])?[0];
        self.first_direction()?;
        while solution.iterations < self.iterations {
            self.step(v)?;
            solution.iterations += 1;
            let is_last = solution.iterations == self.iterations;
            if is_last || solution.iterations.is_multiple_of(CHECK_EVERY) {
                let residual = relative(self.device.download(&self.corrections)?[2], force);
                solution.residual = Some(residual);
                if residual <= self.tolerance {
                    break;
                }
            }
        }
        Ok(solution)
    }

    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>> {
        self.residual_of(f, v)?;
        let sums = [Reduction::SumSquares(0), Reduction::SumSquares(1)];
        let sums = self.device.reduce(&[&self.residual, f], &sums)?;
        Ok(Some(relative(sums[0], sums[1])))
    }
}
