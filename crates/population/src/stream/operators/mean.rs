//! The weighted mean of all images.

use super::{Miso, Stack, option, units};
use crate::error::Result;
use voxalign_compute::Device;

/// The weighted mean `Σ wᵢ Iᵢ / Σ wᵢ` (Ha 2011, algorithm 5, line 4), summed in fixed point.
#[derive(Debug, Clone, PartialEq)]
pub struct Mean {
    /// Divided by their sum; empty for equal ones.
    weights: Vec<f64>,
    bound: f64,
}

impl Mean {
    /// The mean of images whose values are within ± `bound`; `weights` has one for each image, at least
    /// 0, or is empty where all are equal.
    ///
    /// # Errors
    /// A weight that is negative or not finite, or all 0; a bound that is not finite.
    pub fn new(weights: &[f64], bound: f64) -> Result<Self> {
        if let Some(w) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            return Err(option("weight", w, "give a finite number of 0 or more"));
        }
        if !(bound.is_finite() && bound >= 0.0) {
            return Err(option("bound", bound, "it must be finite and at least 0"));
        }
        // By size, so that the sum does not depend on the order of the images.
        let mut sorted = weights.to_vec();
        sorted.sort_by(f64::total_cmp);
        let sum: f64 = sorted.iter().sum();
        let usable = sum > 0.0 && sum.is_finite();
        if !weights.is_empty() && !usable {
            return Err(option(
                "sum of the weights",
                sum,
                "give at least one image a weight above 0",
            ));
        }
        Ok(Self { weights: weights.iter().map(|w| w / sum).collect(), bound })
    }
}

impl<D: Device> Miso<D> for Mean {
    type State = D::Buffer<i64>;
    type Output = Vec<f32>;

    fn start(&self, device: &D, stack: &Stack) -> Result<D::Buffer<i64>> {
        if !self.weights.is_empty() && self.weights.len() != stack.count {
            let count = format!("a list of {} for {} images", self.weights.len(), stack.count);
            return Err(option("weights", count, "give one for each image"));
        }
        Ok(device.alloc(stack.voxels())?)
    }

    fn add(
        &self,
        device: &D,
        item: usize,
        image: &D::Buffer<f32>,
        sums: &mut D::Buffer<i64>,
    ) -> Result<()> {
        // Without weights the images are summed as they are: exactly, where values are whole numbers.
        let weight = self.weights.get(item).copied().unwrap_or(1.0);
        Ok(device.add_fixed(image, weight * self.unit(), sums)?)
    }

    fn finish(&self, device: &D, stack: &Stack, sums: D::Buffer<i64>) -> Result<Vec<f32>> {
        let count = if self.weights.is_empty() { stack.count as f64 } else { 1.0 };
        let mut mean = device.alloc(stack.voxels())?;
        device.fixed_to_float(&sums, 1.0 / (count * self.unit()), &mut mean)?;
        Ok(device.into_host(mean)?)
    }
}

impl Mean {
    /// Units of the sums: those of weighted images stay within the bound, those of others within 2²⁰ times
    /// it.
    fn unit(&self) -> f64 {
        const MOST_IMAGES: f64 = (1u32 << 20) as f64;
        units(if self.weights.is_empty() { MOST_IMAGES * self.bound } else { self.bound })
    }
}
