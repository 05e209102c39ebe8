//! Inversion of a field by Newton's method at each voxel.

use super::cells::{Grid, along, corners, load_some, places, store_some};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::resample::sample::Linear;
use crate::cpu::resample::warp::{Field, components};
use crate::cpu::simd::{LANES, Vectors, kernel};
use crate::ops::flow::{Inversion, Inverted, SHORTEST, SINGULAR, tolerance_of_squares};

/// The voxels of a task, roughly: few, as some take much longer than others.
const TASK: usize = 1 << 12;

/// Improves the inverse `out` of `field`. All arguments have been checked.
pub(super) fn invert(
    cpu: &Cpu,
    field: &[f32],
    dims: Dims,
    how: Inversion,
    out: &mut [f32],
) -> Inverted {
    if let [x, y, z] = *field {
        let finite = [x, y, z].iter().all(|u| u.is_finite());
        for (out, u) in out.iter_mut().zip([x, y, z]) {
            *out = -u;
        }
        let largest = if finite { 0.0 } else { f64::INFINITY };
        return Inverted { largest, unconverged: u64::from(!finite) };
    }
    let grid = Grid::new(dims);
    let field = components(field);
    let rows = TASK.div_ceil(grid.dims[0]);
    let ends = std::sync::Mutex::new(Inverted::default());
    cpu.chunks_mut_3(out, rows * grid.dims[0], |task, out| {
        let (largest, unconverged) = invert_rows(cpu.simd(), field, &grid, how, task * rows, out);
        // Neither depends on the order.
        let mut all = ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.largest = all.largest.max(f64::from(largest).sqrt());
        all.unconverged += unconverged;
    });
    ends.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The residual at a displacement, its square, and the derivatives of the displaced position.
struct Residual<V: Vectors> {
    r: [V::F; 3],
    square: V::F,
    jacobian: [[V::F; 3]; 3],
}

/// Sixteen voxels from `x` on of row `y`, `z`, in memory from `start` on.
#[derive(Clone, Copy)]
struct Group {
    x: usize,
    y: usize,
    z: usize,
    start: usize,
}

#[inline(always)]
fn residual<V: Vectors>(
    v: V,
    field: &Field<'_>,
    grid: &Grid,
    at: Group,
    w: [V::F; 3],
) -> Residual<V> {
    let [nx, ny, nz] = grid.dims;
    let one = v.splat(1.0);
    let step = [
        along(v, places(v, at.x), nx, w[0]),
        along(v, v.splat(at.y as f32), ny, w[1]),
        along(v, v.splat(at.z as f32), nz, w[2]),
    ];
    let index = corners(v, at.start, &step, &grid.strides);
    let lower = [step[0].up, step[1].up, step[2].up];
    let linear = Linear::of(index, lower, [step[0].rest, step[1].rest, step[2].rest]);
    let zero = v.splat(0.0);
    let (mut r, mut jacobian) = (w, [w; 3]);
    for a in 0..3 {
        let (u, derivatives) = linear.derivatives(v, field[grid.axes[a]], &grid.strides);
        r[a] = v.add(w[a], u);
        for b in 0..3 {
            // Beyond the border nothing changes.
            jacobian[a][b] = v.select(v.eq(w[b], step[b].inside), derivatives[b], zero);
        }
        jacobian[a][a] = v.add(jacobian[a][a], one);
    }
    let square = v.add(v.add(v.mul(r[0], r[0]), v.mul(r[1], r[1])), v.mul(r[2], r[2]));
    Residual { r, square, jacobian }
}

/// Newton's step, or where the derivative is near singular that of the fixed point.
#[inline(always)]
fn newton<V: Vectors>(v: V, e: &Residual<V>) -> [V::F; 3] {
    let m = &e.jacobian;
    let mut cofactor = *m;
    for a in 0..3 {
        let (a1, a2) = ((a + 1) % 3, (a + 2) % 3);
        for b in 0..3 {
            let (b1, b2) = ((b + 1) % 3, (b + 2) % 3);
            cofactor[a][b] = v.sub(v.mul(m[a1][b1], m[a2][b2]), v.mul(m[a1][b2], m[a2][b1]));
        }
    }
    let sum = v.add(v.mul(m[0][0], cofactor[0][0]), v.mul(m[0][1], cofactor[0][1]));
    let determinant = v.add(sum, v.mul(m[0][2], cofactor[0][2]));
    let regular = v.lt(v.splat(SINGULAR), v.abs(determinant));
    let inverse = v.div(v.splat(-1.0), determinant);
    let mut d = e.r;
    for a in 0..3 {
        let xy = v.add(v.mul(cofactor[0][a], e.r[0]), v.mul(cofactor[1][a], e.r[1]));
        let sum = v.add(xy, v.mul(cofactor[2][a], e.r[2]));
        d[a] = v.select(regular, v.mul(sum, inverse), v.neg(e.r[a]));
    }
    d
}

kernel! {
    /// The largest square of a residual, and the number that are too large.
    fn invert_rows<V>(
        v,
        field: Field<'_>,
        grid: &Grid,
        how: Inversion,
        first: usize,
        out: [&mut [f32]; 3],
    ) -> (f32, u64) {
        let nx = grid.dims[0];
        let tolerance = v.splat(tolerance_of_squares(how.tolerance));
        let half = v.splat(0.5);
        let mut largest = 0f32;
        let mut unconverged = 0;
        for i in 0..out[0].len() / nx {
            let [y, z] = grid.row(first + i);
            for x in (0..nx).step_by(LANES) {
                let count = LANES.min(nx - x);
                let at = Group { x, y, z, start: (first + i) * nx + x };
                let lanes = (1u32 << count) - 1;
                let mut w = [v.splat(0.0); 3];
                for a in 0..3 {
                    w[a] = load_some(v, &out[grid.axes[a]][i * nx + x..], count);
                }
                let mut e = residual(v, &field, grid, at, w);
                let mut d = newton(v, &e);
                let mut part = v.splat(1.0);
                for _ in 0..how.iterations {
                    let done = v.le(e.square, tolerance);
                    if v.bits(done) & lanes == lanes {
                        break;
                    }
                    let mut next = w;
                    for a in 0..3 {
                        next[a] = v.select(done, w[a], v.add(w[a], v.mul(part, d[a])));
                    }
                    let found = residual(v, &field, grid, at, next);
                    // Where it is better go on from there, elsewhere less far.
                    let better = v.lt(found.square, e.square);
                    let new = newton(v, &found);
                    let short = v.mul(part, half);
                    let other = v.lt(short, v.splat(SHORTEST));
                    for a in 0..3 {
                        w[a] = v.select(better, next[a], w[a]);
                        let old = v.select(other, v.neg(e.r[a]), d[a]);
                        d[a] = v.select(better, new[a], old);
                    }
                    part = v.select(better, v.splat(1.0), v.select(other, v.splat(1.0), short));
                    for a in 0..3 {
                        e.r[a] = v.select(better, found.r[a], e.r[a]);
                    }
                    e.square = v.select(better, found.square, e.square);
                }
                for a in 0..3 {
                    store_some(v, w[a], &mut out[grid.axes[a]][i * nx + x..], count);
                }
                let left = lanes & !v.bits(v.le(e.square, tolerance));
                unconverged += u64::from(left.count_ones());
                // What is not a number is as bad as can be.
                let mut squares = [0f32; LANES];
                v.store(e.square, &mut squares);
                for &square in &squares[..count] {
                    largest = largest.max(if square.is_nan() { f32::INFINITY } else { square });
                }
            }
        }
        (largest, unconverged)
    }
}
