//! Numbers of images on the device.

use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::Grid;

/// The mean square of an image's gradient, 1/mm².
pub(super) fn gradient_energy<D: Device>(
    device: &D,
    image: &D::Buffer<f32>,
    grid: &Grid,
) -> Result<f64> {
    let mut gradient = device.alloc::<f32>(3 * grid.len())?;
    device.gradient(image, grid.dims(), grid.spacing(), &mut gradient)?;
    let sum = device.reduce(&[&gradient], &[Reduction::SumSquares(0)])?[0];
    Ok(sum / grid.len() as f64)
}

/// Bins of the entropy, of values from 0 to 1.
const BINS: usize = 64;

/// The entropy of the values of an image, bits: of all voxels, the background among them, as the entropy of
/// an average image is usually meant.
pub(super) fn entropy<D: Device>(device: &D, image: &D::Buffer<f32>) -> Result<f64> {
    let found = device.value_counts(image, None, 0.0, 1.0, BINS)?;
    let mut counts = found.counts;
    // Rounding may bring a value beyond the ends.
    for (end, more) in [(0, found.below), (BINS - 1, found.above)] {
        counts[end] += more;
    }
    let total: u64 = counts.iter().sum();
    let bits = |&count: &u64| {
        let p = count as f64 / total as f64;
        if count == 0 { 0.0 } else { -p * p.log2() }
    };
    Ok(counts.iter().map(bits).sum())
}

/// Pearson's correlation of two images over all voxels; 0 where one is constant.
pub(super) fn correlation<D: Device>(
    device: &D,
    a: &D::Buffer<f32>,
    b: &D::Buffer<f32>,
) -> Result<f64> {
    use Reduction::{Dot, Sum, SumSquares};
    let n = voxalign_compute::DeviceBuffer::len(a) as f64;
    let sums =
        device.reduce(&[a, b], &[Sum(0), Sum(1), SumSquares(0), SumSquares(1), Dot(0, 1)])?;
    let covariance = sums[4] - sums[0] * sums[1] / n;
    let spread = (sums[2] - sums[0] * sums[0] / n) * (sums[3] - sums[1] * sums[1] / n);
    Ok(if spread > 0.0 { covariance / spread.sqrt() } else { 0.0 })
}
