//! The verdict on an affine registration.

use super::model::Model;
use crate::choice::Choice;
use crate::metric::{Cost, CostSums};
use crate::verdict::{Check, Verdict};
use voxalign_image::{Affine, Transform, Vector3};

/// What is known of a result.
pub(super) struct Findings {
    pub(super) cost: Cost,
    pub(super) cost_before: f64,
    pub(super) cost_start: f64,
    pub(super) cost_after: f64,
    /// Weighted samples that overlap, as a part of the smaller image.
    pub(super) sampled_overlap: f64,
    pub(super) field_overlap: f64,
    pub(super) transform: Affine,
    pub(super) model: Model,
    /// What other alignments were looked at, where not all were.
    pub(super) compared: Option<&'static str>,
    /// Costs of the best candidate and, if there is one, of the best one elsewhere.
    pub(super) rival: Option<(f64, Option<f64>)>,
    pub(super) searched: bool,
    /// Whether masks or weights choose the voxels that count.
    pub(super) masked: bool,
    /// Samples and bins of the last stage.
    pub(super) samples: usize,
    pub(super) bins: usize,
    pub(super) corners: [Vector3<f64>; 8],
}

/// Smallest part of the smaller field of view that must overlap.
const OVERLAP: f64 = 0.3;
/// Range of the factors by which lengths may change.
const LENGTHS: (f64, f64) = (0.5, 2.0);
/// Range of the factor by which volumes may change.
const VOLUMES: (f64, f64) = (0.5, 1.8);
/// Smallest lead over the best alignment far from the result: below it, noise decides which of the
/// two wins.
const LEAD: f64 = 0.05;
/// Largest inverse-consistency error, mm.
const INVERSE: f64 = 1e-3;
/// What helps where sizes changed beyond reason.
const SCALES: &str = "sizes changed more than bodies differ: use fewer degrees of freedom (--dof 6 for one \
                      person), or start from the headers by --init header --search local";

/// Checks everything and sums it up.
pub(super) fn judge(f: &Findings) -> Verdict {
    let mut checks = Vec::new();
    let mut add = |name: &str, value: f64, asked: String, passed: bool, remedy: &str| {
        checks.push(Check::new(name, value, asked, passed, remedy));
    };
    let limit = f.cost.limit(f.samples, f.bins, f.masked);
    add(
        "cost after registration",
        f.cost_after,
        format!("below {limit:.4} for {}", f.cost.name()),
        f.cost_after < limit,
        "the images tell little of each other: look at the pictures, and try --cost nmi between kinds \
         of image, or a mask where one image shows what the other does not, such as a skull",
    );
    if f.searched {
        for (from, before) in [("the headers", f.cost_before), ("the start", f.cost_start)] {
            let change = f.cost_after - before;
            let name = format!("change of the cost from {from}");
            add(
                &name,
                change,
                "at most 0".to_owned(),
                change <= 1e-9,
                "the search ended worse than it began: start nearer by --init, or search less far by \
                 --search-angles",
            );
        }
    }
    add(
        "overlap of the fields of view",
        f.field_overlap,
        format!("at least {OVERLAP}"),
        f.field_overlap >= OVERLAP,
        "the images hardly show the same place: check that they belong together, or start nearer by \
         --init FILE and --search local",
    );
    let stretch = f.transform.matrix.svd(false, false).singular_values;
    let used = if f.model.flat { 2 } else { 3 };
    let mut lengths: Vec<f64> = stretch.iter().copied().collect();
    // In 2D the direction across the slice keeps its length and is not of interest.
    lengths.sort_by(|a, b| (b.ln().abs()).total_cmp(&a.ln().abs()));
    for (name, value) in [
        ("largest factor of lengths", lengths.iter().take(used).copied().fold(1.0, f64::max)),
        ("smallest factor of lengths", lengths.iter().take(used).copied().fold(1.0, f64::min)),
    ] {
        let passed = value >= LENGTHS.0 && value <= LENGTHS.1;
        add(name, value, format!("between {} and {}", LENGTHS.0, LENGTHS.1), passed, SCALES);
    }
    let determinant = f.transform.determinant();
    add(
        "factor of volumes (determinant; negative for a reflection)",
        determinant,
        format!("between {} and {}", VOLUMES.0, VOLUMES.1),
        determinant >= VOLUMES.0 && determinant <= VOLUMES.1,
        SCALES,
    );
    let transform = Transform::Affine(f.transform);
    let error = transform
        .inverse()
        .map_or(f64::INFINITY, |i| transform.inverse_consistency(&i, &f.corners).largest);
    add(
        "inverse-consistency error at the corners, mm",
        error,
        format!("at most {INVERSE}"),
        error <= INVERSE,
        SCALES,
    );
    if let Some((best, other)) = f.rival {
        // What the winner has over the runner-up: of costs that are 0 for a perfect match, the part
        // of the other's cost that it saves; of informations, as a part of what it has over none.
        let whole = |other: f64| match f.cost.sums() {
            CostSums::Ratio | CostSums::Moments => other,
            CostSums::Joint => limit - best,
        };
        let lead = |other: f64| match whole(other) {
            whole if whole > 0.0 => ((other - best) / whole).min(1.0),
            _ => 0.0,
        };
        let lead = other.map_or(1.0, lead);
        add(
            "lead over the best alignment elsewhere",
            lead,
            format!("at least {LEAD}"),
            lead >= LEAD,
            "another alignment, far from this one, matches nearly as well: narrow --search-angles, start \
             nearer by --init, or give a mask where one image shows what the other does not, such as a \
             skull; if the mask cuts close to what it keeps, dilate it",
        );
    }
    let mut remarks: Vec<String> = f.compared.map(str::to_owned).into_iter().collect();
    if f.sampled_overlap < 0.5 {
        remarks.push(format!(
            "only {:.0} % of the smaller image's voxels count towards the cost",
            f.sampled_overlap * 100.0
        ));
    }
    Verdict::new(checks, remarks)
}
