//! Sparse matrices in compressed rows, and what iterative solvers need beside their products.
//!
//! Entries are numbers, or blocks of 3 × 3 numbers where every unknown is a vector: the stiffness of finite elements has
//! one structure of node by node, of which each column index then stands for nine numbers. Blocks are stored in nine planes: the
//! number in row `r` and column `c` of block `k` of `n` is `values[(3 r + c) n + k]`. Vectors of three components are stored as all x, all y,
//! all z.

use voxalign_compute_macros::forwarded;

use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

/// What the entries of a matrix are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entries {
    /// Numbers. The matrix works on each component of vectors alike.
    Numbers,
    /// Blocks of 3 × 3 numbers, in nine planes. Vectors have three components.
    Blocks,
}

impl Entries {
    /// The numbers of an entry: 1 or 9.
    #[must_use]
    pub fn numbers(self) -> usize {
        match self {
            Self::Numbers => 1,
            Self::Blocks => 9,
        }
    }
}

/// A matrix in compressed rows (CSR). The entries of row `i` are those from `rows[i]` up to, but not including, `rows[i + 1]`; starts
/// beyond the last entry are taken for its end, columns beyond the width for the last one.
#[derive(Debug)]
#[forwarded]
pub struct Csr<'a, D: Memory> {
    /// What the entries are.
    pub entries: Entries,
    /// The number of columns, in entries.
    pub width: usize,
    /// Where rows start: one more than there are rows.
    pub rows: &'a D::Buffer<u32>,
    /// The column of each entry.
    pub columns: &'a D::Buffer<u32>,
    /// As many as columns for numbers, nine times as many for blocks.
    pub values: &'a D::Buffer<f32>,
}

/// Products of sparse and of dense matrices with vectors, and the diagonal of the former as an approximate inverse: conjugate
/// gradients are made of these with [`Reduce`](super::Reduce) and [`Elementwise`](super::Elementwise).
///
/// Products and sums are in `f64` and rounded once, so that all devices give the same bits. The entries of a row are added one
/// after the other, or where there are [`WIDE`] a row and more, on average over the matrix, in as many parts, of
/// every 32nd entry each, which are added as a tree.
///
/// ```
/// use voxalign_compute::ops::Sparse;
/// use voxalign_compute::ops::sparse::{Csr, Entries};
/// use voxalign_compute::{Memory, cpu::Cpu};
///
/// // ( 2 −1 )
/// // ( 0  3 )
/// let cpu = Cpu::new(None)?;
/// let (rows, columns) = (cpu.upload(&[0, 2, 3])?, cpu.upload(&[0, 1, 1])?);
/// let values = cpu.upload(&[2.0, -1.0, 3.0])?;
/// let matrix = Csr { entries: Entries::Numbers, width: 2, rows: &rows, columns: &columns, values: &values };
/// let (x, mut out) = (cpu.upload(&[5.0, 7.0])?, cpu.alloc(2)?);
/// cpu.product(&matrix, &x, &mut out)?;
/// assert_eq!(cpu.into_host(out)?, [3.0, 21.0]);
/// # Ok::<(), voxalign_compute::ComputeError>(())
/// ```
#[forwarded]
pub trait Sparse: Memory {
    /// `out = A x`. Vectors have one or three components for a matrix of numbers, three for one of blocks: `x` has so many for each
    /// column, `out` for each row.
    ///
    /// # Errors
    /// Wrong lengths; another number of components.
    fn product(
        &self,
        matrix: &Csr<'_, Self>,
        x: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = v' + ω (v − v' + γ (f − A v))`, an iteration of Chebyshev's for `A v = f` with `v'` before `v`; `weights` are `ω` and `γ`. It is in `f64` and
    /// rounded once. The matrix is square, and vectors are as of [`product`](Self::product).
    ///
    /// # Errors
    /// Wrong lengths; as of [`product`](Self::product).
    fn chebyshev(
        &self,
        matrix: &Csr<'_, Self>,
        before: &Self::Buffer<f32>,
        v: &Self::Buffer<f32>,
        f: &Self::Buffer<f32>,
        weights: [f64; 2],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The entries of a matrix from the contributions of elements: entry `k` becomes the sum of the contributions
    /// `list[starts[k]]` up to, but not including, `list[starts[k + 1]]`, in this order; zero where there are none.
    ///
    /// Contributions are numbers or blocks in planes as entries are. With lists in the order of element numbers, contribution `16 e + 4 i + j` being what element `e` adds between its
    /// corners `i` and `j`, this is the assembly of finite elements, with the same bits on any number of threads. `starts` has one more number than there are
    /// entries; what is beyond the list is taken for its end, contributions beyond the last for the last.
    ///
    /// # Errors
    /// Wrong lengths.
    fn refill(
        &self,
        entries: Entries,
        contributions: &Self::Buffer<f32>,
        starts: &Self::Buffer<u32>,
        list: &Self::Buffer<u32>,
        values: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = A x` of a symmetric dense matrix of `size` rows, for each of the vectors that `x` holds one after the other. Every row is summed in
    /// 32 parts, whatever its length.
    ///
    /// # Errors
    /// Wrong lengths.
    fn dense_product(
        &self,
        matrix: &Self::Buffer<f32>,
        size: usize,
        x: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The inverses of the entries on the diagonal of a square matrix: a number or a block in planes a row. Zero where a row has none
    /// there, or one that has no inverse.
    ///
    /// # Errors
    /// Wrong lengths; another number of rows than of columns.
    fn inverse_diagonal(&self, matrix: &Csr<'_, Self>, out: &mut Self::Buffer<f32>) -> Result<()>;

    /// `out_i = B_i x_i` for every row `i` of a diagonal matrix: the (block) Jacobi preconditioner, for that of
    /// [`inverse_diagonal`](Self::inverse_diagonal).
    ///
    /// # Errors
    /// Wrong lengths; as of [`product`](Self::product).
    fn diagonal_product(
        &self,
        entries: Entries,
        diagonal: &Self::Buffer<f32>,
        x: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// The mean length of rows from which on they are summed in as many parts.
pub const WIDE: usize = 32;

/// The sizes of a matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// The number of rows.
    pub(crate) rows: usize,
    /// The number of entries.
    pub(crate) entries: usize,
    /// Whether rows are summed in parts.
    pub(crate) wide: bool,
}

/// Checks the lengths of a matrix.
fn check_matrix<D: Memory>(matrix: &Csr<'_, D>) -> Result<Extent> {
    let (starts, entries) = (matrix.rows.len(), matrix.columns.len());
    check_len("starts of rows", starts.max(1), starts)?;
    let numbers = entries.saturating_mul(matrix.entries.numbers());
    check_len("values of a matrix", numbers, matrix.values.len())?;
    if matrix.width == 0 && entries > 0 {
        return Err(ComputeError::argument("width of a matrix with entries", 0, "at least 1"));
    }
    let rows = starts - 1;
    Ok(Extent { rows, entries, wide: entries >= WIDE.saturating_mul(rows.max(1)) })
}

/// The components of vectors of so many numbers that a matrix of `n` columns or rows works on.
fn components(entries: Entries, n: usize, numbers: usize) -> Result<usize> {
    let count = match entries {
        Entries::Numbers if numbers == n => 1,
        _ => 3,
    };
    check_len("vector beside a matrix", n.saturating_mul(count), numbers)?;
    Ok(count)
}

/// Checks the arguments of [`Sparse::product`]; the sizes, and the number of components.
pub(crate) fn check_product<D: Memory>(
    matrix: &Csr<'_, D>,
    x: usize,
    out: usize,
) -> Result<(Extent, usize)> {
    let extent = check_matrix(matrix)?;
    // Without columns or rows the other vector tells.
    let count = match (matrix.width, extent.rows) {
        (0, rows) => components(matrix.entries, rows, out)?,
        (width, _) => components(matrix.entries, width, x)?,
    };
    check_len("vector beside a matrix", matrix.width.saturating_mul(count), x)?;
    check_len("product", extent.rows.saturating_mul(count), out)?;
    Ok((extent, count))
}

/// Checks the arguments of [`Sparse::chebyshev`], with the lengths of its vectors; the sizes, and the number of components.
pub(crate) fn check_chebyshev<D: Memory>(
    matrix: &Csr<'_, D>,
    [before, v, f, out]: [usize; 4],
) -> Result<(Extent, usize)> {
    let (extent, count) = check_product(matrix, v, out)?;
    check_len("rows of a square matrix", matrix.width, extent.rows)?;
    check_len("vector before", out, before)?;
    check_len("right side", out, f)?;
    Ok((extent, count))
}

/// Checks the arguments of [`Sparse::refill`]; the numbers of entries and of contributions.
pub(crate) fn check_refill(
    entries: Entries,
    contributions: usize,
    starts: usize,
    list: usize,
    values: usize,
) -> Result<(usize, usize)> {
    check_len("starts of contributions", starts.max(1), starts)?;
    let (planes, entries) = (entries.numbers(), starts - 1);
    check_len("values of a matrix", entries.saturating_mul(planes), values)?;
    let count = contributions / planes;
    check_len("contributions", count * planes, contributions)?;
    if count == 0 && list > 0 {
        return Err(ComputeError::argument("list of no contributions", list, "empty"));
    }
    Ok((entries, count))
}

/// Checks the arguments of [`Sparse::dense_product`]; the number of vectors.
pub(crate) fn check_dense(matrix: usize, size: usize, x: usize, out: usize) -> Result<usize> {
    check_len("dense matrix", size.saturating_mul(size), matrix)?;
    let vectors = x.checked_div(size).unwrap_or(0);
    check_len("vectors beside a dense matrix", vectors * size, x)?;
    check_len("product", x, out)?;
    Ok(vectors)
}

/// Checks the arguments of [`Sparse::inverse_diagonal`].
pub(crate) fn check_inverse<D: Memory>(matrix: &Csr<'_, D>, out: usize) -> Result<Extent> {
    let extent = check_matrix(matrix)?;
    check_len("rows of a square matrix", matrix.width, extent.rows)?;
    check_len("diagonal", extent.rows.saturating_mul(matrix.entries.numbers()), out)?;
    Ok(extent)
}

/// Checks the arguments of [`Sparse::diagonal_product`]; the numbers of rows and of components.
pub(crate) fn check_diagonal(
    entries: Entries,
    diagonal: usize,
    x: usize,
    out: usize,
) -> Result<(usize, usize)> {
    let rows = diagonal / entries.numbers();
    check_len("diagonal", rows * entries.numbers(), diagonal)?;
    let count = components(entries, rows, x)?;
    check_len("product", x, out)?;
    Ok((rows, count))
}
