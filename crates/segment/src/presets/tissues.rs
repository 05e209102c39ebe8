//! Tissues of brains in T1-weighted images.

use crate::error::{Result, SegmentError};
use voxalign_image::memory;

/// Bins of the histogram.
const BINS: usize = 512;

/// Where the means begin, quantiles of the histogram.
const STARTS: [f64; 4] = [0.05, 0.15, 0.45, 0.85];

/// The most rounds, and how little the mean logarithm of the likelihood must rise for the last one.
const ROUNDS: usize = 300;
const RISE: f64 = 1e-7;

/// The half logarithm of a full turn, by which a normal density is scaled.
const HALF_LOG_TAU: f64 = 0.918_938_533_204_672_8;

/// Four Gaussians with one standard deviation: cerebrospinal fluid, what is between that and grey matter, grey matter, white matter.
///
/// One deviation for all makes the log ratio of the brightest and the others rise with the intensity, so that nothing brighter than white matter falls out of it, and
/// the means of grey and white matter stay in their places where a class of its own spread would take in its neighbour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharedDeviation {
    /// Their shares of all, of sum 1, in the order of the means.
    pub weights: [f64; 4],
    /// Their means, rising, intensities.
    pub means: [f64; 4],
    /// The standard deviation within each, an intensity.
    pub deviation: f64,
}

impl SharedDeviation {
    /// The mixture that values above 0 are likeliest of, by expectation maximisation over a histogram of 512 bins from 0 to a quantile of them (0 to 1). Values above that are
    /// left out.
    ///
    /// # Errors
    /// [`SegmentError::Components`] for fewer than four different values, [`SegmentError::OutOfMemory`].
    pub fn fit(values: &[f32], quantile: f64) -> Result<Self> {
        let mut above = memory::collected(values.iter().copied().filter(|v| *v > 0.0))?;
        if above.is_empty() {
            return Err(SegmentError::Components { components: 4, values: 0 });
        }
        let last = above.len() - 1;
        let at = (quantile.clamp(0.0, 1.0) * last as f64).round() as usize;
        let most = f64::from(*above.select_nth_unstable_by(at, f32::total_cmp).1);
        let width = most / BINS as f64;
        let mut counts = [0.0f64; BINS];
        for value in above.iter().map(|v| f64::from(*v)).filter(|v| *v <= most) {
            counts[((value / width) as usize).min(BINS - 1)] += 1.0;
        }
        let filled = counts.iter().filter(|c| **c > 0.0).count();
        if filled < 4 {
            return Err(SegmentError::Components { components: 4, values: filled });
        }
        Ok(Self::of_histogram(&counts, width))
    }

    fn of_histogram(counts: &[f64; BINS], width: f64) -> Self {
        let centre = |bin: usize| (bin as f64 + 0.5) * width;
        let total: f64 = counts.iter().sum();
        let mean = counts.iter().enumerate().map(|(b, n)| n * centre(b)).sum::<f64>() / total;
        let spread = counts.iter().enumerate().map(|(b, n)| n * (centre(b) - mean).powi(2));
        let whole = (spread.sum::<f64>() / total).sqrt();
        let mut of = Self {
            weights: [0.25; 4],
            means: STARTS.map(|part| at_share(counts, part * total, width)),
            deviation: (whole / 4.0).max(width),
        };
        let mut before = f64::NEG_INFINITY;
        for _ in 0..ROUNDS {
            let (mut shares, mut sums) = ([0.0f64; 4], [0.0f64; 4]);
            let (mut squares, mut likelihood) = (0.0, 0.0);
            // The squares are about the old means, and moved to the new ones below.
            for (bin, count) in counts.iter().enumerate().filter(|(_, n)| **n > 0.0) {
                let logs = of.logs(centre(bin));
                let all = log_sum(&logs);
                likelihood += count * all;
                for k in 0..4 {
                    let share = count * (logs[k] - all).exp();
                    let from = centre(bin) - of.means[k];
                    shares[k] += share;
                    sums[k] += share * from;
                    squares += share * from * from;
                }
            }
            for k in 0..4 {
                of.weights[k] = (shares[k] / total).max(1e-12);
                if shares[k] > 1e-9 {
                    squares -= sums[k] * sums[k] / shares[k];
                    of.means[k] += sums[k] / shares[k];
                }
            }
            of.deviation = (squares.max(0.0) / total + width * width).sqrt();
            let likelihood = likelihood / total;
            if likelihood - before < RISE {
                break;
            }
            before = likelihood;
        }
        let mut order = [0, 1, 2, 3];
        order.sort_by(|a: &usize, b| of.means[*a].total_cmp(&of.means[*b]));
        Self { weights: order.map(|k| of.weights[k]), means: order.map(|k| of.means[k]), ..of }
    }

    /// The logarithms of the weighted densities at an intensity.
    fn logs(&self, value: f64) -> [f64; 4] {
        std::array::from_fn(|k| {
            let z = (value - self.means[k]) / self.deviation;
            self.weights[k].ln() - self.deviation.ln() - 0.5 * z * z - HALF_LOG_TAU
        })
    }

    /// The logarithm of how much likelier an intensity is of the brightest of them than of the others, nats. It rises with the intensity.
    #[must_use]
    pub fn brightest(&self, value: f64) -> f64 {
        let logs = self.logs(value);
        logs[3] - log_sum(&logs[..3])
    }

    /// [`Self::brightest`] of many values, from a table that is linear between 4096 places.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn speeds(&self, values: &[f32]) -> Result<Vec<f32>> {
        const PLACES: usize = 4096;
        let [low, high] = [self.means[0], self.means[3]];
        let (low, high) = (low - 8.0 * self.deviation, high + 8.0 * self.deviation);
        let step = (high - low) / (PLACES - 1) as f64;
        let table: Vec<f64> = (0..PLACES).map(|i| self.brightest(low + i as f64 * step)).collect();
        let of = |value: &f32| {
            let at = ((f64::from(*value) - low) / step).clamp(0.0, (PLACES - 1) as f64);
            let first = (at as usize).min(PLACES - 2);
            let part = at - first as f64;
            (table[first] * (1.0 - part) + table[first + 1] * part) as f32
        };
        Ok(memory::collected(values.iter().map(of))?)
    }

    /// The distance between the two brightest means, in deviations.
    #[must_use]
    pub fn gap(&self) -> f64 {
        (self.means[3] - self.means[2]) / self.deviation
    }

    /// The distance between the first mean and the last, in deviations.
    #[must_use]
    pub fn span(&self) -> f64 {
        (self.means[3] - self.means[0]) / self.deviation
    }
}

/// The intensity below which so many values lie.
fn at_share(counts: &[f64; BINS], wanted: f64, width: f64) -> f64 {
    let mut below = 0.0;
    for (bin, count) in counts.iter().enumerate() {
        if below + count >= wanted && *count > 0.0 {
            return (bin as f64 + (wanted - below) / count) * width;
        }
        below += count;
    }
    BINS as f64 * width
}

fn log_sum(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
}

/// How much of a mask is in a set, and how much of its rim (what is within so many mm of its outside, as [`depths`](super::depths) tell) in proportion to that. Grey matter lies
/// at the rim of a brain, so that of white matter the second is small. None where there is nothing to measure it at.
#[must_use]
pub fn shares(mask: &[bool], depths: &[f32], set: &[bool], rim: f32) -> [Option<f64>; 2] {
    let part = |is_in: &dyn Fn(usize) -> bool| {
        let (mut all, mut inside) = (0usize, 0usize);
        for p in (0..mask.len()).filter(|p| mask[*p] && is_in(*p)) {
            all += 1;
            inside += usize::from(set[p]);
        }
        (all > 0).then(|| inside as f64 / all as f64)
    };
    let whole = part(&|_| true);
    let rim = part(&|p| depths[p] <= rim).zip(whole).filter(|(_, whole)| *whole > 0.0);
    [whole, rim.map(|(rim, whole)| rim / whole)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    /// Values of four normal distributions, with these shares in a thousand.
    fn made(means: [f64; 4], shares: [usize; 4], deviation: f64) -> Vec<f32> {
        let mut random = Random(7);
        let mut all = vec![0.0f32; 1000];
        for (mean, share) in means.iter().zip(shares) {
            all.extend(
                (0..share * 40).map(|_| (mean + deviation * random.normal()).max(1.0) as f32),
            );
        }
        all
    }

    #[test]
    fn a_known_mixture_is_found() {
        let (means, shares) = ([300.0, 550.0, 900.0, 1200.0], [80, 120, 450, 350]);
        let found = SharedDeviation::fit(&made(means, shares, 70.0), 0.9995).unwrap();
        for k in 0..4 {
            assert!((found.means[k] - means[k]).abs() < 15.0, "{found:?}");
            assert!((found.weights[k] - shares[k] as f64 / 1000.0).abs() < 0.03, "{found:?}");
        }
        assert!((found.deviation - 70.0).abs() < 3.0, "{found:?}");
        assert!(
            (found.gap() - 300.0 / 70.0).abs() < 0.3 && (found.span() - 900.0 / 70.0).abs() < 0.8
        );
    }

    #[test]
    fn the_ratio_rises_with_the_intensity_and_is_that_of_the_densities() {
        let of = SharedDeviation {
            weights: [0.1, 0.2, 0.4, 0.3],
            means: [10.0, 30.0, 60.0, 90.0],
            deviation: 8.0,
        };
        let density =
            |k: usize, x: f64| of.weights[k] * (-0.5 * ((x - of.means[k]) / 8.0).powi(2)).exp();
        let plain = (density(3, 78.0) / (0..3).map(|k| density(k, 78.0)).sum::<f64>()).ln();
        assert!((of.brightest(78.0) - plain).abs() < 1e-12);
        let values: Vec<f32> = (0..1500).map(|i| i as f32 * 0.1).collect();
        let speeds = of.speeds(&values).unwrap();
        assert!(speeds.windows(2).all(|w| w[1] >= w[0]));
        for (value, speed) in values.iter().zip(&speeds) {
            assert!((of.brightest(f64::from(*value)) - f64::from(*speed)).abs() < 0.02);
        }
    }

    #[test]
    fn shares_are_of_what_can_be_measured() {
        let mask = [true, true, true, true, false];
        let depths = [1.0, 2.0, 3.0, 9.0, 0.0];
        let set = [false, true, true, true, false];
        assert_eq!(shares(&mask, &depths, &set, 2.0), [Some(0.75), Some(0.5 / 0.75)]);
        assert_eq!(shares(&mask, &[f32::INFINITY; 5], &set, 2.0), [Some(0.75), None]);
        assert_eq!(shares(&mask, &depths, &[false; 5], 2.0), [Some(0.0), None]);
        assert_eq!(shares(&[false; 5], &depths, &set, 2.0), [None, None]);
    }

    #[test]
    fn too_few_values_are_refused() {
        for values in [&[0.0f32, -3.0][..], &[0.0, 5.0, 5.0, 7.0]] {
            assert!(matches!(
                SharedDeviation::fit(values, 1.0),
                Err(SegmentError::Components { .. })
            ));
        }
    }
}
