//! Forces: gradients of an image, weighted at each voxel.

use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, Vectors, kernel};
use crate::cpu::stencil::{TASK, gradient_row};

/// `out = derivative gradient(image)`, or added to it. All arguments have been checked.
pub(super) fn force(
    cpu: &Cpu,
    derivative: &[f32],
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
        let derivative = &derivative[first * dims[0]..][..out[0].len()];
        if add {
            force_rows::<true>(cpu.simd(), derivative, image, dims, inverse, first, out);
        } else {
            force_rows::<false>(cpu.simd(), derivative, image, dims, inverse, first, out);
        }
    });
}

kernel! {
    fn force_rows<V, const ADD: bool>(
        v,
        derivative: &[f32],
        image: &[f32],
        dims: Dims,
        inverse: [f64; 3],
        first: usize,
        out: [&mut [f32]; 3],
    ) {
        let nx = dims[0];
        let mut gradient = vec![0f32; 3 * nx];
        let mut out = out;
        for (i, derivative) in derivative.chunks(nx).enumerate() {
            let at = [(first + i) % dims[1], (first + i) / dims[1]];
            let (x, rest) = gradient.split_at_mut(nx);
            let (y, z) = rest.split_at_mut(nx);
            gradient_row(v, image, dims, inverse, at, [x, y, z]);
            for (out, gradient) in out.iter_mut().zip(gradient.chunks(nx)) {
                weighted::<V, ADD>(v, derivative, gradient, &mut out[i * nx..][..nx]);
            }
        }
    }
}

/// `derivative gradient`, added to `out` if `ADD`.
#[inline(always)]
fn weighted<V: Vectors, const ADD: bool>(
    v: V,
    derivative: &[f32],
    gradient: &[f32],
    out: &mut [f32],
) {
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    let done = groups.len() * LANES;
    for (out, (derivative, gradient)) in
        groups.iter_mut().zip(derivative.as_chunks().0.iter().zip(gradient.as_chunks().0))
    {
        let force = v.mul(v.load(derivative), v.load(gradient));
        v.store(if ADD { v.add(v.load(out), force) } else { force }, out);
    }
    for (out, (derivative, gradient)) in
        rest.iter_mut().zip(derivative[done..].iter().zip(&gradient[done..]))
    {
        let force = derivative * gradient;
        *out = if ADD { *out + force } else { force };
    }
}
