//! The verdict on an affine registration.

use crate::choice::Choice;
use crate::limits::AFFINE;
use crate::search::pose::Model;
use crate::similarity::{Formula, OfSums, Similarity};
use crate::verdict::{Check, Remedy, Verdict};
use voxalign_image::{Affine, Transform, Vector3};

/// What is known of a result.
pub(super) struct Findings {
    pub(super) similarity: Similarity,
    pub(super) of_sums: OfSums,
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

/// Checks everything and sums it up.
pub(super) fn judge(f: &Findings) -> Verdict {
    let mut checks = Vec::new();
    let limit = f.of_sums.limit.of(f.samples, f.bins, f.masked);
    let name = format!("cost after registration ({})", f.similarity.name());
    let below = Check::new(name, f.cost_after, format!("below {limit:.4}"), f.cost_after < limit);
    checks.push(below.or(Remedy::OtherSimilarity));
    if f.searched {
        for (from, before) in [("the headers", f.cost_before), ("the start", f.cost_start)] {
            let change = f.cost_after - before;
            let name = format!("change of the cost from {from}");
            checks.push(
                Check::new(name, change, "at most 0", change <= 1e-9).or(Remedy::SmallerSearch),
            );
        }
    }
    let overlap = Check::at_least("overlap of the fields of view", f.field_overlap, AFFINE.overlap);
    checks.push(overlap.or(Remedy::NearerStart));
    let stretch = f.transform.matrix.svd(false, false).singular_values;
    let used = if f.model.flat { 2 } else { 3 };
    let mut lengths: Vec<f64> = stretch.iter().copied().collect();
    // In 2D the direction across the slice keeps its length and is not of interest.
    lengths.sort_by(|a, b| (b.ln().abs()).total_cmp(&a.ln().abs()));
    let between = |name: &str, value: f64, (low, high): (f64, f64)| {
        let passed = value >= low && value <= high;
        Check::new(name, value, format!("between {low} and {high}"), passed)
            .or(Remedy::FewerFreedoms)
    };
    for (name, value) in [
        ("largest factor of lengths", lengths.iter().take(used).copied().fold(1.0, f64::max)),
        ("smallest factor of lengths", lengths.iter().take(used).copied().fold(1.0, f64::min)),
    ] {
        checks.push(between(name, value, AFFINE.lengths));
    }
    let determinant = f.transform.determinant();
    let name = "factor of volumes (determinant; negative for a reflection)";
    checks.push(between(name, determinant, AFFINE.volumes));
    let transform = Transform::Affine(f.transform);
    let error = transform
        .inverse()
        .map_or(f64::INFINITY, |i| transform.inverse_consistency(&i, &f.corners).largest);
    let name = "inverse-consistency error at the corners";
    checks.push(
        Check::at_most(name, error, AFFINE.inverse_error).in_unit("mm").or(Remedy::FewerFreedoms),
    );
    if let Some((best, other)) = f.rival {
        // What the winner has over the runner-up: of costs that are 0 for a perfect match, the part
        // of the other's cost that it saves; of informations, as a part of what it has over none.
        let whole = |other: f64| match f.of_sums.formula {
            Formula::Ratio(_) | Formula::Moments(_) => other,
            Formula::Joint(_) => limit - best,
        };
        let lead = |other: f64| match whole(other) {
            whole if whole > 0.0 => ((other - best) / whole).min(1.0),
            _ => 0.0,
        };
        let lead = other.map_or(1.0, lead);
        let name = "lead over the best alignment elsewhere";
        checks.push(Check::at_least(name, lead, AFFINE.lead).or(Remedy::SingleOut));
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
