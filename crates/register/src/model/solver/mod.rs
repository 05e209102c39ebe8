//! From forces to velocities: solvers of `L v = f`, one file each.
//!
//! `L` is the elastic operator ([`voxalign_compute::ops::elastic`]). The direct solver is exact; the
//! iterative ones start from the solution of the last call, which in a registration is near, and so
//! need a few passes over memory (Ha 2011, section 2.3.4). [`SolverKind::build`] makes the one that is asked for.

pub mod cg;
pub mod chebyshev;
pub mod fft;
pub mod gaussian;
pub mod hybrid;
mod kinds;
pub mod sor;
pub mod sparse;

use voxalign_compute::Device;
use voxalign_compute::ops::elastic::ElasticOperator;
use voxalign_compute::ops::reduce::Reduction;

use crate::error::Result;

pub use cg::Cg;
pub use fft::Fft;
pub use gaussian::Gaussian;
pub use hybrid::Hybrid;
pub use kinds::{Kind, Operator, SolverKind};
pub use sor::Sor;

/// How a solution was found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Solution {
    /// Iterations made; 1 for a direct solver.
    pub iterations: usize,
    /// The relative residual `|f − L v| / |f|`, where it is known.
    pub residual: Option<f64>,
}

/// Makes velocities of forces on one grid.
pub trait Solver<D: Device>: Send {
    /// Solves `L v = f`. `v` holds the solution of the last call, from which iterative solvers start.
    ///
    /// # Errors
    /// Wrong lengths; memory that runs out.
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution>;

    /// Tells that the next call has no solution to start from, whatever `v` holds: that of another
    /// problem, or none.
    fn restart(&mut self) {}

    /// Tells that the next call starts from the solution that `v` holds, even where this solver has made
    /// none.
    fn start_from_last(&mut self) {}

    /// The relative residual `|f − L v| / |f|`; `None` without an operator (smoothing by a Gaussian).
    ///
    /// # Errors
    /// Wrong lengths; memory that runs out.
    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>>;
}

/// A symmetric and positive definite matrix, given by its product with vectors.
pub trait LinearOperator<D: Device>: Send {
    /// `out = A v`.
    ///
    /// # Errors
    /// Wrong lengths; memory that runs out.
    fn product(&mut self, device: &D, v: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<()>;
}

/// The elastic operator on a grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elasticity {
    /// The constants.
    pub operator: ElasticOperator,
    /// Sizes along x, y and z.
    pub dims: [usize; 3],
}

impl Elasticity {
    /// The numbers of a field.
    fn len(&self) -> usize {
        3 * self.dims.iter().product::<usize>()
    }

    /// The relative residual; `work` is overwritten.
    fn relative_residual<D: Device>(
        &self,
        device: &D,
        f: &D::Buffer<f32>,
        v: &D::Buffer<f32>,
        work: &mut D::Buffer<f32>,
    ) -> Result<f64> {
        device.elastic_residual(&self.operator, f, v, self.dims, work)?;
        let sums = [Reduction::SumSquares(0), Reduction::SumSquares(1)];
        let sums = device.reduce(&[work, f], &sums)?;
        Ok(relative(sums[0], sums[1]))
    }
}

impl<D: Device> LinearOperator<D> for Elasticity {
    fn product(&mut self, device: &D, v: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<()> {
        Ok(device.elastic_product(&self.operator, v, self.dims, out)?)
    }
}

/// The ratio of two norms, given their squares; zero where both are zero.
fn relative(residual: f64, force: f64) -> f64 {
    if force > 0.0 {
        (residual / force).sqrt()
    } else if residual > 0.0 {
        f64::INFINITY
    } else {
        0.0
    }
}
