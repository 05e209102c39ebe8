//! The mean over a sliding window of the series.

use super::{SlidingWindow, Stack, Window};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};

/// The mean of image `k` and its `radius` neighbours to each side; of fewer at the ends of the series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowMean {
    /// The number of neighbours on each side.
    pub radius: usize,
}

/// Images that are added in one pass over memory.
const AT_ONCE: usize = 8;

impl<D: Device> SlidingWindow<D> for WindowMean {
    type Work = ();

    fn radius(&self) -> usize {
        self.radius
    }

    fn workspace(&self, _: &D, _: &Stack) -> Result<()> {
        Ok(())
    }

    fn apply(
        &self,
        device: &D,
        window: &Window<'_, D>,
        _: &[f64],
        (): &mut (),
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let share = (1.0 / window.images.len() as f64) as f32;
        for (i, images) in window.images.chunks(AT_ONCE).enumerate() {
            // Each scaled by itself, so that large values do not grow beyond what there is.
            let sum = |first: usize| {
                (first..first + images.len()).map(|j| x(j) * param(0)).reduce(|a, b| a + b)
            };
            match (i, sum(0), sum(1)) {
                (0, Some(sum), _) => device.eval(&sum, images, &[share], None, out)?,
                (_, _, Some(sum)) => {
                    device.eval_in_place(&(x(0) + sum), out, images, &[share], None)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
