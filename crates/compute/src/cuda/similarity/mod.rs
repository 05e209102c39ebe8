//! Similarities and their slopes on the GPU.

mod correlation;
mod pair;

use super::{Cuda, CudaBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Reduce;
use crate::ops::histogram::{Binning, ParzenBins};
use crate::ops::reduce::Reduction;
use crate::ops::similarity::{
    Lengths, Similarity, check_local_correlation, check_pair, check_total_weight, check_weights,
};

/// The lengths of the buffers.
fn lengths(
    fixed: &CudaBuffer<f32>,
    moving: &CudaBuffer<f32>,
    weights: Option<&CudaBuffer<f32>>,
    slope: Option<&CudaBuffer<f32>>,
) -> Lengths {
    Lengths {
        fixed: fixed.len(),
        moving: moving.len(),
        weights: weights.map(DeviceBuffer::len),
        slope: slope.map(DeviceBuffer::len),
    }
}

impl Similarity for Cuda {
    fn local_correlation(
        &self,
        fixed: &CudaBuffer<f32>,
        moving: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        dims: Dims,
        radius: [usize; 3],
        noise: f64,
        slope: &mut CudaBuffer<f32>,
        energy: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let lengths = lengths(fixed, moving, weights, Some(slope));
        let n = check_local_correlation(lengths, dims, noise, energy.len())?;
        let total = match weights {
            None => n as f64,
            Some(w) => check_total_weight(self.reduce(&[w], &[Reduction::Sum(0)])?[0])?,
        };
        // A flat image needs no windows along z. Windows that reach beyond other axes are cut by the
        // kernels: smaller ones would be the same, but need programs of their own.
        let radius = if dims[2] > 1 { radius } else { [radius[0], radius[1], 0] };
        let noise = noise as f32;
        let job = correlation::Job { fixed, moving, weights, dims, radius, noise, total };
        correlation::run(self, &job, slope, energy)
    }

    fn pair_histogram(
        &self,
        fixed: &CudaBuffer<f32>,
        moving: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
    ) -> Result<Vec<f64>> {
        check_pair(lengths(fixed, moving, weights, None), rows, columns, None)?;
        let most = match weights {
            None => 1.0,
            Some(w) if w.is_empty() => 0.0,
            Some(w) => check_weights(&self.reduce(&[w], &[Reduction::Min(0), Reduction::Max(0)])?)?,
        };
        let pair = pair::Pair { fixed, moving, weights, rows, columns };
        pair::histogram(self, &pair, most)
    }

    fn pair_slopes(
        &self,
        fixed: &CudaBuffer<f32>,
        moving: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
        table: &[f64],
        slope: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = lengths(fixed, moving, weights, Some(slope));
        check_pair(lengths, rows, columns, Some(table.len()))?;
        let pair = pair::Pair { fixed, moving, weights, rows, columns };
        pair::slopes(self, &pair, table, slope)
    }
}
