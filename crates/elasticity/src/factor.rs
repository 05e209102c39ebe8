//! Direct solutions: a sparse Cholesky factor that is made once and used for many right sides.
//!
//! The factor is made column by column by one thread, in an order that follows from the pattern alone, so that it has the same bits
//! every time. Every solution is checked by its residual.

use crate::assembly::{Body, Fixed};
use crate::error::{ElasticityError, Result};
use crate::sparse::{Sparse, dot};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::sparse::linalg::SupernodalThreshold;
use faer::sparse::linalg::cholesky::{
    CholeskySymbolicParams, LltRef, SymbolicCholesky, SymmetricOrdering,
    factorize_symbolic_cholesky,
};
use faer::sparse::{FaerError, SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Par, Side};
use nalgebra::Matrix3;
use voxalign_image::Vector3;
use voxalign_image::memory::{self, OutOfMemory};

/// What may be left of a right side, as a part of its norm.
const RESIDUAL: f64 = 1e-9;

/// A symmetric positive definite matrix with its Cholesky factor.
#[derive(Debug)]
pub struct Factor {
    matrix: Sparse<Matrix3<f64>>,
    symbolic: SymbolicCholesky<u32>,
    values: Vec<f64>,
}

/// The upper triangle of a matrix by columns of single components, without blocks that are 0.
struct Columns {
    starts: Vec<u32>,
    rows: Vec<u32>,
    values: Vec<f64>,
}

impl Columns {
    fn of(matrix: &Sparse<Matrix3<f64>>) -> Result<Self> {
        let pattern = matrix.pattern();
        let unknowns = 3 * pattern.vertices();
        // Blocks on the diagonal count twice here, and have six of their nine entries.
        let most = 9 * (pattern.columns().len() + pattern.vertices()) / 2;
        if most > i32::MAX as usize {
            return Err(ElasticityError::FactorSize { unknowns });
        }
        let mut columns = Self {
            starts: memory::room(unknowns + 1)?,
            rows: memory::room(most)?,
            values: memory::room(most)?,
        };
        // The matrix is symmetric: what stands left of the diagonal in a row stands above it in the column.
        for column in 0..unknowns {
            columns.starts.push(columns.rows.len() as u32);
            for block in pattern.rows()[column / 3]..pattern.rows()[column / 3 + 1] {
                let (first, value) =
                    (3 * pattern.columns()[block] as usize, &matrix.values()[block]);
                if first > column || value.iter().all(|&v| v == 0.0) {
                    continue;
                }
                for row in (first..first + 3).take_while(|&row| row <= column) {
                    columns.rows.push(row as u32);
                    columns.values.push(value[(column % 3, row - first)]);
                }
            }
        }
        columns.starts.push(columns.rows.len() as u32);
        Ok(columns)
    }
}

impl Factor {
    /// The factor of a matrix that is symmetric and positive definite.
    ///
    /// # Errors
    /// [`ElasticityError::NotDefinite`], [`ElasticityError::FactorSize`] where its entries cannot be numbered,
    /// [`ElasticityError::OutOfMemory`].
    pub fn new(matrix: Sparse<Matrix3<f64>>) -> Result<Self> {
        let unknowns = 3 * matrix.pattern().vertices();
        let Columns { starts, rows, values: upper } = Columns::of(&matrix)?;
        let pattern =
            SymbolicSparseColMatRef::new_checked(unknowns, unknowns, &starts, None, &rows);
        let parameters = CholeskySymbolicParams {
            supernodal_flop_ratio_threshold: SupernodalThreshold::FORCE_SIMPLICIAL,
            ..Default::default()
        };
        let order = SymmetricOrdering::Amd;
        let symbolic = factorize_symbolic_cholesky(pattern, Side::Upper, order, parameters)
            .map_err(|error| of_faer(error, unknowns))?;
        let mut values = memory::zeroed(symbolic.len_val())?;
        let request = symbolic.factorize_numeric_llt_scratch::<f64>(Par::Seq, Default::default());
        let made = symbolic.factorize_numeric_llt(
            &mut values,
            SparseColMatRef::new(pattern, &upper),
            Side::Upper,
            Default::default(),
            Par::Seq,
            MemStack::new(&mut room(request)?),
            Default::default(),
        );
        if made.is_err() {
            return Err(ElasticityError::NotDefinite { unknowns });
        }
        Ok(Self { matrix, symbolic, values })
    }

    /// The matrix.
    #[must_use]
    pub fn matrix(&self) -> &Sparse<Matrix3<f64>> {
        &self.matrix
    }

    /// Number of entries of the factor.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// The vectors whose product with the matrix is the right side. What is left of it has at most 1e-9 of its norm; where one solution
    /// does not reach that, a second one for what is left is added.
    ///
    /// # Errors
    /// [`ElasticityError::Residual`] where that does not reach it either, as where a number is not finite;
    /// [`ElasticityError::OutOfMemory`].
    ///
    /// # Panics
    /// Where there is not one vector for each vertex.
    pub fn solve(&self, right: &[Vector3<f64>]) -> Result<Vec<Vector3<f64>>> {
        let norm = dot(right, right).sqrt();
        let mut solution = self.solve_once(right)?;
        let mut residual = f64::NAN;
        for attempt in 0..2 {
            let product = self.matrix.product(&solution)?;
            let left = memory::collected(right.iter().zip(&product).map(|(r, p)| r - p))?;
            residual = dot(&left, &left).sqrt();
            if residual <= RESIDUAL * norm {
                return Ok(solution);
            }
            if attempt == 0 {
                let more = self.solve_once(&left)?;
                solution.iter_mut().zip(more).for_each(|(s, m)| *s += m);
            }
        }
        Err(ElasticityError::Residual { residual: residual / norm, most: RESIDUAL })
    }

    fn solve_once(&self, right: &[Vector3<f64>]) -> Result<Vec<Vector3<f64>>> {
        let mut x = memory::collected(right.iter().flat_map(|v| [v.x, v.y, v.z]))?;
        let len = x.len();
        let request = self.symbolic.solve_in_place_scratch::<f64>(1, Par::Seq);
        LltRef::new(&self.symbolic, &self.values).solve_in_place_with_conj(
            Conj::No,
            MatMut::from_column_major_slice_mut(&mut x, len, 1),
            Par::Seq,
            MemStack::new(&mut room(request)?),
        );
        Ok(memory::collected(x.chunks_exact(3).map(|v| Vector3::new(v[0], v[1], v[2])))?)
    }
}

/// Memory for the library to work in.
fn room(request: StackReq) -> Result<MemBuffer> {
    let bytes = request.unaligned_bytes_required();
    Ok(memory::ask::<u8, _>(bytes, || MemBuffer::try_new(request).ok())?)
}

fn of_faer(error: FaerError, unknowns: usize) -> ElasticityError {
    match error {
        FaerError::OutOfMemory => {
            // How much it was is not said; an unknown has some 100 entries in a factor at least.
            let bytes = 1200 * unknowns as u64;
            OutOfMemory { bytes, free: memory::host().free }.into()
        }
        _ => ElasticityError::FactorSize { unknowns },
    }
}

/// The displacements, mm, in which a body is at rest under forces, mN, on its vertices: those of fixed vertices are given, and the
/// forces on these do not count.
///
/// # Errors
/// [`ElasticityError::Loose`] where fewer than three vertices that are not on a line are fixed, and the errors of [`Factor::new`] and
/// [`Factor::solve`].
///
/// # Panics
/// Where there is not one force and one displacement for each vertex.
pub fn equilibrium(
    body: &Body,
    fixed: &Fixed,
    given: &[Vector3<f64>],
    forces: &[Vector3<f64>],
) -> Result<Vec<Vector3<f64>>> {
    fixed.check_holds(body.mesh())?;
    let mut stiffness = body.stiffness()?;
    let held =
        given.iter().zip(fixed.mask()).map(|(u, &fixed)| if fixed { *u } else { Vector3::zeros() });
    let held = memory::collected(held)?;
    let reaction = stiffness.product(&held)?;
    let mut right = memory::collected(forces.iter().zip(reaction).map(|(f, r)| f - r))?;
    fixed.clear(&mut right);
    stiffness.fix(fixed.mask());
    let mut solution = Factor::new(stiffness)?.solve(&right)?;
    solution.iter_mut().zip(held).for_each(|(u, held)| *u += held);
    Ok(solution)
}
