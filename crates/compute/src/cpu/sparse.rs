//! Sparse and dense matrices on the CPU.

use std::ops::Range;

use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Sparse;
use crate::ops::sparse::{
    Csr, Entries, Extent, check_chebyshev, check_dense, check_diagonal, check_inverse,
    check_product, check_refill,
};

/// The rows of a task.
const TASK: usize = 512;
/// The parts of a sum that is not made one after the other: the lanes of a warp.
const LANES: usize = 32;

/// From a start to the next one, within so many.
#[inline]
pub(super) fn between(starts: &[u32], i: usize, most: usize) -> Range<usize> {
    let end = (starts[i + 1] as usize).min(most);
    (starts[i] as usize).min(end)..end
}

/// Parts of the lanes of a warp added as a tree, as the GPU does.
#[inline]
pub(super) fn tree<const C: usize>(lanes: &mut [[f64; C]]) -> [f64; C] {
    let mut step = lanes.len() / 2;
    while step > 0 {
        for i in 0..step {
            for c in 0..C {
                lanes[i][c] += lanes[i + step][c];
            }
        }
        step /= 2;
    }
    lanes.first().copied().unwrap_or([0.0; C])
}

/// The sum of terms, one after the other or in parts.
#[inline]
pub(super) fn sum<const C: usize>(
    range: Range<usize>,
    wide: bool,
    mut add: impl FnMut(usize, &mut [f64; C]),
) -> [f64; C] {
    if wide {
        let mut lanes = [[0.0; C]; LANES];
        for (k, i) in range.enumerate() {
            add(i, &mut lanes[k % LANES]);
        }
        return tree(&mut lanes);
    }
    let mut sum = [0.0; C];
    for i in range {
        add(i, &mut sum);
    }
    sum
}

/// What rows are multiplied with.
#[derive(Clone, Copy)]
struct Factors<'a> {
    columns: &'a [u32],
    values: &'a [f32],
    width: usize,
    x: &'a [f32],
}

impl Factors<'_> {
    /// What entry `k`, a number, adds to its row.
    #[inline]
    fn add_number<const C: usize>(&self, k: usize, sum: &mut [f64; C]) {
        let j = (self.columns[k] as usize).min(self.width - 1);
        let value = f64::from(self.values[k]);
        for (c, sum) in sum.iter_mut().enumerate() {
            *sum += value * f64::from(self.x[c * self.width + j]);
        }
    }

    /// What entry `k`, a block, adds to its row.
    #[inline]
    fn add_block(&self, k: usize, sum: &mut [f64; 3]) {
        let j = (self.columns[k] as usize).min(self.width - 1);
        let n = self.columns.len();
        let x = [0, 1, 2].map(|c| f64::from(self.x[c * self.width + j]));
        for (r, sum) in sum.iter_mut().enumerate() {
            let value = |c: usize| f64::from(self.values[(3 * r + c) * n + k]);
            *sum += value(0) * x[0] + value(1) * x[1] + value(2) * x[2];
        }
    }
}

/// The inverse of a block by its cofactors; zeros where there is none.
fn inverse(m: [f64; 9]) -> [f64; 9] {
    let minor = |a: usize, b: usize, c: usize, d: usize| m[a] * m[b] - m[c] * m[d];
    let first = [minor(4, 8, 5, 7), minor(5, 6, 3, 8), minor(3, 7, 4, 6)];
    let r = 1.0 / (m[0] * first[0] + m[1] * first[1] + m[2] * first[2]);
    if !r.is_finite() {
        return [0.0; 9];
    }
    [
        first[0] * r,
        minor(2, 7, 1, 8) * r,
        minor(1, 5, 2, 4) * r,
        first[1] * r,
        minor(0, 8, 2, 6) * r,
        minor(2, 3, 0, 5) * r,
        first[2] * r,
        minor(1, 6, 0, 7) * r,
        minor(0, 4, 1, 3) * r,
    ]
}

impl Cpu {
    /// Three components of a vector, made row by row.
    fn rows_of_three(&self, out: &mut [f32], row: impl Fn(usize) -> [f64; 3] + Send + Sync) {
        self.chunks_mut_3(out, TASK, |task, [x, y, z]| {
            for k in 0..x.len() {
                [x[k], y[k], z[k]] = row(task * TASK + k).map(|v| v as f32);
            }
        });
    }

    /// The numbers of a vector, made one by one.
    fn rows(&self, out: &mut [f32], row: impl Fn(usize) -> f64 + Send + Sync) {
        self.chunks_mut(out, TASK, |task, out| {
            for (k, out) in out.iter_mut().enumerate() {
                *out = row(task * TASK + k) as f32;
            }
        });
    }
}

impl Cpu {
    /// What is made of the product of a matrix with a vector, number by number, each with its place.
    fn rows_with(
        &self,
        matrix: &Csr<'_, Self>,
        (extent, components): (Extent, usize),
        x: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
        of: impl Fn(f64, usize) -> f64 + Send + Sync,
    ) {
        let (columns, values) = (matrix.columns.as_slice(), matrix.values.as_slice());
        let by = Factors { columns, values, width: matrix.width, x: x.as_slice() };
        let starts = matrix.rows.as_slice();
        let range = |row: usize| between(starts, row, extent.entries);
        let (out, wide, n) = (out.as_mut_slice(), extent.wide, extent.rows);
        let three =
            |row: usize, [x, y, z]: [f64; 3]| [of(x, row), of(y, n + row), of(z, 2 * n + row)];
        match (matrix.entries, components) {
            (Entries::Blocks, _) => self.rows_of_three(out, |row| {
                three(row, sum(range(row), wide, |k, sum: &mut [f64; 3]| by.add_block(k, sum)))
            }),
            (Entries::Numbers, 1) => self.rows(out, |row| {
                of(sum(range(row), wide, |k, sum: &mut [f64; 1]| by.add_number(k, sum))[0], row)
            }),
            (Entries::Numbers, _) => self.rows_of_three(out, |row| {
                three(row, sum(range(row), wide, |k, sum: &mut [f64; 3]| by.add_number(k, sum)))
            }),
        }
    }
}

impl Sparse for Cpu {
    fn product(
        &self,
        matrix: &Csr<'_, Self>,
        x: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let (extent, components) = check_product(matrix, x.len(), out.len())?;
        self.rows_with(matrix, (extent, components), x, out, |sum, _| sum);
        Ok(())
    }

    fn chebyshev(
        &self,
        matrix: &Csr<'_, Self>,
        before: &CpuBuffer<f32>,
        v: &CpuBuffer<f32>,
        f: &CpuBuffer<f32>,
        [omega, gamma]: [f64; 2],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [before, v, f, out].map(|b| b.len());
        let extent = check_chebyshev(matrix, lengths)?;
        let (last, now, f) = (before.as_slice(), v.as_slice(), f.as_slice());
        self.rows_with(matrix, extent, v, out, |product, i| {
            let [last, now, f] = [last[i], now[i], f[i]].map(f64::from);
            last + omega * (now - last + gamma * (f - product))
        });
        Ok(())
    }

    fn refill(
        &self,
        entries: Entries,
        contributions: &CpuBuffer<f32>,
        starts: &CpuBuffer<u32>,
        list: &CpuBuffer<u32>,
        values: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = (contributions.len(), starts.len(), list.len(), values.len());
        let (n, count) = check_refill(entries, lengths.0, lengths.1, lengths.2, lengths.3)?;
        if n == 0 {
            return Ok(());
        }
        let (starts, list) = (starts.as_slice(), list.as_slice());
        for (plane, out) in values.as_mut_slice().chunks_mut(n).enumerate() {
            // Without contributions there is no list, either.
            let from = &contributions.as_slice()[plane * count..][..count];
            self.rows(out, |k| {
                let listed = &list[between(starts, k, list.len())];
                let value = |&c: &u32| f64::from(from[(c as usize).min(count - 1)]);
                listed.iter().map(value).fold(0.0, |sum, v| sum + v)
            });
        }
        Ok(())
    }

    fn dense_product(
        &self,
        matrix: &CpuBuffer<f32>,
        size: usize,
        x: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_dense(matrix.len(), size, x.len(), out.len())?;
        if size == 0 {
            return Ok(());
        }
        let matrix = matrix.as_slice();
        for (x, out) in x.as_slice().chunks(size).zip(out.as_mut_slice().chunks_mut(size)) {
            self.rows(out, |row| {
                let row = &matrix[row * size..][..size];
                let mut lanes = [[0.0]; LANES];
                for (row, x) in row.chunks(LANES).zip(x.chunks(LANES)) {
                    for ((lane, &m), &x) in lanes.iter_mut().zip(row).zip(x) {
                        lane[0] += f64::from(m) * f64::from(x);
                    }
                }
                tree(&mut lanes)[0]
            });
        }
        Ok(())
    }

    fn inverse_diagonal(&self, matrix: &Csr<'_, Self>, out: &mut CpuBuffer<f32>) -> Result<()> {
        let extent = check_inverse(matrix, out.len())?;
        let (starts, columns) = (matrix.rows.as_slice(), matrix.columns.as_slice());
        let values = matrix.values.as_slice();
        let (rows, n) = (extent.rows, extent.entries);
        let planes = matrix.entries.numbers();
        let found = self.collect(rows.div_ceil(TASK), |task| {
            let of_row = |row: usize| {
                let mut diagonal = between(starts, row, n).filter(|&k| columns[k] as usize == row);
                let Some(k) = diagonal.next() else { return [0.0; 9] };
                let mut block = [0.0; 9];
                for (plane, number) in block.iter_mut().enumerate().take(planes) {
                    *number = f64::from(values[plane * n + k]);
                }
                if planes == 1 {
                    let r = 1.0 / block[0];
                    block[0] = if r.is_finite() { r } else { 0.0 };
                    return block;
                }
                inverse(block)
            };
            (task * TASK..rows).take(TASK).map(of_row).collect::<Vec<_>>()
        });
        let out = out.as_mut_slice();
        for (row, block) in found.iter().flatten().enumerate() {
            for (plane, &number) in block.iter().enumerate().take(planes) {
                out[plane * rows + row] = number as f32;
            }
        }
        Ok(())
    }

    fn diagonal_product(
        &self,
        entries: Entries,
        diagonal: &CpuBuffer<f32>,
        x: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let (n, _) = check_diagonal(entries, diagonal.len(), x.len(), out.len())?;
        let (d, x) = (diagonal.as_slice(), x.as_slice());
        match entries {
            Entries::Blocks => self.rows_of_three(out.as_mut_slice(), |row| {
                let x = [0, 1, 2].map(|c| f64::from(x[c * n + row]));
                [0, 1, 2].map(|r| {
                    let value = |c: usize| f64::from(d[(3 * r + c) * n + row]);
                    value(0) * x[0] + value(1) * x[1] + value(2) * x[2]
                })
            }),
            Entries::Numbers => {
                self.rows(out.as_mut_slice(), |i| f64::from(d[i % n]) * f64::from(x[i]));
            }
        }
        Ok(())
    }
}
