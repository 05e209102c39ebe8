//! Sparse matrices over the vertices of a mesh.

use crate::error::{ElasticityError, Result};
use nalgebra::Matrix3;
use rayon::prelude::*;
use std::ops::{Add, Mul};
use std::sync::Arc;
use voxalign_image::{TetraMesh, Vector3, memory};

/// Rows of a product that a thread does at a time, at least.
const ROWS: usize = 256;

/// The most tetrahedra whose pairs of corners can be numbered.
const MOST: usize = u32::MAX as usize / 16;

/// Which vertices share a tetrahedron, and what each tetrahedron adds for them.
///
/// A row for each vertex, with the vertices of its tetrahedra in rising order, itself included. For each such pair, a *block*, it lists
/// the tetrahedra that have both, in rising order: sums in this order have the same bits on any number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// Where the blocks of each row begin, and the end of the last one.
    rows: Vec<usize>,
    /// The column of each block.
    columns: Vec<u32>,
    /// Where the terms of each block begin, and the end of the last one.
    starts: Vec<usize>,
    /// `16 e + 4 i + j` for corners `i` (row) and `j` (column) of tetrahedron `e`.
    terms: Vec<u32>,
}

impl Pattern {
    /// Of a mesh.
    ///
    /// # Errors
    /// [`ElasticityError::TooMany`] for more tetrahedra than can be numbered, [`ElasticityError::OutOfMemory`].
    pub fn new(mesh: &TetraMesh) -> Result<Self> {
        let (tetrahedra, count) = (mesh.tetrahedra(), mesh.vertices().len());
        if tetrahedra.len() > MOST {
            return Err(ElasticityError::TooMany { found: tetrahedra.len(), most: MOST });
        }
        let (firsts, corners) = corners(tetrahedra, count)?;
        let mut pattern = Self {
            rows: memory::room(count + 1)?,
            columns: Vec::new(),
            starts: Vec::new(),
            terms: memory::room(16 * tetrahedra.len())?,
        };
        let mut row: Vec<(u32, u32)> = Vec::new();
        for vertex in 0..count {
            pattern.rows.push(pattern.columns.len());
            row.clear();
            for &corner in &corners[firsts[vertex]..firsts[vertex + 1]] {
                let others = tetrahedra[corner as usize / 4];
                row.extend((0..4).map(|j| (others[j as usize], 4 * corner + j)));
            }
            row.sort_unstable();
            for block in row.chunk_by(|a, b| a.0 == b.0) {
                memory::push(&mut pattern.columns, block[0].0)?;
                memory::push(&mut pattern.starts, pattern.terms.len())?;
                pattern.terms.extend(block.iter().map(|&(_, term)| term));
            }
        }
        pattern.rows.push(pattern.columns.len());
        memory::push(&mut pattern.starts, pattern.terms.len())?;
        Ok(pattern)
    }

    /// Number of vertices.
    #[must_use]
    pub fn vertices(&self) -> usize {
        self.rows.len() - 1
    }

    /// Where the blocks of each row begin, and the end of the last one.
    #[must_use]
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The column of each block.
    #[must_use]
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The terms of a block: `16 e + 4 i + j` for corners `i` (row) and `j` (column) of tetrahedron `e`, in rising order of `e`.
    ///
    /// # Panics
    /// Where there is no block of this number.
    #[must_use]
    pub fn terms(&self, block: usize) -> &[u32] {
        &self.terms[self.starts[block]..self.starts[block + 1]]
    }

    /// The number of the block of a row and a column, where there is one.
    #[must_use]
    pub fn block(&self, row: usize, column: usize) -> Option<usize> {
        let (from, to) = (*self.rows.get(row)?, *self.rows.get(row + 1)?);
        let found = self.columns[from..to].binary_search(&u32::try_from(column).ok()?);
        found.ok().map(|at| from + at)
    }
}

/// For each vertex the corners that it is, `4 e + i`, in rising order.
pub(crate) fn corners(tetrahedra: &[[u32; 4]], count: usize) -> Result<(Vec<usize>, Vec<u32>)> {
    let mut firsts = memory::zeroed::<usize>(count + 1)?;
    tetrahedra.iter().flatten().for_each(|&v| firsts[v as usize + 1] += 1);
    for v in 0..count {
        firsts[v + 1] += firsts[v];
    }
    let mut next = memory::copied(&firsts)?;
    let mut corners = memory::zeroed::<u32>(4 * tetrahedra.len())?;
    for (corner, &v) in tetrahedra.iter().flatten().enumerate() {
        corners[next[v as usize]] = corner as u32;
        next[v as usize] += 1;
    }
    Ok((firsts, corners))
}

/// A value for each block of a [`Pattern`]: a number that counts for all components alike, or a matrix of 3 × 3.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse<T> {
    pattern: Arc<Pattern>,
    values: Vec<T>,
}

impl<T> Sparse<T>
where
    T: Copy + Send + Sync + Add<Output = T> + Mul<Vector3<f64>, Output = Vector3<f64>>,
{
    /// The sums of what `term` gives for a tetrahedron and two of its corners, row and column, in the order of the tetrahedra.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn assembled(
        pattern: &Arc<Pattern>,
        zero: T,
        term: impl Fn(usize, usize, usize) -> T + Sync,
    ) -> Result<Self> {
        let sum = |block: usize| {
            let terms = pattern.terms(block).iter().map(|&t| t as usize);
            terms.fold(zero, |sum, t| sum + term(t / 16, t / 4 % 4, t % 4))
        };
        let blocks = (0..pattern.columns.len()).into_par_iter().with_min_len(ROWS);
        let values = memory::par_collected(blocks.map(sum))?;
        Ok(Self { pattern: Arc::clone(pattern), values })
    }

    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// The values of the blocks.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The values of the blocks, to be changed.
    #[must_use]
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// The value for a row and a column, where they have a block.
    #[must_use]
    pub fn get(&self, row: usize, column: usize) -> Option<T> {
        self.pattern.block(row, column).map(|block| self.values[block])
    }

    /// The product with a vector for each vertex: sums in the order of the columns, the same bits on any number of threads.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    ///
    /// # Panics
    /// Where there are fewer vectors than vertices.
    pub fn product(&self, vectors: &[Vector3<f64>]) -> Result<Vec<Vector3<f64>>> {
        let row = |vertex: usize| {
            let blocks = self.pattern.rows[vertex]..self.pattern.rows[vertex + 1];
            blocks.fold(Vector3::zeros(), |sum: Vector3<f64>, block| {
                sum + self.values[block] * vectors[self.pattern.columns[block] as usize]
            })
        };
        let rows = (0..self.pattern.vertices()).into_par_iter().with_min_len(ROWS);
        Ok(memory::par_collected(rows.map(row))?)
    }
}

impl Sparse<Matrix3<f64>> {
    /// The same matrix times a number, with a number for each vertex added to its diagonal.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn combined(&self, factor: f64, diagonal: impl Fn(usize) -> f64) -> Result<Self> {
        let mut values = memory::collected(self.values.iter().map(|v| v * factor))?;
        for vertex in 0..self.pattern.vertices() {
            if let Some(block) = self.pattern.block(vertex, vertex) {
                values[block] += Matrix3::from_diagonal_element(diagonal(vertex));
            }
        }
        Ok(Self { pattern: Arc::clone(&self.pattern), values })
    }

    /// The same matrix with a block for each vertex added to its diagonal, but for those of vertices that are fixed.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    ///
    /// # Panics
    /// Where there are fewer blocks or numbers than vertices.
    pub fn with_blocks(&self, blocks: &[Matrix3<f64>], fixed: &[bool]) -> Result<Self> {
        let mut values = memory::copied(&self.values)?;
        for vertex in (0..self.pattern.vertices()).filter(|&v| !fixed[v]) {
            if let Some(place) = self.pattern.block(vertex, vertex) {
                values[place] += blocks[vertex];
            }
        }
        Ok(Self { pattern: Arc::clone(&self.pattern), values })
    }

    /// Makes rows and columns of vertices that are fixed those of the identity.
    ///
    /// # Panics
    /// Where there are fewer numbers than vertices.
    pub fn fix(&mut self, fixed: &[bool]) {
        for row in 0..self.pattern.vertices() {
            for block in self.pattern.rows[row]..self.pattern.rows[row + 1] {
                let column = self.pattern.columns[block] as usize;
                if fixed[row] || fixed[column] {
                    let one = f64::from(u8::from(row == column));
                    self.values[block] = Matrix3::from_diagonal_element(one);
                }
            }
        }
    }
}

/// The sum of the products of the components of two lists, in their order.
#[must_use]
pub fn dot(a: &[Vector3<f64>], b: &[Vector3<f64>]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.dot(b)).sum()
}
