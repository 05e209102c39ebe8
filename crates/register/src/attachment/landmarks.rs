//! Corresponding points that pull at each other.

use super::{Attachment, Gradient, Maps, Needs};
use crate::error::{RegisterError, Result};
use crate::fit::PointPairs;
use crate::similarity::PendingEnergy;
use voxalign_compute::Device;
use voxalign_image::{Grid, PointSet, Vector3};

/// Pairs of corresponding points, with the energy `w Σ wᵢ |A(φ(pᵢ)) − qᵢ|² / n` of `n` fixed points `pᵢ` and
/// moving points `qᵢ`, mm²; of models that treat both sides alike the mean of that and of
/// `w Σ wᵢ |pᵢ − φ⁻¹(A⁻¹(qᵢ))|² / n`.
///
/// Energies are added as they are: mean squared differences of images are of the order of a hundredth, so that
/// pairs that are a millimetre apart have as large an energy with `w = 0.01`; with local correlation and mutual
/// information, which are of the order of one, they have it with `w = 1`.
/// The slope of few points is concentrated in the voxels around them, though: much smaller weights bring them
/// together, and leave the images what they decide (docs/accuracy.md has figures).
#[derive(Debug, Clone, PartialEq)]
pub struct Landmarks {
    pairs: PointPairs,
    weight: f64,
}

impl Landmarks {
    /// Pairs of points of the fixed and of the moving world, mm; that of one index belongs to that of the same
    /// index. All count alike, and the energy is multiplied by `weight`, 1/mm².
    ///
    /// # Errors
    /// As of [`PointPairs::new`]; [`Option`](RegisterError::Option) for a weight that is not above 0.
    pub fn new(fixed: &PointSet, moving: &PointSet, weight: f64) -> Result<Self> {
        Self::of(PointPairs::new(fixed, moving)?, weight)
    }

    /// The same of pairs that may have weights of their own.
    ///
    /// # Errors
    /// [`Option`](RegisterError::Option) for a weight that is not above 0.
    pub fn of(pairs: PointPairs, weight: f64) -> Result<Self> {
        if !(weight > 0.0 && weight.is_finite()) {
            let remedy = "give a number above 0".to_owned();
            let (option, value) = ("landmark weight", weight.to_string());
            return Err(RegisterError::Option { option, value, remedy });
        }
        Ok(Self { pairs, weight })
    }

    /// The same with the weights `wᵢ` of the pairs: how reliable they are beside each other.
    ///
    /// # Errors
    /// As of [`PointPairs::with_weights`].
    pub fn with_weights(self, each: Vec<f64>) -> Result<Self> {
        Ok(Self { pairs: self.pairs.with_weights(each)?, weight: self.weight })
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Never: there is one pair at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The points of the fixed and of the moving world, mm.
    #[must_use]
    pub fn points(&self) -> [&[Vector3<f64>]; 2] {
        self.pairs.points()
    }

    /// The pairs with their weights.
    #[must_use]
    pub fn pairs(&self) -> &PointPairs {
        &self.pairs
    }

    /// `part · w Σ wᵢ |atᵢ − toᵢ|² / n`, and its derivative in every `atᵢ`.
    fn pull(
        &self,
        part: f64,
        at: &[Vector3<f64>],
        to: &[Vector3<f64>],
        covectors: &mut [Vector3<f64>],
    ) -> f64 {
        let factor = part * self.weight / self.len().max(1) as f64;
        let mut energy = 0.0;
        for (i, ((at, to), covector)) in at.iter().zip(to).zip(covectors).enumerate() {
            let (apart, weight) = (at - to, factor * self.pairs.weight(i));
            energy += weight * apart.norm_squared();
            *covector = 2.0 * weight * apart;
        }
        energy
    }
}

impl<D: Device> Attachment<D> for Landmarks {
    fn needs(&self) -> Needs<'_> {
        let [fixed_points, moving_points] = self.points();
        Needs { fixed_points, moving_points, ..Needs::default() }
    }

    fn evaluate(
        &mut self,
        _: &D,
        at: &Maps<'_, D>,
        out: &mut Gradient<'_, D>,
    ) -> Result<PendingEnergy> {
        let both = !at.moving_points.is_empty();
        let part = if both { 0.5 } else { 1.0 };
        let [fixed, moving] = self.points();
        let there = self.pull(part, at.fixed_points, moving, out.fixed_covectors);
        let back = self.pull(part, at.moving_points, fixed, out.moving_covectors);
        Ok(PendingEnergy::known(there + back))
    }

    fn bytes(&self, _: &Grid) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;

    fn points(count: usize, phase: f64) -> Vec<Vector3<f64>> {
        let at = |i: usize| (i as f64 * 0.7 + phase).sin() * 20.0;
        (0..count).map(|i| Vector3::new(at(i), at(i + 50), at(i + 91))).collect()
    }

    fn landmarks(weight: f64) -> Landmarks {
        let sets = [0.0, 0.3].map(|phase| PointSet::new(points(7, phase)));
        let each = (0..7).map(|i| f64::from(i) * 0.5).collect();
        Landmarks::new(&sets[0], &sets[1], weight).unwrap().with_weights(each).unwrap()
    }

    /// The energy and its derivative where points are.
    fn evaluated(there: &[Vector3<f64>], back: &[Vector3<f64>]) -> (f64, [Vec<Vector3<f64>>; 2]) {
        let device = Cpu::new(Some(1)).unwrap();
        let mut covectors = [there, back].map(|p| vec![Vector3::zeros(); p.len()]);
        let [fixed_covectors, moving_covectors] = &mut covectors;
        let at = Maps::<Cpu> { images: &[], fixed_points: there, moving_points: back };
        let (slopes, reference_slopes) = (&mut [], &mut []);
        let mut out = Gradient { slopes, reference_slopes, fixed_covectors, moving_covectors };
        let energy = landmarks(1.3).evaluate(&device, &at, &mut out).unwrap();
        (energy.wait().unwrap(), covectors)
    }

    #[test]
    fn covectors_are_derivatives() {
        let (there, back, way) = (points(7, 0.9), points(7, -0.4), points(7, 2.0));
        let along = |p: &[Vector3<f64>], t: f64| -> Vec<Vector3<f64>> {
            p.iter().zip(&way).map(|(p, w)| p + t * w).collect()
        };
        for back in [&[][..], &back] {
            let energy = |t: f64| evaluated(&along(&there, t), &along(back, t)).0;
            let (found, covectors) = evaluated(&there, back);
            let dot = |c: &[Vector3<f64>]| c.iter().zip(&way).map(|(c, w)| c.dot(w)).sum::<f64>();
            let slope: f64 = covectors.iter().map(|c| dot(c)).sum();
            let mut last = f64::INFINITY;
            for h in [1e-1, 1e-2, 1e-3] {
                // What is left is of second order.
                let rest = (energy(h) - found - h * slope).abs() / (h * slope.abs());
                assert!(rest < 0.2 * last && found > 1.0, "{rest} at {h}");
                last = rest;
            }
        }
    }

    #[test]
    fn a_weight_is_above_0() {
        let two = PointSet::new(points(2, 0.0));
        let said = Landmarks::new(&two, &two, 0.0).unwrap_err().to_string();
        assert!(said.contains("above 0"), "{said}");
    }
}
