//! Histogram counts.

use super::group::SAMPLES;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::histogram::{ValueCounts, check_value_counts};

/// Counters that fit in shared memory with several blocks on a multiprocessor.
const MOST_HERE: usize = 8192;
const THREADS: u32 = 256;

/// The counts as [`value_counts`](crate::ops::Histogram::value_counts) defines them. Whole numbers:
/// the same however the values are shared among the threads.
pub(super) fn value_counts(
    cuda: &Cuda,
    values: &CudaBuffer<f32>,
    weights: Option<&CudaBuffer<f32>>,
    low: f32,
    high: f32,
    bins: usize,
) -> Result<ValueCounts> {
    let n = values.len();
    check_value_counts(n, weights.map(DeviceBuffer::len), low, high, bins)?;
    let scale = bins as f64 / (f64::from(high) - f64::from(low));
    let here = if bins <= MOST_HERE { bins } else { 0 };
    let mut counts = cuda.alloc::<u64>(bins + 2)?;
    // Counts of a block have 32 bits.
    let most = (8 * cuda.multiprocessors()).max(n >> 31);
    let blocks = n.div_ceil(16 * THREADS as usize).clamp(1, most);
    let shape = Shape::blocks(blocks, THREADS).with_shared(here * size_of::<u32>());
    // SAFETY: the kernel reads `n` values and weights, and adds to two counts and those of bins, which it
    // keeps below `bins`.
    unsafe {
        SAMPLES.count_values(
            cuda,
            shape,
            values,
            weights,
            n as u64,
            low,
            high,
            scale,
            bins as u32,
            here as u32,
            &mut counts,
        )?;
    }
    let mut counts = cuda.download(&counts)?;
    let (below, above) = (counts[0], counts[1]);
    counts.drain(..2);
    Ok(ValueCounts { below, above, counts })
}
