//! A prior on scale that keeps a search from shrinking an object into a corner of the other image.

use crate::error::Result;
use crate::search::{Evaluation, Objective};
use voxalign_image::{Affine, Matrix3};

/// The weight of the prior at the stages of a search: it fades as more is seen. At the last stages it moves a
/// scale by less than 1e-5.
const WEIGHTS: [f64; 3] = [0.02, 0.01, 0.002];

/// The weight at a stage.
pub(super) fn weight(index: usize) -> f64 {
    WEIGHTS.get(index).or(WEIGHTS.last()).copied().unwrap_or(0.0)
}

/// The cost where a map has no inverse.
const SINGULAR: f64 = 1e6;

/// An objective with a prior on the stretches of a map relative to the start: for the stretches `s_i` the sum of
/// `s_i^2 + 1 / s_i^2 - 2`, which is `4 (ln s)^2` for small ones, treats growing and shrinking alike, does not
/// depend on rotations, and is infinite for a collapse.
///
/// A cost is a mean over an overlap, and does not see what is lost beside it: of a small smooth piece of an
/// image that is stretched over the other one, few numbers explain much.
pub(super) struct Held<'a> {
    inner: &'a dyn Objective,
    weight: f64,
    /// Takes the start's linear part off a map.
    unstarted: Matrix3<f64>,
}

impl<'a> Held<'a> {
    /// About a start.
    pub(super) fn new(inner: &'a dyn Objective, weight: f64, start: &Affine) -> Self {
        let unstarted = start.matrix.try_inverse().unwrap_or_else(Matrix3::identity);
        Self { inner, weight, unstarted }
    }

    /// The prior of a map, and its derivative in the linear part.
    fn prior(&self, map: &Affine) -> (f64, Matrix3<f64>) {
        let stretch = map.matrix * self.unstarted;
        let square = stretch.transpose() * stretch;
        let Some(inverse) = square.try_inverse() else { return (SINGULAR, Matrix3::zeros()) };
        let value = square.trace() + inverse.trace() - 6.0;
        // Of tr C: 2 B; of tr C^-1: -2 B C^-2.
        let of_stretch = (stretch - stretch * inverse * inverse) * 2.0;
        (self.weight * value, of_stretch * self.unstarted.transpose() * self.weight)
    }
}

impl Objective for Held<'_> {
    fn batch(&self) -> usize {
        self.inner.batch()
    }

    fn evaluate(&self, maps: &[Affine], gradient: bool) -> Result<Vec<Evaluation>> {
        let mut found = self.inner.evaluate(maps, gradient)?;
        for (e, map) in found.iter_mut().zip(maps) {
            let (value, derivative) = self.prior(map);
            e.cost += value;
            if let Some(rows) = &mut e.gradient {
                for (r, c) in (0..3).flat_map(|r| (0..3).map(move |c| (r, c))) {
                    rows[4 * r + c] += derivative[(r, c)];
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Vector3;

    /// A cost that is always 0.
    struct Nothing;

    impl Objective for Nothing {
        fn batch(&self) -> usize {
            1
        }

        fn evaluate(&self, maps: &[Affine], gradient: bool) -> Result<Vec<Evaluation>> {
            let gradient = gradient.then_some([0.0; 12]);
            Ok(maps.iter().map(|_| Evaluation { cost: 0.0, gradient, overlap: 1.0 }).collect())
        }
    }

    fn scaling(s: f64) -> Affine {
        Affine::new(Matrix3::identity() * s, Vector3::zeros())
    }

    #[test]
    fn the_derivative_is_that_of_the_prior() {
        let start =
            Affine::from_rows([[0.9, 0.1, 0.0, 3.0], [-0.2, 1.1, 0.1, 0.0], [0.0, 0.1, 1.3, 0.0]]);
        let held = Held::new(&Nothing, 0.3, &start);
        let rows = [[1.2, 0.1, -0.1, 1.0], [0.0, 0.8, 0.2, -2.0], [0.1, 0.0, 1.1, 5.0]];
        let cost = |rows| held.evaluate(&[Affine::from_rows(rows)], false).unwrap()[0].cost;
        let g = held.evaluate(&[Affine::from_rows(rows)], true).unwrap()[0].gradient.unwrap();
        for e in 0..12 {
            let (mut up, mut down) = (rows, rows);
            up[e / 4][e % 4] += 1e-5;
            down[e / 4][e % 4] -= 1e-5;
            let derivative = (cost(up) - cost(down)) / 2e-5;
            assert!(
                (derivative - g[e]).abs() < 1e-6 * (1.0 + derivative.abs()),
                "{e}: {derivative} {}",
                g[e]
            );
        }
    }

    #[test]
    fn a_collapse_costs_more_than_any_similarity_gives() {
        let held = Held::new(&Nothing, weight(0), &Affine::identity());
        let cost = |s| held.evaluate(&[scaling(s)], false).unwrap()[0].cost;
        assert!(cost(1.0).abs() < 1e-12 && cost(0.93) < 0.0015);
        assert!((cost(0.25) - cost(4.0)).abs() < 1e-12);
        assert!(cost(0.2) > 1.0, "{}", cost(0.2));
        assert!(held.evaluate(&[scaling(0.0)], false).unwrap()[0].cost >= SINGULAR * weight(0));
    }
}
