//! Sixteen lanes of `f32`, the width that kernels with indexed loads are written for.
//!
//! The compiler does not turn indexed loads into gathers reliably, so these kernels name their
//! instructions. Every implementation does the same IEEE operations lane by lane and sums lanes in
//! the same order, and none contracts a product and a sum: all levels give the same bits.

/// Number of lanes.
pub(crate) const LANES: usize = 16;

/// Sixteen `f32` lanes with their integer lanes and masks.
///
/// # Safety
/// Every function needs the instruction set of its implementation, and must be inlined into a
/// function compiled for it; loads need the memory they name to be readable.
pub(crate) unsafe trait Lanes: Copy {
    /// Sixteen `i32` lanes.
    type Int: Copy;
    /// Sixteen booleans.
    type Mask: Copy;

    unsafe fn splat(v: f32) -> Self;
    unsafe fn load(p: *const f32) -> Self;
    unsafe fn add(self, o: Self) -> Self;
    unsafe fn sub(self, o: Self) -> Self;
    unsafe fn mul(self, o: Self) -> Self;
    unsafe fn min(self, o: Self) -> Self;
    unsafe fn max(self, o: Self) -> Self;
    /// `self <= o`
    unsafe fn le(self, o: Self) -> Self::Mask;
    /// `self < o`
    unsafe fn lt(self, o: Self) -> Self::Mask;
    unsafe fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn any(m: Self::Mask) -> bool;
    /// Lanes of the mask keep their value, the others become zero.
    unsafe fn keep(self, m: Self::Mask) -> Self;
    /// The first `count` lanes.
    unsafe fn first(count: usize) -> Self::Mask;
    /// Truncation towards zero.
    unsafe fn trunc(self) -> Self::Int;
    unsafe fn float(i: Self::Int) -> Self;
    unsafe fn int_splat(v: i32) -> Self::Int;
    unsafe fn int_load(p: *const u32) -> Self::Int;
    unsafe fn int_add(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_mul(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_min(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_and(a: Self::Int, b: Self::Int) -> Self::Int;
    unsafe fn int_shr<const S: u32>(a: Self::Int) -> Self::Int;
    /// The values at `p + i` of each lane.
    unsafe fn gather(p: *const f32, i: Self::Int) -> Self;
    /// The values at `p + i` and `p + i + 1` of each lane.
    unsafe fn gather_pair(p: *const f32, i: Self::Int) -> (Self, Self);
    unsafe fn to_array(self) -> [f32; LANES];
    unsafe fn int_to_array(i: Self::Int) -> [i32; LANES];

    /// The sum of all lanes in double precision: halves are added to each other, again and again.
    #[inline(always)]
    unsafe fn sum(self) -> f64 {
        // SAFETY: as the trait's.
        let v = unsafe { self.to_array() };
        let mut s = [0.0f64; 8];
        for l in 0..8 {
            s[l] = f64::from(v[l]) + f64::from(v[l + 8]);
        }
        let a = [s[0] + s[4], s[1] + s[5], s[2] + s[6], s[3] + s[7]];
        (a[0] + a[2]) + (a[1] + a[3])
    }
}

/// Lanes in plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; LANES]);

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> Plain {
    Plain(std::array::from_fn(f))
}

// SAFETY: no instruction set is needed.
unsafe impl Lanes for Plain {
    type Int = [i32; LANES];
    type Mask = [bool; LANES];

    #[inline(always)]
    unsafe fn splat(v: f32) -> Self {
        Plain([v; LANES])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller's.
        each(|l| unsafe { *p.add(l) })
    }
    #[inline(always)]
    unsafe fn add(self, o: Self) -> Self {
        each(|l| self.0[l] + o.0[l])
    }
    #[inline(always)]
    unsafe fn sub(self, o: Self) -> Self {
        each(|l| self.0[l] - o.0[l])
    }
    #[inline(always)]
    unsafe fn mul(self, o: Self) -> Self {
        each(|l| self.0[l] * o.0[l])
    }
    #[inline(always)]
    unsafe fn min(self, o: Self) -> Self {
        each(|l| if self.0[l] < o.0[l] { self.0[l] } else { o.0[l] })
    }
    #[inline(always)]
    unsafe fn max(self, o: Self) -> Self {
        each(|l| if self.0[l] > o.0[l] { self.0[l] } else { o.0[l] })
    }
    #[inline(always)]
    unsafe fn le(self, o: Self) -> Self::Mask {
        std::array::from_fn(|l| self.0[l] <= o.0[l])
    }
    #[inline(always)]
    unsafe fn lt(self, o: Self) -> Self::Mask {
        std::array::from_fn(|l| self.0[l] < o.0[l])
    }
    #[inline(always)]
    unsafe fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask {
        std::array::from_fn(|l| a[l] & b[l])
    }
    #[inline(always)]
    unsafe fn any(m: Self::Mask) -> bool {
        m.iter().any(|&b| b)
    }
    #[inline(always)]
    unsafe fn keep(self, m: Self::Mask) -> Self {
        each(|l| if m[l] { self.0[l] } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn first(count: usize) -> Self::Mask {
        std::array::from_fn(|l| l < count)
    }
    #[inline(always)]
    unsafe fn trunc(self) -> Self::Int {
        std::array::from_fn(|l| self.0[l] as i32)
    }
    #[inline(always)]
    unsafe fn float(i: Self::Int) -> Self {
        each(|l| i[l] as f32)
    }
    #[inline(always)]
    unsafe fn int_splat(v: i32) -> Self::Int {
        [v; LANES]
    }
    #[inline(always)]
    unsafe fn int_load(p: *const u32) -> Self::Int {
        // SAFETY: the caller's.
        std::array::from_fn(|l| unsafe { *p.add(l) } as i32)
    }
    #[inline(always)]
    unsafe fn int_add(a: Self::Int, b: Self::Int) -> Self::Int {
        std::array::from_fn(|l| a[l].wrapping_add(b[l]))
    }
    #[inline(always)]
    unsafe fn int_mul(a: Self::Int, b: Self::Int) -> Self::Int {
        std::array::from_fn(|l| a[l].wrapping_mul(b[l]))
    }
    #[inline(always)]
    unsafe fn int_min(a: Self::Int, b: Self::Int) -> Self::Int {
        std::array::from_fn(|l| a[l].min(b[l]))
    }
    #[inline(always)]
    unsafe fn int_and(a: Self::Int, b: Self::Int) -> Self::Int {
        std::array::from_fn(|l| a[l] & b[l])
    }
    #[inline(always)]
    unsafe fn int_shr<const S: u32>(a: Self::Int) -> Self::Int {
        std::array::from_fn(|l| ((a[l] as u32) >> S) as i32)
    }
    #[inline(always)]
    unsafe fn gather(p: *const f32, i: Self::Int) -> Self {
        // SAFETY: the caller's.
        each(|l| unsafe { *p.add(i[l] as usize) })
    }
    #[inline(always)]
    unsafe fn gather_pair(p: *const f32, i: Self::Int) -> (Self, Self) {
        // SAFETY: the caller's.
        unsafe { (Self::gather(p, i), Self::gather(p.add(1), i)) }
    }
    #[inline(always)]
    unsafe fn to_array(self) -> [f32; LANES] {
        self.0
    }
    #[inline(always)]
    unsafe fn int_to_array(i: Self::Int) -> [i32; LANES] {
        i
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, Lanes};
    use std::arch::x86_64::*;

    /// Lanes in one AVX-512 register.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512);

    // SAFETY: needs AVX-512 F, as the trait says.
    #[allow(clippy::undocumented_unsafe_blocks)] // every block: the instruction set is the caller's
    unsafe impl Lanes for Avx512 {
        type Int = __m512i;
        type Mask = __mmask16;

        #[inline(always)]
        unsafe fn splat(v: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(v)) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            unsafe { Self(_mm512_loadu_ps(p)) }
        }
        #[inline(always)]
        unsafe fn add(self, o: Self) -> Self {
            unsafe { Self(_mm512_add_ps(self.0, o.0)) }
        }
        #[inline(always)]
        unsafe fn sub(self, o: Self) -> Self {
            unsafe { Self(_mm512_sub_ps(self.0, o.0)) }
        }
        #[inline(always)]
        unsafe fn mul(self, o: Self) -> Self {
            unsafe { Self(_mm512_mul_ps(self.0, o.0)) }
        }
        #[inline(always)]
        unsafe fn min(self, o: Self) -> Self {
            unsafe { Self(_mm512_min_ps(self.0, o.0)) }
        }
        #[inline(always)]
        unsafe fn max(self, o: Self) -> Self {
            unsafe { Self(_mm512_max_ps(self.0, o.0)) }
        }
        #[inline(always)]
        unsafe fn le(self, o: Self) -> Self::Mask {
            unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, o.0) }
        }
        #[inline(always)]
        unsafe fn lt(self, o: Self) -> Self::Mask {
            unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, o.0) }
        }
        #[inline(always)]
        unsafe fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            a & b
        }
        #[inline(always)]
        unsafe fn any(m: Self::Mask) -> bool {
            m != 0
        }
        #[inline(always)]
        unsafe fn keep(self, m: Self::Mask) -> Self {
            unsafe { Self(_mm512_maskz_mov_ps(m, self.0)) }
        }
        #[inline(always)]
        unsafe fn first(count: usize) -> Self::Mask {
            if count >= LANES { u16::MAX } else { (1u16 << count) - 1 }
        }
        #[inline(always)]
        unsafe fn trunc(self) -> Self::Int {
            unsafe { _mm512_cvttps_epi32(self.0) }
        }
        #[inline(always)]
        unsafe fn float(i: Self::Int) -> Self {
            unsafe { Self(_mm512_cvtepi32_ps(i)) }
        }
        #[inline(always)]
        unsafe fn int_splat(v: i32) -> Self::Int {
            unsafe { _mm512_set1_epi32(v) }
        }
        #[inline(always)]
        unsafe fn int_load(p: *const u32) -> Self::Int {
            unsafe { _mm512_loadu_si512(p.cast()) }
        }
        #[inline(always)]
        unsafe fn int_add(a: Self::Int, b: Self::Int) -> Self::Int {
            unsafe { _mm512_add_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn int_mul(a: Self::Int, b: Self::Int) -> Self::Int {
            unsafe { _mm512_mullo_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn int_min(a: Self::Int, b: Self::Int) -> Self::Int {
            unsafe { _mm512_min_epi32(a, b) }
        }
        #[inline(always)]
        unsafe fn int_and(a: Self::Int, b: Self::Int) -> Self::Int {
            unsafe { _mm512_and_si512(a, b) }
        }
        #[inline(always)]
        unsafe fn int_shr<const S: u32>(a: Self::Int) -> Self::Int {
            unsafe { _mm512_srli_epi32::<S>(a) }
        }
        #[inline(always)]
        unsafe fn gather(p: *const f32, i: Self::Int) -> Self {
            unsafe { Self(_mm512_i32gather_ps::<4>(i, p)) }
        }
        // One 8-byte load instead of two of 4 bytes: gathers are bound by the number of loads.
        #[inline(always)]
        unsafe fn gather_pair(p: *const f32, i: Self::Int) -> (Self, Self) {
            unsafe {
                let low = _mm512_castsi512_si256(i);
                let high = _mm512_extracti64x4_epi64::<1>(i);
                let a = _mm512_castpd_ps(_mm512_i32gather_pd::<4>(low, p.cast()));
                let b = _mm512_castpd_ps(_mm512_i32gather_pd::<4>(high, p.cast()));
                let even =
                    _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
                (Self(_mm512_permutex2var_ps(a, even, b)), Self(_mm512_permutex2var_ps(a, odd, b)))
            }
        }
        #[inline(always)]
        unsafe fn to_array(self) -> [f32; LANES] {
            let mut a = [0.0; LANES];
            unsafe { _mm512_storeu_ps(a.as_mut_ptr(), self.0) };
            a
        }
        #[inline(always)]
        unsafe fn int_to_array(i: Self::Int) -> [i32; LANES] {
            let mut a = [0; LANES];
            unsafe { _mm512_storeu_si512(a.as_mut_ptr().cast(), i) };
            a
        }
        #[inline(always)]
        unsafe fn sum(self) -> f64 {
            unsafe {
                let low = _mm512_cvtps_pd(_mm512_castps512_ps256(self.0));
                let high = _mm512_cvtps_pd(_mm512_castps512_ps256(_mm512_shuffle_f32x4::<0b1110>(
                    self.0, self.0,
                )));
                let s = _mm512_add_pd(low, high);
                let a = _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd::<1>(s));
                let b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
                _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)))
            }
        }
    }

    /// Lanes in two AVX2 registers.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(__m256, __m256);

    macro_rules! both {
        ($f:ident, $a:expr, $b:expr) => {
            unsafe { Self($f($a.0, $b.0), $f($a.1, $b.1)) }
        };
    }
    macro_rules! int_both {
        ($f:ident, $a:expr, $b:expr) => {
            unsafe { ($f($a.0, $b.0), $f($a.1, $b.1)) }
        };
    }

    // SAFETY: needs AVX2, as the trait says.
    #[allow(clippy::undocumented_unsafe_blocks)] // every block: the instruction set is the caller's
    unsafe impl Lanes for Avx2 {
        type Int = (__m256i, __m256i);
        type Mask = (__m256, __m256);

        #[inline(always)]
        unsafe fn splat(v: f32) -> Self {
            unsafe { Self(_mm256_set1_ps(v), _mm256_set1_ps(v)) }
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            unsafe { Self(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))) }
        }
        #[inline(always)]
        unsafe fn add(self, o: Self) -> Self {
            both!(_mm256_add_ps, self, o)
        }
        #[inline(always)]
        unsafe fn sub(self, o: Self) -> Self {
            both!(_mm256_sub_ps, self, o)
        }
        #[inline(always)]
        unsafe fn mul(self, o: Self) -> Self {
            both!(_mm256_mul_ps, self, o)
        }
        #[inline(always)]
        unsafe fn min(self, o: Self) -> Self {
            both!(_mm256_min_ps, self, o)
        }
        #[inline(always)]
        unsafe fn max(self, o: Self) -> Self {
            both!(_mm256_max_ps, self, o)
        }
        #[inline(always)]
        unsafe fn le(self, o: Self) -> Self::Mask {
            unsafe {
                (_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, o.0), _mm256_cmp_ps::<_CMP_LE_OQ>(self.1, o.1))
            }
        }
        #[inline(always)]
        unsafe fn lt(self, o: Self) -> Self::Mask {
            unsafe {
                (_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, o.0), _mm256_cmp_ps::<_CMP_LT_OQ>(self.1, o.1))
            }
        }
        #[inline(always)]
        unsafe fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask {
            int_both!(_mm256_and_ps, a, b)
        }
        #[inline(always)]
        unsafe fn any(m: Self::Mask) -> bool {
            unsafe { _mm256_movemask_ps(_mm256_or_ps(m.0, m.1)) != 0 }
        }
        #[inline(always)]
        unsafe fn keep(self, m: Self::Mask) -> Self {
            both!(_mm256_and_ps, self, m)
        }
        #[inline(always)]
        unsafe fn first(count: usize) -> Self::Mask {
            unsafe {
                let n = _mm256_set1_epi32(count.min(LANES) as i32);
                let low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
                (
                    _mm256_castsi256_ps(_mm256_cmpgt_epi32(n, low)),
                    _mm256_castsi256_ps(_mm256_cmpgt_epi32(n, high)),
                )
            }
        }
        #[inline(always)]
        unsafe fn trunc(self) -> Self::Int {
            unsafe { (_mm256_cvttps_epi32(self.0), _mm256_cvttps_epi32(self.1)) }
        }
        #[inline(always)]
        unsafe fn float(i: Self::Int) -> Self {
            unsafe { Self(_mm256_cvtepi32_ps(i.0), _mm256_cvtepi32_ps(i.1)) }
        }
        #[inline(always)]
        unsafe fn int_splat(v: i32) -> Self::Int {
            unsafe { (_mm256_set1_epi32(v), _mm256_set1_epi32(v)) }
        }
        #[inline(always)]
        unsafe fn int_load(p: *const u32) -> Self::Int {
            unsafe { (_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(8).cast())) }
        }
        #[inline(always)]
        unsafe fn int_add(a: Self::Int, b: Self::Int) -> Self::Int {
            int_both!(_mm256_add_epi32, a, b)
        }
        #[inline(always)]
        unsafe fn int_mul(a: Self::Int, b: Self::Int) -> Self::Int {
            int_both!(_mm256_mullo_epi32, a, b)
        }
        #[inline(always)]
        unsafe fn int_min(a: Self::Int, b: Self::Int) -> Self::Int {
            int_both!(_mm256_min_epi32, a, b)
        }
        #[inline(always)]
        unsafe fn int_and(a: Self::Int, b: Self::Int) -> Self::Int {
            int_both!(_mm256_and_si256, a, b)
        }
        #[inline(always)]
        unsafe fn int_shr<const S: u32>(a: Self::Int) -> Self::Int {
            unsafe {
                let by = _mm_cvtsi32_si128(S as i32);
                (_mm256_srl_epi32(a.0, by), _mm256_srl_epi32(a.1, by))
            }
        }
        #[inline(always)]
        unsafe fn gather(p: *const f32, i: Self::Int) -> Self {
            unsafe { Self(_mm256_i32gather_ps::<4>(p, i.0), _mm256_i32gather_ps::<4>(p, i.1)) }
        }
        #[inline(always)]
        unsafe fn gather_pair(p: *const f32, i: Self::Int) -> (Self, Self) {
            unsafe { (Self::gather(p, i), Self::gather(p.add(1), i)) }
        }
        #[inline(always)]
        unsafe fn to_array(self) -> [f32; LANES] {
            let mut a = [0.0; LANES];
            unsafe {
                _mm256_storeu_ps(a.as_mut_ptr(), self.0);
                _mm256_storeu_ps(a.as_mut_ptr().add(8), self.1);
            }
            a
        }
        #[inline(always)]
        unsafe fn int_to_array(i: Self::Int) -> [i32; LANES] {
            let mut a = [0; LANES];
            unsafe {
                _mm256_storeu_si256(a.as_mut_ptr().cast(), i.0);
                _mm256_storeu_si256(a.as_mut_ptr().add(8).cast(), i.1);
            }
            a
        }
    }
}
