//! Histogram-like sums on the GPU.

use super::{Cuda, CudaBuffer};
use crate::error::Result;
use crate::ops::Histogram;
use crate::ops::histogram::{
    LayoutOptions, MovingView, ParzenBins, SampleSet, Scheme, SumsAndGradient, Terms, ValueCounts,
};
use crate::{AffineMap, Dims};

/// The samples of a fixed image in the memory of a GPU.
#[derive(Debug)]
pub struct CudaSamples {
    len: usize,
    bins: usize,
    total_weight: f64,
}

impl SampleSet for CudaSamples {
    fn len(&self) -> usize {
        self.len
    }

    fn bins(&self) -> usize {
        self.bins
    }

    fn total_weight(&self) -> f64 {
        self.total_weight
    }
}

impl Histogram for Cuda {
    type Samples = CudaSamples;

    fn group_samples(
        &self,
        _values: &CudaBuffer<f32>,
        _dims: Dims,
        _weights: Option<&CudaBuffer<f32>>,
        _options: &LayoutOptions,
    ) -> Result<CudaSamples> {
        Err(self.unsupported("histograms"))
    }

    fn value_counts(
        &self,
        _values: &CudaBuffer<f32>,
        _weights: Option<&CudaBuffer<f32>>,
        _low: f32,
        _high: f32,
        _bins: usize,
    ) -> Result<ValueCounts> {
        Err(self.unsupported("histograms"))
    }

    fn binned_sums(
        &self,
        _terms: Terms,
        _scheme: Scheme,
        _samples: &CudaSamples,
        _moving: &MovingView<'_, Self>,
        _maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        Err(self.unsupported("histograms"))
    }

    fn binned_gradient(
        &self,
        _terms: Terms,
        _scheme: Scheme,
        _samples: &CudaSamples,
        _moving: &MovingView<'_, Self>,
        _maps: &[AffineMap],
        _slopes: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
    ) -> Result<Vec<SumsAndGradient>> {
        Err(self.unsupported("histograms"))
    }

    fn joint_histogram(
        &self,
        _samples: &CudaSamples,
        _moving: &MovingView<'_, Self>,
        _columns: &ParzenBins,
        _maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        Err(self.unsupported("histograms"))
    }

    fn joint_gradient(
        &self,
        _samples: &CudaSamples,
        _moving: &MovingView<'_, Self>,
        _columns: &ParzenBins,
        _maps: &[AffineMap],
        _tables: &[Vec<f64>],
    ) -> Result<Vec<[f64; 12]>> {
        Err(self.unsupported("histograms"))
    }
}
