//! The number of subjects that an atlas needs: the random permutation test (Lorenzen et al. 2005; Ha 2011,
//! section 2.4.1, Figures 2.14 and 2.15).
//!
//! Atlases of randomly chosen subjects are built, many of each number of subjects. Where the mean of
//! their entropies no longer changes with the number, an atlas is stable.

use crate::error::{PopulationError, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A generator of random numbers that gives the same ones everywhere (SplitMix64; Steele, Lea and
/// Flood 2014, "Fast splittable pseudorandom number generators").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number: any of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, each as likely as the others; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound < 2 {
            return 0;
        }
        // What is left of all numbers after the last whole multiple of the bound is drawn again.
        let rest = (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.next_u64();
            if drawn <= u64::MAX - rest {
                return drawn % bound;
            }
        }
    }
}

/// The cohorts of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cohorts {
    /// The number of subjects of each.
    pub size: usize,
    /// The numbers of the subjects of each cohort, ascending. No two cohorts are the same.
    pub members: Vec<Vec<usize>>,
    /// Whether these are all cohorts of this size that there are, fewer than were asked for or as
    /// many.
    pub all: bool,
}

/// Draws `count` different cohorts of `size` of the `subjects`, each subject at most once in a cohort; if there are
/// no more than `count`, all of them in order. The same seed gives the same cohorts, independent of the draws of
/// other sizes.
///
/// # Errors
/// A size below 2, or more than there are subjects; no cohorts.
pub fn draw_cohorts(subjects: usize, size: usize, count: usize, seed: u64) -> Result<Cohorts> {
    if size < 2 || size > subjects {
        return Err(PopulationError::option(
            "stability",
            size,
            format!("there are {subjects} subjects; give numbers from 2 to {subjects}"),
        ));
    }
    if count == 0 {
        return Err(PopulationError::option("cohorts", "0", "give 1 or more"));
    }
    if choices(subjects, size) <= count as u128 {
        return Ok(Cohorts { size, members: every_choice(subjects, size), all: true });
    }
    let mut random = SplitMix64::new(SplitMix64::new(seed ^ ((size as u64) << 32)).next_u64());
    let (mut drawn, mut members) = (BTreeSet::new(), Vec::with_capacity(count));
    while members.len() < count {
        let one = choose(subjects, size, &mut random);
        if drawn.insert(one.clone()) {
            members.push(one);
        }
    }
    Ok(Cohorts { size, members, all: false })
}

/// The number of choices of `size` out of `n`, saturated.
fn choices(n: usize, size: usize) -> u128 {
    let size = size.min(n - size);
    let mut found: u128 = 1;
    for i in 0..size as u128 {
        // Always whole: a product of i + 1 numbers in a row.
        found = match found.checked_mul(n as u128 - i) {
            Some(product) => product / (i + 1),
            None => return u128::MAX,
        };
    }
    found
}

/// All choices, in the order of their numbers.
fn every_choice(n: usize, size: usize) -> Vec<Vec<usize>> {
    let mut now: Vec<usize> = (0..size).collect();
    let mut all = vec![now.clone()];
    // The last place that can still move up does, and those behind it follow it.
    while let Some(place) = (0..size).rfind(|&i| now[i] < n - size + i) {
        now[place] += 1;
        for i in place + 1..size {
            now[i] = now[i - 1] + 1;
        }
        all.push(now.clone());
    }
    all
}

/// One choice: the first places of a shuffle, sorted.
fn choose(n: usize, size: usize, random: &mut SplitMix64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    for i in 0..size {
        all.swap(i, i + random.below((n - i) as u64) as usize);
    }
    all.truncate(size);
    all.sort_unstable();
    all
}

/// Mean and spread of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Their mean; NaN without any.
    pub mean: f64,
    /// Their variance, with `count - 1` in the denominator; none of fewer than two.
    pub variance: Option<f64>,
    /// The root of the variance.
    pub standard_deviation: Option<f64>,
}

impl Spread {
    /// That of these numbers.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        let mean = if count == 0 { f64::NAN } else { values.iter().sum::<f64>() / count as f64 };
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let variance = (count > 1).then(|| squares / (count - 1) as f64);
        Self { count, mean, variance, standard_deviation: variance.map(f64::sqrt) }
    }
}

/// The fraction of the last mean entropy within which the mean entropies of a stable atlas stay.
pub const STABLE_PART: f64 = 0.002;

/// The smallest number of subjects from which on all means differ from each other by no more than
/// `part` of the last; `means` are sizes, ascending, with the mean entropy of each. None where that
/// is so of the last one only.
#[must_use]
pub fn stable_from(means: &[(usize, f64)], part: f64) -> Option<usize> {
    let (_, last) = *means.last()?;
    let (mut low, mut high, mut found) = (last, last, None);
    for &(size, mean) in means[..means.len() - 1].iter().rev() {
        (low, high) = (low.min(mean), high.max(mean));
        // So that it is false where a mean is not a number.
        if !(high - low <= part * last.abs() && mean.is_finite()) {
            break;
        }
        found = Some(size);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The first numbers of seed 1234567 of the reference implementation.
        let mut random = SplitMix64::new(1_234_567);
        let found: Vec<_> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            found,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_are_uniform_within_their_bounds() {
        let mut random = SplitMix64::new(5);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        // The standard deviation of a count is 93.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 500), "{counts:?}");
        assert_eq!([random.below(0), random.below(1)], [0, 0]);
        assert!((0..100).all(|_| random.below(u64::MAX) < u64::MAX));
    }

    #[test]
    fn cohorts_are_different_and_have_nobody_twice() {
        let found = draw_cohorts(20, 6, 500, 1).unwrap();
        assert!(!found.all && found.members.len() == 500);
        for members in &found.members {
            assert_eq!(members.len(), 6);
            assert!(members.windows(2).all(|w| w[0] < w[1]) && members[5] < 20, "{members:?}");
        }
        assert_eq!(found.members.iter().collect::<BTreeSet<_>>().len(), 500);
        // Each subject is in 6/20 of them: 150 of standard deviation 10.
        let mut counts = [0u32; 20];
        found.members.iter().flatten().for_each(|&m| counts[m] += 1);
        assert!(counts.iter().all(|c| c.abs_diff(150) < 50), "{counts:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_cohorts() {
        let draw = |seed, size| draw_cohorts(12, size, 30, seed).unwrap().members;
        assert_eq!(draw(7, 5), draw(7, 5));
        assert_ne!(draw(7, 5), draw(8, 5));
        assert_ne!(draw(0, 5), draw(1, 5));
    }

    #[test]
    fn where_there_are_few_all_are_taken() {
        let found = draw_cohorts(5, 3, 100, 1).unwrap();
        assert!(found.all && found.members.len() == 10);
        assert_eq!(found.members[0], [0, 1, 2]);
        assert_eq!(found.members[9], [2, 3, 4]);
        assert_eq!(found.members.iter().collect::<BTreeSet<_>>().len(), 10);
        assert_eq!(draw_cohorts(5, 5, 100, 1).unwrap().members, [vec![0, 1, 2, 3, 4]]);
        // One fewer than there are: all but one are drawn.
        let found = draw_cohorts(5, 3, 9, 1).unwrap();
        assert!(!found.all && found.members.len() == 9);
    }

    #[test]
    fn numbers_of_choices() {
        for n in 0..12usize {
            for size in 0..=n {
                let naive = (0..1u32 << n).filter(|m| m.count_ones() as usize == size).count();
                assert_eq!(choices(n, size), naive as u128, "{n} {size}");
            }
        }
        assert_eq!(choices(1000, 500), u128::MAX);
    }

    #[test]
    fn sizes_that_cannot_be_are_said() {
        for (size, count, said) in
            [(1, 9, "from 2 to 10"), (11, 9, "from 2 to 10"), (3, 0, "cohorts")]
        {
            let error = draw_cohorts(10, size, count, 0).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn spreads() {
        let found = Spread::of(&[2.0, 4.0, 4.0, 6.0]);
        assert_eq!((found.count, found.mean), (4, 4.0));
        assert!((found.variance.unwrap() - 8.0 / 3.0).abs() < 1e-12);
        assert!((found.standard_deviation.unwrap() - (8.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]).variance, None);
        assert!(Spread::of(&[]).mean.is_nan());
    }

    #[test]
    fn an_atlas_is_stable_where_means_stay() {
        let means = [(2, 5.0), (4, 4.5), (6, 4.02), (8, 4.0), (10, 4.01)];
        assert_eq!(stable_from(&means, 0.01), Some(6));
        assert_eq!(stable_from(&means, 0.5), Some(2));
        assert_eq!(stable_from(&means, 1e-4), None);
        // A slow drift is no standstill, however small its steps.
        let drift: Vec<_> = (2..30).map(|l| (l, 5.0 - 0.02 * l as f64)).collect();
        assert_eq!(stable_from(&drift, 0.01), Some(27));
        assert_eq!(stable_from(&[(2, 1.0), (3, f64::NAN), (4, 1.0), (5, 1.0)], 0.01), Some(4));
        assert_eq!(stable_from(&[(2, 1.0), (3, f64::NAN)], 0.01), None);
        assert_eq!(stable_from(&[(2, 1.0)], 0.01), None);
        assert_eq!(stable_from(&[], 0.01), None);
    }
}
