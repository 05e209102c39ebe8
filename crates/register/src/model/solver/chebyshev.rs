//! Chebyshev's iteration for sparse matrices whose eigenvalues are known to be within bounds.
//!
//! `v ← v' + ω (v − v' + γ D⁻¹ (f − A v))`, where `v'` is the iterate before, needs no products of vectors, and so neither waits for
//! the device nor for sums (G. H. Golub and R. S. Varga, "Chebyshev semi-iterative methods, successive overrelaxation iterative
//! methods, and second order Richardson iterative methods", Numerische Mathematik 3, 1961). On a GPU with a small mesh an iteration is two short kernels, where
//! one of conjugate gradients is some eight.

use std::sync::LazyLock;

use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{Expr, param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::sparse::Entries;

use super::sparse::SparseMatrix;
use super::{LinearOperator, Solution, Solver, relative};
use crate::error::Result;

/// By how much the bounds are widened, as those that are known are within the spectrum.
const WIDER: [f64; 2] = [0.7, 1.05];

/// How often as many iterations as should be enough are made before it gives up.
const ROUNDS: usize = 6;

static NEXT: LazyLock<Expr> = LazyLock::new(|| {
    // v' + ω (v − v' + γ (D⁻¹f − D⁻¹A v)), of v', v, D⁻¹f and D⁻¹A v.
    x(0) + param(0) * (x(1) - x(0) + param(1) * (x(2) - x(3)))
});

/// The solver of one matrix.
pub struct Chebyshev<D: Device> {
    device: D,
    matrix: SparseMatrix<D>,
    /// The matrix with each row divided by its diagonal block, and the inverses of these.
    scaled: SparseMatrix<D>,
    inverse: D::Buffer<f32>,
    /// The mean of the bounds, and half of their difference over it.
    middle: f64,
    reach: f64,
    iterations: usize,
    tolerance: f64,
    right: D::Buffer<f32>,
    product: D::Buffer<f32>,
    other: D::Buffer<f32>,
}

/// The iterations after which the error is below a part of what it was, for eigenvalues within these bounds.
#[must_use]
pub fn iterations(bounds: [f64; 2], part: f64) -> usize {
    let [low, high] = [bounds[0] * WIDER[0], bounds[1] * WIDER[1]];
    if !(low > 0.0 && high.is_finite()) {
        return usize::MAX;
    }
    let root = (high / low).sqrt();
    // |T(x)| ≥ cⁿ / 2 beyond the bounds.
    let c = (root + 1.0) / (root - 1.0);
    ((2.0 / part).ln() / c.ln()).ceil().max(1.0) as usize
}

impl<D: Device> Chebyshev<D> {
    /// For a matrix, the same with each row of blocks multiplied by the inverse of its diagonal block, these inverses (nine planes), and the
    /// smallest and the largest eigenvalue of the second one, about; until the relative residual is below a tolerance.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        [matrix, scaled]: [SparseMatrix<D>; 2],
        inverse: D::Buffer<f32>,
        bounds: [f64; 2],
        tolerance: f64,
    ) -> Result<Self> {
        let len = 3 * matrix.csr().width;
        let [low, high] = [bounds[0] * WIDER[0], bounds[1] * WIDER[1]];
        let middle = 0.5 * (low + high);
        Ok(Self {
            matrix,
            scaled,
            inverse,
            middle,
            reach: 0.5 * (high - low) / middle,
            iterations: iterations(bounds, tolerance),
            tolerance,
            right: device.alloc(len)?,
            product: device.alloc(len)?,
            other: device.alloc(len)?,
            device: device.clone(),
        })
    }

    /// All iterations of a round.
    fn round(&mut self, v: &mut D::Buffer<f32>) -> Result<()> {
        let Self { device, scaled, right, product, other, .. } = self;
        let gamma = (1.0 / self.middle) as f32;
        let mut omega = 1.0;
        device.copy(v, other)?;
        for i in 0..self.iterations {
            omega = match i {
                0 => 1.0,
                1 => 1.0 / (1.0 - 0.5 * self.reach * self.reach),
                _ => 1.0 / (1.0 - 0.25 * self.reach * self.reach * omega),
            };
            scaled.product(device, v, product)?;
            let inputs = [&*v, &*right, &*product];
            device.eval_in_place(&NEXT, other, &inputs, &[omega as f32, gamma], None)?;
            std::mem::swap(v, other);
        }
        Ok(())
    }
}

impl<D: Device> Solver<D> for Chebyshev<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        self.device.diagonal_product(Entries::Blocks, &self.inverse, f, &mut self.right)?;
        let mut solution = Solution::default();
        for _ in 0..ROUNDS {
            self.round(v)?;
            solution.iterations += self.iterations;
            solution.residual = self.residual(f, v)?;
            if solution.residual.is_some_and(|residual| residual <= self.tolerance) {
                break;
            }
        }
        Ok(solution)
    }

    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>> {
        let Self { device, matrix, product, .. } = self;
        matrix.product(device, v, product)?;
        device.eval_in_place(&(x(1) - x(0)), product, &[f], &[], None)?;
        let sums = [Reduction::SumSquares(0), Reduction::SumSquares(1)];
        let sums = device.reduce(&[&*product, f], &sums)?;
        Ok(Some(relative(sums[0], sums[1])))
    }
}
