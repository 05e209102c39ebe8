//! Two regions that are each of one intensity.

use super::{Force, Terms};
use crate::device::Intensities;
use crate::error::{Result, SegmentError, image};
use crate::lattice::Lattice;

/// Which of two regions is the object.
///
/// The energy of Chan and Vese has no object: exchanged regions have the same. From a start of many small shapes the means of both sides are almost
/// the same, and which becomes which is chance unless it is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Object {
    /// Whichever is more like what is inside at the start.
    #[default]
    AsStarted,
    /// The one of higher intensity.
    Brighter,
    /// The one of lower intensity.
    Darker,
}

impl Object {
    /// Whether the means inside and outside are the wrong way round.
    pub(crate) fn is_wrong(self, [inside, outside]: [f64; 2]) -> bool {
        match self {
            Self::AsStarted => false,
            Self::Brighter => inside < outside,
            Self::Darker => inside > outside,
        }
    }
}

/// Active contours without edges (T. Chan and L. Vese 2001), equation 3.15 with the sign of its curvature term that shortens fronts:
///
/// F = -μ κ - λ₁ (c₁ - I)² + λ₂ (c₂ - I)²,
///
/// where c₁ and c₂ are the mean intensities inside and outside, anew before each iteration. A side without points keeps its mean.
#[derive(Debug, Clone)]
pub struct ChanVese<'a> {
    image: &'a [f32],
    curvature: f64,
    weights: [f64; 2],
    means: [f64; 2],
    fixed: bool,
    object: Object,
}

impl<'a> ChanVese<'a> {
    /// An image, the weight μ of the curvature, and λ₁ and λ₂ of what is inside and outside.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NotFinite`], [`SegmentError::Constant`], [`SegmentError::Parameter`] for a weight below 0, or
    /// that is not a number.
    pub fn new(
        lattice: &Lattice,
        values: &'a [f32],
        curvature: f64,
        weights: [f64; 2],
    ) -> Result<Self> {
        image(values, lattice.len())?;
        for (name, value) in [
            ("the weight of the curvature", curvature),
            ("the weight inside", weights[0]),
            ("the weight outside", weights[1]),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                let remedy = "give a number that is not below 0";
                return Err(SegmentError::Parameter { name, value, remedy });
            }
        }
        Ok(Self {
            image: values,
            curvature,
            weights,
            means: [0.0; 2],
            fixed: false,
            object: Object::AsStarted,
        })
    }

    /// The same with means that do not change.
    ///
    /// # Errors
    /// [`SegmentError::Parameter`] for means that are not numbers.
    pub fn with_means(mut self, means: [f64; 2]) -> Result<Self> {
        for (name, value) in [("the mean inside", means[0]), ("the mean outside", means[1])] {
            if !value.is_finite() {
                return Err(SegmentError::Parameter { name, value, remedy: "give a number" });
            }
        }
        self.means = means;
        self.fixed = true;
        Ok(self)
    }

    /// The same, where it is known which region is the object: the means are exchanged as long as they are the wrong way round.
    #[must_use]
    pub fn with_object(mut self, object: Object) -> Self {
        self.object = object;
        self
    }

    /// The intensities inside and outside that the force goes by now.
    #[must_use]
    pub fn means(&self) -> [f64; 2] {
        self.means
    }

    /// The weight of the curvature.
    pub(crate) fn curvature(&self) -> f64 {
        self.curvature
    }

    /// The image and what its regions go by, for devices.
    pub(crate) fn intensities(&self) -> Intensities<'a> {
        let Self { image, weights, object, .. } = *self;
        Intensities { image, weights, fixed: self.fixed.then_some(self.means), object }
    }
}

impl Force for ChanVese<'_> {
    fn update(&mut self, is_inside: &dyn Fn(usize) -> bool) -> Result<()> {
        if self.fixed {
            return Ok(());
        }
        let (mut sums, mut counts) = ([0.0; 2], [0usize; 2]);
        for (point, &value) in self.image.iter().enumerate() {
            let side = usize::from(!is_inside(point));
            sums[side] += f64::from(value);
            counts[side] += 1;
        }
        for side in 0..2 {
            if counts[side] > 0 {
                self.means[side] = sums[side] / counts[side] as f64;
            }
        }
        if self.object.is_wrong(self.means) {
            self.means.swap(0, 1);
        }
        Ok(())
    }

    fn points(&self) -> Option<usize> {
        Some(self.image.len())
    }

    fn terms(&self, point: usize) -> Terms {
        let value = f64::from(self.image[point]);
        let [inside, outside] =
            std::array::from_fn(|s| self.weights[s] * (self.means[s] - value).powi(2));
        Terms { speed: outside - inside, curvature: self.curvature, ..Terms::default() }
    }

    fn energy(&self, is_inside: &dyn Fn(usize) -> bool) -> Option<f64> {
        let of = |(point, &value): (usize, &f32)| {
            let side = usize::from(!is_inside(point));
            self.weights[side] * (self.means[side] - f64::from(value)).powi(2)
        };
        Some(self.image.iter().enumerate().map(of).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;

    /// The data term is minus the derivative of the energy by the side of a point.
    #[test]
    fn the_force_lowers_the_energy() {
        let lattice = Lattice::new([4, 3, 1], Neighbourhood::Four).unwrap();
        let values: Vec<f32> = (0..12).map(|i| (i * i % 7) as f32).collect();
        let mut force = ChanVese::new(&lattice, &values, 0.5, [0.7, 1.3]).unwrap();
        let set: Vec<bool> = values.iter().map(|v| *v > 2.0).collect();
        force.update(&|p| set[p]).unwrap();
        let mean = |inside: bool| {
            let of: Vec<f32> = values.iter().filter(|v| (**v > 2.0) == inside).copied().collect();
            f64::from(of.iter().sum::<f32>()) / of.len() as f64
        };
        assert!((force.means()[0] - mean(true)).abs() < 1e-12);
        assert!((force.means()[1] - mean(false)).abs() < 1e-12);
        for point in 0..12 {
            let energy =
                |inside| force.energy(&|p| if p == point { inside } else { set[p] }).unwrap();
            let terms = force.terms(point);
            assert!((terms.speed - (energy(false) - energy(true))).abs() < 1e-9);
            assert_eq!(terms.curvature, 0.5);
        }
        // Of a side without points the mean is what it was.
        let means = force.means();
        force.update(&|_| true).unwrap();
        assert!(force.means()[1] == means[1] && force.means()[0] != means[0]);
    }

    #[test]
    fn the_object_is_the_one_that_was_said() {
        let lattice = Lattice::new([4, 1, 1], Neighbourhood::Four).unwrap();
        let values = [1.0, 1.0, 3.0, 5.0];
        for (object, means) in [
            (Object::AsStarted, [1.0, 4.0]),
            (Object::Brighter, [4.0, 1.0]),
            (Object::Darker, [1.0, 4.0]),
        ] {
            let force = ChanVese::new(&lattice, &values, 0.0, [1.0; 2]).unwrap();
            let mut force = force.with_object(object);
            force.update(&|p| p < 2).unwrap();
            assert_eq!(force.means(), means);
            assert_eq!(force.terms(3).speed > 0.0, means[0] == 4.0);
        }
    }

    #[test]
    fn images_and_weights_that_cannot_be_are_refused() {
        let lattice = Lattice::new([2, 2, 1], Neighbourhood::Four).unwrap();
        let said = |values: &[f32], weight| {
            ChanVese::new(&lattice, values, weight, [1.0; 2]).unwrap_err().to_string()
        };
        assert!(said(&[1.0; 4], 1.0).contains("has the value 1 everywhere"));
        assert!(said(&[1.0, 2.0, f32::NAN, 0.0], 1.0).contains("at point 2"));
        assert!(said(&[1.0, 2.0], 1.0).contains("2 values"));
        assert!(said(&[1.0, 2.0, 3.0, 4.0], -1.0).contains("the weight of the curvature is -1"));
    }
}
