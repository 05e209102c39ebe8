//! Objectives: costs of maps.

use crate::error::Result;
use voxalign_image::Affine;

/// The cost of one map.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The cost, with the term for small overlaps.
    pub cost: f64,
    /// Its derivative in the rows of the map (3x4, row by row), where it was asked for.
    pub gradient: Option<[f64; 12]>,
    /// Overlap as a fraction of the smaller image.
    pub overlap: f64,
}

/// Costs of affine maps from the fixed to the moving world, with the derivative in the map's twelve entries where
/// asked for; a transform model converts it to its own parameters.
pub trait Objective {
    /// Preferred batch size: the number of maps to evaluate at once.
    fn batch(&self) -> usize;

    /// The costs of several maps, evaluated together.
    ///
    /// # Errors
    /// What fails on the device.
    fn evaluate(&self, maps: &[Affine], gradient: bool) -> Result<Vec<Evaluation>>;
}
