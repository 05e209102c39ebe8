//! Sums over many images in fixed point, independent of the order of the images and of their distribution over
//! devices and processes.

use voxalign_compute_macros::forwarded;

use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len};

/// The largest amount, in units, that one value adds.
pub const MOST_UNITS: f64 = (1u64 << 62) as f64;

/// Sums over many images in fixed point.
///
/// ```
/// use voxalign_compute::ops::Accumulate;
/// use voxalign_compute::{Memory, cpu::Cpu};
///
/// // The mean of two images, in units of 2^-40.
/// let cpu = Cpu::new(None)?;
/// let unit = f64::from(40).exp2();
/// let mut sums = cpu.alloc::<i64>(2)?;
/// for image in [[0.25, 1.0], [0.75, 3.0]] {
///     cpu.add_fixed(&cpu.upload(&image)?, 0.5 * unit, &mut sums)?;
/// }
/// let mut mean = cpu.alloc(2)?;
/// cpu.fixed_to_float(&sums, 1.0 / unit, &mut mean)?;
/// assert_eq!(cpu.into_host(mean)?, [0.5, 2.0]);
/// # Ok::<(), voxalign_compute::ComputeError>(())
/// ```
#[forwarded]
pub trait Accumulate: Memory {
    /// `sums[i] += round(factor · image[i])`, in `f64`, to the nearest whole number and to the even one
    /// of two. A value adds at most [`MOST_UNITS`] either way, and nothing where it is not a number.
    /// Sums wrap around.
    ///
    /// # Errors
    /// Different lengths; a factor that is not finite.
    fn add_fixed(
        &self,
        image: &Self::Buffer<f32>,
        factor: f64,
        sums: &mut Self::Buffer<i64>,
    ) -> Result<()>;

    /// `out[i] = factor · sums[i]`, in `f64`, rounded to nearest.
    ///
    /// # Errors
    /// Different lengths; a factor that is not finite.
    fn fixed_to_float(
        &self,
        sums: &Self::Buffer<i64>,
        factor: f64,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// Checks the arguments of [`Accumulate::add_fixed`] and [`Accumulate::fixed_to_float`].
///
/// # Errors
/// As there.
pub fn check_accumulate(image: usize, factor: f64, sums: usize) -> Result<()> {
    check_len("sums", image, sums)?;
    if !factor.is_finite() {
        return Err(ComputeError::argument("factor", factor, "finite"));
    }
    Ok(())
}
