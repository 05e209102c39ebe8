//! The result of an affine registration.

use super::verdict::fit_mirrored;
use crate::evidence::{Evidence, Relation, Seen, Unmasked};
use crate::search::StageRecord;
use crate::similarity::Similarity;
use crate::verdict::{Check, Remedy, Verdict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use voxalign_compute::ops::histogram::Scheme;
use voxalign_image::Affine;

/// Another registration of the same images, as the one that was asked for had a bad result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The change, such as `the cost ncc`.
    pub what: String,
    /// Agreement of the images under its result; of the whole images where masks keep little of them.
    pub agreement: f64,
    /// Whether its verdict is good.
    pub good: bool,
    /// Whether it is the result.
    pub kept: bool,
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
    /// Degrees of freedom: those asked for, or their equivalent in 2D.
    pub dof: usize,
    /// Histogram bins of the finest stage that has a histogram, where any has.
    pub bins: Option<usize>,
    /// Width of the border of the moving image over which voxels counted less, mm.
    pub border: f64,
    /// The stages' sample spacings, mm, coarse to fine.
    pub levels: Vec<f64>,
    /// How the sums of the cost were made, where it is made of binned sums. Another scheme gives the
    /// same sums but for rounding; with this one forced, the result has the same bits again.
    pub scheme: Option<Scheme>,
    /// The fraction of the smaller field of view that overlaps the other under the result, 0 to 1.
    pub overlap: f64,
    /// Evidence for the result, independent of the cost.
    pub evidence: Evidence,
    /// Evidence of the whole images, where masks exclude part of them.
    pub unmasked: Option<Unmasked>,
    /// The similarity of the finest stage.
    pub similarity: Similarity,
    /// How the intensities go together, where the similarity was
    /// [chosen by that](super::AffineOptions::similarity).
    pub relation: Option<Relation>,
    /// Whether the images are flat.
    pub flat: bool,
    /// The other attempts, made because the registration that was asked for gave a bad result.
    pub attempts: Vec<Attempt>,
    /// The stages, coarse to fine.
    pub stages: Vec<StageRecord>,
    /// The images prepared for evidence, of a registration by a similarity that scales the intensities of each
    /// image by itself.
    pub seen: Option<Arc<Seen>>,
    /// The verdict.
    pub verdict: Verdict,
}

impl AffineResult {
    /// What is said where the images fit better with one of them mirrored: a remark, and the check that fails where they fit much better. It
    /// goes for whatever aligns these images, as a deformation brings a head to its mirror image. None where this result is bad for other
    /// reasons: a mirrored alignment better than a wrong one says nothing.
    #[must_use]
    pub fn mirrored(&self) -> Option<Verdict> {
        let remark = fit_mirrored(&self.evidence, self.flat)?;
        let failed = self.verdict.checks.iter().filter(|c| !c.passed);
        let is_handedness = |c: &&Check| c.remedy_code == Some(Remedy::Handedness);
        let (handed, others): (Vec<_>, Vec<_>) = failed.partition(is_handedness);
        others.is_empty().then(|| Verdict::new(handed.into_iter().cloned().collect(), vec![remark]))
    }
}
