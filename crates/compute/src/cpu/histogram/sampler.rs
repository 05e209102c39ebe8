//! Sampling the moving image at sixteen mapped samples at once.

use crate::AffineMap;
use crate::cpu::Cpu;
use crate::cpu::lanes::{LANES, Lanes};
use crate::ops::histogram::{MovingView, Run, SampleLayout};

/// The moving image, ready for the kernels.
pub(super) struct Moving<'a> {
    values: &'a [f32],
    mask: Option<&'a [f32]>,
    /// Largest index along each axis as a number; 0 for a flat z axis, whose third coordinate is 0.
    pub(super) last: [f32; 3],
    /// Largest index of the lower corner of a cell.
    cell: [i32; 3],
    /// Steps in memory to the next row and slice; 0 for a flat z axis.
    step: [i32; 3],
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
            step: [nx as i32, if flat { 0 } else { (nx * ny) as i32 }, 0],
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

/// What the kernels learn of sixteen samples.
pub(super) struct Sampled<L> {
    /// Index within the tile.
    pub(super) local: [L; 3],
    /// Weight; 0 for samples that do not count.
    pub(super) w: L,
    /// Value of the moving image.
    pub(super) y: L,
    /// Its derivative along the moving axes.
    pub(super) dy: [L; 3],
    /// The derivative of the weight, where any of the samples has one.
    pub(super) dw: Option<[L; 3]>,
}

/// Broadcast constants of one run.
pub(super) struct Prepared<'a, L> {
    moving: &'a Moving<'a>,
    layout: &'a SampleLayout,
    linear: [[L; 3]; 3],
    base: [L; 3],
    last: [L; 3],
    slope: [L; 3],
    offset: [L; 3],
}

impl<'a, L: Lanes> Prepared<'a, L> {
    /// # Safety
    /// As [`Lanes`].
    #[inline(always)]
    pub(super) unsafe fn new(
        moving: &'a Moving<'a>,
        layout: &'a SampleLayout,
        map: &PerMap,
        run: &Run,
    ) -> Self {
        let base = map.base(run.origin);
        // SAFETY: the caller's.
        unsafe {
            let three = |v: [f32; 3]| [L::splat(v[0]), L::splat(v[1]), L::splat(v[2])];
            Self {
                moving,
                layout,
                linear: [three(map.linear[0]), three(map.linear[1]), three(map.linear[2])],
                base: three(base),
                last: three(moving.last),
                slope: three(moving.slope),
                offset: three(moving.offset),
            }
        }
    }

    /// Samples `at..at + count` (at most sixteen), `None` where none of them counts.
    ///
    /// # Safety
    /// As [`Lanes`]; `at + LANES` must not exceed the length of the layout's arrays.
    #[inline(always)]
    pub(super) unsafe fn sample<const GRAD: bool>(
        &self,
        at: usize,
        count: usize,
    ) -> Option<Sampled<L>> {
        debug_assert!(at + LANES <= self.layout.local.len());
        // SAFETY: the instruction set is the caller's. Loads of the layout are within its padded
        // arrays. Gathers read cells whose lower corner is clamped to the moving image, whose
        // length was checked against its sizes.
        unsafe {
            let packed = L::int_load(self.layout.local.as_ptr().add(at));
            let low = L::int_splat(1023);
            let local = [
                L::float(L::int_and(packed, low)),
                L::float(L::int_and(L::int_shr::<10>(packed), low)),
                L::float(L::int_shr::<20>(packed)),
            ];
            let zero = L::splat(0.0);
            let one = L::splat(1.0);
            let mut inside = L::first(count);
            let mut q = [zero; 3];
            for r in 0..3 {
                let a = &self.linear[r];
                let p = local[0].mul(a[0]).add(local[1].mul(a[1])).add(local[2].mul(a[2]));
                let p = p.add(self.base[r]);
                inside = L::and(inside, L::and(zero.le(p), p.le(self.last[r])));
                q[r] = p.max(zero).min(self.last[r]);
            }
            if !L::any(inside) {
                return None;
            }
            let mut w = one.keep(inside);
            let mut ramps = [one; 3];
            for r in 0..3 {
                let distance = q[r].min(self.last[r].sub(q[r]));
                ramps[r] = distance.mul(self.slope[r]).add(self.offset[r]).min(one);
                w = w.mul(ramps[r]);
            }
            let m = self.moving;
            let i0 = L::int_min(q[0].trunc(), L::int_splat(m.cell[0]));
            let i1 = L::int_min(q[1].trunc(), L::int_splat(m.cell[1]));
            let i2 = L::int_min(q[2].trunc(), L::int_splat(m.cell[2]));
            let f = [q[0].sub(L::float(i0)), q[1].sub(L::float(i1)), q[2].sub(L::float(i2))];
            let index = L::int_add(
                i0,
                L::int_add(
                    L::int_mul(i1, L::int_splat(m.step[0])),
                    L::int_mul(i2, L::int_splat(m.step[1])),
                ),
            );
            let (y, dy) = self.trilinear::<GRAD>(m.values.as_ptr(), index, f);
            let mut dw = None;
            let border = L::any(L::and(inside, w.lt(one)));
            if GRAD && border {
                let mut d = [zero; 3];
                for r in 0..3 {
                    // On the ramp: + slope in the lower half, - slope in the upper.
                    let on = ramps[r].lt(one);
                    let half = self.last[r].mul(L::splat(0.5));
                    let lower = self.slope[r].keep(q[r].lt(half));
                    let upper = self.slope[r].keep(half.le(q[r]));
                    let slope = lower.sub(upper).keep(L::and(on, inside));
                    let others = ramps[(r + 1) % 3].mul(ramps[(r + 2) % 3]);
                    d[r] = slope.mul(others);
                }
                dw = Some(d);
            }
            if let Some(mask) = m.mask {
                let (v, dv) = self.trilinear::<GRAD>(mask.as_ptr(), index, f);
                if GRAD {
                    let d = dw.unwrap_or([zero; 3]);
                    dw = Some([
                        d[0].mul(v).add(w.mul(dv[0])),
                        d[1].mul(v).add(w.mul(dv[1])),
                        d[2].mul(v).add(w.mul(dv[2])),
                    ]);
                }
                w = w.mul(v);
            }
            if let Some(weights) = &self.layout.weights {
                let v = L::load(weights.as_ptr().add(at));
                w = w.mul(v);
                dw = dw.map(|d| [d[0].mul(v), d[1].mul(v), d[2].mul(v)]);
            }
            Some(Sampled { local, w, y, dy, dw })
        }
    }

    /// The fixed values of samples `at..at + LANES`; zeros where the layout has none.
    ///
    /// # Safety
    /// As [`Prepared::sample`].
    #[inline(always)]
    pub(super) unsafe fn fixed(&self, at: usize) -> L {
        // SAFETY: the caller's.
        unsafe {
            match &self.layout.values {
                Some(values) => L::load(values.as_ptr().add(at)),
                None => L::splat(0.0),
            }
        }
    }

    /// # Safety
    /// As [`Lanes`]; `index` must be lower corners of cells of the array at `p`.
    #[inline(always)]
    unsafe fn trilinear<const GRAD: bool>(
        &self,
        p: *const f32,
        index: L::Int,
        f: [L; 3],
    ) -> (L, [L; 3]) {
        // SAFETY: the caller's. The far corners are within the array too: `cell` is one below the
        // last index, and the step along a flat axis is 0.
        unsafe {
            let m = self.moving;
            let up = L::int_splat(m.step[0]);
            let far = L::int_add(index, L::int_splat(m.step[1]));
            let (a0, a1) = L::gather_pair(p, index);
            let (b0, b1) = L::gather_pair(p, L::int_add(index, up));
            let (c0, c1) = L::gather_pair(p, far);
            let (d0, d1) = L::gather_pair(p, L::int_add(far, up));
            let (da, db, dc, dd) = (a1.sub(a0), b1.sub(b0), c1.sub(c0), d1.sub(d0));
            let a = a0.add(f[0].mul(da));
            let b = b0.add(f[0].mul(db));
            let c = c0.add(f[0].mul(dc));
            let d = d0.add(f[0].mul(dd));
            let (ab, cd) = (b.sub(a), d.sub(c));
            let e = a.add(f[1].mul(ab));
            let g = c.add(f[1].mul(cd));
            let ge = g.sub(e);
            let y = e.add(f[2].mul(ge));
            if !GRAD {
                let zero = L::splat(0.0);
                return (y, [zero; 3]);
            }
            let xe = da.add(f[1].mul(db.sub(da)));
            let xg = dc.add(f[1].mul(dd.sub(dc)));
            let dx = xe.add(f[2].mul(xg.sub(xe)));
            let dyy = ab.add(f[2].mul(cd.sub(ab)));
            (y, [dx, dyy, ge])
        }
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

/// Runs a generic kernel at a SIMD level: `dispatch!(simd, kernel, (args))` calls
/// `kernel::<Lanes>(args)` inside a function compiled for that level.
macro_rules! dispatch {
    ($simd:expr, $kernel:ident $(::<$($gen:tt),*>)?, ($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        #[allow(clippy::too_many_arguments)]
        fn avx2($($arg: $ty),*) {
            // SAFETY: compiled for the lanes' instruction set.
            unsafe { $kernel::<$crate::cpu::lanes::Avx2 $(, $($gen),*)?>($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
        #[allow(clippy::too_many_arguments)]
        fn avx512($($arg: $ty),*) {
            // SAFETY: compiled for the lanes' instruction set.
            unsafe { $kernel::<$crate::cpu::lanes::Avx512 $(, $($gen),*)?>($($arg),*) }
        }
        match $simd {
            // SAFETY: a `Cpu` only carries a level that this processor has.
            #[cfg(target_arch = "x86_64")]
            $crate::cpu::Simd::Avx2 => unsafe { avx2($($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::cpu::Simd::Avx512 => unsafe { avx512($($arg),*) },
            // SAFETY: these lanes need no instruction set.
            _ => unsafe { $kernel::<$crate::cpu::lanes::Plain $(, $($gen),*)?>($($arg),*) },
        }
    }};
}
pub(in crate::cpu) use dispatch;
