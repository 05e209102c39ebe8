//! What happened in the stages of a search.

use crate::numbers::null_is_nan;
use serde::{Deserialize, Serialize};

/// A cost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Evaluations of this stage so far.
    pub evaluation: usize,
    /// The best cost of any candidate so far.
    pub cost: f64,
}

/// What happened in one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Name, such as `8 mm`.
    pub name: String,
    /// Spacing of the samples of the fixed image, mm.
    pub spacing: [f64; 3],
    /// Samples of the fixed image.
    pub samples: usize,
    /// Its cost; empty where all stages have one and the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cost: String,
    /// Histogram bins.
    pub bins: usize,
    /// Degrees of freedom, in the order they were opened.
    pub dof: Vec<usize>,
    /// Candidates that entered and that were handed on.
    pub candidates: [usize; 2],
    /// Cost evaluations (one with a gradient counts once).
    pub evaluations: usize,
    /// Cost of the start transform at this stage's resolution.
    #[serde(deserialize_with = "null_is_nan")]
    pub cost_start: f64,
    /// Lowest cost at its end.
    #[serde(deserialize_with = "null_is_nan")]
    pub cost_end: f64,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Cost over evaluations.
    pub trace: Vec<TracePoint>,
}
