//! Measures of images on the device.

use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Grid, memory};
use voxalign_register::evidence::information;

/// The mean square of an image's gradient, 1/mm².
pub(in crate::atlas) fn gradient_energy<D: Device>(
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
pub(in crate::atlas) fn entropy<D: Device>(device: &D, image: &D::Buffer<f32>) -> Result<f64> {
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

/// Pearson's correlation of an image of a subject with the mean of the others over all voxels, given the mean with it and its part of that;
/// 0 where one is constant.
pub(in crate::atlas) fn correlation_with_others<D: Device>(
    device: &D,
    own: &D::Buffer<f32>,
    mean: &D::Buffer<f32>,
    part: f64,
) -> Result<f64> {
    use Reduction::{Dot, Sum, SumSquares};
    let n = voxalign_compute::DeviceBuffer::len(own) as f64;
    let sums =
        device.reduce(&[own, mean], &[Sum(0), Sum(1), SumSquares(0), SumSquares(1), Dot(0, 1)])?;
    let both = sums[4] - sums[0] * sums[1] / n;
    let [of_own, of_mean] = [0, 1].map(|i| sums[2 + i] - sums[i] * sums[i] / n);
    // The mean of the others is what is left of that of all, but for a factor.
    let part = taken(part);
    let covariance = both - part * of_own;
    let spread = of_own * (of_mean - 2.0 * part * both + part * part * of_own);
    Ok(if spread > 0.0 { covariance / spread.sqrt() } else { 0.0 })
}

/// The part of a mean that is taken from it for that of the others: none of one that has hardly any.
fn taken(part: f64) -> f64 {
    if part < ALONE { part } else { 0.0 }
}

/// The largest share of a subject in the mean where there are others.
const ALONE: f64 = 0.999;
/// Bins of the information along either axis.
const BINS_TOLD: usize = 32;
/// The part of the values that bins end at.
const HIGHEST: f64 = 0.999;

/// The mutual information of an image of a subject and the mean of the others within the tissue of that mean, nats:
/// an outline that fits does not contribute. Values are from 0 to about 1; those of tissue are above `tissue`.
pub(in crate::atlas) fn information_of_others(
    own: &[f32],
    mean: &[f32],
    part: f64,
    tissue: f32,
) -> Result<f64> {
    let part = taken(part);
    let others = |i: usize| ((f64::from(mean[i]) - part * f64::from(own[i])) / (1.0 - part)) as f32;
    let within = || (0..own.len()).map(|i| (own[i], others(i))).filter(|(_, o)| *o > tissue);
    let most = |values: Vec<f32>| {
        let mut values = values;
        if values.is_empty() {
            return 1.0;
        }
        let at = ((values.len() - 1) as f64 * HIGHEST) as usize;
        values.select_nth_unstable_by(at, f32::total_cmp).1.max(f32::MIN_POSITIVE)
    };
    let own_most = most(memory::collected(within().map(|(own, _)| own))?);
    let others_most = most(memory::collected(within().map(|(_, others)| others))?);
    let unit = |v: f32, most: f32| (v / most).clamp(0.0, 1.0);
    let pairs = within().map(|(a, b)| (unit(a, own_most), unit(b, others_most)));
    Ok(information(pairs, BINS_TOLD)[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_register::random::Random;

    #[test]
    fn a_subject_is_compared_with_the_others() {
        let (device, mut random) = (Cpu::new(Some(1)).unwrap(), Random::new(5));
        let n = 4000;
        let shape: Vec<f32> = (0..n).map(|i| 0.2 + 0.7 * ((i * 37 % 101) as f32 / 101.0)).collect();
        let noisy = |random: &mut Random| -> Vec<f32> {
            shape.iter().map(|v| v + 0.02 * random.normal() as f32).collect()
        };
        let mut all: Vec<Vec<f32>> = (0..4).map(|_| noisy(&mut random)).collect();
        all.push((0..n).map(|_| 0.2 + 0.7 * random.uniform() as f32).collect());
        let mean: Vec<f32> = (0..n).map(|i| all.iter().map(|v| v[i]).sum::<f32>() / 5.0).collect();
        let found: Vec<[f64; 2]> = all
            .iter()
            .enumerate()
            .map(|(number, own)| {
                let others: Vec<f32> = (0..n)
                    .map(|i| {
                        let rest = all.iter().enumerate().filter(|(j, _)| *j != number);
                        rest.map(|(_, v)| v[i]).sum::<f32>() / 4.0
                    })
                    .collect();
                let expected = plain(own, &others);
                let [own_d, mean_d] = [own, &mean].map(|v| device.upload(v).unwrap());
                let found = correlation_with_others(&device, &own_d, &mean_d, 0.2).unwrap();
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                [found, information_of_others(own, &mean, 0.2, 0.1).unwrap()]
            })
            .collect();
        assert!(found[..4].iter().all(|[c, i]| *c > 0.9 && *i > 0.8), "{found:?}");
        assert!(found[4][0].abs() < 0.1 && found[4][1] < 0.1, "{found:?}");
        // Alone it is compared with itself, and where there is no tissue nothing is told.
        let own = device.upload(&all[0]).unwrap();
        assert!((correlation_with_others(&device, &own, &own, 1.0).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(information_of_others(&all[0], &mean, 0.2, 9.0).unwrap(), 0.0);
    }

    fn plain(a: &[f32], b: &[f32]) -> f64 {
        let n = a.len() as f64;
        let mean = |v: &[f32]| v.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let (ma, mb) = (mean(a), mean(b));
        let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
            a.iter().zip(b).map(|(&a, &b)| f(f64::from(a) - ma, f64::from(b) - mb)).sum()
        };
        sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
    }
}
