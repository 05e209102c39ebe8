//! Seeded random numbers.

/// The seed of optimisers that draw random numbers.
pub const SEED: u64 = 0x766f_7861_6c69_676e;

/// SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    /// The second number of a pair from a normal distribution.
    spare: Option<f64>,
}

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed, spare: None }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below 1, each multiple of 2⁻⁵³ as likely as the others.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from the normal distribution of mean 0 and variance 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (a, b) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = a * a + b * b;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(b * factor);
                return a * factor;
            }
        }
    }

    /// A number from the Poisson distribution: exactly for a small mean, rounded from the normal distribution for a large one.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean.is_nan() || mean <= 0.0 {
            return 0.0;
        }
        if mean > 100.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        // How many events there are in a time of that length (Knuth 1969).
        let (least, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
        while product > least {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_the_normal_distribution() {
        let mut random = Random::new(SEED);
        let n = 100_000;
        let mut sums = [0.0; 4];
        for _ in 0..n {
            let v = random.normal();
            sums.iter_mut().enumerate().for_each(|(k, s)| *s += v.powi(k as i32 + 1));
        }
        let expected = [0.0, 1.0, 0.0, 3.0];
        for (sum, expected) in sums.iter().zip(expected) {
            assert!((sum / f64::from(n) - expected).abs() < 0.05, "{sums:?}");
        }
    }

    #[test]
    fn uniform_numbers_fill_the_unit_interval() {
        let mut random = Random::new(SEED);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[(random.uniform() * 10.0) as usize] += 1;
        }
        assert!(counts.iter().all(|c| (900..1100).contains(c)), "{counts:?}");
    }

    #[test]
    fn moments_of_the_poisson_distribution() {
        let mut random = Random::new(3);
        for mean in [0.3, 7.0, 60.0, 1e4] {
            let n = 20_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let v = random.poisson(mean);
                sum += v;
                squares += (v - mean) * (v - mean);
            }
            let n = f64::from(n);
            assert!((sum / n - mean).abs() < 5.0 * (mean / n).sqrt(), "{mean}");
            assert!((squares / n / mean - 1.0).abs() < 0.06, "{mean}");
        }
        assert_eq!(random.poisson(0.0), 0.0);
        assert_eq!(random.poisson(f64::NAN), 0.0);
    }
}
