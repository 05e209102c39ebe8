//! Similarities and their derivatives on the CPU.

mod contexts;
mod correlation;
mod pair;
mod sliding;
mod tasks;

use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::histogram::{Binning, ParzenBins};
use crate::ops::similarity::{
    Contexts, Lengths, Similarity, check_local_correlation, check_map, check_pair,
    check_self_similarity, largest_weight, total_weight,
};
use voxalign_image::memory::collected;

fn job<'a>(
    [fixed, moving]: [&'a CpuBuffer<f32>; 2],
    weights: Option<&'a CpuBuffer<f32>>,
    dims: Dims,
    radius: [usize; 3],
    noise: f64,
    total: f64,
) -> correlation::Job<'a> {
    correlation::Job {
        fixed: fixed.as_slice(),
        moving: moving.as_slice(),
        weights: weights.map(CpuBuffer::as_slice),
        dims,
        radius: std::array::from_fn(|a| radius[a].min(dims[a] - 1)),
        noise: noise as f32,
        scale: (-1.0 / total) as f32,
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
        derivative: &mut CpuBuffer<f32>,
        energy: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(fixed, moving, weights, Some(&*derivative));
        let n = check_local_correlation(lengths, dims, noise, energy.len())?;
        let total = total_weight(self, weights, n)?;
        let job = job([fixed, moving], weights, dims, radius, noise, total);
        let sum = correlation::run(self, &job, [derivative.as_mut_slice()])?;
        energy.as_mut_slice()[0] = -sum / total;
        Ok(())
    }

    fn local_correlation_of_both(
        &self,
        first: &CpuBuffer<f32>,
        second: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        dims: Dims,
        radius: [usize; 3],
        noise: f64,
        first_derivative: &mut CpuBuffer<f32>,
        second_derivative: &mut CpuBuffer<f32>,
        energy: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(first, second, weights, Some(&*second_derivative));
        let n = check_local_correlation(lengths, dims, noise, energy.len())?;
        check_len("derivative", n, first_derivative.len())?;
        let total = total_weight(self, weights, n)?;
        let job = job([first, second], weights, dims, radius, noise, total);
        let derivatives = [second_derivative.as_mut_slice(), first_derivative.as_mut_slice()];
        let sum = correlation::run(self, &job, derivatives)?;
        energy.as_mut_slice()[0] = -sum / total;
        Ok(())
    }

    fn self_similarity(
        &self,
        fixed: &CpuBuffer<f32>,
        moving: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        dims: Dims,
        contexts: &Contexts,
        derivative: &mut CpuBuffer<f32>,
        energy: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(fixed, moving, weights, Some(&*derivative));
        let n = check_self_similarity(lengths, dims, contexts, energy.len())?;
        let total = total_weight(self, weights, n)?;
        let images = [fixed.as_slice(), moving.as_slice()];
        let weights = weights.map(CpuBuffer::as_slice);
        let job = contexts::Job::new(images, weights, dims, contexts, total);
        energy.as_mut_slice()[0] = contexts::run(self, &job, [derivative.as_mut_slice()])?;
        Ok(())
    }

    fn self_similarity_of_both(
        &self,
        first: &CpuBuffer<f32>,
        second: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        dims: Dims,
        contexts: &Contexts,
        first_derivative: &mut CpuBuffer<f32>,
        second_derivative: &mut CpuBuffer<f32>,
        energy: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let lengths = Lengths::of(first, second, weights, Some(&*second_derivative));
        let n = check_self_similarity(lengths, dims, contexts, energy.len())?;
        check_len("derivative", n, first_derivative.len())?;
        let total = total_weight(self, weights, n)?;
        let images = [first.as_slice(), second.as_slice()];
        let weights = weights.map(CpuBuffer::as_slice);
        let job = contexts::Job::new(images, weights, dims, contexts, total);
        let derivatives = [second_derivative.as_mut_slice(), first_derivative.as_mut_slice()];
        energy.as_mut_slice()[0] = contexts::run(self, &job, derivatives)?;
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
        let entries = check_pair(Lengths::of(fixed, moving, weights, None), rows, columns, None)?;
        let most = largest_weight(self, weights)?;
        let pair = pair::Pair::new(fixed, moving, weights, rows, columns);
        pair::histogram(self, &pair, most, entries)
    }

    fn pair_derivatives(
        &self,
        fixed: &CpuBuffer<f32>,
        moving: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
        table: &[f64],
        derivative: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = Lengths::of(fixed, moving, weights, Some(&*derivative));
        check_pair(lengths, rows, columns, Some(table.len()))?;
        let table: Vec<f32> = collected(table.iter().map(|&v| v as f32))?;
        let pair = pair::Pair::new(fixed, moving, weights, rows, columns);
        pair::derivatives(self, &pair, &table, derivative.as_mut_slice());
        Ok(())
    }

    fn map_values(
        &self,
        values: &CpuBuffer<f32>,
        columns: &ParzenBins,
        table: &[f64],
        mapped: &mut CpuBuffer<f32>,
        derivative: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_map([values.len(), mapped.len(), derivative.len()], columns, table.len())?;
        let table: Vec<f32> = collected(table.iter().map(|&v| v as f32))?;
        let out = [mapped.as_mut_slice(), derivative.as_mut_slice()];
        pair::map(self, values.as_slice(), columns, &table, out);
        Ok(())
    }
}
