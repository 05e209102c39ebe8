//! Corresponding points that pull at each other.

use super::{Attachment, Gradient, Maps, Needs};
use crate::compare::CompareError;
use crate::error::{RegisterError, Result};
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
#[derive(Debug, Clone, PartialEq)]
pub struct Landmarks {
    fixed: Vec<Vector3<f64>>,
    moving: Vec<Vector3<f64>>,
    /// For each pair; empty where all are 1.
    each: Vec<f64>,
    weight: f64,
}

impl Landmarks {
    /// Pairs of points of the fixed and of the moving world, mm; that of one index belongs to that of the same
    /// index. All count alike, and the energy is multiplied by `weight`, 1/mm².
    ///
    /// # Errors
    /// [`PointCounts`](CompareError::PointCounts) for sets of different sizes; [`Points`](CompareError::Points)
    /// without points or with a coordinate that is not finite; [`Option`](RegisterError::Option) for a weight that is not
    /// above 0.
    pub fn new(fixed: &PointSet, moving: &PointSet, weight: f64) -> Result<Self> {
        let (first, second) = (fixed.len(), moving.len());
        if first != second {
            return Err(CompareError::PointCounts { first, second }.into());
        }
        if first == 0 {
            let why = "there are no landmarks".to_owned();
            return Err(CompareError::Points { why }.into());
        }
        let pairs = fixed.points().iter().zip(moving.points());
        let finite = |p: &Vector3<f64>| p.iter().all(|v| v.is_finite());
        if let Some(i) = pairs.into_iter().position(|(p, q)| !finite(p) || !finite(q)) {
            let why = format!("landmark {} has a coordinate that is not a finite number", i + 1);
            return Err(CompareError::Points { why }.into());
        }
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(wrong_weight("landmark weight", weight, "give a number above 0"));
        }
        let (fixed, moving) = (fixed.points().to_vec(), moving.points().to_vec());
        Ok(Self { fixed, moving, each: Vec::new(), weight })
    }

    /// The same with the weights `wᵢ` of the pairs: how reliable they are beside each other.
    ///
    /// # Errors
    /// [`Option`](RegisterError::Option) where there are not as many as pairs, or one is negative or not finite.
    pub fn with_weights(mut self, each: Vec<f64>) -> Result<Self> {
        if each.len() != self.fixed.len() {
            let value = format!("a list of {}", each.len());
            let remedy = format!("give one for each of the {} landmarks", self.fixed.len());
            return Err(RegisterError::Option { option: "landmark weights", value, remedy });
        }
        if let Some(&w) = each.iter().find(|w| !(**w >= 0.0 && w.is_finite())) {
            return Err(wrong_weight("landmark weights", w, "give numbers of 0 or more"));
        }
        self.each = each;
        Ok(self)
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fixed.len()
    }

    /// Never: there is one pair at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fixed.is_empty()
    }

    /// The points of the fixed and of the moving world, mm.
    #[must_use]
    pub fn points(&self) -> [&[Vector3<f64>]; 2] {
        [&self.fixed, &self.moving]
    }

    /// `part · w Σ wᵢ |atᵢ − toᵢ|² / n`, and its derivative in every `atᵢ`.
    fn pull(
        &self,
        part: f64,
        at: &[Vector3<f64>],
        to: &[Vector3<f64>],
        covectors: &mut [Vector3<f64>],
    ) -> f64 {
        let factor = part * self.weight / self.fixed.len().max(1) as f64;
        let mut energy = 0.0;
        for (i, ((at, to), covector)) in at.iter().zip(to).zip(covectors).enumerate() {
            let (apart, weight) = (at - to, factor * self.each.get(i).copied().unwrap_or(1.0));
            energy += weight * apart.norm_squared();
            *covector = 2.0 * weight * apart;
        }
        energy
    }
}

fn wrong_weight(option: &'static str, value: f64, remedy: &str) -> RegisterError {
    RegisterError::Option { option, value: value.to_string(), remedy: remedy.to_owned() }
}

impl<D: Device> Attachment<D> for Landmarks {
    fn needs(&self) -> Needs<'_> {
        let (fixed_points, moving_points) = (&self.fixed, &self.moving);
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
        let there = self.pull(part, at.fixed_points, &self.moving, out.fixed_covectors);
        let back = self.pull(part, at.moving_points, &self.fixed, out.moving_covectors);
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
    fn what_is_no_pair_is_refused() {
        let (one, two) = (PointSet::new(points(1, 0.0)), PointSet::new(points(2, 0.0)));
        let nan = PointSet::new(vec![Vector3::new(0.0, f64::NAN, 0.0); 2]);
        let said = |r: Result<Landmarks>| r.unwrap_err().to_string();
        assert!(said(Landmarks::new(&one, &two, 1.0)).contains('2'));
        assert!(said(Landmarks::new(&two, &nan, 1.0)).contains("landmark 1"));
        let none = PointSet::default();
        assert!(said(Landmarks::new(&none, &none, 1.0)).contains("no landmarks"));
        assert!(said(Landmarks::new(&two, &two, 0.0)).contains("above 0"));
        let good = Landmarks::new(&two, &two, 1.0).unwrap();
        assert!(said(good.clone().with_weights(vec![1.0])).contains("each of the 2"));
        assert!(said(good.with_weights(vec![1.0, -1.0])).contains("-1"));
    }
}
