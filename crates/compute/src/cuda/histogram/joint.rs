//! Joint histograms and their derivative.

use super::CudaSamples;
use crate::AffineMap;
use crate::cuda::Cuda;
use crate::error::Result;
use crate::ops::histogram::{MovingView, ParzenBins};

pub(super) fn histogram(
    cuda: &Cuda,
    _samples: &CudaSamples,
    _moving: &MovingView<'_, Cuda>,
    _columns: &ParzenBins,
    _maps: &[AffineMap],
) -> Result<Vec<Vec<f64>>> {
    Err(cuda.unsupported("joint histograms"))
}

pub(super) fn gradient(
    cuda: &Cuda,
    _samples: &CudaSamples,
    _moving: &MovingView<'_, Cuda>,
    _columns: &ParzenBins,
    _maps: &[AffineMap],
    _tables: &[Vec<f64>],
) -> Result<Vec<[f64; 12]>> {
    Err(cuda.unsupported("joint histograms"))
}
