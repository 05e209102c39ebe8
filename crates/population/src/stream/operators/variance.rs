//! The variance over all images, voxel by voxel.

use super::{Miso, Stack, option};
use crate::error::{PopulationError, Result};
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_image::memory;

/// The sample variance `(Σ I² − (Σ I)² / n) / (n − 1)` of each voxel, in one pass.
///
/// Both sums are exact but for the rounding to their units, and what follows is in whole numbers: nothing
/// cancels. The squares are exact as each value is split into two of 12 digits, `I = a + b`, whose
/// products `a²`, `2ab` and `b²` fit 32-bit floats (T. J. Dekker, "A floating-point technique for extending the
/// available precision", Numer. Math. 18, 1971).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variance {
    /// Brings values to ± 1.
    scale: f64,
}

impl Variance {
    /// The variance of images whose values are within ± `bound`.
    ///
    /// # Errors
    /// A bound that is not finite.
    pub fn new(bound: f64) -> Result<Self> {
        if !(bound.is_finite() && bound >= 0.0) {
            return Err(option("bound", bound, "it must be finite and at least 0"));
        }
        // A power of two, so that scaling rounds nothing; one that a 32-bit float can be.
        let exponent = if bound > 0.0 { (-bound.log2().ceil()).clamp(-126.0, 126.0) } else { 0.0 };
        Ok(Self { scale: exponent.exp2() })
    }

    /// Bits after the point of both sums, which `count` values within ± 1 do not fill.
    fn bits(count: usize) -> u32 {
        59 - count.next_power_of_two().ilog2()
    }
}

/// The sums, and room for the products.
pub struct Sums<D: Device> {
    values: D::Buffer<i64>,
    squares: D::Buffer<i64>,
    product: D::Buffer<f32>,
    unit: f64,
}

impl<D: Device> Miso<D> for Variance {
    type State = Sums<D>;
    type Output = Vec<f32>;

    fn start(&self, device: &D, stack: &Stack) -> Result<Sums<D>> {
        if stack.count < 2 {
            return Err(PopulationError::Images {
                found: "1 image is given".into(),
                remedy: "a variance needs at least two".into(),
            });
        }
        let n = stack.voxels();
        Ok(Sums {
            values: device.alloc(n)?,
            squares: device.alloc(n)?,
            product: device.alloc(n)?,
            unit: f64::from(Self::bits(stack.count)).exp2(),
        })
    }

    fn add(&self, device: &D, _: usize, image: &D::Buffer<f32>, sums: &mut Sums<D>) -> Result<()> {
        device.add_fixed(image, self.scale * sums.unit, &mut sums.values)?;
        let value = x(0) * param(0);
        let shifted = &value * 4097.0;
        let high = &shifted - (&shifted - &value);
        let low = &value - &high;
        for product in [high.square(), &high * &low * 2.0, low.square()] {
            device.eval(&product, &[image], &[self.scale as f32], None, &mut sums.product)?;
            device.add_fixed(&sums.product, sums.unit, &mut sums.squares)?;
        }
        Ok(())
    }

    fn finish(&self, device: &D, stack: &Stack, sums: Sums<D>) -> Result<Vec<f32>> {
        let (values, squares) = (device.into_host(sums.values)?, device.into_host(sums.squares)?);
        let n = stack.count as i128;
        let unit = sums.unit * self.scale;
        let below = (n * (n - 1)) as f64 * unit * unit;
        let variance = |(sum, square): (&i64, &i64)| {
            let (sum, square) = (i128::from(*sum), i128::from(*square));
            let all = ((n * square) << Self::bits(stack.count)) - sum * sum;
            // Rounding to units may leave a little less than nothing.
            (all.max(0) as f64 / below) as f32
        };
        Ok(memory::collected(values.iter().zip(&squares).map(variance))?)
    }
}
