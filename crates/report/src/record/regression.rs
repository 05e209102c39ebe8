//! The record of a kernel regression along a covariate.

use super::atlas::SubjectRecord;
use super::labels::title;
use super::{Figures, GridRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use voxalign_population::atlas::Sharpness;
use voxalign_register::Verdict;
use voxalign_register::multiscale::ScaleRecord;

record! {
    /// All that is worth keeping of a kernel regression: what its `result.json` holds. Volumes are in
    /// mm³.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    RegressionRecord {
        /// The covariate.
        pub covariate: String,
        /// The standard deviation of the Gaussian kernel, in its units.
        pub bandwidth: f64,
        /// The grid of all atlases.
        pub grid: GridRecord,
        /// The subjects, in the order of sums.
        pub observations: Vec<ObservationRecord>,
        /// The atlases, in the order in which their values were given.
        pub atlases: Vec<ValueRecord>,
        /// For each label that was chosen the kernel regression of the subjects' volumes.
        pub curves: Vec<VolumeCurve>,
        /// The names of labels, where a table of names was given.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub label_names: BTreeMap<i32, String>,
    }
}

/// A subject as it came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservationRecord {
    /// Its name.
    pub name: String,
    /// Its weight among the others, before the kernel.
    pub weight: f64,
    /// Its value of the covariate.
    pub value: f64,
    /// The volumes of its labels, in its own space; empty where it has no label map.
    pub volumes: BTreeMap<i32, f64>,
}

/// The atlas at a value of the covariate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueRecord {
    /// The value.
    pub at: f64,
    /// The folder of its files among the outputs.
    pub folder: String,
    /// The effective sample size of its mean (Kish).
    pub effective_number: f64,
    /// Those that count, with the weights they have here.
    pub subjects: Vec<SubjectRecord>,
    /// The volumes of the labels of the atlas, in its space.
    pub volumes: BTreeMap<i32, f64>,
    /// How sharp the template was before each iteration, and after the last one of each scale.
    pub sharpness: Vec<Sharpness>,
    /// The scales, coarse to fine.
    pub scales: Vec<ScaleRecord>,
    /// Named numbers, as those of an [atlas](crate::AtlasRecord).
    pub figures: Figures,
    /// Whether it can be used, and why.
    pub verdict: Verdict,
}

/// The volume of a label over the covariate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeCurve {
    /// The label.
    pub label: i32,
    /// Values of the covariate and volumes.
    pub points: Vec<[f64; 2]>,
}

impl RegressionRecord {
    /// A label with its name, where it has one.
    #[must_use]
    pub fn title(&self, label: i32) -> String {
        title(label, self.label_names.get(&label).map(String::as_str))
    }
}
