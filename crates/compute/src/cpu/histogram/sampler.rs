//! Sampling of the moving image at sixteen mapped points at once.

use crate::AffineMap;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANE, LANES, Vectors};
use crate::ops::histogram::{MOST_MASK, MovingView, Run, SampleLayout};

/// The moving image, ready for the kernels.
pub(super) struct Moving<'a> {
    values: &'a [f32],
    mask: Option<&'a [f32]>,
    /// Largest index along each axis as a number; 0 for a flat z axis, whose third coordinate is 0.
    pub(super) last: [f32; 3],
    /// Largest index of the lower corner of a cell.
    cell: [i32; 3],
    /// Steps in memory to the next row and slice; 0 for a flat z axis.
    step: [usize; 2],
    flat: bool,
    /// The border ramps: `w = min(1, distance * slope + offset)`.
    slope: [f32; 3],
    offset: [f32; 3],
}

impl<'a> Moving<'a> {
    pub(super) fn new(view: &'a MovingView<'_, Cpu>) -> Self {
        let [nx, ny, nz] = view.dims;
        let flat = nz == 1;
        let ramps = view.ramps();
        Self {
            values: view.values.as_slice(),
            mask: view.mask.map(|m| m.as_slice()),
            last: [(nx - 1) as f32, (ny - 1) as f32, if flat { 0.0 } else { (nz - 1) as f32 }],
            cell: [nx as i32 - 2, ny as i32 - 2, if flat { 0 } else { nz as i32 - 2 }],
            step: [nx, if flat { 0 } else { nx * ny }],
            flat,
            slope: ramps.map(|r| r.0),
            offset: ramps.map(|r| r.1),
        }
    }
}

/// One map, ready for the kernels.
pub(super) struct PerMap {
    map: AffineMap,
    linear: [[f32; 3]; 3],
}

impl PerMap {
    pub(super) fn new(map: &AffineMap, moving: &Moving<'_>) -> Self {
        let mut map = *map;
        if moving.flat {
            // A flat image has no third coordinate.
            map[2] = [0.0; 4];
        }
        let linear = std::array::from_fn(|r| std::array::from_fn(|c| map[r][c] as f32));
        Self { map, linear }
    }

    /// The image of a tile's origin.
    fn base(&self, origin: [u32; 3]) -> [f32; 3] {
        let o = origin.map(f64::from);
        std::array::from_fn(|r| {
            let m = &self.map[r];
            (m[0] * o[0] + m[1] * o[1] + m[2] * o[2] + m[3]) as f32
        })
    }
}

/// The results for sixteen samples.
pub(super) struct Sampled<F> {
    /// Index within the tile.
    pub(super) local: [F; 3],
    /// Weight; 0 for samples that do not count.
    pub(super) w: F,
    /// Value of the moving image.
    pub(super) y: F,
    /// Its derivative along the moving axes.
    pub(super) dy: [F; 3],
    /// The derivative of the weight, where any of the samples has one.
    pub(super) dw: Option<[F; 3]>,
}

/// Broadcast constants of one run.
pub(super) struct Prepared<'a, V: Vectors> {
    v: V,
    moving: &'a Moving<'a>,
    layout: &'a SampleLayout,
    linear: [[V::F; 3]; 3],
    base: [V::F; 3],
    last: [V::F; 3],
    slope: [V::F; 3],
    offset: [V::F; 3],
}

#[inline(always)]
fn splat3<V: Vectors>(v: V, a: [f32; 3]) -> [V::F; 3] {
    [v.splat(a[0]), v.splat(a[1]), v.splat(a[2])]
}

/// Samples from `at` on: a whole vector of an array that the layout has padded.
#[inline(always)]
fn sixteen<T>(padded: &[T], at: usize) -> Option<&[T; LANES]> {
    padded.get(at..)?.first_chunk()
}

impl<'a, V: Vectors> Prepared<'a, V> {
    #[inline(always)]
    pub(super) fn new(
        v: V,
        moving: &'a Moving<'a>,
        layout: &'a SampleLayout,
        map: &PerMap,
        run: &Run,
    ) -> Self {
        Self {
            v,
            moving,
            layout,
            linear: [splat3(v, map.linear[0]), splat3(v, map.linear[1]), splat3(v, map.linear[2])],
            base: splat3(v, map.base(run.origin)),
            last: splat3(v, moving.last),
            slope: splat3(v, moving.slope),
            offset: splat3(v, moving.offset),
        }
    }

    /// Samples `at..at + count` (at most sixteen), `None` where none of them counts.
    #[inline(always)]
    pub(super) fn sample<const GRAD: bool>(
        &self,
        at: usize,
        count: usize,
    ) -> Option<Sampled<V::F>> {
        let v = self.v;
        let packed = v.load_int(sixteen(&self.layout.local, at)?);
        let low = v.splat_int(1023);
        let local = [
            v.to_float(v.and_int(packed, low)),
            v.to_float(v.and_int(v.shift_right::<10>(packed), low)),
            v.to_float(v.shift_right::<20>(packed)),
        ];
        let zero = v.splat(0.0);
        let one = v.splat(1.0);
        let mut inside = v.lt(v.load(&LANE), v.splat(count as f32));
        let mut q = [zero; 3];
        for r in 0..3 {
            let a = &self.linear[r];
            let p = v.add(v.mul(local[0], a[0]), v.mul(local[1], a[1]));
            let p = v.add(v.add(p, v.mul(local[2], a[2])), self.base[r]);
            inside = v.and(inside, v.and(v.le(zero, p), v.le(p, self.last[r])));
            q[r] = v.min(v.max(p, zero), self.last[r]);
        }
        if v.bits(inside) == 0 {
            return None;
        }
        let mut w = v.select(inside, one, zero);
        let mut ramps = [one; 3];
        for r in 0..3 {
            let distance = v.min(q[r], v.sub(self.last[r], q[r]));
            ramps[r] = v.min(v.add(v.mul(distance, self.slope[r]), self.offset[r]), one);
            w = v.mul(w, ramps[r]);
        }
        let m = self.moving;
        let i0 = v.min_int(v.to_int(q[0]), v.splat_int(m.cell[0]));
        let i1 = v.min_int(v.to_int(q[1]), v.splat_int(m.cell[1]));
        let i2 = v.min_int(v.to_int(q[2]), v.splat_int(m.cell[2]));
        let f =
            [v.sub(q[0], v.to_float(i0)), v.sub(q[1], v.to_float(i1)), v.sub(q[2], v.to_float(i2))];
        let index = v.add_int(
            i0,
            v.add_int(
                v.mul_int(i1, v.splat_int(m.step[0] as i32)),
                v.mul_int(i2, v.splat_int(m.step[1] as i32)),
            ),
        );
        let (y, dy) = self.trilinear::<GRAD>(m.values, index, f);
        let mut dw = None;
        let border = v.bits(v.and(inside, v.lt(w, one))) != 0;
        if GRAD && border {
            let mut d = [zero; 3];
            for r in 0..3 {
                // On the ramp: + slope in the lower half, - slope in the upper.
                let on = v.and(v.lt(ramps[r], one), inside);
                let half = v.mul(self.last[r], v.splat(0.5));
                let lower = v.select(v.lt(q[r], half), self.slope[r], zero);
                let upper = v.select(v.le(half, q[r]), self.slope[r], zero);
                let slope = v.select(on, v.sub(lower, upper), zero);
                d[r] = v.mul(slope, v.mul(ramps[(r + 1) % 3], ramps[(r + 2) % 3]));
            }
            dw = Some(d);
        }
        if let Some(mask) = m.mask {
            let (u, du) = self.trilinear::<GRAD>(mask, index, f);
            let most = v.splat(MOST_MASK);
            // Not a number is in no order, and counts 0.
            let free = v.and(v.le(zero, u), v.le(u, most));
            let finite = v.lt(u, v.splat(f32::INFINITY));
            let u = v.select(finite, v.min(v.max(u, zero), most), zero);
            if GRAD {
                let mut d = dw.unwrap_or([zero; 3]);
                for r in 0..3 {
                    let du = v.select(free, du[r], zero);
                    d[r] = v.add(v.mul(d[r], u), v.mul(w, du));
                }
                dw = Some(d);
            }
            w = v.mul(w, u);
        }
        if let Some(weights) = &self.layout.weights {
            let u = v.load(sixteen(weights, at)?);
            w = v.mul(w, u);
            if let Some(d) = &mut dw {
                for r in 0..3 {
                    d[r] = v.mul(d[r], u);
                }
            }
        }
        Some(Sampled { local, w, y, dy, dw })
    }

    /// The fixed values of samples `at..at + LANES`; zeros where the layout has none.
    #[inline(always)]
    pub(super) fn fixed(&self, at: usize) -> V::F {
        match self.layout.values.as_ref().and_then(|values| sixteen(values, at)) {
            Some(values) => self.v.load(values),
            None => self.v.splat(0.0),
        }
    }

    /// The value and its derivative at `f` within the cells whose lower corners are at `index`.
    #[inline(always)]
    fn trilinear<const GRAD: bool>(
        &self,
        values: &[f32],
        index: V::I,
        f: [V::F; 3],
    ) -> (V::F, [V::F; 3]) {
        let v = self.v;
        let [row, slice] = self.moving.step;
        let [[a0, a1], [b0, b1], [c0, c1], [d0, d1]] =
            v.gather_cells(values, index, [0, row, slice, row + slice]);
        let (da, db, dc, dd) = (v.sub(a1, a0), v.sub(b1, b0), v.sub(c1, c0), v.sub(d1, d0));
        let a = v.add(a0, v.mul(f[0], da));
        let b = v.add(b0, v.mul(f[0], db));
        let c = v.add(c0, v.mul(f[0], dc));
        let d = v.add(d0, v.mul(f[0], dd));
        let (ab, cd) = (v.sub(b, a), v.sub(d, c));
        let e = v.add(a, v.mul(f[1], ab));
        let g = v.add(c, v.mul(f[1], cd));
        let ge = v.sub(g, e);
        let y = v.add(e, v.mul(f[2], ge));
        if !GRAD {
            return (y, [v.splat(0.0); 3]);
        }
        let xe = v.add(da, v.mul(f[1], v.sub(db, da)));
        let xg = v.add(dc, v.mul(f[1], v.sub(dd, dc)));
        let dx = v.add(xe, v.mul(f[2], v.sub(xg, xe)));
        let dyy = v.add(ab, v.mul(f[2], v.sub(cd, ab)));
        (y, [dx, dyy, ge])
    }
}

/// Turns sums over local coordinates into sums over the image's: adds `origin * (sum of g)`.
#[inline(always)]
pub(super) fn to_image(local: [f64; 12], origin: [u32; 3], out: &mut [f64]) {
    for r in 0..3 {
        let g = local[4 * r + 3];
        for c in 0..3 {
            out[4 * r + c] += local[4 * r + c] + f64::from(origin[c]) * g;
        }
        out[4 * r + 3] += g;
    }
}
