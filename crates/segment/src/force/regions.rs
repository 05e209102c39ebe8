//! Regions whose intensities are mixtures, with fronts that are held by edges.

use super::{EdgeStop, Force, Terms};
use crate::error::{Result, SegmentError, image, same_length};
use crate::lattice::Lattice;
use crate::mixture::Mixture;
use voxalign_image::memory;

/// Geodesic active regions (N. Paragios and R. Deriche 2002), equation 3.16 with its sign reversed, so that R₁ is the object:
///
/// F = α log(P(I | R₁) / P(I | R₂)) - (1 - α) (b κ + ∇b · n).
#[derive(Debug, Clone)]
pub struct GeodesicRegions {
    ratios: Vec<f64>,
    stop: EdgeStop,
    balance: f64,
}

impl GeodesicRegions {
    /// An image, how its intensities are spread in the object and in the background, its edges, and the balance α: 0 goes by edges
    /// alone, 1 by intensities alone.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NotFinite`], [`SegmentError::Constant`], [`SegmentError::Parameter`] for a balance
    /// that is not from 0 to 1, [`SegmentError::OutOfMemory`].
    pub fn new(
        lattice: &Lattice,
        values: &[f32],
        [object, background]: [&Mixture; 2],
        stop: EdgeStop,
        balance: f64,
    ) -> Result<Self> {
        image(values, lattice.len())?;
        same_length("the edges", stop.len(), lattice.len())?;
        if !(0.0..=1.0).contains(&balance) {
            let (name, remedy) = ("the balance", "give a number from 0 to 1");
            return Err(SegmentError::Parameter { name, value: balance, remedy });
        }
        let ratio = |v: &f32| {
            let value = f64::from(*v);
            object.log_density(value) - background.log_density(value)
        };
        Ok(Self { ratios: memory::collected(values.iter().map(ratio))?, stop, balance })
    }

    /// The logarithm of how much likelier each point is of the object.
    pub(crate) fn ratios(&self) -> &[f64] {
        &self.ratios
    }

    /// The edges.
    pub(crate) fn stop(&self) -> &EdgeStop {
        &self.stop
    }

    /// α.
    pub(crate) fn balance(&self) -> f64 {
        self.balance
    }
}

impl Force for GeodesicRegions {
    fn points(&self) -> Option<usize> {
        Some(self.ratios.len())
    }

    fn terms(&self, point: usize) -> Terms {
        let speed = self.balance * self.ratios[point];
        Terms { speed, ..self.stop.terms(point, 1.0 - self.balance) }
    }

    fn energy(&self, is_inside: &dyn Fn(usize) -> bool) -> Option<f64> {
        let inside = (0..self.ratios.len()).filter(|p| is_inside(*p));
        Some(-self.balance * inside.map(|p| self.ratios[p]).sum::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;

    #[test]
    fn what_is_likelier_of_the_object_comes_in() {
        let lattice = Lattice::new([8, 8, 1], Neighbourhood::Four).unwrap();
        let values: Vec<f32> =
            (0..64).map(|p| if p % 8 < 4 { 9.0 } else { 1.0 } + (p % 3) as f32).collect();
        let all = Mixture::fit(&values, 2).unwrap();
        let stop = EdgeStop::new(&lattice, &values, 1.0, 1.0, [1.0; 3]).unwrap();
        let of = |balance| {
            let parts = [&all.part(&[1]).unwrap(), &all.part(&[0]).unwrap()];
            GeodesicRegions::new(&lattice, &values, parts, stop.clone(), balance)
        };
        let force = of(0.3).unwrap();
        assert!(force.terms(8).speed > 0.0 && force.terms(15).speed < 0.0);
        assert!((force.terms(8).curvature - 0.7 * stop.value(8)).abs() < 1e-12);
        let object = force.energy(&|p| p % 8 < 4).unwrap();
        assert!(object < force.energy(&|p| p % 8 < 5).unwrap());
        assert!(object < force.energy(&|p| p % 8 < 3).unwrap());
        assert!(of(1.5).is_err() && of(f64::NAN).is_err());
    }
}
