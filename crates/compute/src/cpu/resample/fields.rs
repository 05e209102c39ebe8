//! Composition and resampling of displacement fields.

use super::position::{BLOCK, Geometry};
use super::sample::Linear;
use super::warp::{Field, Rows, components, displacement, moved, row as matrix_row, task_rows};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, kernel};

/// `out = inner + inverse * outer(map (id + inner))`, where no `inner` is zero. All lengths have been
/// checked.
pub(super) fn compose(
    cpu: &Cpu,
    outer: &[f32],
    geometry: &Geometry,
    inverse: &[[f64; 3]; 3],
    inner: Option<&[f32]>,
    dims: Dims,
    out: &mut [f32],
) {
    // A cell needs two voxels along x.
    let twice;
    let outer = if let [x, y, z] = *outer {
        twice = [x, x, y, y, z, z];
        &twice[..]
    } else {
        outer
    };
    let (outer, inner) = (components(outer), inner.map(components));
    let inverse = inverse.map(|row| row.map(|m| m as f32));
    let rows = task_rows(dims);
    cpu.chunks_mut_3(out, rows * dims[0], |task, out| {
        let rows = Rows { first: task * rows, dims };
        match inner {
            Some(inner) => {
                composed::<true>(cpu.simd(), outer, geometry, inverse, inner, rows, out);
            }
            None => {
                composed::<false>(cpu.simd(), outer, geometry, inverse, [&[]; 3], rows, out);
            }
        }
    });
}

kernel! {
    fn composed<V, const INNER: bool>(
        v,
        outer: Field<'_>,
        geometry: &Geometry,
        inverse: [[f32; 3]; 3],
        inner: Field<'_>,
        rows: Rows,
        out: [&mut [f32]; 3],
    ) {
        let nx = rows.dims[0];
        let (mut out, linear) = (out, geometry.linear());
        for i in 0..out[0].len() / nx {
            let (y, z) = rows.at(i);
            let row = geometry.row(y, z);
            for x in (0..nx).step_by(LANES) {
                let count = LANES.min(nx - x);
                let frame = geometry.frame_near(&row, x - x % BLOCK);
                let mut p = frame.along(v, x % BLOCK);
                let mut u = [v.splat(0.0); 3];
                if INNER {
                    u = displacement(v, &inner, (rows.first + i) * nx + x, count);
                    p = moved(v, &linear, p, u);
                }
                let weights = Linear::new(v, &frame.cells::<V, true>(v, p, &geometry.strides));
                let mut value = u;
                for a in 0..3 {
                    value[a] = weights.sample(v, outer[a], &geometry.strides);
                }
                for (a, out) in out.iter_mut().enumerate() {
                    let sum = matrix_row(v, &inverse[a], value);
                    let sum = if INNER { v.add(u[a], sum) } else { sum };
                    let group = &mut out[i * nx + x..][..count];
                    match <&mut [f32; LANES]>::try_from(&mut *group) {
                        Ok(all) => v.store(sum, all),
                        Err(_) => {
                            let mut some = [0.0; LANES];
                            v.store(sum, &mut some);
                            group.copy_from_slice(&some[..count]);
                        }
                    }
                }
            }
        }
    }
}
