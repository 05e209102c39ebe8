//! The record of an atlas.

use super::anatomy::AnatomyRecord;
use super::{Figures, GridRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use voxalign_population::atlas::{MemoryPlan, Sharpness};
use voxalign_register::Verdict;
use voxalign_register::measures::FieldMeasures;
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::numbers::null_is_nan;

record! {
    /// All that is worth keeping of the construction of an atlas: what its `result.json` holds. Numbers
    /// that are not finite are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    AtlasRecord {
        /// The grid of the atlas.
        pub grid: GridRecord,
        /// The subjects, in the order of sums: that of the checksums of their images.
        pub subjects: Vec<SubjectRecord>,
        /// The geometry of the template: shapes and landmarks.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub geometry: Vec<TemplateRecord>,
        /// How sharp the template was before each iteration, and after the last one of each scale.
        pub sharpness: Vec<Sharpness>,
        /// The scales, coarse to fine; energies are weighted means over the subjects.
        pub scales: Vec<ScaleRecord>,
        /// Named numbers: `entropy_before` (of the mean after affine alignment), `entropy_after`,
        /// `gradient_energy_before`, `gradient_energy_after`, `log_jacobian_rms` (of the mean over the
        /// subjects), `label_overlap_before`, `label_overlap_after`.
        pub figures: Figures,
    } {
        /// Where the subjects of each device of the first process were between iterations.
        pub plans: Vec<MemoryPlan>,
    }
}

begun!(AtlasRecord);

/// A shape or set of landmarks of the template.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TemplateRecord {
    /// Its name.
    pub name: String,
    /// Its kind: `surface`, `curve`, `points` or `landmarks`.
    pub kind: String,
    /// The subject whose triangles or lines it has.
    pub from: String,
    /// Its vertices.
    pub vertices: usize,
    /// The weighted root mean square displacement of its vertices to the subjects, over both, mm in the world of
    /// the atlas.
    pub variation_mm: f64,
}

/// A subject of an atlas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectRecord {
    /// Its name: that of its folder among the outputs.
    pub name: String,
    /// Its weight among the others.
    pub weight: f64,
    /// The numbers of its line in the list.
    pub covariates: BTreeMap<String, f64>,
    /// Rows of the 4x4 matrix from the world of the atlas to its own (RAS+ mm).
    pub affine: [[f64; 4]; 4],
    /// The correlation of its image with the mean of the others after affine alignment, and after the deformations.
    #[serde(deserialize_with = "null_is_nan")]
    pub correlation: [f64; 2],
    /// The information that its image and the mean of the others have of each other within the tissue, then, nats; none of earlier programs.
    #[serde(default)]
    pub information: Option<[f64; 2]>,
    /// Numbers of its displacement field.
    pub measures: FieldMeasures,
    /// Voxels that were smoothed at the end, near extreme changes of volume and where the inverse missed too far, summed over rounds.
    pub mended: usize,
    /// Whether it is unlike the others.
    pub outlying: bool,
    /// The distances between the template's geometry and its own, in its world.
    #[serde(default, skip_serializing_if = "AnatomyRecord::is_empty")]
    pub anatomy: AnatomyRecord,
    /// Whether its deformation can be used.
    pub verdict: Verdict,
}
