//! Norms of vector fields.

use super::cells::load_some;
use crate::cpu::Cpu;
use crate::cpu::resample::warp::{Field, components};
use crate::cpu::simd::{LANES, kernel};

/// The voxels that are summed at once, which affects the rounding of the result.
const CHUNK: usize = 4096;

/// The chunks of a task.
const TASK: usize = 8;

/// The largest length, the sum of lengths and the sum of their squares.
pub(super) fn norms(cpu: &Cpu, field: &[f32], scale: [f64; 3]) -> [f64; 3] {
    let n = field.len() / 3;
    let field = components(field);
    let chunks = n.div_ceil(CHUNK);
    let parts = cpu.collect(chunks.div_ceil(TASK), |task| {
        let chunks = (task * TASK..chunks).take(TASK);
        let range = |chunk: usize| chunk * CHUNK..n.min((chunk + 1) * CHUNK);
        chunks
            .map(|chunk| norms_of_chunk(cpu.simd(), field.map(|c| &c[range(chunk)]), scale))
            .collect::<Vec<_>>()
    });
    let [square, sum, squares] =
        parts.iter().flatten().fold([0f64; 3], |a, b| [a[0].max(b[0]), a[1] + b[1], a[2] + b[2]]);
    [square.sqrt(), sum, squares]
}

kernel! {
    /// The largest square, the sum of lengths and that of squares.
    fn norms_of_chunk<V>(v, field: Field<'_>, scale: [f64; 3]) -> [f64; 3] {
        let [x, y, z] = field;
        let scale = [v.splat_wide(scale[0]), v.splat_wide(scale[1]), v.splat_wide(scale[2])];
        let mut largest = v.splat_wide(0.0);
        let (mut sum, mut squares) = (largest, largest);
        for at in (0..x.len()).step_by(LANES) {
            // Zeros change nothing.
            let count = LANES.min(x.len() - at);
            let x = v.mul_wide(v.widen(load_some(v, &x[at..], count)), scale[0]);
            let y = v.mul_wide(v.widen(load_some(v, &y[at..], count)), scale[1]);
            let z = v.mul_wide(v.widen(load_some(v, &z[at..], count)), scale[2]);
            let xy = v.add_wide(v.mul_wide(x, x), v.mul_wide(y, y));
            let square = v.add_wide(xy, v.mul_wide(z, z));
            largest = v.max_wide(square, largest);
            sum = v.add_wide(sum, v.sqrt_wide(square));
            squares = v.add_wide(squares, square);
        }
        let mut out = [[0f64; LANES]; 3];
        v.store_wide(largest, &mut out[0]);
        v.store_wide(sum, &mut out[1]);
        v.store_wide(squares, &mut out[2]);
        [
            out[0].iter().fold(0.0, |a: f64, &b| a.max(b)),
            out[1].iter().sum(),
            out[2].iter().sum(),
        ]
    }
}
