//! Fronts that are held by edges.

use super::{Force, Terms};
use crate::error::{Result, SegmentError, above, image};
use crate::gaussian::{Gaussian, gradient};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// The function b of an image that is 1 where it is even and towards 0 at its edges (equation 3.17), with its gradient:
/// b = 1 / (1 + |∇(G ⊗ I)| / c). The contrast c, an intensity by length, is 1 in the source.
#[derive(Debug, Clone)]
pub struct EdgeStop {
    values: Vec<f64>,
    slopes: Vec<[f64; 3]>,
}

impl EdgeStop {
    /// An image, the standard deviation of the Gaussian, the contrast, and the spacing of the points.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NotFinite`], [`SegmentError::Constant`], [`SegmentError::Parameter`],
    /// [`SegmentError::OutOfMemory`].
    pub fn new(
        lattice: &Lattice,
        values: &[f32],
        sigma: f64,
        contrast: f64,
        spacing: [f64; 3],
    ) -> Result<Self> {
        image(values, lattice.len())?;
        above("the contrast of an edge", contrast, 0.0, "give a number above 0")?;
        let smooth = Gaussian::new(lattice, sigma, spacing)?.smoothed(lattice, values)?;
        let stop = |point| {
            let slope = gradient(lattice, &smooth, spacing, point);
            1.0 / (1.0 + slope.iter().map(|c| c * c).sum::<f64>().sqrt() / contrast)
        };
        let values = memory::collected((0..lattice.len()).map(stop))?;
        let slope = |point| gradient(lattice, &values, spacing, point);
        let slopes = memory::collected((0..lattice.len()).map(slope))?;
        Ok(Self { values, slopes })
    }

    /// A contrast for an image of which nothing is known: the median of the gradients of the smoothed image that are not 0, so that half of them slow
    /// a front to less than half its speed.
    ///
    /// # Errors
    /// As [`EdgeStop::new`]; [`SegmentError::Constant`](crate::SegmentError::Constant) as well where the smoothed image has no gradient.
    pub fn usual_contrast(
        lattice: &Lattice,
        values: &[f32],
        sigma: f64,
        spacing: [f64; 3],
    ) -> Result<f64> {
        image(values, lattice.len())?;
        let smooth = Gaussian::new(lattice, sigma, spacing)?.smoothed(lattice, values)?;
        let size = |point| {
            let slope = gradient(lattice, &smooth, spacing, point);
            slope.iter().map(|c| c * c).sum::<f64>().sqrt()
        };
        let mut sizes = memory::room(lattice.len())?;
        sizes.extend((0..lattice.len()).map(size).filter(|s| *s > 0.0));
        if sizes.is_empty() {
            return Err(SegmentError::Constant { value: f64::from(values[0]) });
        }
        let middle = sizes.len() / 2;
        Ok(*sizes.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// How many points there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// b at a point.
    #[must_use]
    pub fn value(&self, point: usize) -> f64 {
        self.values[point]
    }

    /// ∇b at a point.
    #[must_use]
    pub fn slope(&self, point: usize) -> [f64; 3] {
        self.slopes[point]
    }

    /// The terms of what shortens a front that is measured by b: F = -(b κ + ∇b · n), times a weight.
    pub(super) fn terms(&self, point: usize, weight: f64) -> Terms {
        Terms {
            speed: 0.0,
            curvature: weight * self.values[point],
            flow: self.slopes[point].map(|c| -weight * c),
        }
    }
}

/// Geodesic active contours (V. Caselles, R. Kimmel and G. Sapiro 1997) with a pressure: F = p b - (b κ + ∇b · n). A front goes out where the
/// pressure p is above 0, in where it is below, and stays at edges, where b is small and its slope leads back.
#[derive(Debug, Clone)]
pub struct Edges {
    stop: EdgeStop,
    pressure: f64,
}

impl Edges {
    /// The edges of an image, and a pressure by length.
    ///
    /// # Errors
    /// [`SegmentError::Parameter`] for a pressure that is not a number.
    pub fn new(stop: EdgeStop, pressure: f64) -> Result<Self> {
        if !pressure.is_finite() {
            let (name, remedy) = ("the pressure", "give a number");
            return Err(SegmentError::Parameter { name, value: pressure, remedy });
        }
        Ok(Self { stop, pressure })
    }

    /// The edges.
    pub(crate) fn stop(&self) -> &EdgeStop {
        &self.stop
    }

    /// The pressure.
    pub(crate) fn pressure(&self) -> f64 {
        self.pressure
    }
}

impl Force for Edges {
    fn points(&self) -> Option<usize> {
        Some(self.stop.len())
    }

    fn terms(&self, point: usize) -> Terms {
        let speed = self.pressure * self.stop.value(point);
        Terms { speed, ..self.stop.terms(point, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;

    /// A step of an image is where b is least, and the flow leads there from both sides.
    #[test]
    fn the_flow_leads_to_edges() {
        let lattice = Lattice::new([40, 9, 1], Neighbourhood::Four).unwrap();
        let values: Vec<f32> =
            (0..lattice.len()).map(|p| if lattice.place(p)[0] < 20 { 0.0 } else { 10.0 }).collect();
        let stop = EdgeStop::new(&lattice, &values, 2.0, 1.0, [1.0; 3]).unwrap();
        let at = |x| lattice.point([x, 4, 0]);
        assert!(stop.value(at(2)) > 0.99 && stop.value(at(19)) < 0.5);
        assert!((stop.value(at(19)) - stop.value(at(20))).abs() < 1e-12);
        let force = Edges::new(stop, 0.25).unwrap();
        assert!(force.terms(at(17)).flow[0] > 0.0 && force.terms(at(22)).flow[0] < 0.0);
        assert!(force.terms(at(2)).speed > 0.247);
        assert!(Edges::new(force.stop, f64::NAN).is_err());
        // Of gradients that are not 0 the median is between that of the step and what is far from it.
        let usual = EdgeStop::usual_contrast(&lattice, &values, 2.0, [1.0; 3]).unwrap();
        assert!((0.01..2.0).contains(&usual), "{usual}");
        assert!(EdgeStop::usual_contrast(&lattice, &[3.0; 360], 2.0, [1.0; 3]).is_err());
    }
}
