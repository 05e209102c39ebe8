//! The relation between the values of an X-ray image and simulated ones, rising or falling.

use crate::error::Result;
use voxalign_image::memory;
use voxalign_options::Choice;

/// The treatment of values that are not attenuations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum Response {
    /// Values that are a bent function of attenuations, such as roots or logarithms, are made such as simulated ones.
    #[default]
    Straighten,
    /// Values are compared as they are.
    Keep,
}

/// Groups of pixels by their simulated values, whose medians are the relation of values.
const GROUPS: usize = 32;
/// The margin of pixels around the CT that count as its surroundings.
pub(super) const FEWEST: usize = 256;
/// Different values that a relation has at least.
const KNOTS: usize = 8;
/// The residual variance of a nonlinear relation, as a fraction of that of a line, and its least correlation.
const STRAIGHTER: f64 = 0.25;
const TOLD: f64 = 0.95;

/// Predicted simulated values: medians of groups of them, monotonic throughout.
pub(super) struct Relation {
    /// Simulated values, rising, and what is expected there.
    knots: Vec<[f64; 2]>,
}

impl Relation {
    /// From values where the CT is seen, and from its surroundings.
    pub(super) fn new(taken: &[f32], simulated: &[f32], seen: &[usize]) -> Result<Self> {
        let mut order = memory::copied(seen)?;
        order.sort_by(|&a, &b| simulated[a].total_cmp(&simulated[b]));
        let mut knots = Vec::with_capacity(GROUPS + 1);
        // Where nothing is simulated.
        if taken.len() - seen.len() >= FEWEST {
            let rest = (0..taken.len()).filter(|&i| simulated[i] <= 0.0).map(|i| taken[i]);
            knots.push([0.0, quantile(memory::collected(rest)?, 0.5)]);
        }
        for group in order.chunks(order.len().div_ceil(GROUPS)) {
            let at = group.iter().map(|&i| f64::from(simulated[i])).sum::<f64>();
            let value = quantile(memory::collected(group.iter().map(|&i| taken[i]))?, 0.5);
            knots.push([at / group.len() as f64, value]);
        }
        let values: Vec<f64> = knots.iter().map(|k| k[1]).collect();
        let rising = rising(&values);
        let turned: Vec<f64> = values.iter().map(|v| -v).collect();
        let falling: Vec<f64> = self::rising(&turned).iter().map(|v| -v).collect();
        let off = |fit: &[f64]| fit.iter().zip(&values).map(|(f, v)| (f - v).powi(2)).sum::<f64>();
        let fit = if off(&falling) < off(&rising) { falling } else { rising };
        knots.iter_mut().zip(fit).for_each(|(knot, v)| knot[1] = v);
        Ok(Self { knots })
    }

    /// The predicted simulated value, linear between knots.
    pub(super) fn of(&self, simulated: &[f32]) -> Result<Vec<f32>> {
        let knots = &self.knots;
        let last = knots[knots.len() - 1][0];
        let one = |&s: &f32| between(knots, f64::from(s).clamp(knots[0][0], last)) as f32;
        Ok(memory::collected(simulated.iter().map(one))?)
    }

    /// The map from X-ray values to simulated ones where both rise together; none where there are too few values.
    fn turned(&self) -> Option<Curve> {
        let mut knots: Vec<[f64; 2]> = Vec::with_capacity(self.knots.len());
        let mut pooled = 0.0;
        for &[s, x] in &self.knots {
            match knots.last_mut() {
                Some([value, _]) if x < *value => return None,
                // The mean of those that have one value.
                Some([value, mean]) if x == *value => {
                    pooled += 1.0;
                    *mean += (s - *mean) / pooled;
                }
                _ => {
                    pooled = 1.0;
                    knots.push([x, s]);
                }
            }
        }
        (knots.len() >= KNOTS).then_some(Curve { knots })
    }

    /// The same where it makes the values of some pixels much more alike than a line does.
    pub(super) fn straightening(
        &self,
        taken: &[f32],
        simulated: &[f32],
        pixels: impl Iterator<Item = usize> + Clone,
    ) -> Option<Curve> {
        let curve = self.turned()?;
        let pairs = pixels.map(|i| [taken[i], simulated[i]]);
        let straight = pairs.clone().map(|[x, s]| [curve.of(x), s]);
        let (plain, bent) = (correlation(pairs), correlation(straight));
        // The parts of the variance that are left over.
        let [plain, left] = [plain, bent].map(|c| 1.0 - c * c);
        (bent >= TOLD && left < STRAIGHTER * plain).then_some(curve)
    }
}

/// A map from X-ray values to simulated ones.
pub(super) struct Curve {
    knots: Vec<[f64; 2]>,
}

impl Curve {
    /// Of a value; beyond the ends as close to them.
    pub(super) fn of(&self, value: f32) -> f32 {
        between(&self.knots, f64::from(value)) as f32
    }
}

/// Linear between knots, and beyond them as between the last two.
fn between(knots: &[[f64; 2]], at: f64) -> f64 {
    let after = knots.partition_point(|k| k[0] < at).clamp(1, knots.len().max(2) - 1);
    let ([a, x], [b, y]) = (knots[after - 1], knots[after]);
    let part = if b > a { (at - a) / (b - a) } else { 0.0 };
    x + part * (y - x)
}

/// The nearest values that never fall, by pooling neighbours that do.
fn rising(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for &value in values {
        let mut pool = (value, 1);
        while let Some(&(before, count)) = pools.last() {
            if before <= pool.0 {
                break;
            }
            let all = count + pool.1;
            pool = ((before * count as f64 + pool.0 * pool.1 as f64) / all as f64, all);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(value, count)| std::iter::repeat_n(value, count)).collect()
}

/// The correlation of pairs; no number where one is constant.
pub(super) fn correlation(pairs: impl Iterator<Item = [f32; 2]>) -> f64 {
    let (mut n, mut sums, mut products) = (0.0, [0.0; 2], [0.0; 3]);
    for [a, b] in pairs.map(|pair| pair.map(f64::from)) {
        n += 1.0;
        sums = [sums[0] + a, sums[1] + b];
        products = [products[0] + a * a, products[1] + a * b, products[2] + b * b];
    }
    let [a, b] = sums.map(|sum| sum / n);
    let [aa, ab, bb] = products;
    (ab - n * a * b) / ((aa - n * a * a) * (bb - n * b * b)).sqrt()
}

/// The value that a part of all stays below; no number where there are none.
pub(super) fn quantile(mut all: Vec<f32>, part: f64) -> f64 {
    if all.is_empty() {
        return f64::NAN;
    }
    let at = ((all.len() - 1) as f64 * part).round() as usize;
    f64::from(*all.select_nth_unstable_by(at, f32::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_fall_are_pooled() {
        assert_eq!(rising(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(rising(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert_eq!(rising(&[1.0, 2.0]), [1.0, 2.0]);
    }

    /// Simulated values from 0 to 5, and some of them that see the CT.
    fn simulated() -> (Vec<f32>, Vec<usize>) {
        let values: Vec<f32> =
            (0..4000).map(|i| ((i * 619 % 4000) as f32 / 800.0 - 0.5).max(0.0)).collect();
        let seen = (0..4000).filter(|&i| values[i] > 0.0).collect();
        (values, seen)
    }

    #[test]
    fn bent_relations_are_straightened_and_straight_ones_stay() {
        let (simulated, seen) = simulated();
        let curve = |f: &dyn Fn(f32) -> f32| {
            let taken: Vec<f32> = simulated.iter().map(|&s| f(s)).collect();
            let relation = Relation::new(&taken, &simulated, &seen).unwrap();
            relation.straightening(&taken, &simulated, seen.iter().copied())
        };
        let bent: [&dyn Fn(f32) -> f32; 3] =
            [&|s| 300.0 * s.sqrt() + 40.0, &|s| (0.6 * s).exp(), &|s| 9.0 - 9.0 * (-0.5 * s).exp()];
        for f in bent {
            let curve = curve(f).unwrap();
            for s in [0.3f32, 1.0, 2.2, 4.0] {
                let found = curve.of(f(s));
                assert!((found - s).abs() < 0.05, "{s} {found}");
            }
        }
        assert!(curve(&|s| 300.0 * s - 40.0).is_none());
        // A step by which much is lost, and what falls.
        assert!(curve(&|s| if s > 2.0 { 1.0 } else { 0.0 }).is_none());
        assert!(curve(&|s| 9.0 - s.sqrt()).is_none());
    }

    #[test]
    fn values_without_a_relation_are_not_straightened() {
        let (simulated, seen) = simulated();
        let taken: Vec<f32> = (0..4000).map(|i| (i * 1777 % 4000) as f32).collect();
        let relation = Relation::new(&taken, &simulated, &seen).unwrap();
        assert!(relation.straightening(&taken, &simulated, seen.iter().copied()).is_none());
    }
}
