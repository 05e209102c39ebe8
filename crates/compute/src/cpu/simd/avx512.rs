//! AVX-512 vectors.

use std::arch::x86_64::*;

use super::vectors::{LANES, Lanes, Vectors};

/// The level of a processor with AVX-512 F, BW, DQ and VL.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The level.
    ///
    /// # Safety
    /// The processor must have AVX2 and AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

/// Runs intrinsics that need nothing but the instruction set.
macro_rules! has {
    ($value:expr) => {{
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { $value }
    }};
}

impl Vectors for Avx512 {
    type F = __m512;
    type D = [__m512d; 2];
    type I = __m512i;
    type M = __mmask16;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        has!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn load(self, from: &Lanes) -> Self::F {
        // SAFETY: `from` is sixteen readable numbers, and `self` proves the instructions.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut Lanes) {
        // SAFETY: `to` is sixteen writable numbers, and `self` proves the instructions.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), value) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        has!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        has!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b))
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        has!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b))
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        has!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b))
    }
    #[inline(always)]
    fn and(self, a: Self::M, b: Self::M) -> Self::M {
        a & b
    }
    #[inline(always)]
    fn bits(self, a: Self::M) -> u32 {
        u32::from(a)
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::F, b: Self::F) -> Self::F {
        has!(_mm512_mask_blend_ps(mask, b, a))
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        has!(_mm512_andnot_ps(_mm512_set1_ps(-0.0), a))
    }
    #[inline(always)]
    fn neg(self, a: Self::F) -> Self::F {
        has!(_mm512_xor_ps(_mm512_set1_ps(-0.0), a))
    }

    #[inline(always)]
    fn to_int(self, a: Self::F) -> Self::I {
        has!(_mm512_cvttps_epi32(a))
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        has!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        has!(_mm512_set1_epi32(value))
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        has!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn mul_int(self, a: Self::I, b: Self::I) -> Self::I {
        has!(_mm512_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn min_int(self, a: Self::I, b: Self::I) -> Self::I {
        has!(_mm512_min_epi32(a, b))
    }
    #[inline(always)]
    fn and_int(self, a: Self::I, b: Self::I) -> Self::I {
        has!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I {
        has!(_mm512_srli_epi32::<BITS>(a))
    }
    #[inline(always)]
    fn load_int(self, from: &[u32; LANES]) -> Self::I {
        // SAFETY: `from` is sixteen readable numbers, and `self` proves the instructions.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]) {
        // SAFETY: `to` is sixteen writable numbers, and `self` proves the instructions.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
    }

    #[inline(always)]
    fn gather(self, from: &[f32], index: Self::I) -> Self::F {
        assert!(!from.is_empty() && from.len() <= i32::MAX as usize, "gather");
        // SAFETY: the unsigned minimum makes every index one of `from`, positive as an `i32`.
        unsafe {
            let index = _mm512_min_epu32(index, _mm512_set1_epi32((from.len() - 1) as i32));
            _mm512_i32gather_ps::<4>(index, from.as_ptr())
        }
    }
    #[inline(always)]
    fn gather_pairs(self, from: &[f32], index: Self::I) -> [Self::F; 2] {
        assert!(from.len() >= 2 && from.len() <= i32::MAX as usize, "gather pairs");
        // SAFETY: the unsigned minimum makes every index, and the one after it, one of `from`,
        // positive as an `i32`. Gathers do not ask for alignment.
        unsafe {
            let index = _mm512_min_epu32(index, _mm512_set1_epi32((from.len() - 2) as i32));
            let low = _mm512_castsi512_si256(index);
            let high = _mm512_extracti64x4_epi64::<1>(index);
            pairs(from.as_ptr(), low, high)
        }
    }
    #[inline(always)]
    fn gather_cells(self, from: &[f32], index: Self::I, offsets: [usize; 4]) -> [[Self::F; 2]; 4] {
        let [a, b, c, d] = offsets;
        assert!(from.len() <= i32::MAX as usize && a <= d && b <= d && c <= d, "gather cells");
        assert!(d < from.len() && from.len() - d >= 2, "gather cells");
        // SAFETY: the unsigned minimum makes every index at most two below the end after the largest
        // of the offsets is added, and positive as an `i32`. Gathers do not ask for alignment.
        unsafe {
            let last = _mm512_set1_epi32((from.len() - d - 2) as i32);
            let index = _mm512_min_epu32(index, last);
            let low = _mm512_castsi512_si256(index);
            let high = _mm512_extracti64x4_epi64::<1>(index);
            [
                pairs(from.as_ptr().add(a), low, high),
                pairs(from.as_ptr().add(b), low, high),
                pairs(from.as_ptr().add(c), low, high),
                pairs(from.as_ptr().add(d), low, high),
            ]
        }
    }
    #[inline(always)]
    unsafe fn gather_fours(self, from: *const f32, index: [usize; 4]) -> Self::F {
        // SAFETY: the caller vouches for the runs, and `self` proves the instructions.
        unsafe {
            let out = _mm512_castps128_ps512(_mm_loadu_ps(from.add(index[0])));
            let out = _mm512_insertf32x4::<1>(out, _mm_loadu_ps(from.add(index[1])));
            let out = _mm512_insertf32x4::<2>(out, _mm_loadu_ps(from.add(index[2])));
            _mm512_insertf32x4::<3>(out, _mm_loadu_ps(from.add(index[3])))
        }
    }
    #[inline(always)]
    fn spread_four(self, a: Self::F, group: usize) -> Self::F {
        has!({
            let order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
            let order = _mm512_add_epi32(order, _mm512_set1_epi32(4 * group as i32));
            _mm512_permutexvar_ps(order, a)
        })
    }

    #[inline(always)]
    fn splat_wide(self, value: f64) -> Self::D {
        has!([_mm512_set1_pd(value); 2])
    }
    #[inline(always)]
    fn widen(self, a: Self::F) -> Self::D {
        has!([
            _mm512_cvtps_pd(_mm512_castps512_ps256(a)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(a)),
        ])
    }
    #[inline(always)]
    fn narrow(self, a: Self::D) -> Self::F {
        has!(_mm512_insertf32x8::<1>(
            _mm512_castps256_ps512(_mm512_cvtpd_ps(a[0])),
            _mm512_cvtpd_ps(a[1])
        ))
    }
    #[inline(always)]
    fn store_wide(self, value: Self::D, to: &mut [f64; LANES]) {
        // SAFETY: `to` is sixteen writable numbers, and `self` proves the instructions.
        unsafe {
            _mm512_storeu_pd(to.as_mut_ptr(), value[0]);
            _mm512_storeu_pd(to.as_mut_ptr().add(8), value[1]);
        }
    }
    #[inline(always)]
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D {
        has!([_mm512_add_pd(a[0], b[0]), _mm512_add_pd(a[1], b[1])])
    }
    #[inline(always)]
    fn sub_wide(self, a: Self::D, b: Self::D) -> Self::D {
        has!([_mm512_sub_pd(a[0], b[0]), _mm512_sub_pd(a[1], b[1])])
    }
    #[inline(always)]
    fn mul_wide(self, a: Self::D, b: Self::D) -> Self::D {
        has!([_mm512_mul_pd(a[0], b[0]), _mm512_mul_pd(a[1], b[1])])
    }
    #[inline(always)]
    fn max_wide(self, a: Self::D, b: Self::D) -> Self::D {
        has!([_mm512_max_pd(a[0], b[0]), _mm512_max_pd(a[1], b[1])])
    }
    #[inline(always)]
    fn sqrt_wide(self, a: Self::D) -> Self::D {
        has!([_mm512_sqrt_pd(a[0]), _mm512_sqrt_pd(a[1])])
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        // In three rounds: pairs of lanes, pairs of pairs, then quarters of the vectors.
        has!({
            let mut a = rows;
            for i in (0..LANES).step_by(2) {
                a[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
                a[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
            }
            let mut b = a;
            for i in (0..LANES).step_by(4) {
                for h in 0..2 {
                    let (x, y) = (_mm512_castps_pd(a[i + h]), _mm512_castps_pd(a[i + h + 2]));
                    b[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
                    b[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
                }
            }
            // b[4 g + c], quarter q: column 4 q + c of rows 4 g..4 g + 4.
            for c in 0..4 {
                let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(b[c], b[4 + c]);
                let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(b[c], b[4 + c]);
                let low2 = _mm512_shuffle_f32x4::<0b10_00_10_00>(b[8 + c], b[12 + c]);
                let high2 = _mm512_shuffle_f32x4::<0b11_01_11_01>(b[8 + c], b[12 + c]);
                a[c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(low, low2);
                a[4 + c] = _mm512_shuffle_f32x4::<0b10_00_10_00>(high, high2);
                a[8 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(low, low2);
                a[12 + c] = _mm512_shuffle_f32x4::<0b11_01_11_01>(high, high2);
            }
            a
        })
    }
}

/// `from[i]` and `from[i + 1]` for sixteen indices.
///
/// # Safety
/// The indices and those after them are inside the memory that `from` points to.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pairs(from: *const f32, low: __m256i, high: __m256i) -> [__m512; 2] {
    // SAFETY: the caller vouches for the indices.
    let (low, high) = unsafe {
        (
            _mm512_castpd_ps(_mm512_i32gather_pd::<4>(low, from.cast())),
            _mm512_castpd_ps(_mm512_i32gather_pd::<4>(high, from.cast())),
        )
    };
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    [_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)]
}
