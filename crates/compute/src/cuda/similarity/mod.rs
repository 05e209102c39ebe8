//! Similarities and their derivatives on the GPU.

pub(super) mod contexts;
pub(super) mod correlation;
pub(super) mod pair;

use super::{Cuda, CudaBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::histogram::{Binning, ParzenBins};
use crate::ops::similarity::{
    Contexts, Lengths, Similarity, check_local_correlation, check_map, check_pair,
    check_self_similarity, largest_weight, total_weight,
};
use correlation::Derivatives;
#[cfg(test)]
pub(super) use correlation::of_windows;

/// A flat image needs no windows along z. Windows that reach beyond other axes are cut by the kernels: smaller
/// ones would be the same, but need programs of their own.
fn reached(dims: Dims, radius: [usize; 3]) -> [usize; 3] {
    if dims[2] > 1 { radius } else { [radius[0], radius[1], 0] }
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
        derivative: &mut CudaBuffer<f32>,
        energy: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(fixed, moving, weights, Some(&*derivative));
        let n = check_local_correlation(lengths, dims, noise, energy.len())?;
        let total = total_weight(self, weights, n)?;
        let (radius, noise) = (reached(dims, radius), noise as f32);
        let job = correlation::Job { fixed, moving, weights, dims, radius, noise, total };
        correlation::run(self, &job, Derivatives { moving: derivative, fixed: None }, energy)
    }

    fn local_correlation_of_both(
        &self,
        first: &CudaBuffer<f32>,
        second: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        dims: Dims,
        radius: [usize; 3],
        noise: f64,
        first_derivative: &mut CudaBuffer<f32>,
        second_derivative: &mut CudaBuffer<f32>,
        energy: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(first, second, weights, Some(&*second_derivative));
        let n = check_local_correlation(lengths, dims, noise, energy.len())?;
        check_len("derivative", n, first_derivative.len())?;
        let total = total_weight(self, weights, n)?;
        let (radius, noise) = (reached(dims, radius), noise as f32);
        let (fixed, moving) = (first, second);
        let job = correlation::Job { fixed, moving, weights, dims, radius, noise, total };
        let derivatives = Derivatives { moving: second_derivative, fixed: Some(first_derivative) };
        correlation::run(self, &job, derivatives, energy)
    }

    fn self_similarity(
        &self,
        fixed: &CudaBuffer<f32>,
        moving: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        dims: Dims,
        contexts: &Contexts,
        derivative: &mut CudaBuffer<f32>,
        energy: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(fixed, moving, weights, Some(&*derivative));
        let n = check_self_similarity(lengths, dims, contexts, energy.len())?;
        let total = total_weight(self, weights, n)?;
        let job = contexts::Job { fixed, moving, weights, dims, contexts, total };
        contexts::run(self, &job, derivative, energy)
    }

    fn self_similarity_of_both(
        &self,
        first: &CudaBuffer<f32>,
        second: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        dims: Dims,
        contexts: &Contexts,
        first_derivative: &mut CudaBuffer<f32>,
        second_derivative: &mut CudaBuffer<f32>,
        energy: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        // Both at once would keep the coefficients of both, of twelve images each, and their sums.
        self.self_similarity(second, first, weights, dims, contexts, first_derivative, energy)?;
        self.self_similarity(first, second, weights, dims, contexts, second_derivative, energy)
    }

    fn pair_histogram(
        &self,
        fixed: &CudaBuffer<f32>,
        moving: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
    ) -> Result<Vec<f64>> {
        check_pair(Lengths::of(fixed, moving, weights, None), rows, columns, None)?;
        let most = largest_weight(self, weights)?;
        let pair = pair::Pair { fixed, moving, weights, rows, columns };
        pair::histogram(self, &pair, most)
    }

    fn pair_derivatives(
        &self,
        fixed: &CudaBuffer<f32>,
        moving: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
        table: &[f64],
        derivative: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = Lengths::of(fixed, moving, weights, Some(&*derivative));
        check_pair(lengths, rows, columns, Some(table.len()))?;
        let pair = pair::Pair { fixed, moving, weights, rows, columns };
        pair::derivatives(self, &pair, table, derivative)
    }

    fn map_values(
        &self,
        values: &CudaBuffer<f32>,
        columns: &ParzenBins,
        table: &[f64],
        mapped: &mut CudaBuffer<f32>,
        derivative: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_map([values.len(), mapped.len(), derivative.len()], columns, table.len())?;
        pair::map(self, values, columns, table, [mapped, derivative])
    }
}
