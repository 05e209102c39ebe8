//! Warping of label maps.

use super::position::{BLOCK, Geometry};
use super::warp::{Field, Rows, displacement, moved, task_rows};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, kernel};
use crate::ops::resample::LabelInterpolation;

/// Warps labels by the map and the field, if there is one. All lengths have been checked.
#[allow(clippy::too_many_arguments)]
pub(super) fn warp(
    cpu: &Cpu,
    src: &[i32],
    geometry: &Geometry,
    field: Option<Field<'_>>,
    dims: Dims,
    rule: LabelInterpolation,
    outside: i32,
    out: &mut [i32],
) {
    let rows = task_rows(dims);
    let simd = cpu.simd();
    cpu.chunks_mut(out, rows * dims[0], |task, out| {
        let rows = Rows { first: task * rows, dims };
        match rule {
            LabelInterpolation::Nearest => {
                labels::<false>(simd, src, geometry, field, rows, outside, out)
            }
            LabelInterpolation::Majority => {
                labels::<true>(simd, src, geometry, field, rows, outside, out)
            }
        }
    });
}

kernel! {
    fn labels<V, const MAJORITY: bool>(
        v,
        src: &[i32],
        geometry: &Geometry,
        field: Option<Field<'_>>,
        rows: Rows,
        outside: i32,
        out: &mut [i32],
    ) {
        let nx = rows.dims[0];
        let (one, zero, linear) = (v.splat(1.0), v.splat(0.0), geometry.linear());
        for (i, out) in out.chunks_mut(nx).enumerate() {
            let (y, z) = rows.at(i);
            let row = geometry.row(y, z);
            let interval = geometry.inside(&row, nx);
            for (g, group) in out.chunks_mut(LANES).enumerate() {
                let x = g * LANES;
                let frame = geometry.frame_near(&row, x - x % BLOCK);
                let mut p = frame.along(v, x % BLOCK);
                let mut inside = [0.0; LANES];
                if let Some(field) = &field {
                    let at = (rows.first + i) * nx + x;
                    p = moved(v, &linear, p, displacement(v, field, at, group.len()));
                    v.store(v.select(frame.inside(v, p), one, zero), &mut inside);
                } else {
                    for (l, inside) in inside.iter_mut().enumerate() {
                        *inside = if interval.contains(&(x + l)) { 1.0 } else { 0.0 };
                    }
                }
                let mut index = [0i32; LANES];
                let mut fraction = [[0f32; LANES]; 3];
                if MAJORITY {
                    let cells = frame.cells::<V, true>(v, p, &geometry.strides);
                    v.store_int(cells.index, &mut index);
                    for a in 0..3 {
                        v.store(cells.fraction[a], &mut fraction[a]);
                    }
                } else {
                    v.store_int(frame.nearest::<V, true>(v, p, &geometry.strides), &mut index);
                }
                for (l, out) in group.iter_mut().enumerate() {
                    *out = if inside[l] == 0.0 {
                        outside
                    } else if MAJORITY {
                        majority(src, index[l] as usize, geometry, [0, 1, 2].map(|a| fraction[a][l]))
                    } else {
                        src[index[l] as usize]
                    };
                }
            }
        }
    }
}

/// The label with the largest sum of trilinear weights; of equal sums the smallest label.
#[inline(always)]
fn majority(src: &[i32], index: usize, geometry: &Geometry, f: [f32; 3]) -> i32 {
    let [sx, sy, sz] = geometry.strides.map(|s| s as usize);
    let mut found = [0i32; 8];
    for (k, label) in found.iter_mut().enumerate() {
        *label = src[index + (k & 1) * sx + (k >> 1 & 1) * sy + (k >> 2) * sz];
    }
    if found.iter().all(|&label| label == found[0]) {
        return found[0];
    }
    let part = |a: usize, upper: usize| if upper == 1 { f[a] } else { 1.0 - f[a] };
    let weight = |k: usize| part(0, k & 1) * part(1, k >> 1 & 1) * part(2, k >> 2);
    let mut best = (f32::NEG_INFINITY, 0);
    for &label in &found {
        let mut sum = 0.0;
        for (k, &other) in found.iter().enumerate() {
            if other == label {
                sum += weight(k);
            }
        }
        if sum > best.0 || (sum == best.0 && label < best.1) {
            best = (sum, label);
        }
    }
    best.1
}
