//! Vectors in plain Rust, which the compiler can map to the baseline SIMD of every processor.

use super::vectors::{LANES, Lanes, Vectors};

/// The level of every processor.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

macro_rules! lanes {
    ($l:ident => $value:expr) => {{
        let mut out = [Default::default(); LANES];
        for $l in 0..LANES {
            out[$l] = $value;
        }
        out
    }};
}

impl Vectors for Portable {
    type F = Lanes;
    type D = [f64; LANES];
    type I = [i32; LANES];
    type M = [bool; LANES];

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        [value; LANES]
    }
    #[inline(always)]
    fn load(self, from: &Lanes) -> Lanes {
        *from
    }
    #[inline(always)]
    fn store(self, value: Lanes, to: &mut Lanes) {
        *to = value;
    }
    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => a[l] + b[l])
    }
    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => a[l] - b[l])
    }
    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => a[l] * b[l])
    }
    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => a[l] / b[l])
    }
    #[inline(always)]
    fn sqrt(self, a: Lanes) -> Lanes {
        lanes!(l => a[l].sqrt())
    }
    #[inline(always)]
    fn min(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => if a[l] < b[l] { a[l] } else { b[l] })
    }
    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => if a[l] > b[l] { a[l] } else { b[l] })
    }
    #[inline(always)]
    fn lt(self, a: Lanes, b: Lanes) -> Self::M {
        lanes!(l => a[l] < b[l])
    }
    #[inline(always)]
    fn le(self, a: Lanes, b: Lanes) -> Self::M {
        lanes!(l => a[l] <= b[l])
    }
    #[inline(always)]
    #[allow(clippy::float_cmp)]
    fn eq(self, a: Lanes, b: Lanes) -> Self::M {
        lanes!(l => a[l] == b[l])
    }
    #[inline(always)]
    fn and(self, a: Self::M, b: Self::M) -> Self::M {
        lanes!(l => a[l] & b[l])
    }
    #[inline(always)]
    fn bits(self, a: Self::M) -> u32 {
        let mut bits = 0;
        for l in 0..LANES {
            bits |= u32::from(a[l]) << l;
        }
        bits
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Lanes, b: Lanes) -> Lanes {
        lanes!(l => if mask[l] { a[l] } else { b[l] })
    }
    #[inline(always)]
    fn abs(self, a: Lanes) -> Lanes {
        lanes!(l => a[l].abs())
    }
    #[inline(always)]
    fn neg(self, a: Lanes) -> Lanes {
        lanes!(l => -a[l])
    }

    #[inline(always)]
    fn to_int(self, a: Lanes) -> Self::I {
        lanes!(l => a[l] as i32)
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Lanes {
        lanes!(l => a[l] as f32)
    }
    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        lanes!(l => a[l].wrapping_add(b[l]))
    }
    #[inline(always)]
    fn mul_int(self, a: Self::I, b: Self::I) -> Self::I {
        lanes!(l => a[l].wrapping_mul(b[l]))
    }
    #[inline(always)]
    fn min_int(self, a: Self::I, b: Self::I) -> Self::I {
        lanes!(l => a[l].min(b[l]))
    }
    #[inline(always)]
    fn and_int(self, a: Self::I, b: Self::I) -> Self::I {
        lanes!(l => a[l] & b[l])
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I {
        lanes!(l => ((a[l] as u32) >> BITS) as i32)
    }
    #[inline(always)]
    fn load_int(self, from: &[u32; LANES]) -> Self::I {
        lanes!(l => from[l] as i32)
    }
    #[inline(always)]
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]) {
        *to = value;
    }

    #[inline(always)]
    fn gather(self, from: &[f32], index: Self::I) -> Lanes {
        let last = from.len() - 1;
        lanes!(l => from[(index[l] as u32 as usize).min(last)])
    }
    #[inline(always)]
    fn gather_pairs(self, from: &[f32], index: Self::I) -> [Lanes; 2] {
        let last = from.len() - 2;
        let mut out = [[0.0; LANES]; 2];
        for l in 0..LANES {
            let i = (index[l] as u32 as usize).min(last);
            out[0][l] = from[i];
            out[1][l] = from[i + 1];
        }
        out
    }
    #[inline(always)]
    unsafe fn gather_fours(self, from: *const f32, index: [usize; 4]) -> Lanes {
        // SAFETY: the caller vouches for the runs.
        lanes!(l => unsafe { *from.add(index[l / 4] + l % 4) })
    }
    #[inline(always)]
    fn spread_four(self, a: Lanes, group: usize) -> Lanes {
        lanes!(l => a[4 * group + l / 4])
    }

    #[inline(always)]
    fn splat_wide(self, value: f64) -> Self::D {
        [value; LANES]
    }
    #[inline(always)]
    fn widen(self, a: Lanes) -> Self::D {
        lanes!(l => f64::from(a[l]))
    }
    #[inline(always)]
    fn narrow(self, a: Self::D) -> Lanes {
        lanes!(l => a[l] as f32)
    }
    #[inline(always)]
    fn store_wide(self, value: Self::D, to: &mut [f64; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D {
        lanes!(l => a[l] + b[l])
    }
    #[inline(always)]
    fn sub_wide(self, a: Self::D, b: Self::D) -> Self::D {
        lanes!(l => a[l] - b[l])
    }
    #[inline(always)]
    fn mul_wide(self, a: Self::D, b: Self::D) -> Self::D {
        lanes!(l => a[l] * b[l])
    }
    #[inline(always)]
    fn max_wide(self, a: Self::D, b: Self::D) -> Self::D {
        lanes!(l => if a[l] > b[l] { a[l] } else { b[l] })
    }
    #[inline(always)]
    fn sqrt_wide(self, a: Self::D) -> Self::D {
        lanes!(l => a[l].sqrt())
    }

    #[inline(always)]
    fn transpose(self, rows: [Lanes; LANES]) -> [Lanes; LANES] {
        let mut out = [[0.0; LANES]; LANES];
        for i in 0..LANES {
            for j in 0..LANES {
                out[j][i] = rows[i][j];
            }
        }
        out
    }
}
