//! Positions of output voxels in the source image.

use std::ops::Range;

use crate::cpu::simd::{LANE, LANES, Vectors};
use crate::ops::resample::in_order;
use crate::{AffineMap, Dims};

/// Positions along a row are differences from exact points this many voxels apart.
pub(in crate::cpu) const BLOCK: usize = 16 * LANES;

/// The grid of a source and the map to it, with its axes [in order](in_order).
#[derive(Debug, Clone)]
pub(in crate::cpu) struct Geometry {
    pub(in crate::cpu) dims: Dims,
    /// The steps in memory along the axes; zero for an axis of size 1.
    pub(in crate::cpu) strides: [i32; 3],
    pub(super) map: AffineMap,
}

impl Geometry {
    /// The geometry of a source whose sizes and map were checked.
    pub(in crate::cpu) fn new(dims: Dims, map: &AffineMap) -> Self {
        let (dims, strides, map) = in_order(dims, map);
        Self { dims, strides: strides.map(|s| s as i32), map }
    }

    /// The linear part of the map.
    pub(in crate::cpu) fn linear(&self) -> [[f32; 3]; 3] {
        self.map.map(|[x, y, z, _]| [x as f32, y as f32, z as f32])
    }

    /// The position of the first voxel of row `y`, `z` of the output.
    pub(in crate::cpu) fn row(&self, y: usize, z: usize) -> [f64; 3] {
        self.map.map(|[_, my, mz, offset]| my * y as f64 + mz * z as f64 + offset)
    }

    /// The position of voxel `x` of a row.
    fn position(&self, row: &[f64; 3], x: usize) -> [f64; 3] {
        [0, 1, 2].map(|a| row[a] + self.map[a][0] * x as f64)
    }

    /// The voxels of a row of `n` that are inside the source. As rounding keeps the order, the
    /// positions along a row never turn back, and the voxels inside are an interval.
    pub(super) fn inside(&self, row: &[f64; 3], n: usize) -> Range<usize> {
        let mut range = 0..n;
        for a in 0..3 {
            let (low, high) = (-0.5, self.dims[a] as f64 - 0.5);
            let step = self.map[a][0];
            let at = |x: usize| row[a] + step * x as f64;
            let is_inside = |p: f64| low <= p && p <= high;
            if is_inside(at(0)) && is_inside(at(n - 1)) {
                continue;
            }
            // A guess by division, made exact by a few steps.
            let (enter, leave) = if step >= 0.0 { (low, high) } else { (high, low) };
            let before = |x: usize| if step >= 0.0 { at(x) < low } else { at(x) > high };
            // Written so that a position that is not a number is beyond.
            let beyond = |x: usize| !(if step >= 0.0 { at(x) <= high } else { at(x) >= low });
            let start = ((enter - row[a]) / step) as usize;
            range.start = range.start.max(first(start, n, |x| !before(x)));
            let end = ((leave - row[a]) / step) as usize;
            range.end = range.end.min(first(end, n, beyond));
        }
        if range.start < range.end { range } else { 0..0 }
    }

    /// The frame for positions from voxel `x` of a row on, to `x + count − 1`, none of which is
    /// outside; local positions are then nowhere below zero, but for rounding.
    pub(super) fn frame_inside(&self, row: &[f64; 3], x: usize, count: usize) -> Frame {
        let (p, q) = (self.position(row, x), self.position(row, x + count - 1));
        self.frame(
            p,
            [0, 1, 2].map(|a| {
                // A cast rounds towards zero, and below zero it is zero that is wanted.
                (p[a].min(q[a]) as i32).clamp(0, self.dims[a].saturating_sub(2) as i32)
            }),
        )
    }

    /// The frame for positions anywhere near that of voxel `x` of a row.
    pub(in crate::cpu) fn frame_near(&self, row: &[f64; 3], x: usize) -> Frame {
        let p = self.position(row, x);
        self.frame(p, p.map(|p| (p as i32).clamp(-(1 << 24), 1 << 24)))
    }

    fn frame(&self, p: [f64; 3], base: [i32; 3]) -> Frame {
        let size = |a: usize| self.dims[a] as i32;
        let index = [0, 1, 2].map(|a| base[a].wrapping_mul(self.strides[a]));
        Frame {
            origin: [0, 1, 2].map(|a| (p[a] - f64::from(base[a])) as f32),
            step: [0, 1, 2].map(|a| self.map[a][0] as f32),
            low: base.map(|b| -b as f32),
            high: [0, 1, 2].map(|a| (size(a) - 1 - base[a]) as f32),
            last_cell: [0, 1, 2].map(|a| ((size(a) - 2).max(0) - base[a]) as f32),
            index: index[0].wrapping_add(index[1]).wrapping_add(index[2]),
            base,
        }
    }
}

/// The first number below `n` for which `is` holds, or `n`, looked for from `guess` on; once it
/// holds, it holds for all after.
#[inline(always)]
fn first(guess: usize, n: usize, is: impl Fn(usize) -> bool) -> usize {
    let mut x = guess.min(n);
    while x > 0 && is(x - 1) {
        x -= 1;
    }
    while x < n && !is(x) {
        x += 1;
    }
    x
}

/// A voxel of the source, `base`, from which positions are counted, so that they are small and
/// `f32` is exact enough; and what describes the source from there.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Frame {
    /// The local position of the first voxel of the output.
    origin: [f32; 3],
    /// The steps of the position along a row of the output.
    step: [f32; 3],
    /// The first and the last voxel of each axis, and the last that has one after it.
    low: [f32; 3],
    high: [f32; 3],
    last_cell: [f32; 3],
    /// Where `base` is in memory.
    index: i32,
    pub(super) base: [i32; 3],
}

/// Positions between voxels: the index of the lower corner of the cell in memory, and the fractional position in
/// the cell along each axis, from 0 to 1.
pub(in crate::cpu) struct Cells<V: Vectors> {
    pub(super) index: V::I,
    pub(super) local: [V::I; 3],
    pub(super) fraction: [V::F; 3],
}

impl Frame {
    /// The local positions of the voxels from `first` on, counted from that of the frame.
    #[inline(always)]
    pub(in crate::cpu) fn along<V: Vectors>(&self, v: V, first: usize) -> [V::F; 3] {
        let k = v.add(v.load(&LANE), v.splat(first as f32));
        let mut p = [k; 3];
        for a in 0..3 {
            p[a] = v.add(v.splat(self.origin[a]), v.mul(k, v.splat(self.step[a])));
        }
        p
    }

    /// Whether local positions are inside the source.
    #[inline(always)]
    pub(in crate::cpu) fn inside<V: Vectors>(&self, v: V, p: [V::F; 3]) -> V::M {
        let mut inside = v.le(v.splat(self.low[0] - 0.5), p[0]);
        for a in 0..3 {
            inside = v.and(inside, v.le(v.splat(self.low[a] - 0.5), p[a]));
            inside = v.and(inside, v.le(p[a], v.splat(self.high[a] + 0.5)));
        }
        inside
    }

    /// Whether local positions are not before the first voxel of an axis and not after the last: beyond, where
    /// positions are moved to these, nothing changes along it.
    #[inline(always)]
    pub(in crate::cpu) fn between<V: Vectors>(&self, v: V, axis: usize, p: V::F) -> V::M {
        v.and(v.le(v.splat(self.low[axis]), p), v.le(p, v.splat(self.high[axis])))
    }

    /// The cells of local positions, moved to the nearest point between voxels. With `SIGNED`
    /// unset they must not be below zero by more than rounding.
    #[inline(always)]
    pub(in crate::cpu) fn cells<V: Vectors, const SIGNED: bool>(
        &self,
        v: V,
        p: [V::F; 3],
        strides: &[i32; 3],
    ) -> Cells<V> {
        let mut index = v.splat_int(self.index);
        let mut local = [index; 3];
        let mut fraction = p;
        for a in 0..3 {
            let low = if SIGNED { self.low[a] } else { 0.0 };
            let p = v.min(v.max(p[a], v.splat(low)), v.splat(self.high[a]));
            let lower = v.min(p, v.splat(self.last_cell[a]));
            let mut whole = v.to_int(lower);
            let mut floor = v.to_float(whole);
            if SIGNED {
                let below = v.sub(floor, v.splat(1.0));
                floor = v.select(v.lt(lower, floor), below, floor);
                whole = v.to_int(floor);
            }
            local[a] = whole;
            fraction[a] = v.sub(p, floor);
            let step = if a == 0 { whole } else { v.mul_int(whole, v.splat_int(strides[a])) };
            index = v.add_int(index, step);
        }
        Cells { index, local, fraction }
    }

    /// Where the voxels nearest to local positions are in memory.
    #[inline(always)]
    pub(super) fn nearest<V: Vectors, const SIGNED: bool>(
        &self,
        v: V,
        p: [V::F; 3],
        strides: &[i32; 3],
    ) -> V::I {
        let mut index = v.splat_int(self.index);
        for a in 0..3 {
            let low = if SIGNED { self.low[a] } else { 0.0 };
            let p = v.min(v.max(v.add(p[a], v.splat(0.5)), v.splat(low)), v.splat(self.high[a]));
            let mut whole = v.to_int(p);
            if SIGNED {
                let floor = v.to_float(whole);
                let below = v.sub(floor, v.splat(1.0));
                whole = v.to_int(v.select(v.lt(p, floor), below, floor));
            }
            index = v.add_int(index, v.mul_int(whole, v.splat_int(strides[a])));
        }
        index
    }
}
