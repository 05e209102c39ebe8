//! The verdict on a pose.

use super::PoseResult;
use crate::verdict::{Check, Remedy, Verdict};

/// The correlation of gradients that a view has at least, around the image of the CT: chosen on real images of single bones, of which
/// 11 of 12 right poses have 0.352 and more, and 58 wrong ones at most 0.328 in the view where it is least.
pub(super) const ALIKE: f64 = 0.34;
/// How far restarts may end from the result in the images, in pixels at the place of the CT.
const APART: f64 = 1.5;
/// The part of the pixels that see the CT.
const SEEN: f64 = 0.1;
/// What the best pose elsewhere costs more at least, as a part of its cost.
const LEAD: f64 = 0.05;

/// What a verdict asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The least correlation of gradients.
    pub(super) alike: f64,
    /// Whether the pose is found again by restarts.
    pub(super) restarts: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self { alike: ALIKE, restarts: true }
    }
}

/// Checks a result; `lead` is that over the best pose elsewhere, where one was looked for. What was not measured is not met.
pub(super) fn judge(
    result: &PoseResult,
    seen: f64,
    lead: Option<f64>,
    size: f64,
    asked: Asked,
) -> Verdict {
    let least = result.correlations.iter().copied().fold(1.0, f64::min);
    let mut checks = vec![
        Check::at_least(
            "correlation of gradients, in the view where it is least",
            least,
            asked.alike,
        )
        .or(Remedy::OtherSimilarity),
        Check::new(
            "change of the cost from the start",
            result.costs[1] - result.costs[0],
            "at most 0.001",
            result.costs[1] <= result.costs[0] + 1e-3,
        )
        .or(Remedy::SmallerSearch),
        Check::at_least("part of the pixels that see the CT", seen, SEEN).or(Remedy::NearerStart),
    ];
    let mut apart = result.uncertainty.apart.clone();
    apart.sort_by(f64::total_cmp);
    let middle = apart.get(apart.len() / 2).copied();
    if asked.restarts || middle.is_some() {
        let name = "distance of restarts from the result (median)";
        let check = Check::at_most(name, middle.unwrap_or(f64::NAN), APART * size).in_unit("mm");
        checks.push(measured(check, middle));
    }
    let check =
        Check::at_least("lead over the best pose elsewhere", lead.unwrap_or(f64::NAN), LEAD);
    checks.push(measured(check, lead));
    Verdict::new(checks, Vec::new())
}

/// A check with what helps: another one where its value was not measured.
fn measured(check: Check, value: Option<f64>) -> Check {
    match value {
        Some(_) => check.or(Remedy::SingleOut),
        None => check.unmeasured().or(Remedy::Measured),
    }
}
