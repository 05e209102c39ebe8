//! Values between voxels: nearest, linear and cubic.

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
            Linear::new(v, &cells).sample(v, src, geometry)
        } else {
            cubic(v, src, geometry, frame, &cells)
        }
    }
}

/// The weights of trilinear interpolation. Between `a` and `b` it counts from the nearer end, so
/// that it gives exactly `a` at 0, `b` at 1, and `a` wherever `a = b`.
pub(super) struct Linear<V: Vectors> {
    index: V::I,
    /// Whether the nearer end is the lower one, and the signed distance from the nearer end.
    lower: [V::M; 3],
    distance: [V::F; 3],
}

impl<V: Vectors> Linear<V> {
    #[inline(always)]
    pub(super) fn new(v: V, cells: &Cells<V>) -> Self {
        let mut lower = [v.lt(cells.fraction[0], v.splat(0.5)); 3];
        let mut distance = cells.fraction;
        for a in 0..3 {
            let f = cells.fraction[a];
            lower[a] = v.lt(f, v.splat(0.5));
            distance[a] = v.select(lower[a], f, v.sub(f, v.splat(1.0)));
        }
        Self { index: cells.index, lower, distance }
    }

    #[inline(always)]
    fn between(&self, v: V, axis: usize, a: V::F, b: V::F) -> V::F {
        let near = v.select(self.lower[axis], a, b);
        v.add(near, v.mul(self.distance[axis], v.sub(b, a)))
    }

    #[inline(always)]
    pub(super) fn sample(&self, v: V, src: &[f32], geometry: &Geometry) -> V::F {
        let [_, sy, sz] = geometry.strides;
        let near = self.row(v, src, 0);
        let near = self.between(v, 1, near, self.row(v, src, sy as usize));
        let far = self.row(v, src, sz as usize);
        let far = self.between(v, 1, far, self.row(v, src, (sy + sz) as usize));
        self.between(v, 2, near, far)
    }

    #[inline(always)]
    fn row(&self, v: V, src: &[f32], offset: usize) -> V::F {
        let [a, b] = v.gather_pairs(&src[offset..], self.index);
        self.between(v, 0, a, b)
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
    let mut weights = [[[0f32; LANES]; 4]; 3];
    let mut cell = [[0i32; LANES]; 3];
    let mut index = [0i32; LANES];
    v.store_int(cells.index, &mut index);
    for a in 0..3 {
        v.store_int(cells.local[a], &mut cell[a]);
        let f = cells.fraction[a];
        let g = v.sub(v.splat(1.0), f);
        v.store(outer(v, g), &mut weights[a][0]);
        v.store(inner(v, f, g), &mut weights[a][1]);
        v.store(inner(v, g, f), &mut weights[a][2]);
        v.store(outer(v, f), &mut weights[a][3]);
    }
    let [_, sy, sz] = geometry.strides.map(|s| s as usize);
    let mut out: Lanes = [0.0; LANES];
    for l in 0..LANES {
        let c = [0, 1, 2].map(|a| cell[a][l] + frame.base[a]);
        let w = [0, 1, 2].map(|a| [0, 1, 2, 3].map(|t: usize| weights[a][t][l]));
        let interior = |a: usize| c[a] >= 1 && c[a] + 2 < geometry.dims[a] as i32;
        out[l] = if interior(0) && interior(1) && interior(2) {
            let start = index[l] as usize - 1 - sy - sz;
            spline(w, |y, z| {
                let row = &src[start + y * sy + z * sz..];
                row.first_chunk::<4>().copied().unwrap_or_default()
            })
        } else {
            let at =
                [0, 1, 2].map(|a| [0, 1, 2, 3].map(|t| mirror(c[a] + t - 1, geometry.dims[a])));
            spline(w, |y, z| at[0].map(|x| src[x + at[1][y] * sy + at[2][z] * sz]))
        };
    }
    v.load(&out)
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

/// The weighted sum of 4 x 4 rows of 4 coefficients.
#[inline(always)]
fn spline(w: [[f32; 4]; 3], row: impl Fn(usize, usize) -> [f32; 4]) -> f32 {
    let mut sum = [0f32; 4];
    for z in 0..4 {
        let mut plane = [0f32; 4];
        for y in 0..4 {
            let row = row(y, z);
            for x in 0..4 {
                plane[x] += w[1][y] * row[x];
            }
        }
        for x in 0..4 {
            sum[x] += w[2][z] * plane[x];
        }
    }
    (sum[0] * w[0][0] + sum[1] * w[0][1]) + (sum[2] * w[0][2] + sum[3] * w[0][3])
}

/// The voxel that stands for voxel `i` of an axis of `n`, mirrored at the first and the last.
fn mirror(i: i32, n: usize) -> usize {
    let last = n as i32 - 1;
    if last == 0 {
        return 0;
    }
    let i = i.rem_euclid(2 * last);
    i.min(2 * last - i) as usize
}
