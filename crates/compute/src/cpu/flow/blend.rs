//! Lengths of vectors, and fields that are brought towards others.

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

/// Each vector a part of the way to another, or to zero. All arguments have been checked.
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
