//! Histogram-like sums on the GPU.

use super::Cuda;
use crate::AffineMap;
use crate::error::Result;
use crate::ops::Histogram;
use crate::ops::histogram::{BinnedSums, MovingView, ParzenBins, SampleLayout, Scheme, Terms};

impl Histogram for Cuda {
    type Samples = ();

    fn prepare_samples(&self, _layout: SampleLayout) -> Result<()> {
        Err(self.unsupported("histograms"))
    }

    fn binned_sums(
        &self,
        _terms: Terms,
        _scheme: Scheme,
        _samples: &(),
        _moving: &MovingView<'_, Self>,
        _maps: &[AffineMap],
        _gradient: bool,
    ) -> Result<Vec<BinnedSums>> {
        Err(self.unsupported("histograms"))
    }

    fn joint_histogram(
        &self,
        _samples: &(),
        _moving: &MovingView<'_, Self>,
        _columns: &ParzenBins,
        _maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        Err(self.unsupported("histograms"))
    }

    fn joint_gradient(
        &self,
        _samples: &(),
        _moving: &MovingView<'_, Self>,
        _columns: &ParzenBins,
        _maps: &[AffineMap],
        _tables: &[Vec<f64>],
    ) -> Result<Vec<[f64; 12]>> {
        Err(self.unsupported("histograms"))
    }
}
