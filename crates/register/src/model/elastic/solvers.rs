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
    let mut all = memory::zeroed(9 * blocks.len())?;
    all.par_chunks_mut(blocks.len().max(1)).enumerate().for_each(|(k, plane)| {
        let entry = (k / 3, k % 3);
        plane.iter_mut().zip(blocks).for_each(|(out, block)| *out = block[entry] as f32);
    });
    Ok(all)
}

/// Chebyshev's iteration for a matrix, where a moderate number of iterations is enough; `known` are bounds of its spectrum, if only about.
fn chebyshev<D: Device>(
    device: &D,
    structure: &Arc<Structure<D>>,
    matrix: &Sparse<Matrix3<f64>>,
    known: Option<[f64; 2]>,
) -> Result<Option<Made<D>>> {
    let bounds = match known {
        Some(bounds) => bounds,
        None => spectrum(matrix)?,
    };
    if iterations(bounds, RESIDUAL) > MOST_CHEBYSHEV {
        return Ok(None);
    }
    let (pattern, blocks) = (matrix.pattern(), matrix.values());
    let diagonal = (0..pattern.vertices()).map(|i| matrix.get(i, i).unwrap_or_default());
    let inverses = inverses(&memory::collected(diagonal)?)?;
    let mut scaled = memory::filled(blocks.len(), Matrix3::zeros())?;
    let mut rest = &mut scaled[..];
    let mut rows = memory::room(inverses.len())?;
    for (row, inverse) in pattern.rows().windows(2).zip(&inverses) {
        let (own, others) = rest.split_at_mut(row[1] - row[0]);
        rows.push((own, &blocks[row[0]..row[1]], inverse));
        rest = others;
    }
    rows.into_par_iter().with_min_len(64).for_each(|(own, blocks, inverse)| {
        own.iter_mut().zip(blocks).for_each(|(own, block)| *own = inverse * block);
    });
    let both = [sparse(device, structure, blocks)?, sparse(device, structure, &scaled)?];
    let inverse = device.upload_vec(in_planes(&inverses)?)?;
    let solver = Chebyshev::new(device, both, inverse, bounds, (RESIDUAL, ITERATIONS))?;
    Ok(Some(Made { solver: Box::new(solver), bounds: Some(bounds) }))
}

/// A solver that was made.
pub(super) struct Made<D: Device> {
    pub(super) solver: Box<dyn Solver<D>>,
    /// The bounds of the spectrum that it counts on, of the matrix whose diagonal is the identity.
    pub(super) bounds: Option<[f64; 2]>,
}

/// The solver of steps with a matrix. The bounds of one that differs from it by some of its diagonal may be known.
pub(super) fn solver<D: Device>(
    device: &D,
    kind: StepSolver,
    structure: &Arc<Structure<D>>,
    effective: Sparse<Matrix3<f64>>,
    known: Option<[f64; 2]>,
) -> Result<Made<D>> {
    let vertices = effective.pattern().vertices();
    if kind == StepSolver::Inverse && vertices > MOST_DENSE {
        let value = format!("inverse with {vertices} vertices");
        let remedy = "its inverse is too large; use cg";
        return Err(RegisterError::option("step-solver", value, remedy));
    }
    if kind == StepSolver::Inverse {
        let solver = Box::new(inverse(device, effective)?);
        return Ok(Made { solver, bounds: None });
    }
    if kind == StepSolver::Chebyshev
        && let Some(made) = chebyshev(device, structure, &effective, known)?
    {
        return Ok(made);
    }
    let matrix = sparse(device, structure, effective.values())?;
    let solver = Box::new(cg(device, matrix, 3, ITERATIONS, RESIDUAL)?);
    Ok(Made { solver, bounds: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_elasticity::{Body, Fixed, Material, Materials, Newmark, TetraBox};
    use voxalign_image::Grid;

    /// Whatever the bounds that are given, the solution is that of a factorisation.
    #[test]
    fn bounds_that_do_not_hold_cost_iterations_alone() {
        let grid = Grid::axis_aligned([20, 18, 16], [2.0; 3]).unwrap();
        let mesh = TetraBox::over(&grid, 6.0).unwrap().mesh().unwrap();
        let material = Material::new(2000.0, 0.4, 1000.0).unwrap();
        let body = Body::new(mesh, &Materials::Uniform(material)).unwrap();
        let (stiffness, mass) = (body.stiffness().unwrap(), body.lumped_mass().unwrap());
        let held = Fixed::vertices(body.mesh(), &[0, 5]).unwrap();
        let method = Newmark { mass_damping: 80.0, ..Newmark::with_step(0.01) };
        let matrix = || method.effective(&stiffness, &mass, None, &held).unwrap();
        let n = mass.len();
        let x = |i: usize, a: usize| ((37 * i + 11 * a) % 19) as f64 - 9.0;
        let f: Vec<_> = (0..n).map(|i| Vector3::new(x(i, 0), x(i, 1), x(i, 2))).collect();
        let truth = Factor::new(matrix()).unwrap().solve(&f).unwrap();
        let size = truth.iter().map(|v| v.norm()).fold(0.0, f64::max);
        let cpu = Cpu::new(Some(2)).unwrap();
        let pattern = body.pattern();
        let rows: Vec<u32> = pattern.rows().iter().map(|&r| r as u32).collect();
        let structure = Arc::new(Structure::new(&cpu, &rows, pattern.columns()).unwrap());
        let planes: Vec<f32> = (0..3).flat_map(|a| f.iter().map(move |v| v[a] as f32)).collect();
        let right = cpu.upload(&planes).unwrap();
        let [low, high] = spectrum(&matrix()).unwrap();
        let mut counts = Vec::new();
        for known in [
            None,
            Some([0.5 * low, high]),
            Some([2.0 * low, high]),
            Some([low, 0.7 * high]),
            Some([0.95, 1.05]),
        ] {
            let kind = StepSolver::Chebyshev;
            let mut made = solver(&cpu, kind, &structure, matrix(), known).unwrap();
            assert_eq!(made.bounds, Some(known.unwrap_or([low, high])));
            let mut v = cpu.alloc(3 * n).unwrap();
            let solution = made.solver.solve(&right, &mut v).unwrap();
            assert!(solution.residual.unwrap() <= RESIDUAL, "{known:?} {solution:?}");
            let found = cpu.download(&v).unwrap();
            for (i, truth) in truth.iter().enumerate() {
                let found = Vector3::from_fn(|a, _| f64::from(found[i + a * n]));
                assert!((found - truth).norm() < 1e-3 * size, "{known:?} {i} {found} {truth}");
            }
            counts.push(solution.iterations);
        }
        assert!(counts[1..].iter().all(|&count| count > counts[0]), "{counts:?}");
    }
}
