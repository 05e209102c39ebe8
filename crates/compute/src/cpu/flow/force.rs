//! Forces: gradients of an image, weighted at each voxel.

use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, Vectors, kernel};
use crate::cpu::stencil::{TASK, gradient_row};

/// `out = slope gradient(image)`, or added to it. All arguments have been checked.
pub(super) fn force(
    cpu: &Cpu,
    slope: &[f32],
    image: &[f32],
    dims: Dims,
    spacing: [f64; 3],
    add: bool,
    out: &mut [f32],
) {
    let rows = TASK.div_ceil(dims[0]);
    let inverse = spacing.map(|h| 1.0 / h);
    cpu.chunks_mut_3(out, rows * dims[0], |task, out| {
        let first = task * rows;
        let slope = &slope[first * dims[0]..][..out[0].len()];
        if add {
            force_rows::<true>(cpu.simd(), slope, image, dims, inverse, first, out);
        } else {
            force_rows::<false>(cpu.simd(), slope, image, dims, inverse, first, out);
        }
    });
}

kernel! {
    fn force_rows<V, const ADD: bool>(
        v,
        slope: &[f32],
        image: &[f32],
        dims: Dims,
        inverse: [f64; 3],
        first: usize,
        out: [&mut [f32]; 3],
    ) {
        let nx = dims[0];
        let mut gradient = vec![0f32; 3 * nx];
        let mut out = out;
        for (i, slope) in slope.chunks(nx).enumerate() {
            let at = [(first + i) % dims[1], (first + i) / dims[1]];
            let (x, rest) = gradient.split_at_mut(nx);
            let (y, z) = rest.split_at_mut(nx);
            gradient_row(v, image, dims, inverse, at, [x, y, z]);
            for (out, gradient) in out.iter_mut().zip(gradient.chunks(nx)) {
                weighted::<V, ADD>(v, slope, gradient, &mut out[i * nx..][..nx]);
            }
        }
    }
}

/// `slope gradient`, added to `out` if `ADD`.
#[inline(always)]
fn weighted<V: Vectors, const ADD: bool>(v: V, slope: &[f32], gradient: &[f32], out: &mut [f32]) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let done = groups.len() * LANES;
    for (out, (slope, gradient)) in
        groups.iter_mut().zip(slope.as_chunks().0.iter().zip(gradient.as_chunks().0))
    {
        let force = v.mul(v.load(slope), v.load(gradient));
        v.store(if ADD { v.add(v.load(out), force) } else { force }, out);
    }
    for (out, (slope, gradient)) in rest.iter_mut().zip(slope[done..].iter().zip(&gradient[done..]))
    {
        let force = slope * gradient;
        *out = if ADD { *out + force } else { force };
    }
}
