//! The foreground values of an image, on the host or on a device.

use crate::error::Result;
use crate::metric::range::{counted, robust_range, robust_range_on};
use voxalign_compute::error::check_len;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::histogram::ValueCounts;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::memory;

/// Finite values whose weight is above 0.
pub(super) trait Samples {
    /// Whether there are weights.
    fn masked(&self) -> bool;
    /// The range between two quantiles.
    fn range(&self, low: f64, high: f64) -> Result<Option<(f32, f32)>>;
    /// The mean, of values kept within a range.
    fn mean(&self, low: f32, high: f32) -> Result<f32>;
    /// How many values fall into each of some bins, as
    /// [`value_counts`](voxalign_compute::ops::Histogram::value_counts).
    fn counts(&self, low: f32, high: f32, bins: usize) -> Result<ValueCounts>;
}

/// Values on the host.
pub(super) struct Host<'a> {
    values: &'a [f32],
    weights: Option<&'a [f32]>,
}

impl<'a> Host<'a> {
    pub(super) fn new(values: &'a [f32], weights: Option<&'a [f32]>) -> Result<Self> {
        if let Some(weights) = weights {
            check_len("mask", values.len(), weights.len())?;
        }
        Ok(Self { values, weights })
    }

    /// The values that count.
    pub(super) fn finite(&self) -> impl Iterator<Item = f32> {
        let counts = |i: usize| self.weights.is_none_or(|w| w[i] > 0.0);
        let values = self.values.iter().copied().enumerate();
        values.filter(move |(i, v)| v.is_finite() && counts(*i)).map(|(_, v)| v)
    }
}

impl Samples for Host<'_> {
    fn masked(&self) -> bool {
        self.weights.is_some()
    }

    fn range(&self, low: f64, high: f64) -> Result<Option<(f32, f32)>> {
        Ok(match self.weights {
            None => robust_range(self.values, low, high),
            Some(_) => robust_range(&memory::collected(self.finite())?, low, high),
        })
    }

    fn mean(&self, low: f32, high: f32) -> Result<f32> {
        let (mut sum, mut count) = (0.0, 0u64);
        for v in self.finite() {
            sum += f64::from(v.clamp(low, high));
            count += 1;
        }
        Ok((sum / count.max(1) as f64) as f32)
    }

    fn counts(&self, low: f32, high: f32, bins: usize) -> Result<ValueCounts> {
        let none = ValueCounts { below: 0, above: 0, counts: vec![0; bins] };
        Ok(counted(none, self.finite(), low, high))
    }
}

/// Values on a device.
pub(super) struct OnDevice<'a, D: Device> {
    pub(super) device: &'a D,
    pub(super) values: &'a D::Buffer<f32>,
    pub(super) weights: Option<&'a D::Buffer<f32>>,
}

impl<D: Device> Samples for OnDevice<'_, D> {
    fn masked(&self) -> bool {
        self.weights.is_some()
    }

    fn range(&self, low: f64, high: f64) -> Result<Option<(f32, f32)>> {
        robust_range_on(self.device, self.values, self.weights, low, high)
    }

    fn mean(&self, low: f32, high: f32) -> Result<f32> {
        let device = self.device;
        let mut counted = device.alloc::<f32>(self.values.len())?;
        let finite = x(0).abs().le(f32::MAX);
        match self.weights {
            None => device.eval(&finite, &[self.values], &[], None, &mut counted)?,
            Some(w) => {
                let both = finite * x(1).gt(0.0);
                device.eval(&both, &[self.values, w], &[], None, &mut counted)?;
            }
        }
        let kept = select(x(1).gt(0.0), x(0).clamp(param(0), param(1)), 0.0);
        let mut clean = device.alloc::<f32>(self.values.len())?;
        device.eval(&kept, &[self.values, &counted], &[low, high], None, &mut clean)?;
        let what = [Reduction::Sum(0), Reduction::Sum(1)];
        let found = device.reduce(&[&clean, &counted], &what)?;
        Ok((found[0] / found[1].max(1.0)) as f32)
    }

    fn counts(&self, low: f32, high: f32, bins: usize) -> Result<ValueCounts> {
        Ok(self.device.value_counts(self.values, self.weights, low, high, bins)?)
    }
}
