//! A speed that is given and does not change.

use super::{Force, Terms};
use crate::error::{Result, finite, same_length};
use crate::lattice::Lattice;

/// A force that does not change: one speed outwards a point. Where it is 0 a front stays.
#[derive(Debug, Clone, Copy)]
pub struct Speed<'a> {
    values: &'a [f32],
}

impl<'a> Speed<'a> {
    /// One speed a point.
    ///
    /// # Errors
    /// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::NotFinite`](crate::SegmentError::NotFinite).
    pub fn new(lattice: &Lattice, values: &'a [f32]) -> Result<Self> {
        same_length("the speed", values.len(), lattice.len())?;
        finite("the speed", values)?;
        Ok(Self { values })
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
        Terms { speed: f64::from(self.values[point]), ..Terms::default() }
    }

    fn energy(&self, is_inside: &dyn Fn(usize) -> bool) -> Option<f64> {
        let inside = (0..self.values.len()).filter(|p| is_inside(*p));
        Some(-inside.map(|p| f64::from(self.values[p])).sum::<f64>())
    }
}
