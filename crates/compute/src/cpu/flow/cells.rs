//! The cells of the grid that displaced voxels fall into.
//!
//! A displacement is cut to the grid, and divided into a whole number of voxels and a rest with the
//! same sign: both are exact, and so interpolation counts from the voxel that is next towards the
//! start, to the neighbour on the far side of the position. How the values are read, one by one or
//! in rows, does not change the result.

use crate::Dims;
use crate::cpu::simd::{LANE, LANES, Vectors};

/// The numbers of the lanes.
/// A grid with its axes in an order in which the first is longer than one voxel, if any is. As axes
/// of size 1 take no part in the order in memory, this only renames the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) dims: Dims,
    /// The component along each axis.
    pub(super) axes: [usize; 3],
    /// The steps in memory along the axes; zero for an axis of size 1.
    pub(super) strides: [i32; 3],
}

impl Grid {
    pub(super) fn new(dims: Dims) -> Self {
        let (mut dims, mut axes) = (dims, [0, 1, 2]);
        for _ in 0..2 {
            if dims[0] == 1 {
                dims.rotate_left(1);
                axes.rotate_left(1);
            }
        }
        let steps = [1, dims[0], dims[0] * dims[1]];
        Self {
            dims,
            axes,
            strides: [0, 1, 2].map(|a| if dims[a] > 1 { steps[a] as i32 } else { 0 }),
        }
    }

    /// y and z of a row.
    pub(super) fn row(&self, row: usize) -> [usize; 2] {
        [row % self.dims[1], row / self.dims[1]]
    }
}

/// The part of a displacement along an axis that is inside the grid.
pub(super) struct Along<V: Vectors> {
    /// The whole voxels of the displacement.
    pub(super) whole: V::F,
    /// The rest, with the sign of the displacement.
    pub(super) rest: V::F,
    /// Whether the position is between the voxel and the one after it, not the one before it.
    pub(super) up: V::M,
    /// The displacement.
    pub(super) inside: V::F,
}

/// Displacements `s` of voxels `at` of an axis of `n`.
#[inline(always)]
pub(super) fn along<V: Vectors>(v: V, at: V::F, n: usize, s: V::F) -> Along<V> {
    let last = v.splat((n - 1) as f32);
    // What is not a number becomes the lower limit.
    let inside = v.min(v.max(s, v.neg(at)), v.sub(last, at));
    let whole = v.to_float(v.to_int(inside));
    let rest = v.sub(inside, whole);
    let up = v.and(v.le(v.splat(0.0), rest), v.lt(v.add(at, whole), last));
    Along { whole, rest, up, inside }
}

/// The numbers of sixteen voxels from `x` on.
#[inline(always)]
pub(super) fn places<V: Vectors>(v: V, x: usize) -> V::F {
    v.add(v.load(&LANE), v.splat(x as f32))
}

/// Where the lower corners of the cells are in memory, for voxels from `start` on.
#[inline(always)]
pub(super) fn corners<V: Vectors>(
    v: V,
    start: usize,
    along: &[Along<V>; 3],
    strides: &[i32; 3],
) -> V::I {
    let lane = v.to_int(v.load(&LANE));
    let mut index = v.add_int(lane, v.splat_int(start as i32));
    for a in 0..3 {
        let step = &along[a];
        let lower = v.select(step.up, step.whole, v.sub(step.whole, v.splat(1.0)));
        index = v.add_int(index, v.mul_int(v.to_int(lower), v.splat_int(strides[a])));
    }
    index
}

/// Sixteen numbers, or `count` of them and zeros.
#[inline(always)]
pub(super) fn load_some<V: Vectors>(v: V, from: &[f32], count: usize) -> V::F {
    match from.first_chunk::<LANES>() {
        Some(all) if count >= LANES => v.load(all),
        _ => {
            let mut some = [0.0; LANES];
            some[..count].copy_from_slice(&from[..count]);
            v.load(&some)
        }
    }
}

/// Stores the first `count` of sixteen numbers.
#[inline(always)]
pub(super) fn store_some<V: Vectors>(v: V, value: V::F, to: &mut [f32], count: usize) {
    match to.first_chunk_mut::<LANES>() {
        Some(all) if count >= LANES => v.store(value, all),
        _ => {
            let mut some = [0.0; LANES];
            v.store(value, &mut some);
            to[..count].copy_from_slice(&some[..count]);
        }
    }
}
