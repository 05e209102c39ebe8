//! Solvers of the increments of a step, on the device.

use super::StepSolver;
use crate::error::{RegisterError, Result};
use crate::model::solver::chebyshev::{Chebyshev, iterations};
use crate::model::solver::sparse::{SparseMatrix, Structure, cg};
use crate::model::solver::{Solution, Solver};
use rayon::prelude::*;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::sparse::Entries;
use voxalign_elasticity::spectrum::{inverses, spectrum};
use voxalign_elasticity::{Factor, Sparse};
use voxalign_image::{Matrix3, Vector3, memory};

/// Up to so many vertices there may be a dense inverse: of 9 n² numbers.
const MOST_DENSE: usize = 6000;

/// What is left of a right side by an iterative solution, as a part of its norm.
const RESIDUAL: f64 = 1e-4;

/// Iterations of Chebyshev's above which conjugate gradients, which need no bounds, are made instead.
const MOST_CHEBYSHEV: usize = 80;

/// Iterations of a solution, at most.
const ITERATIONS: usize = 500;

/// A product with the inverse of a matrix.
struct Inverse<D: Device> {
    device: D,
    matrix: D::Buffer<f32>,
    size: usize,
}

impl<D: Device> Solver<D> for Inverse<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        self.device.dense_product(&self.matrix, self.size, f, v)?;
        Ok(Solution { iterations: 1, residual: None })
    }

    fn residual(&mut self, _: &D::Buffer<f32>, _: &D::Buffer<f32>) -> Result<Option<f64>> {
        Ok(None)
    }
}

/// The inverse of a matrix, row by row, in the order that vectors have on a device.
fn inverse<D: Device>(device: &D, matrix: Sparse<Matrix3<f64>>) -> Result<Inverse<D>> {
    let n = matrix.pattern().vertices();
    let size = 3 * n;
    let factor = Factor::new(matrix)?;
    let mut all: Vec<f32> = memory::zeroed(size * size)?;
    all.par_chunks_mut(size).enumerate().try_for_each(|(row, out)| {
        let mut unit = memory::filled(n, Vector3::zeros())?;
        unit[row % n][row / n] = 1.0;
        let column = factor.solve(&unit)?;
        for (a, out) in out.chunks_exact_mut(n).enumerate() {
            out.iter_mut().zip(&column).for_each(|(out, c)| *out = c[a] as f32);
        }
        Ok::<(), RegisterError>(())
    })?;
    let matrix = device.upload_vec(all)?;
    Ok(Inverse { device: device.clone(), matrix, size })
}

/// A matrix on a device, of blocks.
pub(super) fn sparse<D: Device>(
    device: &D,
    structure: &Arc<Structure<D>>,
    blocks: &[Matrix3<f64>],
) -> Result<SparseMatrix<D>> {
    let values = device.upload_vec(in_planes(blocks)?)?;
    Ok(SparseMatrix::new(Arc::clone(structure), Entries::Blocks, values))
}

/// Blocks as devices have them: nine planes, row by row.
fn in_planes(blocks: &[Matrix3<f64>]) -> Result<Vec<f32>> {
    let entry = |k: usize| blocks.iter().map(move |block| block[(k / 3, k % 3)] as f32);
    Ok(memory::collected((0..9).flat_map(entry))?)
}

/// Chebyshev's iteration for a matrix, where a moderate number of iterations is enough.
fn chebyshev<D: Device>(
    device: &D,
    structure: &Arc<Structure<D>>,
    matrix: &Sparse<Matrix3<f64>>,
) -> Result<Option<Box<dyn Solver<D>>>> {
    let bounds = spectrum(matrix)?;
    if iterations(bounds, RESIDUAL) > MOST_CHEBYSHEV {
        return Ok(None);
    }
    let (pattern, blocks) = (matrix.pattern(), matrix.values());
    let diagonal = (0..pattern.vertices()).map(|i| matrix.get(i, i).unwrap_or_default());
    let inverses = inverses(&memory::collected(diagonal)?)?;
    let mut scaled = memory::room(blocks.len())?;
    for (row, inverse) in pattern.rows().windows(2).zip(&inverses) {
        scaled.extend(blocks[row[0]..row[1]].iter().map(|block| inverse * block));
    }
    let both = [sparse(device, structure, blocks)?, sparse(device, structure, &scaled)?];
    let inverse = device.upload_vec(in_planes(&inverses)?)?;
    Ok(Some(Box::new(Chebyshev::new(device, both, inverse, bounds, RESIDUAL)?)))
}

/// The solver of steps with a matrix.
pub(super) fn solver<D: Device>(
    device: &D,
    kind: StepSolver,
    structure: &Arc<Structure<D>>,
    effective: Sparse<Matrix3<f64>>,
) -> Result<Box<dyn Solver<D>>> {
    let vertices = effective.pattern().vertices();
    if kind == StepSolver::Inverse && vertices > MOST_DENSE {
        let value = format!("inverse with {vertices} vertices");
        let remedy = "its inverse is too large; use cg";
        return Err(RegisterError::option("step-solver", value, remedy));
    }
    if kind == StepSolver::Inverse {
        return Ok(Box::new(inverse(device, effective)?));
    }
    if kind == StepSolver::Chebyshev
        && let Some(solver) = chebyshev(device, structure, &effective)?
    {
        return Ok(solver);
    }
    let matrix = sparse(device, structure, effective.values())?;
    Ok(Box::new(cg(device, matrix, 3, ITERATIONS, RESIDUAL)?))
}
