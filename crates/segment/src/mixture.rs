//! Mixtures of Gaussians, by expectation maximisation.

use crate::error::{Result, SegmentError, finite};
use voxalign_image::memory;

/// Into how many bins an image is counted.
const BINS: usize = 1024;

/// The most iterations, and how little the mean logarithm of the likelihood must rise for the last one.
const ITERATIONS: usize = 2000;
const RISE: f64 = 1e-10;

/// One Gaussian of a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Component {
    /// Its share of all, 0 to 1.
    pub weight: f64,
    /// Its mean, an intensity.
    pub mean: f64,
    /// Its standard deviation, an intensity.
    pub deviation: f64,
}

/// The ranges of intensities with the least variance within.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    /// Their means, rising.
    pub means: Vec<f64>,
    /// The part of the variance of all that is between them, 0 to 1.
    pub explained: f64,
}

impl Ranges {
    /// So many ranges with the least sum of squared distances to their means, exactly, over a histogram of 1024 bins (W. Fisher 1958).
    ///
    /// # Errors
    /// As of [`Mixture::fit`].
    pub fn of(values: &[f32], ranges: usize) -> Result<Self> {
        let mut all = Mixture::begun(values, ranges)?.1.components;
        all.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let mean: f64 = all.iter().map(|c| c.weight * c.mean).sum();
        let between: f64 = all.iter().map(|c| c.weight * (c.mean - mean).powi(2)).sum();
        let within: f64 = all.iter().map(|c| c.weight * c.deviation.powi(2)).sum();
        let explained = between / (between + within);
        Ok(Self { means: all.iter().map(|c| c.mean).collect(), explained })
    }

    /// What the best so many ranges explain of a bell curve (J. Max 1960; beyond eight by the formula for many).
    #[must_use]
    pub fn explained_of_bell(ranges: usize) -> f64 {
        const LEFT: [f64; 7] = [0.3634, 0.1902, 0.1175, 0.0799, 0.0580, 0.0440, 0.0345];
        let many = || 3f64.sqrt() * std::f64::consts::FRAC_PI_2 / (ranges as f64).powi(2);
        match ranges.checked_sub(2) {
            None => 0.0,
            Some(number) => 1.0 - LEFT.get(number).copied().unwrap_or_else(many),
        }
    }
}

/// A density of intensities that is a sum of Gaussians.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    components: Vec<Component>,
}

impl Mixture {
    /// The mixture of so many Gaussians that an image is likeliest of, by expectation maximisation (A. Dempster, N. Laird and D. Rubin 1977) over
    /// a histogram of 1024 bins. It begins with one Gaussian for each of the ranges of intensities with the least variance within, so that there is
    /// nothing random in it. Components are in the order of their means. No deviation becomes less than that within a bin.
    ///
    /// # Errors
    /// [`SegmentError::NotFinite`], [`SegmentError::Components`] for none, or for more than there are different values in the histogram,
    /// [`SegmentError::OutOfMemory`].
    pub fn fit(values: &[f32], components: usize) -> Result<Self> {
        let (bins, mut mixture) = Self::begun(values, components)?;
        let mut shares = memory::zeroed(components * BINS)?;
        let mut before = f64::NEG_INFINITY;
        for _ in 0..ITERATIONS {
            let likelihood = mixture.improve(&bins, &mut shares);
            if likelihood - before < RISE {
                break;
            }
            before = likelihood;
        }
        mixture.components.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        Ok(mixture)
    }

    /// The histogram of an image, and one Gaussian for each of so many ranges.
    fn begun(values: &[f32], components: usize) -> Result<(Bins, Self)> {
        finite("the image", values)?;
        let bins = Bins::of(values)?;
        if components == 0 || components > bins.filled() {
            return Err(SegmentError::Components { components, values: bins.filled() });
        }
        let mixture = bins.start(components)?;
        Ok((bins, mixture))
    }

    /// A mixture of components that are known. Their weights are divided by their sum.
    ///
    /// # Errors
    /// [`SegmentError::Parameter`] for a weight or deviation that is not above 0, or a mean that is not a number,
    /// [`SegmentError::Components`] for none.
    pub fn new(mut components: Vec<Component>) -> Result<Self> {
        if components.is_empty() {
            return Err(SegmentError::Components { components: 0, values: 0 });
        }
        let remedy = "give numbers, and weights and deviations above 0";
        for c in &components {
            for (name, value, is_right) in [
                ("a weight", c.weight, c.weight > 0.0),
                ("a mean", c.mean, true),
                ("a deviation", c.deviation, c.deviation > 0.0),
            ] {
                if !(is_right && value.is_finite()) {
                    return Err(SegmentError::Parameter { name, value, remedy });
                }
            }
        }
        let sum: f64 = components.iter().map(|c| c.weight).sum();
        components.iter_mut().for_each(|c| c.weight /= sum);
        Ok(Self { components })
    }

    /// The components.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The mixture of some of the components, by their numbers.
    ///
    /// # Errors
    /// As [`Mixture::new`], and [`SegmentError::Parameter`] for a number that is not there.
    pub fn part(&self, numbers: &[usize]) -> Result<Self> {
        let of = |&number: &usize| {
            self.components.get(number).copied().ok_or(SegmentError::Parameter {
                name: "the number of a component",
                value: number as f64,
                remedy: "give one below the number of components",
            })
        };
        Self::new(numbers.iter().map(of).collect::<Result<_>>()?)
    }

    /// The logarithm of the density at an intensity.
    #[must_use]
    pub fn log_density(&self, value: f64) -> f64 {
        let log = |c: &Component| {
            let z = (value - c.mean) / c.deviation;
            (c.weight / (c.deviation * std::f64::consts::TAU.sqrt())).ln() - 0.5 * z * z
        };
        let most = self.components.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
        most + self.components.iter().map(|c| (log(c) - most).exp()).sum::<f64>().ln()
    }

    /// One iteration; gives the mean logarithm of the likelihood before it.
    fn improve(&mut self, bins: &Bins, shares: &mut [f64]) -> f64 {
        let mut likelihood = 0.0;
        for bin in 0..BINS {
            let value = bins.value(bin);
            let all = self.log_density(value);
            likelihood += bins.counts[bin] as f64 * all;
            for (k, c) in self.components.iter().enumerate() {
                let z = (value - c.mean) / c.deviation;
                let log = (c.weight / (c.deviation * std::f64::consts::TAU.sqrt())).ln();
                shares[k * BINS + bin] = (log - 0.5 * z * z - all).exp() * bins.counts[bin] as f64;
            }
        }
        for (k, c) in self.components.iter_mut().enumerate() {
            let shares = &shares[k * BINS..(k + 1) * BINS];
            let sum: f64 = shares.iter().sum();
            // A component that nothing belongs to stays as it is, with next to no weight.
            if sum > 1e-9 {
                let terms = shares.iter().enumerate();
                c.mean = terms.map(|(bin, s)| s * bins.value(bin)).sum::<f64>() / sum;
                let terms = shares.iter().enumerate();
                let square = |(bin, s): (usize, &f64)| s * (bins.value(bin) - c.mean).powi(2);
                c.deviation = (terms.map(square).sum::<f64>() / sum).sqrt().max(bins.least());
            }
            c.weight = (sum / bins.total as f64).max(1e-12);
        }
        likelihood / bins.total as f64
    }
}

/// How many values are in each of equal bins between the least and the greatest.
struct Bins {
    low: f64,
    width: f64,
    counts: Vec<u64>,
    total: u64,
}

impl Bins {
    fn of(values: &[f32]) -> Result<Self> {
        let bounds = values.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &v| {
            [low.min(f64::from(v)), high.max(f64::from(v))]
        });
        let width = (bounds[1] - bounds[0]) / BINS as f64;
        let mut counts = memory::zeroed(BINS)?;
        for &value in values {
            let bin = ((f64::from(value) - bounds[0]) / width).max(0.0) as usize;
            counts[bin.min(BINS - 1)] += 1;
        }
        Ok(Self { low: bounds[0], width, counts, total: values.len() as u64 })
    }

    fn filled(&self) -> usize {
        self.counts.iter().filter(|c| **c > 0).count()
    }

    fn value(&self, bin: usize) -> f64 {
        self.low + (bin as f64 + 0.5) * self.width
    }

    /// The deviation of values that are spread over a bin, or of rounding where all are in one.
    fn least(&self) -> f64 {
        (self.width / 12f64.sqrt())
            .max(f64::from(f32::EPSILON) * self.low.abs())
            .max(f64::MIN_POSITIVE.sqrt())
    }

    /// One Gaussian for each of the runs of bins with the least sum of squared distances to their means, exactly (W. Fisher 1958).
    fn start(&self, components: usize) -> Result<Mixture> {
        // Sums over all bins before each: counts, values, squares.
        let mut sums = memory::zeroed::<[f64; 3]>(BINS + 1)?;
        for bin in 0..BINS {
            let (n, v) = (self.counts[bin] as f64, bin as f64);
            sums[bin + 1] = [sums[bin][0] + n, sums[bin][1] + n * v, sums[bin][2] + n * v * v];
        }
        let moments = |from: usize, to: usize| {
            let [n, sum, squares]: [f64; 3] = std::array::from_fn(|i| sums[to][i] - sums[from][i]);
            let mean = if n > 0.0 { sum / n } else { 0.0 };
            (n, mean, (squares - mean * sum).max(0.0))
        };
        // For each number of runs and each end the least cost, and where the last run begins. Each run has a value.
        let mut costs = memory::filled(BINS + 1, f64::INFINITY)?;
        let mut begins = memory::zeroed::<usize>(components * (BINS + 1))?;
        costs[0] = 0.0;
        for run in 0..components {
            let before = memory::copied(&costs)?;
            costs.fill(f64::INFINITY);
            for end in 1..=BINS {
                for begin in (0..end).filter(|b| before[*b].is_finite()) {
                    let (n, _, spread) = moments(begin, end);
                    if n > 0.0 && before[begin] + spread < costs[end] {
                        costs[end] = before[begin] + spread;
                        begins[run * (BINS + 1) + end] = begin;
                    }
                }
            }
        }
        let (mut all, mut end) = (Vec::new(), BINS);
        for run in (0..components).rev() {
            let begin = begins[run * (BINS + 1) + end];
            let (n, mean, spread) = moments(begin, end);
            let deviation = (spread / n).sqrt() * self.width;
            all.push(Component {
                weight: n / self.total as f64,
                mean: self.low + (mean + 0.5) * self.width,
                deviation: deviation.max(self.least()),
            });
            end = begin;
        }
        Ok(Mixture { components: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(components: &[(usize, f64, f64)]) -> Vec<f32> {
        let mut random = crate::tests::Random(7);
        let mut values = Vec::new();
        for &(count, mean, deviation) in components {
            values.extend((0..count).map(|_| (mean + deviation * random.normal()) as f32));
        }
        values
    }

    #[test]
    fn gaussians_are_found_again() {
        let values = sample(&[(6000, 10.0, 2.0), (3000, 25.0, 3.0), (1000, 60.0, 1.0)]);
        let found = Mixture::fit(&values, 3).unwrap();
        let expected = [(0.6, 10.0, 2.0), (0.3, 25.0, 3.0), (0.1, 60.0, 1.0)];
        for (c, (weight, mean, deviation)) in found.components().iter().zip(expected) {
            assert!((c.weight - weight).abs() < 0.01, "{c:?}");
            assert!((c.mean - mean).abs() < 0.2 && (c.deviation - deviation).abs() < 0.15, "{c:?}");
        }
        assert_eq!(found, Mixture::fit(&values, 3).unwrap());
        let Ranges { means, explained } = Ranges::of(&values, 3).unwrap();
        let is_near = |(m, (_, mean, _)): (&f64, (f64, f64, f64))| (m - mean).abs() < 0.5;
        assert!(means.iter().zip(expected).all(is_near), "{means:?}");
        // All but 5.2 of a variance of 232, and a little less where tails cross.
        assert!((explained - 0.978).abs() < 0.01, "{explained}");
        // A bell curve: what the best quantiser leaves of it.
        let bell = sample(&[(40_000, 0.0, 1.0)]);
        for ranges in 2..=12 {
            let found = Ranges::of(&bell, ranges).unwrap().explained;
            let expected = Ranges::explained_of_bell(ranges);
            assert!((found - expected).abs() < 0.01, "{ranges}: {found} {expected}");
        }
        let part = found.part(&[0, 2]).unwrap();
        assert!((part.components()[0].weight - 6.0 / 7.0).abs() < 0.01);
        assert!(part.log_density(10.0) > part.log_density(25.0));
    }

    /// The density is that of the formula, and its integral 1.
    #[test]
    fn densities_sum_to_one() {
        let component = |weight, mean, deviation| Component { weight, mean, deviation };
        let mixture =
            Mixture::new(vec![component(3.0, 0.0, 1.0), component(1.0, 4.0, 0.5)]).unwrap();
        let sum: f64 =
            (-1000..1000).map(|i| mixture.log_density(i as f64 / 100.0).exp() / 100.0).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let tail = mixture.log_density(1e6);
        assert!(tail.is_finite() && tail < -1e10);
    }

    #[test]
    fn mixtures_that_cannot_be_are_refused() {
        let error = Mixture::fit(&[1.0, 2.0, 2.0, 1.0], 3).unwrap_err();
        assert_eq!(error, SegmentError::Components { components: 3, values: 2 });
        assert!(Mixture::fit(&[], 1).is_err() && Mixture::fit(&[1.0], 0).is_err());
        assert!(Mixture::fit(&[1.0, f32::NAN], 1).is_err());
        // Two values exactly: deviations stay above 0.
        let two = Mixture::fit(&[1.0, 2.0, 2.0, 2.0], 2).unwrap();
        assert!(two.components().iter().all(|c| c.deviation > 0.0 && c.weight > 0.2), "{two:?}");
        assert!(Mixture::fit(&[3.0; 9], 1).unwrap().log_density(3.0).is_finite());
        assert!(two.part(&[2]).is_err() && two.part(&[]).is_err());
    }
}
