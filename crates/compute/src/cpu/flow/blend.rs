//! Vector lengths, target positions, and blending of fields.

use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::resample::warp::{Field, components};
use crate::cpu::simd::kernel;

/// The voxels of a task.
const CHUNK: usize = 1 << 15;

/// The length of each vector. All arguments have been checked.
pub(super) fn lengths(cpu: &Cpu, field: &[f32], scale: [f64; 3], out: &mut [f32]) {
    let field = components(field);
    let scale = scale.map(|s| s as f32);
    cpu.chunks_mut(out, CHUNK, |i, out| {
        let first = i * CHUNK;
        lengths_of_chunk(cpu.simd(), field.map(|c| &c[first..][..out.len()]), scale, out);
    });
}

kernel! {
    fn lengths_of_chunk<V>(_v, field: Field<'_>, scale: [f32; 3], out: &mut [f32]) {
        let [x, y, z] = field;
        for (((out, x), y), z) in out.iter_mut().zip(x).zip(y).zip(z) {
            let (x, y, z) = (x * scale[0], y * scale[1], z * scale[2]);
            *out = (x * x + y * y + z * z).sqrt();
        }
    }
}

/// How far each vector points out of the grid. All arguments have been checked.
pub(super) fn overshoot(cpu: &Cpu, field: &[f32], dims: Dims, out: &mut [f32]) {
    let field = components(field);
    let rows = CHUNK.div_ceil(dims[0]);
    cpu.chunks_mut(out, rows * dims[0], |task, out| {
        for (k, out) in out.chunks_mut(dims[0]).enumerate() {
            let row = task * rows + k;
            let at = [row % dims[1], row / dims[1]];
            let field = field.map(|c| &c[row * dims[0]..][..dims[0]]);
            overshoot_of_row(cpu.simd(), field, dims, at, out);
        }
    });
}

kernel! {
    fn overshoot_of_row<V>(_v, field: Field<'_>, dims: Dims, at: [usize; 2], out: &mut [f32]) {
        let [x, y, z] = field;
        // The displacement less the part of it that stays within; both limits are exact numbers.
        let beyond = |u: f32, at: usize, n: usize| {
            let (low, high) = (-(at as f32), (n - 1 - at) as f32);
            if u < low { u - low } else if u > high { u - high } else { u * 0.0 }
        };
        for (i, (((out, x), y), z)) in out.iter_mut().zip(x).zip(y).zip(z).enumerate() {
            let x = beyond(*x, i, dims[0]);
            let y = beyond(*y, at[0], dims[1]);
            let z = beyond(*z, at[1], dims[2]);
            *out = (x * x + y * y + z * z).sqrt();
        }
    }
}

/// Moves each vector part of the way to another, or to zero. All arguments have been checked.
pub(super) fn blend(cpu: &Cpu, other: Option<&[f32]>, weight: &[f32], field: &mut [f32]) {
    let n = weight.len();
    cpu.chunks_mut_3(field, CHUNK, |i, field| {
        let first = i * CHUNK;
        let weight = &weight[first..][..field[0].len()];
        for (a, out) in field.into_iter().enumerate() {
            match other {
                Some(other) => {
                    let other = &other[a * n + first..][..weight.len()];
                    blend_chunk(cpu.simd(), other, weight, out);
                }
                None => fade_chunk(cpu.simd(), weight, out),
            }
        }
    });
}

kernel! {
    fn blend_chunk<V>(_v, other: &[f32], weight: &[f32], out: &mut [f32]) {
        for ((out, other), weight) in out.iter_mut().zip(other).zip(weight) {
            *out += weight * (other - *out);
        }
    }
}

kernel! {
    fn fade_chunk<V>(_v, weight: &[f32], out: &mut [f32]) {
        for (out, weight) in out.iter_mut().zip(weight) {
            *out += weight * (0.0 - *out);
        }
    }
}
