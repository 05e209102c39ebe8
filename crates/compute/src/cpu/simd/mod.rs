//! The instruction set that the kernels are compiled for, chosen at run time.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod vectors;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;
pub(crate) use vectors::{LANE, LANES, Lanes, Vectors};

use crate::error::{ComputeError, Result};

/// A SIMD level. All levels give the same bits; they differ in speed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Simd {
    /// What every processor of the architecture has.
    Scalar,
    /// x86-64 with AVX2.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AArch64 with NEON.
    Neon,
}

impl Simd {
    /// The best level of this processor.
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or(Self::Scalar)
    }

    /// All levels of this processor, the best last.
    pub fn available() -> Vec<Self> {
        [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512]
            .into_iter()
            .filter(|level| level.is_available())
            .collect()
    }

    /// Whether this processor has the level.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    pub(crate) fn check(self) -> Result<Self> {
        if self.is_available() {
            Ok(self)
        } else {
            Err(ComputeError::Unsupported {
                device: "cpu".into(),
                what: format!("the SIMD level {self:?}"),
                remedy: "use Simd::detect()",
            })
        }
    }
}

/// Defines a kernel: a function whose body is compiled once for each SIMD level, and which takes
/// the level as its first argument. In the body, `V` and `v` are the vectors of the level; plain
/// loops over arrays are vectorised by the compiler for the level, too. A closure that uses `v` is
/// compiled without the instructions of the level, and slow: write a function that is always inlined. As Rust never contracts or
/// reorders floating-point operations, all levels give the same bits.
///
/// The level must be available on this processor, which [`Cpu`](super::Cpu) has checked.
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident <$vectors:ident $(, const $c:ident: $ct:ty)*> (
            $v:ident $(, $arg:ident: $ty:ty)* $(,)?
        ) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name <$(const $c: $ct),*> (simd: $crate::cpu::Simd, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body <$vectors: $crate::cpu::simd::Vectors $(, const $c: $ct)*> (
                $v: $vectors $(, $arg: $ty)*
            ) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2 <$(const $c: $ct),*> ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: this function is only called where there is AVX2.
                let level = unsafe { $crate::cpu::simd::Avx2::new() };
                body::<$crate::cpu::simd::Avx2, $($c),*>(level $(, $arg)*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512 <$(const $c: $ct),*> ($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: this function is only called where there is AVX-512.
                let level = unsafe { $crate::cpu::simd::Avx512::new() };
                body::<$crate::cpu::simd::Avx512, $($c),*>(level $(, $arg)*)
            }

            match simd {
                // SAFETY: a `Cpu` only carries a level that this processor has.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Simd::Avx2 => unsafe { avx2::<$($c),*>($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::Simd::Avx512 => unsafe { avx512::<$($c),*>($($arg),*) },
                _ => body::<$crate::cpu::simd::Portable, $($c),*>(
                    $crate::cpu::simd::Portable $(, $arg)*
                ),
            }
        }
    };
}
pub(crate) use kernel;
