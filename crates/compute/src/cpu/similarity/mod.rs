//! Similarities and their slopes on the CPU.

mod correlation;
mod pair;
mod sliding;

use super::{Cpu, CpuBuffer};
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
    fixed: &CpuBuffer<f32>,
    moving: &CpuBuffer<f32>,
    weights: Option<&CpuBuffer<f32>>,
    slope: Option<&CpuBuffer<f32>>,
) -> Lengths {
    Lengths {
        fixed: fixed.len(),
        moving: moving.len(),
        weights: weights.map(DeviceBuffer::len),
        slope: slope.map(DeviceBuffer::len),
    }
}

impl Similarity for Cpu {
    fn local_correlation(
        &self,
        fixed: &CpuBuffer<f32>,
        moving: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        dims: Dims,
        radius: [usize; 3],
        noise: f64,
        slope: &mut CpuBuffer<f32>,
        energy: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let lengths = lengths(fixed, moving, weights, Some(slope));
        let n = check_local_correlation(lengths, dims, noise, energy.len())?;
        let total = match weights {
            None => n as f64,
            Some(w) => check_total_weight(self.reduce(&[w], &[Reduction::Sum(0)])?[0])?,
        };
        let job = correlation::Job {
            fixed: fixed.as_slice(),
            moving: moving.as_slice(),
            weights: weights.map(CpuBuffer::as_slice),
            dims,
            radius: std::array::from_fn(|a| radius[a].min(dims[a] - 1)),
            noise: noise as f32,
            scale: (-1.0 / total) as f32,
        };
        let sum = correlation::run(self, &job, slope.as_mut_slice());
        energy.as_mut_slice()[0] = -sum / total;
        Ok(())
    }

    fn pair_histogram(
        &self,
        fixed: &CpuBuffer<f32>,
        moving: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
    ) -> Result<Vec<f64>> {
        let entries = check_pair(lengths(fixed, moving, weights, None), rows, columns, None)?;
        let most = match weights {
            None => 1.0,
            Some(w) if w.is_empty() => 0.0,
            Some(w) => check_weights(&self.reduce(&[w], &[Reduction::Min(0), Reduction::Max(0)])?)?,
        };
        let pair = pair::Pair::new(fixed, moving, weights, rows, columns);
        Ok(pair::histogram(self, &pair, most, entries))
    }

    fn pair_slopes(
        &self,
        fixed: &CpuBuffer<f32>,
        moving: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
        table: &[f64],
        slope: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = lengths(fixed, moving, weights, Some(slope));
        check_pair(lengths, rows, columns, Some(table.len()))?;
        let table: Vec<f32> = table.iter().map(|&v| v as f32).collect();
        let pair = pair::Pair::new(fixed, moving, weights, rows, columns);
        pair::slopes(self, &pair, &table, slope.as_mut_slice());
        Ok(())
    }
}
