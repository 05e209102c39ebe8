//! The record of a registration of anatomies, beyond that of a deformation.

use serde::{Deserialize, Serialize};
use voxalign_register::compare::MeshScores;

/// How the parts of two anatomies fare, before (by the affine part alone) and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AnatomyRecord {
    /// Every class of tissue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassRecord>,
    /// Every surface, set of curves and set of points without correspondence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<ShapeRecord>,
    /// Every list of landmarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub landmarks: Vec<MarksRecord>,
}

impl AnatomyRecord {
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.shapes.is_empty() && self.landmarks.is_empty()
    }
}

/// How a class fares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassRecord {
    /// Its name.
    pub name: String,
    /// The integral of its fixed probability, mm³.
    pub volume_fixed_mm3: f64,
    /// That of the moving one on the fixed image, before.
    pub volume_before_mm3: f64,
    /// The same after.
    pub volume_after_mm3: f64,
    /// `Σ min(f, m) / Σ f` of the fixed and the moving probability before: the fraction of the fixed class that the
    /// moving one covers (L. K. Ha, 2011, equation 3.14).
    pub overlap_before: f64,
    /// The same after.
    pub overlap_after: f64,
    /// Dice of where the probabilities are a half or more, before.
    pub dice_before: f64,
    /// The same after.
    pub dice_after: f64,
}

/// How a shape fares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShapeRecord {
    /// Its name.
    pub name: String,
    /// Its kind: `surface`, `curve` or `points`.
    pub kind: String,
    /// Vertices of the fixed and of the moving one.
    pub vertices: [usize; 2],
    /// Their triangles, steps along curves, or points.
    pub elements: [usize; 2],
    /// Distances between the fixed shape and the moving one mapped onto it, mm, before.
    pub before: MeshScores,
    /// The same after.
    pub after: MeshScores,
    /// The mean distance that is asked for at most, mm.
    pub bound_mm: f64,
}

/// How a list of landmarks fares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MarksRecord {
    /// Its name.
    pub name: String,
    /// The number of pairs.
    pub count: usize,
    /// Their mean distance before, mm, by their weights.
    pub mean_before_mm: f64,
    /// The same after.
    pub mean_after_mm: f64,
    /// Their largest distance after, mm.
    pub largest_after_mm: f64,
}
