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

/// Checks a result; `lead` is that over the best pose elsewhere.
pub(super) fn judge(result: &PoseResult, seen: f64, lead: f64, size: f64, alike: f64) -> Verdict {
    let least = result.correlations.iter().copied().fold(1.0, f64::min);
    let mut checks = vec![
        Check::at_least("correlation of gradients, in the view where it is least", least, alike)
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
    if !result.uncertainty.apart.is_empty() {
        let mut apart = result.uncertainty.apart.clone();
        apart.sort_by(f64::total_cmp);
        let middle = apart[apart.len() / 2];
        checks.push(
            Check::at_most("distance of restarts from the result (median)", middle, APART * size)
                .in_unit("mm")
                .or(Remedy::SingleOut),
        );
    }
    checks.push(
        Check::at_least("lead over the best pose elsewhere", lead, LEAD).or(Remedy::SingleOut),
    );
    Verdict::new(checks, Vec::new())
}
