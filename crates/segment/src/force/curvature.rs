//! Motion by mean curvature.

use super::{Force, Terms};

/// Motion by mean curvature, F = -κ (equation 3.13): fronts become shorter, and in the end every set vanishes or fills what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeanCurvature;

impl Force for MeanCurvature {
    fn terms(&self, _: usize) -> Terms {
        Terms { curvature: 1.0, ..Terms::default() }
    }
}
