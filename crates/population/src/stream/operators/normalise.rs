//! Intensity normalisation.

use super::{Mimo, Stack, option};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{Expr, constant, param, scalar, select, x};
use voxalign_compute::ops::reduce::Reduction;

/// The target of the normalisation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Intensities from the first to the second, linearly; a constant image gets the first.
    Range(f32, f32),
    /// Zero mean and unit variance; a constant image becomes 0.
    Standard,
}

/// Where the numbers are that an image is normalised by (Ha 2011, section 4.5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// They stay on the device, and nothing waits.
    #[default]
    OnDevice,
    /// They are downloaded to the host, which forces a synchronisation.
    OnHost,
}

/// Brings each image to common intensities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalise {
    /// To which.
    pub target: Target,
    /// How.
    pub numbers: Numbers,
}

impl Normalise {
    /// By numbers that stay on the device.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self { target, numbers: Numbers::OnDevice }
    }
}

/// `(v − lowest) / (highest − lowest)`, scaled to the range.
fn into_range(low: f32, high: f32, lowest: &Expr, highest: &Expr) -> Expr {
    let width = highest - lowest;
    let part = (x(0) - lowest) / &width;
    select(width.gt(0.0), part * (high - low) + low, constant(low))
}

impl<D: Device> Mimo<D> for Normalise {
    /// Two numbers.
    type Work = [D::Buffer<f64>; 2];

    fn workspace(&self, device: &D, _: &Stack) -> Result<Self::Work> {
        if let Target::Range(low, high) = self.target
            && !(low < high && low.is_finite() && high.is_finite())
        {
            return Err(option(
                "range",
                format!("{low},{high}"),
                "give the lower number first, as in 0,1",
            ));
        }
        let numbers = if matches!(self.target, Target::Range(..)) { 2 } else { 1 };
        Ok([device.alloc(numbers)?, device.alloc(1)?])
    }

    fn synchronises(&self) -> bool {
        self.numbers == Numbers::OnHost
    }

    fn measure(&self, device: &D, image: &D::Buffer<f32>) -> Result<Vec<f64>> {
        Ok(match self.target {
            Target::Range(..) => {
                device.reduce(&[image], &[Reduction::Min(0), Reduction::Max(0)])?
            }
            Target::Standard => {
                device.reduce(&[image], &[Reduction::Sum(0), Reduction::SumSquares(0)])?
            }
        })
    }

    fn apply(
        &self,
        device: &D,
        image: &D::Buffer<f32>,
        numbers: &[f64],
        [first, second]: &mut Self::Work,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let n = voxalign_compute::DeviceBuffer::len(image) as f64;
        match (self.target, numbers) {
            (Target::Range(low, high), &[lowest, highest]) => {
                let by = into_range(low, high, &param(0), &param(1));
                device.eval(&by, &[image], &[lowest as f32, highest as f32], None, out)?;
            }
            (Target::Range(low, high), _) => {
                device.reduce_into(&[image], &[Reduction::Min(0), Reduction::Max(0)], first)?;
                let by = into_range(low, high, &scalar(0), &scalar(1));
                device.eval(&by, &[image], &[], Some(first), out)?;
            }
            (Target::Standard, &[sum, squares]) => {
                let mean = sum / n;
                let variance = squares / n - mean * mean;
                let varies = variance > 1e-14 * squares / n;
                let by = if varies { 1.0 / variance.sqrt() } else { 0.0 };
                let of = (x(0) - param(0)) * param(1);
                device.eval(&of, &[image], &[mean as f32, by as f32], None, out)?;
            }
            (Target::Standard, _) => {
                // The mean goes first, so that nothing cancels in 32 bits.
                device.reduce_into(&[image], &[Reduction::Sum(0)], first)?;
                let share = (1.0 / n) as f32;
                let centred = x(0) - scalar(0) * param(0);
                device.eval(&centred, &[image], &[share], Some(first), out)?;
                device.reduce_into(&[out], &[Reduction::SumSquares(0)], second)?;
                let variance = scalar(0) * param(0);
                let scaled = select(variance.gt(0.0), x(0) / variance.sqrt(), constant(0.0));
                device.eval_in_place(&scaled, out, &[], &[share], Some(second))?;
            }
        }
        Ok(())
    }
}
