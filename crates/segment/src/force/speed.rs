//! A speed that is given and does not change.

use super::{Force, Terms};
use crate::error::{Result, SegmentError, finite, same_length};
use crate::lattice::Lattice;

/// A force that does not change: one speed outwards a point, and the curvature where that has a weight. Where it is 0 a front stays.
#[derive(Debug, Clone, Copy)]
pub struct Speed<'a> {
    values: &'a [f32],
    curvature: f64,
}

impl<'a> Speed<'a> {
    /// One speed a point.
    ///
    /// # Errors
    /// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::NotFinite`](crate::SegmentError::NotFinite).
    pub fn new(lattice: &Lattice, values: &'a [f32]) -> Result<Self> {
        same_length("the speed", values.len(), lattice.len())?;
        finite("the speed", values)?;
        Ok(Self { values, curvature: 0.0 })
    }

    /// The same with a weight of the curvature, at least 0, in the units of the speed times those of the spacing.
    ///
    /// # Errors
    /// [`SegmentError::Parameter`] for a weight below 0 or one that is not finite.
    pub fn with_curvature(self, weight: f64) -> Result<Self> {
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(SegmentError::Parameter {
                name: "the weight of the curvature",
                value: weight,
                remedy: "give 0 or more",
            });
        }
        Ok(Self { curvature: weight, ..self })
    }

    /// The weight of the curvature.
    pub(crate) fn curvature(&self) -> f64 {
        self.curvature
    }

    /// The values.
    pub(crate) fn values(&self) -> &'a [f32] {
        self.values
    }
}

impl Force for Speed<'_> {
    fn points(&self) -> Option<usize> {
        Some(self.values.len())
    }

    fn terms(&self, point: usize) -> Terms {
        let speed = f64::from(self.values[point]);
        Terms { speed, curvature: self.curvature, ..Terms::default() }
    }

    fn energy(&self, is_inside: &dyn Fn(usize) -> bool) -> Option<f64> {
        let inside = (0..self.values.len()).filter(|p| is_inside(*p));
        Some(-inside.map(|p| f64::from(self.values[p])).sum::<f64>())
    }
}
