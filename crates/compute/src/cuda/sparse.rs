//! Sparse and dense matrices on the GPU.

use std::sync::LazyLock;

use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Sparse;
use crate::ops::sparse::{
    Csr, Entries, check_chebyshev, check_dense, check_diagonal, check_inverse, check_product,
    check_refill,
};

kernels! { PRODUCT = "sparse/product.cu";
    fn product_by_threads[256](
        starts: &[u32], rows: u64, columns: &[u32], values: &[f32], entries: u64, width: u64, x: &[f32], out: &mut [f32],
    );
    fn product_by_warps[256](
        starts: &[u32], rows: u64, columns: &[u32], values: &[f32], entries: u64, width: u64, x: &[f32], out: &mut [f32],
    );
    fn chebyshev_by_threads[256](
        starts: &[u32], rows: u64, columns: &[u32], values: &[f32], entries: u64, width: u64, before: &[f32], x: &[f32],
        right: &[f32], omega: f64, gamma: f64, out: &mut [f32],
    );
    fn chebyshev_by_warps[256](
        starts: &[u32], rows: u64, columns: &[u32], values: &[f32], entries: u64, width: u64, before: &[f32], x: &[f32],
        right: &[f32], omega: f64, gamma: f64, out: &mut [f32],
    );
}

kernels! { SPARSE = "sparse/sparse.cu";
    fn refill[256](
        contributions: &[f32], count: u64, starts: &[u32], list: &[u32], listed: u64, entries: u64, numbers: u64,
        values: &mut [f32],
    );
    fn dense_product[256](matrix: &[f32], size: u64, x: &[f32], vectors: u64, out: &mut [f32]);
    fn inverse_diagonal[256](
        starts: &[u32], rows: u64, columns: &[u32], values: &[f32], entries: u64, numbers: u32, out: &mut [f32],
    );
    fn diagonal_product[256](
        diagonal: &[f32], rows: u64, numbers: u32, components: u32, x: &[f32], out: &mut [f32],
    );
}

/// Vectors that go through a dense matrix together, as the kernel has it.
const TOGETHER: usize = 4;

/// The threads of a warp.
const WARP: usize = 32;

/// The kernels for numbers and one component, for numbers and three, and for blocks.
static PRODUCTS: LazyLock<[PRODUCT; 3]> = LazyLock::new(|| {
    [(0i64, 1i64), (0, 3), (1, 3)]
        .map(|(blocks, components)| PRODUCT.with(&[("BLOCKS", blocks), ("COMPONENTS", components)]))
});

fn product_of(entries: Entries, components: usize) -> &'static PRODUCT {
    match (entries, components) {
        (Entries::Numbers, 1) => &PRODUCTS[0],
        (Entries::Numbers, _) => &PRODUCTS[1],
        (Entries::Blocks, _) => &PRODUCTS[2],
    }
}

impl Sparse for Cuda {
    fn product(
        &self,
        matrix: &Csr<'_, Self>,
        x: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (extent, components) = check_product(matrix, x.len(), out.len())?;
        if extent.rows == 0 {
            return Ok(());
        }
        let program = product_of(matrix.entries, components);
        let (rows, entries, width) =
            (extent.rows as u64, extent.entries as u64, matrix.width as u64);
        let Csr { rows: starts, columns, values, .. } = *matrix;
        // SAFETY: entries are within their lists, columns within the vector, and rows within the product.
        unsafe {
            if extent.wide {
                let shape = Shape::covering(WARP * extent.rows, 256);
                program.product_by_warps(
                    self, shape, starts, rows, columns, values, entries, width, x, out,
                )
            } else {
                let shape = Shape::covering(extent.rows, 256);
                program.product_by_threads(
                    self, shape, starts, rows, columns, values, entries, width, x, out,
                )
            }
        }
    }

    fn chebyshev(
        &self,
        matrix: &Csr<'_, Self>,
        before: &CudaBuffer<f32>,
        v: &CudaBuffer<f32>,
        f: &CudaBuffer<f32>,
        [omega, gamma]: [f64; 2],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [before.len(), v.len(), f.len(), out.len()];
        let (extent, components) = check_chebyshev(matrix, lengths)?;
        if extent.rows == 0 {
            return Ok(());
        }
        let program = product_of(matrix.entries, components);
        let (rows, entries, width) =
            (extent.rows as u64, extent.entries as u64, matrix.width as u64);
        let Csr { rows: starts, columns, values, .. } = *matrix;
        // SAFETY: as of products; all vectors have a number for each row.
        unsafe {
            if extent.wide {
                let shape = Shape::covering(WARP * extent.rows, 256);
                program.chebyshev_by_warps(
                    self, shape, starts, rows, columns, values, entries, width, before, v, f,
                    omega, gamma, out,
                )
            } else {
                let shape = Shape::covering(extent.rows, 256);
                program.chebyshev_by_threads(
                    self, shape, starts, rows, columns, values, entries, width, before, v, f,
                    omega, gamma, out,
                )
            }
        }
    }

    fn refill(
        &self,
        entries: Entries,
        contributions: &CudaBuffer<f32>,
        starts: &CudaBuffer<u32>,
        list: &CudaBuffer<u32>,
        values: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (listed, numbers) = (list.len(), values.len());
        let (n, count) = check_refill(entries, contributions.len(), starts.len(), listed, numbers)?;
        if n == 0 {
            return Ok(());
        }
        let (shape, count) = (Shape::covering(numbers, 256), count as u64);
        let (listed, n, numbers) = (listed as u64, n as u64, numbers as u64);
        // SAFETY: places are within the list, and contributions within theirs.
        unsafe {
            SPARSE.refill(
                self,
                shape,
                contributions,
                count,
                starts,
                list,
                listed,
                n,
                numbers,
                values,
            )
        }
    }

    fn dense_product(
        &self,
        matrix: &CudaBuffer<f32>,
        size: usize,
        x: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let vectors = check_dense(matrix.len(), size, x.len(), out.len())?;
        if vectors == 0 {
            return Ok(());
        }
        let mut shape = Shape::covering(WARP * size, 256);
        shape.grid[1] = vectors.div_ceil(TOGETHER).min(1024) as u32;
        // SAFETY: the matrix has `size` rows of `size` numbers, and so has each vector and its product.
        unsafe { SPARSE.dense_product(self, shape, matrix, size as u64, x, vectors as u64, out) }
    }

    fn inverse_diagonal(&self, matrix: &Csr<'_, Self>, out: &mut CudaBuffer<f32>) -> Result<()> {
        let extent = check_inverse(matrix, out.len())?;
        if extent.rows == 0 {
            return Ok(());
        }
        let (rows, entries) = (extent.rows as u64, extent.entries as u64);
        let numbers = matrix.entries.numbers() as u32;
        let shape = Shape::covering(extent.rows, 256);
        let Csr { rows: starts, columns, values, .. } = *matrix;
        // SAFETY: entries are within their lists, and there is room for what each row has.
        unsafe {
            SPARSE
                .inverse_diagonal(self, shape, starts, rows, columns, values, entries, numbers, out)
        }
    }

    fn diagonal_product(
        &self,
        entries: Entries,
        diagonal: &CudaBuffer<f32>,
        x: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (rows, components) = check_diagonal(entries, diagonal.len(), x.len(), out.len())?;
        if rows == 0 {
            return Ok(());
        }
        let (shape, rows) = (Shape::covering(rows, 256), rows as u64);
        let (numbers, components) = (entries.numbers() as u32, components as u32);
        // SAFETY: all have numbers for every row.
        unsafe { SPARSE.diagonal_product(self, shape, diagonal, rows, numbers, components, x, out) }
    }
}
