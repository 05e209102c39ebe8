//! Chebyshev's iteration for sparse matrices whose eigenvalues are known to be within bounds.
//!
//! `v ← v' + ω (v − v' + γ D⁻¹ (f − A v))`, where `v'` is the iterate before, needs no products of vectors, and so neither waits for
//! the device nor for sums (G. H. Golub and R. S. Varga, "Chebyshev semi-iterative methods, successive overrelaxation iterative
//! methods, and second order Richardson iterative methods", Numerische Mathematik 3, 1961). On a GPU with a small mesh an iteration is one short kernel, where
//! one of conjugate gradients is some eight.

use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{constant, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::sparse::Entries;

use super::cg::ConjugateGradients;
use super::sparse::{SparseMatrix, cg};
use super::{LinearOperator, Solution, Solver, relative};
use crate::error::Result;

/// By how much the bounds are widened, as those that are known are within the spectrum.
const WIDER: [f64; 2] = [0.7, 1.05];

/// How often as many iterations as should be enough are made, and which part of the residual each of them has to leave at most, before it
/// takes it that the bounds do not hold.
const ROUNDS: usize = 6;
const LEAVES: f64 = 0.5;

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
    /// Where the bounds do not hold: conjugate gradients, of at most so many iterations.
    others: Option<ConjugateGradients<D, SparseMatrix<D>>>,
    most: usize,
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
    /// smallest and the largest eigenvalue of the second one, about; until the relative residual is below a tolerance. Where eigenvalues are beyond these
    /// bounds, so many conjugate gradients are made at most.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        [matrix, scaled]: [SparseMatrix<D>; 2],
        inverse: D::Buffer<f32>,
        bounds: [f64; 2],
        (tolerance, most): (f64, usize),
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
            others: None,
            most,
            right: device.alloc(len)?,
            product: device.alloc(len)?,
            other: device.alloc(len)?,
            device: device.clone(),
        })
    }

    /// All iterations of a round.
    fn round(&mut self, v: &mut D::Buffer<f32>) -> Result<()> {
        let Self { device, scaled, right, product, other, .. } = self;
        let gamma = 1.0 / self.middle;
        let mut omega = 1.0;
        device.copy(v, other)?;
        for i in 0..self.iterations {
            omega = match i {
                0 => 1.0,
                1 => 1.0 / (1.0 - 0.5 * self.reach * self.reach),
                _ => 1.0 / (1.0 - 0.25 * self.reach * self.reach * omega),
            };
            device.chebyshev(&scaled.csr(), other, v, right, [omega, gamma], product)?;
            // What was before is not needed any more.
            std::mem::swap(other, product);
            std::mem::swap(v, other);
        }
        Ok(())
    }
}

impl<D: Device> Chebyshev<D> {
    /// Solves by conjugate gradients, from the beginning, now and from now on.
    fn by_others(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        let device = &self.device;
        device.eval_in_place(&constant(0.0), v, &[], &[], None)?;
        let matrix = self.matrix.copy(device)?;
        let others = cg(device, matrix, 3, self.most, self.tolerance)?;
        self.others.insert(others).solve(f, v)
    }
}

impl<D: Device> Solver<D> for Chebyshev<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        self.device.diagonal_product(Entries::Blocks, &self.inverse, f, &mut self.right)?;
        let mut solution = Solution::default();
        if let Some(others) = &mut self.others {
            return others.solve(f, v);
        }
        let mut before = f64::INFINITY;
        for _ in 0..ROUNDS {
            self.round(v)?;
            solution.iterations += self.iterations;
            solution.residual = self.residual(f, v)?;
            let residual = solution.residual.unwrap_or(f64::NAN);
            if residual <= self.tolerance {
                return Ok(solution);
            }
            let falls = residual <= LEAVES * before;
            if !falls {
                break;
            }
            before = residual;
        }
        let made = self.by_others(f, v)?;
        Ok(Solution { iterations: solution.iterations + made.iterations, ..made })
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
