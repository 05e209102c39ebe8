//! Interpolation: nearest, linear and cubic.

use super::position::{Cells, Frame, Geometry};
use crate::cpu::simd::{LANES, Lanes, Vectors};
use crate::ops::resample::Interpolation;

/// The kinds of interpolation, for kernels that are compiled for each of them.
pub(super) const NEAREST: u8 = 0;
pub(super) const LINEAR: u8 = 1;
pub(super) const CUBIC: u8 = 2;

/// The kind of an interpolation whose coefficients are there.
pub(super) fn kind(interpolation: Interpolation) -> u8 {
    match interpolation {
        Interpolation::Nearest => NEAREST,
        Interpolation::Linear => LINEAR,
        Interpolation::Cubic | Interpolation::CubicCoefficients => CUBIC,
    }
}

/// The values of `src`, of at least two elements, at local positions of a frame.
#[inline(always)]
pub(super) fn sample<V: Vectors, const KIND: u8, const SIGNED: bool>(
    v: V,
    src: &[f32],
    geometry: &Geometry,
    frame: &Frame,
    p: [V::F; 3],
) -> V::F {
    if KIND == NEAREST {
        v.gather(src, frame.nearest::<V, SIGNED>(v, p, &geometry.strides))
    } else {
        let cells = frame.cells::<V, SIGNED>(v, p, &geometry.strides);
        if KIND == LINEAR {
            Linear::new(v, &cells).sample(v, src, &geometry.strides)
        } else {
            cubic(v, src, geometry, frame, &cells)
        }
    }
}

/// The weights of trilinear interpolation. Between `a` and `b` it counts from the nearer end, so
/// that it gives exactly `a` at 0, `b` at 1, and `a` wherever `a = b`.
pub(in crate::cpu) struct Linear<V: Vectors> {
    index: V::I,
    /// Whether the nearer end is the lower one, and the signed distance from the nearer end.
    lower: [V::M; 3],
    distance: [V::F; 3],
}

impl<V: Vectors> Linear<V> {
    #[inline(always)]
    pub(in crate::cpu) fn new(v: V, cells: &Cells<V>) -> Self {
        let mut lower = [v.lt(cells.fraction[0], v.splat(0.5)); 3];
        let mut distance = cells.fraction;
        for a in 0..3 {
            let f = cells.fraction[a];
            lower[a] = v.lt(f, v.splat(0.5));
            distance[a] = v.select(lower[a], f, v.sub(f, v.splat(1.0)));
        }
        Self { index: cells.index, lower, distance }
    }

    /// At the signed distances from the nearer end, which is the lower one or not, of the cells whose
    /// lower corners are at `index`.
    #[inline(always)]
    pub(in crate::cpu) fn of(index: V::I, lower: [V::M; 3], distance: [V::F; 3]) -> Self {
        Self { index, lower, distance }
    }

    #[inline(always)]
    fn between(&self, v: V, axis: usize, a: V::F, b: V::F) -> V::F {
        let near = v.select(self.lower[axis], a, b);
        v.add(near, v.mul(self.distance[axis], v.sub(b, a)))
    }

    #[inline(always)]
    pub(in crate::cpu) fn sample(&self, v: V, src: &[f32], strides: &[i32; 3]) -> V::F {
        let [_, sy, sz] = *strides;
        let (sy, sz) = (sy as usize, sz as usize);
        let rows = v.gather_cells(src, self.index, [0, sy, sz, sy + sz]);
        let near = self.between(v, 0, rows[0][0], rows[0][1]);
        let near = self.between(v, 1, near, self.between(v, 0, rows[1][0], rows[1][1]));
        let far = self.between(v, 0, rows[2][0], rows[2][1]);
        let far = self.between(v, 1, far, self.between(v, 0, rows[3][0], rows[3][1]));
        self.between(v, 2, near, far)
    }

    /// The value, and the derivatives along the axes.
    #[inline(always)]
    pub(in crate::cpu) fn derivatives(
        &self,
        v: V,
        src: &[f32],
        strides: &[i32; 3],
    ) -> (V::F, [V::F; 3]) {
        let [_, sy, sz] = *strides;
        let (sy, sz) = (sy as usize, sz as usize);
        let rows = v.gather_cells(src, self.index, [0, sy, sz, sy + sz]);
        let (mut at, mut along) = ([rows[0][0]; 4], [rows[0][0]; 4]);
        for r in 0..4 {
            at[r] = self.between(v, 0, rows[r][0], rows[r][1]);
            along[r] = v.sub(rows[r][1], rows[r][0]);
        }
        let (near, far) = (self.between(v, 1, at[0], at[1]), self.between(v, 1, at[2], at[3]));
        let x = [self.between(v, 1, along[0], along[1]), self.between(v, 1, along[2], along[3])];
        let y = [v.sub(at[1], at[0]), v.sub(at[3], at[2])];
        let derivatives =
            [self.between(v, 2, x[0], x[1]), self.between(v, 2, y[0], y[1]), v.sub(far, near)];
        (self.between(v, 2, near, far), derivatives)
    }
}

/// The cubic B-spline: 64 coefficients around each cell, summed along y, then z, then x.
#[inline(always)]
fn cubic<V: Vectors>(
    v: V,
    src: &[f32],
    geometry: &Geometry,
    frame: &Frame,
    cells: &Cells<V>,
) -> V::F {
    let mut weights = [[v.splat(0.0); 4]; 3];
    let mut cell = [[0i32; LANES]; 3];
    for a in 0..3 {
        v.store_int(cells.local[a], &mut cell[a]);
        let f = cells.fraction[a];
        let g = v.sub(v.splat(1.0), f);
        weights[a] = [outer(v, g), inner(v, f, g), inner(v, g, f), outer(v, f)];
    }
    let mut along_x = [[0f32; LANES]; 4];
    for t in 0..4 {
        v.store(weights[0][t], &mut along_x[t]);
    }
    let mut index = [0i32; LANES];
    v.store_int(cells.index, &mut index);
    let [_, sy, sz] = geometry.strides;
    let (sy, sz) = (sy as usize, sz as usize);
    let mut out: Lanes = [0.0; LANES];
    for group in 0..4 {
        let mut w = [[v.splat(0.0); 4]; 2];
        for t in 0..4 {
            w[0][t] = v.spread_four(weights[1][t], group);
            w[1][t] = v.spread_four(weights[2][t], group);
        }
        // Four cells at a time; if one of them is at the border, all are collected first.
        let (mut start, mut at) = ([0usize; 4], [[0i32; 3]; 4]);
        let mut interior = true;
        for k in 0..4 {
            let l = 4 * group + k;
            for a in 0..3 {
                at[k][a] = cell[a][l] + frame.base[a];
                interior &= at[k][a] >= 1 && at[k][a] + 2 < geometry.dims[a] as i32;
            }
            start[k] = (index[l] as usize).wrapping_sub(1 + sy + sz);
        }
        let sum = if interior {
            rows(v, src, start, sy, sz, &w)
        } else {
            let collected = collect(src, geometry, &at);
            rows(v, &collected, [0, 64, 128, 192], 4, 16, &w)
        };
        let mut part: Lanes = [0.0; LANES];
        v.store(sum, &mut part);
        for k in 0..4 {
            let l = 4 * group + k;
            let near = part[4 * k] * along_x[0][l] + part[4 * k + 1] * along_x[1][l];
            let far = part[4 * k + 2] * along_x[2][l] + part[4 * k + 3] * along_x[3][l];
            out[l] = near + far;
        }
    }
    v.load(&out)
}

/// The coefficients around four cells, mirrored at the border.
#[inline(never)]
fn collect(src: &[f32], geometry: &Geometry, cells: &[[i32; 3]; 4]) -> [f32; 256] {
    let mut out = [0f32; 256];
    for (cell, out) in cells.iter().zip(out.as_chunks_mut::<4>().0.chunks_exact_mut(16)) {
        let mut at = [[0usize; 4]; 3];
        for a in 0..3 {
            for t in 0..4 {
                let i = mirror(cell[a] + t as i32 - 1, geometry.dims[a]);
                at[a][t] = i * geometry.strides[a] as usize;
            }
        }
        for (t, row) in out.iter_mut().enumerate() {
            let start = at[1][t % 4] + at[2][t / 4];
            for (value, x) in row.iter_mut().zip(at[0]) {
                *value = src[start + x];
            }
        }
    }
    out
}

/// Sums over 4 x 4 rows of 4 coefficients, weighted along y and z, for four cells at once.
#[inline(always)]
fn rows<V: Vectors>(
    v: V,
    src: &[f32],
    start: [usize; 4],
    sy: usize,
    sz: usize,
    w: &[[V::F; 4]; 2],
) -> V::F {
    let furthest = start[0].max(start[1]).max(start[2].max(start[3]));
    assert!(furthest < src.len() && 3 * (sy + sz) + 4 <= src.len() - furthest, "spline");
    let mut sum = v.splat(0.0);
    for z in 0..4 {
        let mut plane = v.splat(0.0);
        for y in 0..4 {
            // SAFETY: the last of the 4 x 4 rows from the furthest of the starts on ends inside
            // `src`, as was checked just now.
            let row = unsafe { v.gather_fours(src.as_ptr().add(y * sy + z * sz), start) };
            plane = v.add(plane, v.mul(w[0][y], row));
        }
        sum = v.add(sum, v.mul(w[1][z], plane));
    }
    sum
}

/// The weight of the farther neighbour: t³ / 6.
#[inline(always)]
fn outer<V: Vectors>(v: V, t: V::F) -> V::F {
    v.mul(v.mul(t, v.mul(t, t)), v.splat(1.0 / 6.0))
}

/// The weight of the nearer neighbour at distance `t = 1 − u`: 2/3 − t² (1 + u) / 2.
#[inline(always)]
fn inner<V: Vectors>(v: V, t: V::F, u: V::F) -> V::F {
    let half = v.mul(v.mul(t, t), v.mul(v.add(v.splat(1.0), u), v.splat(0.5)));
    v.sub(v.splat(2.0 / 3.0), half)
}

/// Voxel `i` of an axis of `n`, mirrored at the first and the last; `i` is at most one before or after them.
fn mirror(i: i32, n: usize) -> usize {
    let last = n as i32 - 1;
    i.abs().min(2 * last - i.abs()).max(0) as usize
}
