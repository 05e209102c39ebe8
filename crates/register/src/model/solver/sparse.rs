//! Conjugate gradients for sparse matrices, such as the stiffness of finite elements, with the inverse of the diagonal as
//! preconditioner.

use std::sync::Arc;

use voxalign_compute::ops::sparse::{Csr, Entries};
use voxalign_compute::{Device, DeviceBuffer};

use super::LinearOperator;
use super::cg::ConjugateGradients;
use crate::error::Result;

/// Where a square matrix has entries; several matrices may share it.
pub struct Structure<D: Device> {
    size: usize,
    rows: D::Buffer<u32>,
    columns: D::Buffer<u32>,
}

impl<D: Device> Structure<D> {
    /// Compressed rows: where each starts, one number more than there are rows, and the column of each entry.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(device: &D, rows: &[u32], columns: &[u32]) -> Result<Self> {
        let size = rows.len().saturating_sub(1);
        Ok(Self { size, rows: device.upload(rows)?, columns: device.upload(columns)? })
    }

    /// The number of rows, in entries.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }
}

/// A symmetric and positive definite sparse matrix on a device.
pub struct SparseMatrix<D: Device> {
    structure: Arc<Structure<D>>,
    entries: Entries,
    /// The numbers of its entries, in planes; they may be changed from one solution to the next, where the preconditioner
    /// still serves.
    pub values: D::Buffer<f32>,
}

impl<D: Device> SparseMatrix<D> {
    /// A matrix of a structure.
    #[must_use]
    pub fn new(structure: Arc<Structure<D>>, entries: Entries, values: D::Buffer<f32>) -> Self {
        Self { structure, entries, values }
    }

    /// The same matrix once more.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn copy(&self, device: &D) -> Result<Self> {
        let mut values = device.alloc(self.values.len())?;
        device.copy(&self.values, &mut values)?;
        Ok(Self::new(Arc::clone(&self.structure), self.entries, values))
    }

    /// The matrix, for the operators of a device.
    #[must_use]
    pub fn csr(&self) -> Csr<'_, D> {
        let Structure { size, rows, columns } = &*self.structure;
        Csr { entries: self.entries, width: *size, rows, columns, values: &self.values }
    }
}

impl<D: Device> LinearOperator<D> for SparseMatrix<D> {
    fn product(&mut self, device: &D, v: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<()> {
        Ok(device.product(&self.csr(), v, out)?)
    }
}

/// The inverse of the diagonal of a matrix, of its blocks where it has such.
struct Jacobi<D: Device> {
    entries: Entries,
    diagonal: D::Buffer<f32>,
}

impl<D: Device> LinearOperator<D> for Jacobi<D> {
    fn product(&mut self, device: &D, v: &D::Buffer<f32>, out: &mut D::Buffer<f32>) -> Result<()> {
        Ok(device.diagonal_product(self.entries, &self.diagonal, v, out)?)
    }
}

/// Conjugate gradients for a matrix and vectors of so many components: at most `iterations` a call, from the vector that the call begins with, until the relative
/// residual is below `tolerance`. The preconditioner is that of the values that the matrix has now.
///
/// # Errors
/// A matrix whose buffers do not fit each other; memory that runs out.
pub fn cg<D: Device>(
    device: &D,
    matrix: SparseMatrix<D>,
    components: usize,
    iterations: usize,
    tolerance: f64,
) -> Result<ConjugateGradients<D, SparseMatrix<D>>> {
    let (size, entries) = (matrix.structure.size, matrix.entries);
    let mut diagonal = device.alloc(entries.numbers() * size)?;
    device.inverse_diagonal(&matrix.csr(), &mut diagonal)?;
    let len = components * size;
    let solver = ConjugateGradients::new(device, matrix, len, iterations, tolerance)?;
    solver.with_inverse(Box::new(Jacobi { entries, diagonal }), len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::solver::Solver;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

    /// A chain of springs that are held at places: blocks, whose stiffness differs from one to the next.
    fn chain(n: usize) -> ([Vec<u32>; 2], Vec<f32>) {
        let (mut rows, mut columns, mut blocks) = (vec![0], Vec::new(), Vec::new());
        let spring = |i: usize| {
            let k = 1.0 + (i % 3) as f32;
            [2.0 * k, 0.3, 0.0, 0.3, k, 0.2, 0.0, 0.2, 1.5 * k]
        };
        for i in 0..n {
            for j in i.saturating_sub(1)..(i + 2).min(n) {
                columns.push(j as u32);
                blocks.push(if i == j {
                    let mut sum = [0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 40.0];
                    for (k, sum) in sum.iter_mut().enumerate() {
                        *sum += spring(i)[k] + spring(i + 1)[k];
                    }
                    sum
                } else {
                    spring(i.max(j)).map(|v| -v)
                });
            }
            rows.push(columns.len() as u32);
        }
        let values = (0..9).flat_map(|plane| blocks.iter().map(move |b| b[plane])).collect();
        ([rows, columns], values)
    }

    #[test]
    fn products_of_solutions_are_what_was_given() {
        const N: usize = 60;
        let ([rows, columns], values) = chain(N);
        let mut expected = None;
        for threads in [1, 3] {
            let cpu = Cpu::new(Some(threads)).unwrap();
            let structure = Arc::new(Structure::new(&cpu, &rows, &columns).unwrap());
            assert_eq!(structure.size(), N);
            let matrix = || {
                let values = cpu.upload(&values).unwrap();
                SparseMatrix::new(Arc::clone(&structure), Entries::Blocks, values)
            };
            let x: Vec<f32> = (0..3 * N).map(|i| ((i * 37 % 19) as f32) - 9.0).collect();
            let (truth, mut f) = (cpu.upload(&x).unwrap(), cpu.alloc(3 * N).unwrap());
            matrix().product(&cpu, &truth, &mut f).unwrap();
            let mut solver = cg(&cpu, matrix(), 3, 400, 1e-5).unwrap();
            let mut v = cpu.alloc(3 * N).unwrap();
            let solution = solver.solve(&f, &mut v).unwrap();
            assert!(solution.residual.unwrap() <= 1e-5, "{solution:?}");
            assert!(solution.iterations < 400, "{solution:?}");
            let found = cpu.download(&v).unwrap();
            for (found, x) in found.iter().zip(&x) {
                assert!((found - x).abs() < 2e-2, "{found} {x}");
            }
            // From there, little or nothing is left to do.
            let again = solver.solve(&f, &mut v).unwrap();
            assert!(again.iterations < solution.iterations, "{again:?}");
            assert_eq!(expected.get_or_insert_with(|| found.clone()), &found);
        }
    }
}
