//! Half-precision numbers.

use crate::cpu::Cpu;

/// The numbers of a task.
const CHUNK: usize = 1 << 15;

/// Rounds each number to half precision. Both have the same length.
pub(super) fn to_half(cpu: &Cpu, src: &[f32], out: &mut [u16]) {
    let wide = has_conversions();
    cpu.chunks_mut(out, CHUNK, |i, out| {
        let src = &src[i * CHUNK..][..out.len()];
        #[cfg(target_arch = "x86_64")]
        if wide {
            // SAFETY: the processor has the instructions.
            unsafe { x86::to_half(src, out) };
            return;
        }
        let _ = wide;
        for (out, &value) in out.iter_mut().zip(src) {
            *out = half(value);
        }
    });
}

/// Each number as single precision. Both have the same length.
pub(super) fn to_single(cpu: &Cpu, src: &[u16], out: &mut [f32]) {
    let wide = has_conversions();
    cpu.chunks_mut(out, CHUNK, |i, out| {
        let src = &src[i * CHUNK..][..out.len()];
        #[cfg(target_arch = "x86_64")]
        if wide {
            // SAFETY: the processor has the instructions.
            unsafe { x86::to_single(src, out) };
            return;
        }
        let _ = wide;
        for (out, &value) in out.iter_mut().zip(src) {
            *out = single(value);
        }
    });
}

/// Whether the processor has conversions of half precision, which give the bits of those here.
fn has_conversions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx")
        && std::arch::is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The nearest number of half precision, of two equally near the even one.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let rounded = |number: u32, shift: u32| {
        let (kept, rest) = (number >> shift, number & ((1 << shift) - 1));
        let middle = 1 << (shift - 1);
        kept + u32::from(rest > middle || (rest == middle && kept & 1 == 1))
    };
    sign | match magnitude {
        // Not a number, and quiet.
        0x7f80_0001.. => 0x7e00 | (magnitude >> 13 & 0x3ff) as u16,
        // From 65520 on it is infinite.
        0x477f_f000.. => 0x7c00,
        // From the smallest normal number, 2^-14, on; the exponent counts from another number.
        0x3880_0000.. => rounded(magnitude - (112 << 23), 13) as u16,
        // From half the smallest number, 2^-25, on: multiples of 2^-24.
        0x3300_0000.. => rounded(magnitude & 0x7f_ffff | 0x80_0000, 126 - (magnitude >> 23)) as u16,
        _ => 0,
    }
}

/// A number of half precision, exactly.
pub(in crate::cpu) fn single(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff);
    let bits = match magnitude {
        0 => 0,
        0x7c00 => 0x7f80_0000,
        0x7c01.. => 0x7fc0_0000 | magnitude << 13,
        0x0400.. => (magnitude << 13) + (112 << 23),
        // A multiple of 2^-24.
        _ => (magnitude as f32 * f32::from_bits(103 << 23)).to_bits(),
    };
    f32::from_bits(sign | bits & 0x7fff_ffff)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn to_half(src: &[f32], out: &mut [u16]) {
        let (groups, rest) = src.as_chunks::<8>();
        let (out, out_rest) = out.as_chunks_mut::<8>();
        for (from, to) in groups.iter().zip(out) {
            // SAFETY: eight numbers are read and eight written.
            unsafe {
                let value = _mm256_loadu_ps(from.as_ptr());
                let value = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
                _mm_storeu_si128(to.as_mut_ptr().cast(), value);
            }
        }
        for (from, to) in rest.iter().zip(out_rest) {
            *to = super::half(*from);
        }
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn to_single(src: &[u16], out: &mut [f32]) {
        let (groups, rest) = src.as_chunks::<8>();
        let (out, out_rest) = out.as_chunks_mut::<8>();
        for (from, to) in groups.iter().zip(out) {
            // SAFETY: eight numbers are read and eight written.
            unsafe {
                let value = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), value);
            }
        }
        for (from, to) in rest.iter().zip(out_rest) {
            *to = super::single(*from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_its_own_nearest() {
        for bits in 0..=u16::MAX {
            let value = single(bits);
            if value.is_nan() {
                assert!(half(value) == bits | 0x200, "{bits:x}");
            } else {
                assert_eq!(half(value), bits);
            }
        }
    }

    #[test]
    fn values_between_halves_go_to_the_nearest() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (single(bits), single(bits + 1));
            let middle = 0.5 * (low + high);
            let even = if bits & 1 == 0 { bits } else { bits + 1 };
            assert_eq!(half(middle), even, "{bits:x}");
            assert_eq!(half(middle.next_down()), bits, "{bits:x}");
            assert_eq!(half(middle.next_up()), bits + 1, "{bits:x}");
            assert_eq!(half(-middle), even | 0x8000);
        }
        assert_eq!((half(65519.9), half(65520.0), half(1e30)), (0x7bff, 0x7c00, 0x7c00));
        assert_eq!((half(f32::NEG_INFINITY), half(1e-30), half(-0.0)), (0xfc00, 0, 0x8000));
    }

    #[test]
    fn the_processor_agrees() {
        let cpu = Cpu::new(Some(1)).unwrap();
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let mut singles = vec![0.0; all.len()];
        to_single(&cpu, &all, &mut singles);
        assert!(all.iter().zip(&singles).all(|(&h, s)| single(h).to_bits() == s.to_bits()));
        let numbers: Vec<f32> =
            (0..1u32 << 20).map(|i| f32::from_bits(i.wrapping_mul(4099) ^ 0x2aaa)).collect();
        let mut halves = vec![0; numbers.len()];
        to_half(&cpu, &numbers, &mut halves);
        for (x, &h) in numbers.iter().zip(&halves) {
            assert_eq!(half(*x), h, "{x}");
        }
    }
}
