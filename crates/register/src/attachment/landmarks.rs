//! Corresponding landmarks as a data term.

use super::{Attachment, Gradient, Maps, Needs, Places, middle};
use crate::error::{RegisterError, Result};
use crate::fit::PointPairs;
use crate::multiscale::Scale;
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
/// The derivative of few points is concentrated in the voxels around them, though: much smaller weights bring them
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
            let (option, value) = ("landmark_weight", weight.to_string());
            return Err(RegisterError::option(option, value, remedy));
        }
        Ok(Self { pairs, weight })
    }

    /// The same with weights `wᵢ` of the pairs: their relative reliability.
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
}

/// [`Landmarks`] as they pull on a device.
pub struct LandmarkAttachment<D: Device> {
    landmarks: Landmarks,
    at_scale: Option<AtScale<D>>,
}

/// State on the device.
struct AtScale<D: Device> {
    places: [Places<D>; 2],
    /// The weight of each coordinate of a pair: `2 w wᵢ / n`, divided by the number of sides.
    factors: D::Buffer<f32>,
    /// The energy of the last step.
    energy: D::Buffer<f64>,
}

impl<D: Device> LandmarkAttachment<D> {
    /// Pairs that are to pull.
    #[must_use]
    pub fn new(landmarks: Landmarks) -> Self {
        Self { landmarks, at_scale: None }
    }

    fn placed(&self, device: &D, sides: usize) -> Result<AtScale<D>> {
        let Landmarks { pairs, weight } = &self.landmarks;
        let factor = 2.0 * weight / (sides * pairs.len()).max(1) as f64;
        let each: Vec<f32> = (0..pairs.len()).map(|i| (factor * pairs.weight(i)) as f32).collect();
        let [fixed, moving] = pairs.points();
        let places =
            |points: &[Vector3<f64>]| Places::new(device, points, middle(points), each.clone());
        let factors = device.upload_vec(each.repeat(3))?;
        Ok(AtScale { places: [places(fixed)?, places(moving)?], factors, energy: device.alloc(1)? })
    }
}

impl<D: Device> Attachment<D> for LandmarkAttachment<D> {
    fn needs(&self) -> Needs<'_, D> {
        let places = self.at_scale.as_ref().map(|at| at.places.each_ref());
        Needs { channels: 0..0, places }
    }

    fn to_scale(&mut self, device: &D, _: &Scale, _: &Grid, sides: usize) -> Result<()> {
        self.at_scale = Some(self.placed(device, sides)?);
        Ok(())
    }

    fn evaluate(
        &mut self,
        device: &D,
        at: &Maps<'_, D>,
        out: &mut Gradient<'_, D>,
    ) -> Result<PendingEnergy> {
        let Some(AtScale { places, factors, energy }) = &mut self.at_scale else {
            return Ok(PendingEnergy::default());
        };
        let mut adds = false;
        for (side, carried) in at.carried.into_iter().enumerate() {
            let (Some(carried), to) = (carried, places[1 - side].at()) else { continue };
            // Half of the factors times the square is what the side counts.
            device.pull_pairs(carried, to, factors, out.covectors[side], adds, energy)?;
            adds = true;
        }
        if !adds {
            return Ok(PendingEnergy::default());
        }
        Ok(PendingEnergy::arriving(device.arriving(energy)?, 1.0))
    }

    fn bytes(&self, _: &Grid) -> u64 {
        // Places, factors and covectors, twice.
        80 * self.landmarks.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::relative;
    use voxalign_compute::Memory;
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
        let mut attachment = LandmarkAttachment::<Cpu>::new(landmarks(1.3));
        let sides = if back.is_empty() { 1 } else { 2 };
        let (scale, grid) =
            (Scale { factor: 1, iterations: 1 }, Grid::axis_aligned([9; 3], [1.0; 3]));
        attachment.to_scale(&device, &scale, &grid.unwrap(), sides).unwrap();
        let origins = attachment.needs().places.unwrap().map(|p| *p.origin());
        let upload = |points: &[Vector3<f64>], side: usize| {
            device.upload_vec(relative(points, &origins[1 - side]).unwrap()).unwrap()
        };
        let on_device = [upload(there, 0), upload(back, 1)];
        let mut covectors = [there, back].map(|p| device.alloc::<f32>(3 * p.len()).unwrap());
        let carried = [Some(&on_device[0]), Some(&on_device[1]).filter(|_| sides == 2)];
        let at = Maps::<Cpu> { images: &[], carried };
        let (derivatives, reference_derivatives, covectors_) =
            (&mut [], &mut [], covectors.each_mut());
        let mut out = Gradient { derivatives, reference_derivatives, covectors: covectors_ };
        let energy = attachment.evaluate(&device, &at, &mut out).unwrap();
        let vectors = covectors.map(|buffer| {
            let list = device.into_host(buffer).unwrap();
            let n = list.len() / 3;
            (0..n).map(|i| Vector3::from_fn(|a, _| f64::from(list[a * n + i]))).collect()
        });
        (energy.wait().unwrap(), vectors)
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
            let derivative: f64 = covectors.iter().map(|c| dot(c)).sum();
            let mut last = f64::INFINITY;
            for h in [1e-0, 1e-1, 1e-2] {
                // What is left is of second order.
                let rest = (energy(h) - found - h * derivative).abs() / (h * derivative.abs());
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
