//! Kernel regression along a covariate: the weights of the subjects at one of its values, and weighted means
//! over them (Davis et al. 2007, "Population shape regression from random design data"; Ha 2011, section 4.7.3
//! and Figure 4.14).
//!
//! The shape at a value `a` is the weighted mean shape of all subjects, in the sense of an atlas,
//! where a subject of weight `w` and covariate `c` counts `w K((c - a) / h)`. The kernel `K` is
//! Gaussian and its bandwidth `h` the standard deviation.

use crate::error::{PopulationError, Result};
use std::collections::BTreeMap;
use voxalign_image::LabelMap;

/// The fraction of the largest weight below which a subject is left out.
const LEAST: f64 = 1e-3;
/// The largest distance of the nearest subject from a value, in bandwidths: farther away all weights vanish, and
/// the result is the shape of whichever subject is nearest.
const FARTHEST: f64 = 5.0;

/// A Gaussian kernel along a covariate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    bandwidth: f64,
}

impl Kernel {
    /// With this standard deviation, in the units of the covariate.
    ///
    /// # Errors
    /// One that is not above 0.
    pub fn gaussian(bandwidth: f64) -> Result<Self> {
        if bandwidth > 0.0 && bandwidth.is_finite() {
            return Ok(Self { bandwidth });
        }
        Err(PopulationError::option(
            "bandwidth",
            bandwidth,
            "give a number above 0, in the units of the covariate",
        ))
    }

    /// The standard deviation.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// The value of the kernel at a distance: 1 at 0.
    #[must_use]
    pub fn at(&self, distance: f64) -> f64 {
        (-0.5 * (distance / self.bandwidth).powi(2)).exp()
    }

    /// The weight of each subject for the atlas at `value`: its own times that of the kernel, and 0
    /// where that is less than a thousandth of the largest.
    ///
    /// # Errors
    /// A value that is more than five bandwidths from all subjects, where no weight is left; a
    /// bandwidth so small that fewer than two subjects count.
    pub fn weights(&self, covariates: &[f64], own: &[f64], value: f64) -> Result<Vec<f64>> {
        let distances = covariates.iter().map(|c| (c - value).abs());
        let nearest = distances.min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
        if nearest > FARTHEST * self.bandwidth {
            let (low, high) = range(covariates);
            return Err(PopulationError::option(
                "at",
                value,
                format!(
                    "the nearest subject is {nearest} away, which is {:.1} times the bandwidth of \
                     {}, so all weights vanish; give values from {low} to {high}, or a larger \
                     bandwidth",
                    nearest / self.bandwidth,
                    self.bandwidth
                ),
            ));
        }
        let mut weights: Vec<f64> =
            covariates.iter().zip(own).map(|(c, w)| w * self.at(c - value)).collect();
        let largest = weights.iter().copied().fold(0.0, f64::max);
        for weight in weights.iter_mut().filter(|w| **w < LEAST * largest) {
            *weight = 0.0;
        }
        let count = weights.iter().filter(|w| **w > 0.0).count();
        if count < 2 {
            return Err(PopulationError::option(
                "bandwidth",
                self.bandwidth,
                format!(
                    "only {count} of the {} subjects counts at {value}, but an atlas needs at \
                     least two; give a larger one",
                    covariates.len()
                ),
            ));
        }
        Ok(weights)
    }

    /// The kernel regression of numbers at `value` (Nadaraya 1964, Watson 1964): the mean of the
    /// `values` with the weights of their subjects. Values that are not finite are of no subject.
    ///
    /// Far from all subjects it goes on to the value of the nearest. None where there is no value.
    #[must_use]
    pub fn regression(
        &self,
        covariates: &[f64],
        own: &[f64],
        values: &[f64],
        value: f64,
    ) -> Option<f64> {
        let known = || {
            let all = covariates.iter().zip(own).zip(values);
            all.filter(|(_, v)| v.is_finite()).map(|((c, w), v)| (c - value, *w, *v))
        };
        let square = |distance: f64| (distance / self.bandwidth).powi(2);
        // Weights relative to that of the nearest, which cannot vanish all.
        let least = known().map(|(d, _, _)| square(d)).min_by(f64::total_cmp)?;
        let (mut sum, mut total) = (0.0, 0.0);
        for (distance, own, v) in known() {
            let weight = own * (-0.5 * (square(distance) - least)).exp();
            sum += weight * v;
            total += weight;
        }
        (total > 0.0).then(|| sum / total)
    }
}

/// The least and the largest of some numbers.
fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)))
}

/// The effective sample size of a weighted mean: the square of the sum of the weights by the sum of their squares
/// (Kish 1965); 0 without weights.
#[must_use]
pub fn effective_number(weights: &[f64]) -> f64 {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return 0.0;
    }
    // Relative to the largest, so that no square vanishes.
    let sum: f64 = weights.iter().map(|w| w / largest).sum();
    let squares: f64 = weights.iter().map(|w| (w / largest).powi(2)).sum();
    sum * sum / squares
}

/// The volume of each label, mm³: its voxels times the volume of one. Background (0) is left out.
#[must_use]
pub fn label_volumes(labels: &LabelMap) -> BTreeMap<i32, f64> {
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    // Labels come in runs.
    for run in labels.data().chunk_by(|a, b| a == b).filter(|run| run[0] != 0) {
        *counts.entry(run[0]).or_default() += run.len() as u64;
    }
    let voxel = labels.grid().voxel_volume();
    counts.into_iter().map(|(label, count)| (label, count as f64 * voxel)).collect()
}

/// The labels that are worth a plot where none were chosen: of those that all maps have, the `most`
/// that are largest in the mean, in the order of their numbers.
#[must_use]
pub fn largest_labels(volumes: &[BTreeMap<i32, f64>], most: usize) -> Vec<i32> {
    let Some((first, others)) = volumes.split_first() else { return Vec::new() };
    let mut sums: Vec<(i32, f64)> = first
        .iter()
        .filter_map(|(label, volume)| {
            let rest = others.iter().map(|v| v.get(label).copied()).sum::<Option<f64>>()?;
            Some((*label, volume + rest))
        })
        .collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    sums.truncate(most);
    let mut labels: Vec<i32> = sums.into_iter().map(|(label, _)| label).collect();
    labels.sort_unstable();
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use voxalign_image::{Grid, Volume};

    /// The formula as it is written down, without care.
    fn naive_regression(c: &[f64], w: &[f64], v: &[f64], a: f64, h: f64) -> f64 {
        let k = |d: f64| (-(d * d) / (2.0 * h * h)).exp();
        let top: f64 = (0..c.len()).map(|i| w[i] * k(c[i] - a) * v[i]).sum();
        let bottom: f64 = (0..c.len()).map(|i| w[i] * k(c[i] - a)).sum();
        top / bottom
    }

    proptest! {
        #[test]
        fn regression_is_the_weighted_mean(
            points in prop::collection::vec((0.0..100.0f64, 0.1..3.0f64, -5.0..5.0f64), 1..30),
            a in 0.0..100.0f64,
            h in 12.0..40.0f64,
        ) {
            let c: Vec<_> = points.iter().map(|p| p.0).collect();
            let w: Vec<_> = points.iter().map(|p| p.1).collect();
            let v: Vec<_> = points.iter().map(|p| p.2).collect();
            let found = Kernel::gaussian(h).unwrap().regression(&c, &w, &v, a).unwrap();
            let wanted = naive_regression(&c, &w, &v, a, h);
            prop_assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }

        #[test]
        fn weights_are_own_times_kernel(
            points in prop::collection::vec((50.0..90.0f64, 0.1..3.0f64), 3..30),
            a in 55.0..85.0f64,
        ) {
            let h = 20.0;
            let c: Vec<_> = points.iter().map(|p| p.0).collect();
            let own: Vec<_> = points.iter().map(|p| p.1).collect();
            let found = Kernel::gaussian(h).unwrap().weights(&c, &own, a).unwrap();
            for i in 0..c.len() {
                let wanted = own[i] * (-(c[i] - a) * (c[i] - a) / (2.0 * h * h)).exp();
                prop_assert!((found[i] - wanted).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn far_subjects_are_left_out() {
        let kernel = Kernel::gaussian(2.0).unwrap();
        // exp(-z²/2) is 1e-3 at z = 3.717.
        let covariates = [60.0, 61.0, 67.4, 67.5, 80.0];
        let found = kernel.weights(&covariates, &[1.0; 5], 60.0).unwrap();
        assert_eq!(
            found.iter().map(|w| *w > 0.0).collect::<Vec<_>>(),
            [true, true, true, false, false]
        );
        assert!((found[1] - (-0.125f64).exp()).abs() < 1e-15);
        // A subject of much weight of its own stays.
        let own = [1.0, 1.0, 1.0, 100.0, 1.0];
        assert!(kernel.weights(&covariates, &own, 60.0).unwrap()[3] > 0.0);
    }

    #[test]
    fn what_cannot_be_weighted_is_said() {
        let kernel = Kernel::gaussian(2.0).unwrap();
        let covariates = [60.0, 61.0, 75.0];
        let said =
            |value: f64| kernel.weights(&covariates, &[1.0; 3], value).unwrap_err().to_string();
        let far = said(95.0);
        assert!(far.contains("`at` is 95") && far.contains("from 60 to 75"), "{far}");
        let alone = said(75.0);
        assert!(
            alone.contains("only 1 of the 3 subjects counts at 75") && alone.contains("larger"),
            "{alone}"
        );
        assert!(said(f64::NAN).contains("NaN"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Kernel::gaussian(bad).is_err());
        }
    }

    #[test]
    fn regression_far_from_all_is_that_of_the_nearest() {
        let kernel = Kernel::gaussian(1.0).unwrap();
        let found = kernel.regression(&[60.0, 70.0], &[1.0; 2], &[5.0, 7.0], 1e4).unwrap();
        assert!((found - 7.0).abs() < 1e-9, "{found}");
        // The nearest has no value: it is as if it were not there.
        let found = kernel.regression(&[60.0, 70.0], &[1.0; 2], &[5.0, f64::NAN], 1e4);
        assert_eq!(found, Some(5.0));
        assert_eq!(kernel.regression(&[60.0], &[1.0], &[f64::NAN], 60.0), None);
    }

    #[test]
    fn effective_numbers() {
        assert!((effective_number(&[0.2; 7]) - 7.0).abs() < 1e-12);
        assert!((effective_number(&[1e-200, 1e-200]) - 2.0).abs() < 1e-12);
        // (1 + 2 + 3)² / (1 + 4 + 9)
        assert!((effective_number(&[1.0, 0.0, 2.0, 3.0]) - 36.0 / 14.0).abs() < 1e-12);
        assert_eq!(effective_number(&[]), 0.0);
        assert_eq!(effective_number(&[0.0]), 0.0);
    }

    #[test]
    fn volumes_are_voxels_times_their_volume() {
        let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 0.5]).unwrap();
        let labels = Volume::from_fn(grid, |x, y, z| ((x * 7 + y * 3 + z) % 4) as i32);
        let found = label_volumes(&labels);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        for (label, volume) in found {
            let count = labels.data().iter().filter(|l| **l == label).count();
            assert!((volume - count as f64).abs() < 1e-9, "{label}");
        }
    }

    #[test]
    fn the_largest_labels_of_all() {
        let of = |pairs: &[(i32, f64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        let volumes = [
            of(&[(1, 10.0), (2, 5.0), (3, 99.0), (4, 1.0)]),
            of(&[(1, 12.0), (2, 50.0), (4, 1.0), (5, 500.0)]),
        ];
        assert_eq!(largest_labels(&volumes, 2), [1, 2]);
        assert_eq!(largest_labels(&volumes, 9), [1, 2, 4]);
        assert!(largest_labels(&[], 9).is_empty());
    }
}
