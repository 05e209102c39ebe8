//! Binned sums and their derivatives.

use super::CudaSamples;
use crate::AffineMap;
use crate::cuda::Cuda;
use crate::error::Result;
use crate::ops::histogram::{MovingView, SumsAndGradient, Terms};

pub(super) fn sums(
    cuda: &Cuda,
    _terms: Terms,
    _direct: bool,
    _samples: &CudaSamples,
    _moving: &MovingView<'_, Cuda>,
    _maps: &[AffineMap],
) -> Result<Vec<Vec<f64>>> {
    Err(cuda.unsupported("binned sums"))
}

pub(super) fn gradient(
    cuda: &Cuda,
    _terms: Terms,
    _direct: bool,
    _samples: &CudaSamples,
    _moving: &MovingView<'_, Cuda>,
    _maps: &[AffineMap],
    _slopes: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
) -> Result<Vec<SumsAndGradient>> {
    Err(cuda.unsupported("binned sums"))
}
