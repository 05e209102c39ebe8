//! What an affine registration gives.

use crate::numbers::null_is_nan;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::histogram::Scheme;
use voxalign_image::Affine;

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

/// The result of an affine registration.
#[derive(Debug, Clone, PartialEq)]
pub struct AffineResult {
    /// Fixed world to moving world, mm.
    pub transform: Affine,
    /// Where the search started, fixed world to moving world.
    pub start: Affine,
    /// Cost at the finest stage under the headers alone.
    pub cost_before: f64,
    /// Cost at the finest stage of the start transform.
    pub cost_start: f64,
    /// Cost at the finest stage of the result.
    pub cost_after: f64,
    /// Degrees of freedom: those asked for, or what they stand for in 2D.
    pub dof: usize,
    /// Histogram bins of the finest stage, of a cost that has a histogram.
    pub bins: Option<usize>,
    /// The stages' sample spacings, mm, coarse to fine.
    pub levels: Vec<f64>,
    /// How the sums of the cost were made, where it is made of binned sums. Another scheme gives the
    /// same sums but for rounding; with this one forced, the result has the same bits again.
    pub scheme: Option<Scheme>,
    /// The part of the smaller field of view that overlaps the other under the result, 0 to 1.
    pub overlap: f64,
    /// The stages, coarse to fine.
    pub stages: Vec<StageRecord>,
    /// The verdict.
    pub verdict: Verdict,
}
