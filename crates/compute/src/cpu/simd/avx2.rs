//! AVX2 vectors: two registers for sixteen `f32`, four for sixteen `f64`.

use std::arch::x86_64::*;

use super::vectors::{LANES, Lanes, Vectors};

/// The level of a processor with AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The level.
    ///
    /// # Safety
    /// The processor must have AVX2.
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

/// The same for both halves.
macro_rules! both {
    ($i:ident => $value:expr) => {{
        // No closures: they would be compiled without the instructions.
        [
            {
                let $i = 0;
                has!($value)
            },
            {
                let $i = 1;
                has!($value)
            },
        ]
    }};
}

/// The same for the four quarters of sixteen `f64`.
macro_rules! four {
    ($i:ident => $value:expr) => {{
        [
            {
                let $i = 0;
                has!($value)
            },
            {
                let $i = 1;
                has!($value)
            },
            {
                let $i = 2;
                has!($value)
            },
            {
                let $i = 3;
                has!($value)
            },
        ]
    }};
}

impl Vectors for Avx2 {
    type F = [__m256; 2];
    type D = [__m256d; 4];
    type I = [__m256i; 2];
    type M = [__m256; 2];

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        has!([_mm256_set1_ps(value); 2])
    }
    #[inline(always)]
    fn load(self, from: &Lanes) -> Self::F {
        // SAFETY: `from` is sixteen readable numbers, and `self` proves the instructions.
        unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut Lanes) {
        // SAFETY: `to` is sixteen writable numbers, and `self` proves the instructions.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), value[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), value[1]);
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_add_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_sub_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_mul_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_div_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        both!(i => _mm256_sqrt_ps(a[i]))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_min_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_max_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        both!(i => _mm256_cmp_ps::<_CMP_LT_OQ>(a[i], b[i]))
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        both!(i => _mm256_cmp_ps::<_CMP_LE_OQ>(a[i], b[i]))
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        both!(i => _mm256_cmp_ps::<_CMP_EQ_OQ>(a[i], b[i]))
    }
    #[inline(always)]
    fn and(self, a: Self::M, b: Self::M) -> Self::M {
        both!(i => _mm256_and_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn bits(self, a: Self::M) -> u32 {
        has!(_mm256_movemask_ps(a[0]) as u32 | (_mm256_movemask_ps(a[1]) as u32) << 8)
    }
    #[inline(always)]
    fn select(self, mask: Self::M, a: Self::F, b: Self::F) -> Self::F {
        both!(i => _mm256_blendv_ps(b[i], a[i], mask[i]))
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        both!(i => _mm256_andnot_ps(_mm256_set1_ps(-0.0), a[i]))
    }
    #[inline(always)]
    fn neg(self, a: Self::F) -> Self::F {
        both!(i => _mm256_xor_ps(_mm256_set1_ps(-0.0), a[i]))
    }

    #[inline(always)]
    fn to_int(self, a: Self::F) -> Self::I {
        both!(i => _mm256_cvttps_epi32(a[i]))
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        both!(i => _mm256_cvtepi32_ps(a[i]))
    }
    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        has!([_mm256_set1_epi32(value); 2])
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        both!(i => _mm256_add_epi32(a[i], b[i]))
    }
    #[inline(always)]
    fn mul_int(self, a: Self::I, b: Self::I) -> Self::I {
        both!(i => _mm256_mullo_epi32(a[i], b[i]))
    }
    #[inline(always)]
    fn min_int(self, a: Self::I, b: Self::I) -> Self::I {
        both!(i => _mm256_min_epi32(a[i], b[i]))
    }
    #[inline(always)]
    fn and_int(self, a: Self::I, b: Self::I) -> Self::I {
        both!(i => _mm256_and_si256(a[i], b[i]))
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::I) -> Self::I {
        both!(i => _mm256_srl_epi32(a[i], _mm_cvtsi32_si128(BITS as i32)))
    }
    #[inline(always)]
    fn load_int(self, from: &[u32; LANES]) -> Self::I {
        // SAFETY: `from` is sixteen readable numbers, and `self` proves the instructions.
        unsafe {
            [
                _mm256_loadu_si256(from.as_ptr().cast()),
                _mm256_loadu_si256(from.as_ptr().add(8).cast()),
            ]
        }
    }
    #[inline(always)]
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]) {
        // SAFETY: `to` is sixteen writable numbers, and `self` proves the instructions.
        unsafe {
            _mm256_storeu_si256(to.as_mut_ptr().cast(), value[0]);
            _mm256_storeu_si256(to.as_mut_ptr().add(8).cast(), value[1]);
        }
    }

    #[inline(always)]
    fn gather(self, from: &[f32], index: Self::I) -> Self::F {
        assert!(!from.is_empty() && from.len() <= i32::MAX as usize, "gather");
        // SAFETY: the unsigned minimum makes every index one of `from`, positive as an `i32`.
        both!(i => _mm256_i32gather_ps::<4>(
            from.as_ptr(),
            _mm256_min_epu32(index[i], _mm256_set1_epi32((from.len() - 1) as i32))
        ))
    }
    #[inline(always)]
    fn gather_pairs(self, from: &[f32], index: Self::I) -> [Self::F; 2] {
        assert!(from.len() >= 2 && from.len() <= i32::MAX as usize, "gather pairs");
        // SAFETY: the unsigned minimum makes every index, and the one after it, one of `from`,
        // positive as an `i32`. Gathers do not ask for alignment.
        unsafe {
            let mut out = [[_mm256_setzero_ps(); 2]; 2];
            for i in 0..2 {
                let index = _mm256_min_epu32(index[i], _mm256_set1_epi32((from.len() - 2) as i32));
                let low = _mm256_castsi256_si128(index);
                let high = _mm256_extracti128_si256::<1>(index);
                let low = _mm256_i32gather_pd::<4>(from.as_ptr().cast(), low);
                let high = _mm256_i32gather_pd::<4>(from.as_ptr().cast(), high);
                let (low, high) = (_mm256_castpd_ps(low), _mm256_castpd_ps(high));
                // Lanes 0 1 4 5 | 2 3 6 7, then pairs of pairs in order.
                let even = _mm256_shuffle_ps::<0b10_00_10_00>(low, high);
                let odd = _mm256_shuffle_ps::<0b11_01_11_01>(low, high);
                let even = _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(even));
                let odd = _mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(odd));
                out[0][i] = _mm256_castpd_ps(even);
                out[1][i] = _mm256_castpd_ps(odd);
            }
            out
        }
    }
    #[inline(always)]
    unsafe fn gather_fours(self, from: *const f32, index: [usize; 4]) -> Self::F {
        // SAFETY: the caller vouches for the runs, and `self` proves the instructions.
        unsafe {
            [
                _mm256_loadu2_m128(from.add(index[1]), from.add(index[0])),
                _mm256_loadu2_m128(from.add(index[3]), from.add(index[2])),
            ]
        }
    }
    #[inline(always)]
    fn spread_four(self, a: Self::F, group: usize) -> Self::F {
        has!({
            let half = if group < 2 { a[0] } else { a[1] };
            let first = _mm256_set1_epi32(4 * (group % 2) as i32);
            let low = _mm256_add_epi32(first, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
            let high = _mm256_add_epi32(first, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3));
            [_mm256_permutevar8x32_ps(half, low), _mm256_permutevar8x32_ps(half, high)]
        })
    }

    #[inline(always)]
    fn splat_wide(self, value: f64) -> Self::D {
        has!([_mm256_set1_pd(value); 4])
    }
    #[inline(always)]
    fn widen(self, a: Self::F) -> Self::D {
        has!([
            _mm256_cvtps_pd(_mm256_castps256_ps128(a[0])),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(a[0])),
            _mm256_cvtps_pd(_mm256_castps256_ps128(a[1])),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(a[1])),
        ])
    }
    #[inline(always)]
    fn narrow(self, a: Self::D) -> Self::F {
        both!(i => _mm256_set_m128(_mm256_cvtpd_ps(a[2 * i + 1]), _mm256_cvtpd_ps(a[2 * i])))
    }
    #[inline(always)]
    fn store_wide(self, value: Self::D, to: &mut [f64; LANES]) {
        // SAFETY: `to` is sixteen writable numbers, and `self` proves the instructions.
        unsafe {
            for (i, part) in value.into_iter().enumerate() {
                _mm256_storeu_pd(to.as_mut_ptr().add(4 * i), part);
            }
        }
    }
    #[inline(always)]
    fn add_wide(self, a: Self::D, b: Self::D) -> Self::D {
        four!(i => _mm256_add_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn sub_wide(self, a: Self::D, b: Self::D) -> Self::D {
        four!(i => _mm256_sub_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn mul_wide(self, a: Self::D, b: Self::D) -> Self::D {
        four!(i => _mm256_mul_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn max_wide(self, a: Self::D, b: Self::D) -> Self::D {
        four!(i => _mm256_max_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn sqrt_wide(self, a: Self::D) -> Self::D {
        four!(i => _mm256_sqrt_pd(a[i]))
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        let mut out = rows;
        for i in 0..2 {
            for j in 0..2 {
                let mut block = [rows[0][0]; 8];
                for (r, row) in block.iter_mut().enumerate() {
                    *row = rows[8 * i + r][j];
                }
                let block = has!(transpose8(block));
                for (c, column) in block.into_iter().enumerate() {
                    out[8 * j + c][i] = column;
                }
            }
        }
        out
    }
}

/// Transposes eight rows of eight.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose8(rows: [__m256; 8]) -> [__m256; 8] {
    let mut a = rows;
    for i in (0..8).step_by(2) {
        a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    let mut b = a;
    for i in (0..8).step_by(4) {
        for h in 0..2 {
            let (x, y) = (_mm256_castps_pd(a[i + h]), _mm256_castps_pd(a[i + h + 2]));
            b[i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
            b[i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
        }
    }
    for c in 0..4 {
        a[c] = _mm256_permute2f128_ps::<0x20>(b[c], b[4 + c]);
        a[4 + c] = _mm256_permute2f128_ps::<0x31>(b[c], b[4 + c]);
    }
    a
}
