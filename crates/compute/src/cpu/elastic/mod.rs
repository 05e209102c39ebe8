//! The elastic operator on the CPU.
//!
//! A thread has a slab of slices and goes through it along z, in strips of rows that fit in its
//! cache, with a window of the last three slices: copies with a border of one voxel, which holds
//! zeros or the other end of the axis, so that no row is a special case. A sweep has a second
//! window, of slices whose even points are new, and is so done in one pass over memory.

mod frequencies;
mod slab;
mod window;

use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::host::zeroed;
use crate::ops::elastic::{
    Elastic, ElasticOperator, check_eigenvalues, check_fields, check_sweep, check_symbol,
};
use frequencies::{divide_row, symbol_row};
use slab::{PRODUCT, RELAX, RESIDUAL, Stage, slab, sweep_slab};
use window::Grid;

/// The fewest slices of a slab: each reads some slices more.
const SLAB: usize = 8;
/// Numbers of a task that scales frequencies, roughly.
const TASK: usize = 1 << 14;

impl Elastic for Cpu {
    fn elastic_product(
        &self,
        operator: &ElasticOperator,
        v: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("field", v.len()), ("output", out.len())];
        let (n, factors) = check_fields(operator, dims, &lengths)?;
        let (grid, v) = (Grid { dims, boundary: operator.boundary }, v.as_slice());
        for (own, out) in out.as_mut_slice().chunks_exact_mut(n).enumerate() {
            let stage = Stage::new(grid, components(v, n), own, &factors);
            self.slabs(dims, out, |z, out| match factors.is_mixed {
                true => slab::<PRODUCT, true>(self.simd(), stage, &[], z, out),
                false => slab::<PRODUCT, false>(self.simd(), stage, &[], z, out),
            });
        }
        Ok(())
    }

    fn elastic_residual(
        &self,
        operator: &ElasticOperator,
        f: &CpuBuffer<f32>,
        v: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("force", f.len()), ("field", v.len()), ("output", out.len())];
        let (n, factors) = check_fields(operator, dims, &lengths)?;
        let (grid, v) = (Grid { dims, boundary: operator.boundary }, v.as_slice());
        let f = components(f.as_slice(), n);
        for (own, out) in out.as_mut_slice().chunks_exact_mut(n).enumerate() {
            let stage = Stage::new(grid, components(v, n), own, &factors);
            self.slabs(dims, out, |z, out| match factors.is_mixed {
                true => slab::<RESIDUAL, true>(self.simd(), stage, f[own], z, out),
                false => slab::<RESIDUAL, false>(self.simd(), stage, f[own], z, out),
            });
        }
        Ok(())
    }

    fn elastic_sweep(
        &self,
        operator: &ElasticOperator,
        omega: f64,
        f: &CpuBuffer<f32>,
        v: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("force", f.len()), ("field", v.len()), ("output", out.len())];
        let (n, factors) = check_sweep(operator, omega, dims, &lengths)?;
        let grid = Grid { dims, boundary: operator.boundary };
        let (f, out) = (components(f.as_slice(), n), out.as_mut_slice());
        if !factors.is_mixed {
            let v = components(v.as_slice(), n);
            for (own, out) in out.chunks_exact_mut(n).enumerate() {
                let (take, keep) = factors.relaxing(own, omega);
                let stage = Stage::new(grid, v, own, &factors).relaxing(take, keep);
                self.slabs(dims, out, |z, out| sweep_slab(self.simd(), stage, f[own], z, out));
            }
            return Ok(());
        }
        // The components reach each other across two axes: each colour of each has its pass.
        out.copy_from_slice(v.as_slice());
        let mut next = zeroed::<f32>(n)?;
        for odd in [false, true] {
            for own in 0..3 {
                let (take, _) = factors.relaxing(own, omega);
                let stage = Stage::new(grid, components(out, n), own, &factors);
                let stage = stage.relaxing(take, 1.0).of_colour(odd);
                self.slabs(dims, &mut next, |z, out| {
                    slab::<RELAX, true>(self.simd(), stage, f[own], z, out);
                });
                let out = &mut out[own * n..][..n];
                self.chunks_mut(out, TASK, |i, out| {
                    out.copy_from_slice(&next[i * TASK..][..out.len()]);
                });
            }
        }
        Ok(())
    }

    fn elastic_symbol(
        &self,
        operator: &ElasticOperator,
        spectra: &mut CpuBuffer<f32>,
        dims: Dims,
    ) -> Result<()> {
        check_symbol(operator, dims, spectra.len())?;
        let [along_x, along_y, along_z] = operator.symbol(dims);
        let width = dims[0] / 2 + 1;
        // One array for each part, twice for each frequency: for its real and its imaginary part.
        let part = |c: usize| -> Vec<f32> {
            along_x[..width].iter().flat_map(|part| [part[c]; 2]).collect()
        };
        let x = [part(0), part(1), part(2)];
        let rows = TASK.div_ceil(width);
        self.chunks_mut_3(spectra.as_mut_slice(), rows * 2 * width, |task, [u, v, w]| {
            let of = u.chunks_mut(2 * width).zip(v.chunks_mut(2 * width));
            for (i, ((u, v), w)) in of.zip(w.chunks_mut(2 * width)).enumerate() {
                let row = task * rows + i;
                let at = [along_y[row % dims[1]], along_z[row / dims[1]]];
                if operator.beta > 0.0 {
                    symbol_row(self.simd(), &x, at, operator.gamma as f32, [u, v, w]);
                } else {
                    let rest = operator.gamma as f32 + at[0][0] + at[1][0];
                    for row in [u, v, w] {
                        divide_row(self.simd(), &x[0], rest, row);
                    }
                }
            }
        });
        Ok(())
    }

    fn elastic_eigenvalues(
        &self,
        operator: &ElasticOperator,
        coefficients: &mut CpuBuffer<f32>,
        dims: Dims,
    ) -> Result<()> {
        check_eigenvalues(operator, dims, coefficients.len())?;
        let [x, y, z] = operator.eigenvalues(dims).map(|axis| {
            axis.into_iter().map(|v| (operator.alpha * v) as f32).collect::<Vec<f32>>()
        });
        let rows = TASK.div_ceil(dims[0]);
        self.chunks_mut(coefficients.as_mut_slice(), rows * dims[0], |task, out| {
            for (i, out) in out.chunks_exact_mut(dims[0]).enumerate() {
                let row = task * rows + i;
                let rest = operator.gamma as f32 + y[row % dims[1]] + z[row / dims[1] % dims[2]];
                divide_row(self.simd(), &x, rest, out);
            }
        });
        Ok(())
    }
}

impl Cpu {
    /// Calls `f` with the first slice and the output of every slab.
    fn slabs(&self, dims: Dims, out: &mut [f32], f: impl Fn(usize, &mut [f32]) + Send + Sync) {
        let slices = dims[2].div_ceil(2 * self.threads()).max(SLAB);
        self.chunks_mut(out, slices * dims[0] * dims[1], |i, out| f(i * slices, out));
    }
}

/// The components of a field.
fn components(field: &[f32], n: usize) -> [&[f32]; 3] {
    [&field[..n], &field[n..2 * n], &field[2 * n..]]
}
