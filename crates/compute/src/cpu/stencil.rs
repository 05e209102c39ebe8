//! Finite differences on the CPU.

use super::simd::{LANES, Lanes, Vectors, kernel};
use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Stencil;
use crate::ops::stencil::{check_determinant, check_divergence, check_gradient, check_laplacian};

/// The voxels of a task, roughly.
pub(super) const TASK: usize = 1 << 14;

impl Stencil for Cpu {
    fn gradient(
        &self,
        src: &CpuBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_gradient(src.len(), dims, spacing, out.len())?;
        let rows = TASK.div_ceil(dims[0]);
        let src = src.as_slice();
        self.chunks_mut_3(out.as_mut_slice(), rows * dims[0], |task, out| {
            gradient_rows(self.simd(), src, dims, spacing, task * rows, out);
        });
        Ok(())
    }

    fn divergence(
        &self,
        field: &CpuBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_divergence(field.len(), dims, spacing, out.len())?;
        let rows = TASK.div_ceil(dims[0]);
        let field = field.as_slice();
        self.chunks_mut(out.as_mut_slice(), rows * dims[0], |task, out| {
            divergence_rows(self.simd(), field, dims, spacing, task * rows, out);
        });
        Ok(())
    }

    fn laplacian(
        &self,
        src: &CpuBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let factors = check_laplacian(src.len(), dims, spacing, out.len())?;
        let rows = TASK.div_ceil(dims[0]);
        let src = src.as_slice();
        self.chunks_mut(out.as_mut_slice(), rows * dims[0], |task, out| {
            laplacian_rows(self.simd(), src, dims, factors, task * rows, out);
        });
        Ok(())
    }

    fn jacobian_determinant(
        &self,
        field: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_determinant(field.len(), dims, out.len())?;
        let rows = TASK.div_ceil(dims[0]);
        let field = field.as_slice();
        self.chunks_mut(out.as_mut_slice(), rows * dims[0], |task, out| {
            determinant_rows(self.simd(), field, dims, task * rows, out);
        });
        Ok(())
    }
}

/// The voxels before and after voxel `i` of an axis of `n`, or itself, and one over their distance;
/// zero where there are none.
#[inline(always)]
pub(super) fn neighbours(i: usize, n: usize) -> (usize, usize, f64) {
    let (before, after) = (i.saturating_sub(1), (i + 1).min(n - 1));
    let distance = after - before;
    (before, after, if distance == 0 { 0.0 } else { 1.0 / distance as f64 })
}

/// A row of an image.
#[inline(always)]
pub(super) fn row(data: &[f32], dims: Dims, y: usize, z: usize) -> &[f32] {
    &data[(y + z * dims[1]) * dims[0]..][..dims[0]]
}

/// `(after − before) scale`
#[inline(always)]
pub(super) fn differences<V: Vectors>(
    v: V,
    before: &[f32],
    after: &[f32],
    scale: f32,
    out: &mut [f32],
) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let done = groups.len() * LANES;
    let inputs = before.as_chunks().0.iter().zip(after.as_chunks().0);
    for (out, (before, after)) in groups.iter_mut().zip(inputs) {
        let difference = v.sub(v.load(after), v.load(before));
        v.store(v.mul(difference, v.splat(scale)), out);
    }
    for ((out, before), after) in rest.iter_mut().zip(&before[done..]).zip(&after[done..]) {
        *out = (after - before) * scale;
    }
}

/// The differences along x of a row.
#[inline(always)]
pub(super) fn along_x<V: Vectors>(v: V, row: &[f32], inverse: f64, out: &mut [f32]) {
    let nx = row.len();
    for x in [0, nx - 1] {
        let (before, after, scale) = neighbours(x, nx);
        out[x] = (row[after] - row[before]) * (scale * inverse) as f32;
    }
    if nx > 2 {
        let scale = (0.5 * inverse) as f32;
        differences(v, &row[..nx - 2], &row[2..], scale, &mut out[1..nx - 1]);
    }
}

/// The differences of row `y`, `z` along y.
#[inline(always)]
pub(super) fn along_y<V: Vectors>(
    v: V,
    src: &[f32],
    dims: Dims,
    inverse: f64,
    [y, z]: [usize; 2],
    out: &mut [f32],
) {
    let (before, after, scale) = neighbours(y, dims[1]);
    let (before, after) = (row(src, dims, before, z), row(src, dims, after, z));
    differences(v, before, after, (scale * inverse) as f32, out);
}

/// The differences of row `y`, `z` along z.
#[inline(always)]
pub(super) fn along_z<V: Vectors>(
    v: V,
    src: &[f32],
    dims: Dims,
    inverse: f64,
    [y, z]: [usize; 2],
    out: &mut [f32],
) {
    let (before, after, scale) = neighbours(z, dims[2]);
    let (before, after) = (row(src, dims, y, before), row(src, dims, y, after));
    differences(v, before, after, (scale * inverse) as f32, out);
}

/// The differences along x, y and z of row `y`, `z`.
#[inline(always)]
pub(super) fn gradient_row<V: Vectors>(
    v: V,
    src: &[f32],
    dims: Dims,
    inverse: [f64; 3],
    at: [usize; 2],
    [gx, gy, gz]: [&mut [f32]; 3],
) {
    along_x(v, row(src, dims, at[0], at[1]), inverse[0], gx);
    along_y(v, src, dims, inverse[1], at, gy);
    along_z(v, src, dims, inverse[2], at, gz);
}

/// `out + other`, in place.
#[inline(always)]
fn add<V: Vectors>(v: V, other: &[f32], out: &mut [f32]) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let (others, other_rest) = other.as_chunks();
    for (out, other) in groups.iter_mut().zip(others) {
        v.store(v.add(v.load(out), v.load(other)), out);
    }
    for (out, other) in rest.iter_mut().zip(other_rest) {
        *out += other;
    }
}

kernel! {
    fn divergence_rows<V>(
        v,
        field: &[f32],
        dims: Dims,
        spacing: [f64; 3],
        first: usize,
        out: &mut [f32],
    ) {
        let n = field.len() / 3;
        let inverse = [1.0 / spacing[0], 1.0 / spacing[1], 1.0 / spacing[2]];
        let mut other = vec![0f32; dims[0]];
        for (i, out) in out.chunks_mut(dims[0]).enumerate() {
            let at = [(first + i) % dims[1], (first + i) / dims[1]];
            along_x(v, row(&field[..n], dims, at[0], at[1]), inverse[0], out);
            along_y(v, &field[n..2 * n], dims, inverse[1], at, &mut other);
            add(v, &other, out);
            along_z(v, &field[2 * n..], dims, inverse[2], at, &mut other);
            add(v, &other, out);
        }
    }
}

/// `((after − here) − (here − before)) factor`, added to what is in `out` if `ADD`.
#[inline(always)]
pub(super) fn second_differences<V: Vectors, const ADD: bool>(
    v: V,
    [before, here, after]: [&[f32]; 3],
    factor: f32,
    out: &mut [f32],
) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let done = groups.len() * LANES;
    let chunks = [before, here, after].map(|row| row.as_chunks::<LANES>().0);
    for (i, out) in groups.iter_mut().enumerate() {
        let here = v.load(&chunks[1][i]);
        let forward = v.sub(v.load(&chunks[2][i]), here);
        let backward = v.sub(here, v.load(&chunks[0][i]));
        let second = v.mul(v.sub(forward, backward), v.splat(factor));
        v.store(if ADD { v.add(v.load(out), second) } else { second }, out);
    }
    for (out, i) in rest.iter_mut().zip(done..) {
        let second = ((after[i] - here[i]) - (here[i] - before[i])) * factor;
        *out = if ADD { *out + second } else { second };
    }
}

kernel! {
    fn laplacian_rows<V>(
        v,
        src: &[f32],
        dims: Dims,
        factors: [f32; 3],
        first: usize,
        out: &mut [f32],
    ) {
        let nx = dims[0];
        for (i, out) in out.chunks_mut(nx).enumerate() {
            let (y, z) = ((first + i) % dims[1], (first + i) / dims[1]);
            let here = row(src, dims, y, z);
            for x in [0, nx - 1] {
                let (before, after, _) = neighbours(x, nx);
                out[x] = ((here[after] - here[x]) - (here[x] - here[before])) * factors[0];
            }
            if nx > 2 {
                let rows = [&here[..nx - 2], &here[1..nx - 1], &here[2..]];
                second_differences::<V, false>(v, rows, factors[0], &mut out[1..nx - 1]);
            }
            let (before, after, _) = neighbours(y, dims[1]);
            let rows = [row(src, dims, before, z), here, row(src, dims, after, z)];
            second_differences::<V, true>(v, rows, factors[1], out);
            let (before, after, _) = neighbours(z, dims[2]);
            let rows = [row(src, dims, y, before), here, row(src, dims, y, after)];
            second_differences::<V, true>(v, rows, factors[2], out);
        }
    }
}

kernel! {
    fn gradient_rows<V>(
        v,
        src: &[f32],
        dims: Dims,
        spacing: [f64; 3],
        first: usize,
        out: [&mut [f32]; 3],
    ) {
        let nx = dims[0];
        let inverse = [1.0 / spacing[0], 1.0 / spacing[1], 1.0 / spacing[2]];
        let [gx, gy, gz] = out;
        let rows = gx.chunks_mut(nx).zip(gy.chunks_mut(nx)).zip(gz.chunks_mut(nx));
        for (i, ((gx, gy), gz)) in rows.enumerate() {
            let at = [(first + i) % dims[1], (first + i) / dims[1]];
            gradient_row(v, src, dims, inverse, at, [gx, gy, gz]);
        }
    }
}

kernel! {
    fn determinant_rows<V>(v, field: &[f32], dims: Dims, first: usize, out: &mut [f32]) {
        let nx = dims[0];
        let n = field.len() / 3;
        // The nine derivatives of a row, padded to whole vectors.
        let length = nx.next_multiple_of(LANES);
        let mut derivatives = vec![0f32; 9 * length];
        for (i, out) in out.chunks_mut(nx).enumerate() {
            let at = [(first + i) % dims[1], (first + i) / dims[1]];
            for (c, rows) in derivatives.chunks_mut(3 * length).enumerate() {
                let (gx, rest) = rows.split_at_mut(length);
                let (gy, gz) = rest.split_at_mut(length);
                let rows = [&mut gx[..nx], &mut gy[..nx], &mut gz[..nx]];
                gradient_row(v, &field[c * n..(c + 1) * n], dims, [1.0; 3], at, rows);
            }
            for (x, out) in out.chunks_mut(LANES).enumerate() {
                let mut m = [[v.splat(0.0); 3]; 3];
                for c in 0..3 {
                    for a in 0..3 {
                        let row = &derivatives[(3 * c + a) * length..][..length];
                        m[c][a] = v.load(&row.as_chunks().0[x]);
                    }
                    m[c][c] = v.add(m[c][c], v.splat(1.0));
                }
                let mut determinant = v.splat(0.0);
                for a in 0..3 {
                    let (b, c) = ((a + 1) % 3, (a + 2) % 3);
                    let minor = v.sub(v.mul(m[1][b], m[2][c]), v.mul(m[1][c], m[2][b]));
                    determinant = v.add(determinant, v.mul(m[0][a], minor));
                }
                let mut lanes: Lanes = [0.0; LANES];
                v.store(determinant, &mut lanes);
                out.copy_from_slice(&lanes[..out.len()]);
            }
        }
    }
}
