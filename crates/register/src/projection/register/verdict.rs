//! The verdict on a pose.

use super::PoseResult;
use super::blocks::Outlines;
use super::level::Suspect;
use super::options::{NUMBERS, Refinement};
use crate::limits::POSE;
use crate::verdict::{Check, Remedy, Verdict};

/// A misfit of the geometry of the views, from one step of Newton's method in pose and geometry together.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// The part of the geometry.
    pub what: Refinement,
    /// How far the pose would shift with it: the root mean square over the body, mm.
    pub moves: f64,
    /// The standard deviation of that.
    pub sure: f64,
    /// The changes of each source-to-detector distance and of the detector's shifts along columns and rows, mm,
    /// with their standard deviations; 0 for fixed ones.
    pub by: Vec<[[f64; 2]; NUMBERS]>,
}

/// Evidence for a pose, independent of the similarity that was minimised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// The agreement of outlines with those of the simulated image in each view.
    pub outlines: Vec<Outlines>,
    /// The distance of the pose that each view alone leads to from the result, in the image of that view, mm; none
    /// for a single view.
    pub alone: Vec<f64>,
    /// The standard deviation of the image of the body in each view, mm at the place of the CT.
    pub sure: Vec<f64>,
    /// The distance of the result from the start, as a fraction of the search range; none where that has no bounds.
    pub beyond: Option<f64>,
    /// Misfits of the parts of the geometry that were not refined; none for a single view, and where the images do
    /// not determine them.
    pub misfits: Vec<Misfit>,
    /// The size of the pixels that outlines were compared by, at the place of the CT, mm.
    pub size: f64,
}

impl Evidence {
    /// The shift of the pose with a part of the geometry of the views free, relative to the tolerance.
    #[must_use]
    pub fn freed(&self, misfit: &Misfit) -> f64 {
        misfit.moves / (POSE.moves[0] * self.size).hypot(POSE.moves[1] * misfit.sure)
    }
}

/// Further findings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Looked {
    /// The margin over the best pose at another rotation; none where there is no other.
    pub(super) turned: Option<f64>,
    /// Images that fit better than the given ones, and the gain as a fraction of the cost.
    pub(super) suspect: Option<(Suspect, f64)>,
}

/// The requirements of a verdict.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The least correlation of gradients.
    pub(super) alike: f64,
    /// Whether the pose is found again by restarts, and looked at from all sides.
    pub(super) thorough: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self { alike: POSE.alike, thorough: true }
    }
}

/// Checks a result; `lead` is that over the best pose elsewhere, where one was tried. What was not measured counts
/// as not met.
pub(super) fn judge(
    result: &PoseResult,
    seen: f64,
    (lead, looked): (Option<f64>, Looked),
    size: f64,
    asked: Asked,
) -> Verdict {
    let evidence = &result.evidence;
    // What is not a number is the worst.
    let worst = |all: &mut dyn Iterator<Item = f64>| {
        all.fold(f64::NEG_INFINITY, |most, v| if v.is_nan() || v > most { v } else { most })
    };
    let alike = -worst(&mut evidence.outlines.iter().map(|o| -o.alike));
    let times = |o: &Outlines| {
        let blurred = (1.0 / (o.alike * o.alike) - 1.0).max(0.0).sqrt();
        let allowed = POSE.outlines[0] + POSE.outlines[1] * blurred;
        if o.alike > 0.0 { o.apart / (allowed * evidence.size) } else { f64::NAN }
    };
    let apart = worst(&mut evidence.outlines.iter().map(times));
    let mut checks = vec![
        Check::at_least(
            "gradient correlation within blocks (median), in the worst view",
            alike,
            asked.alike,
        )
        .or(Remedy::OtherSimilarity),
        Check::new(
            "change in cost from the start",
            result.costs[1] - result.costs[0],
            format!("at most {}", POSE.cost_rise),
            result.costs[1] <= result.costs[0] + POSE.cost_rise,
        )
        .or(Remedy::SmallerSearch),
        Check::at_least("fraction of the pixels that see the CT", seen, POSE.seen)
            .or(Remedy::NearerStart),
    ];
    let mut restarts = result.uncertainty.apart.clone();
    restarts.sort_by(f64::total_cmp);
    let middle = restarts.get(restarts.len() / 2).copied();
    if asked.thorough || middle.is_some() {
        let name = "distance of restarts from the result (median)";
        let check =
            Check::at_most(name, middle.unwrap_or(f64::NAN), POSE.restarts * size).in_unit("mm");
        checks.push(measured(check, middle));
    }
    let check =
        Check::at_least("margin over the best competing pose", lead.unwrap_or(f64::NAN), POSE.lead);
    checks.push(measured(check, lead));
    if !asked.thorough {
        return Verdict::new(checks, Vec::new());
    }
    let name = "distance of outlines from those of the result (median), relative to the tolerance";
    checks.push(Check::at_most(name, apart, 1.0).or(Remedy::Geometry));
    let pairs = || evidence.alone.iter().zip(&evidence.sure);
    if pairs().next().is_some() {
        let allowed = |sure: f64| {
            let deviations = (POSE.alone_deviations * sure).min(evidence.size);
            (POSE.alone * evidence.size).hypot(deviations)
        };
        let times = worst(&mut pairs().map(|(alone, sure)| alone / allowed(*sure)));
        let name = "largest distance of a pose from one view alone from the result, relative to the tolerance";
        checks.push(Check::at_most(name, times, 1.0).or(Remedy::Geometry));
    }
    let mut remarks = Vec::new();
    // One view does not tell, and views that contradict each other by far do not, either.
    if !evidence.misfits.is_empty() {
        let name =
            "shift of the pose with the geometry of the views free, relative to the tolerance";
        let times = worst(&mut evidence.misfits.iter().map(|m| evidence.freed(m)));
        let check = Check::at_most(name, times, 1.0).or(Remedy::Geometry);
        if !check.passed {
            remarks.extend(
                evidence
                    .misfits
                    .iter()
                    .filter(|m| evidence.freed(m) > 1.0)
                    .map(|m| freed(m).into()),
            );
        }
        checks.push(check);
    }
    if !result.geometry.is_empty() {
        let sure = worst(&mut evidence.misfits.iter().map(|m| m.sure));
        let sure = if sure.is_finite() { sure } else { f64::NAN };
        let name = "standard deviation of the pose with the refined geometry";
        checks.push(
            Check::at_most(name, sure, POSE.refined * evidence.size)
                .in_unit("mm")
                .or(Remedy::Geometry),
        );
    }
    let known = result.uncertainty.covariance.is_some();
    let unknown = u64::from(!known);
    checks.push(Check::none("undetermined standard deviations", unknown).or(Remedy::SingleOut));
    let turned = looked.turned.unwrap_or(1.0);
    let check = Check::at_least("margin over the best pose at another rotation", turned, 0.0);
    checks.push(check.or(Remedy::OtherRotation));
    let better = looked.suspect.map_or(0.0, |s| s.1);
    let name = "relative gain in cost from mirroring or swapping images";
    let check = Check::at_most(name, better, POSE.suspect).or(Remedy::OtherImages);
    let which = looked.suspect.iter().map(|s| s.0.to_string()).collect();
    checks.push(if check.passed { check } else { check.of(which) });
    if let Some(beyond) = evidence.beyond {
        let name = "distance from the start, as a fraction of the search range";
        let check = Check::at_most(name, beyond, POSE.beyond);
        if turned >= POSE.beyond_lead && !check.passed {
            let text = "the pose is outside the search range around the start, but better than those at all \
                other rotations";
            remarks.push(text.into());
        } else {
            checks.push(check.or(Remedy::SmallerSearch));
        }
    }
    Verdict::new(checks, remarks)
}

/// The remark on a misfit of the geometry.
fn freed(misfit: &Misfit) -> String {
    let of = |[by, deviation]: [f64; 2]| format!("{by:+.1} mm (\u{b1} {:.1})", 1.96 * deviation);
    let each = misfit.by.iter().enumerate().map(|(view, &[distance, u, v])| {
        let by = match misfit.what {
            Refinement::Distance => of(distance),
            Refinement::PrincipalPoint => {
                format!("{} along columns and {} along rows", of(u), of(v))
            }
        };
        format!("view {}: {by}", view + 1)
    });
    let what = match misfit.what {
        Refinement::Distance => "source-to-detector distances are",
        Refinement::PrincipalPoint => "principal points are",
    };
    format!(
        "the images fit better, and the pose shifts by about {:.1} mm, if the {what} changed: {}",
        misfit.moves,
        each.collect::<Vec<_>>().join("; ")
    )
}

/// A check with what helps: another one where its value was not measured.
fn measured(check: Check, value: Option<f64>) -> Check {
    match value {
        Some(_) => check.or(Remedy::SingleOut),
        None => check.unmeasured().or(Remedy::Measured),
    }
}
