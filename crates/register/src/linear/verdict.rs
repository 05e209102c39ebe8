//! The verdict on an affine registration.

use crate::evidence::{Evidence, LITTLE, Unmasked};
use crate::limits::AFFINE;
use crate::search::pose::Model;
use crate::verdict::{Check, Remedy, Verdict};
use voxalign_image::{Affine, Transform, Vector3};
use voxalign_options::{Text, text};

/// The findings on a result.
pub(super) struct Findings {
    /// Evidence of the images.
    pub(super) evidence: Evidence,
    /// Evidence of the whole images, where masks exclude part of them.
    pub(super) unmasked: Option<Unmasked>,
    pub(super) cost_before: f64,
    pub(super) cost_start: f64,
    pub(super) cost_after: f64,
    /// Weighted samples that overlap, as a fraction of the smaller image.
    pub(super) sampled_overlap: f64,
    pub(super) field_overlap: f64,
    pub(super) transform: Affine,
    pub(super) model: Model,
    /// A remark on which other alignments were tried, where not all were.
    pub(super) compared: Option<&'static str>,
    pub(super) searched: bool,
    /// Whether other ways are tried where the result is bad.
    pub(super) rescues: bool,
    pub(super) corners: [Vector3<f64>; 8],
}

/// A remark where images fit better with one of them mirrored.
pub(super) fn fit_mirrored(evidence: &Evidence, flat: bool) -> Option<Text> {
    let better = exceed(evidence.mirrored_leads(), AFFINE.mirrored[usize::from(flat)]);
    better.then(|| {
        "the images fit better with one of them mirrored: check left and right in their headers"
            .into()
    })
}

/// Whether both leads of a mirrored alignment exceed these.
fn exceed([edges, information]: [f64; 2], than: [f64; 2]) -> bool {
    edges > than[0] && information > than[1]
}

/// Checks everything and sums it up.
pub(super) fn judge(f: &Findings) -> Verdict {
    let mut checks = Vec::new();
    let agreement = f.evidence.agreement();
    let name = "agreement of edges, information and tissue, independent of the cost";
    checks.push(Check::at_least(name, agreement, AFFINE.agreement).or(
        match (f.rescues, f.searched) {
            (true, _) => Remedy::BelongTogether,
            (false, true) => Remedy::OtherSimilarity,
            (false, false) => Remedy::NearerStart,
        },
    ));
    let shown = f.evidence.found.tissue.max(f.evidence.elsewhere.tissue) > LITTLE;
    if shown {
        let name = "lead in information within tissue over other alignments";
        let lead = f.evidence.leads()[2];
        let least = if f.model.flat { AFFINE.tissue_of_slices } else { AFFINE.tissue };
        checks.push(Check::at_least(name, lead, least).or(Remedy::SameInside));
    } else {
        // Outlines alone can tell, where there are some.
        let name = "Dice overlap of the foregrounds, which share nothing inside";
        let overlap = f.evidence.found.foreground;
        checks.push(Check::at_least(name, overlap, AFFINE.foreground).or(Remedy::NearerStart));
    }
    checks.extend(f.unmasked.and_then(|whole| whole.check(AFFINE.unmasked)));
    if f.searched {
        for (from, before) in [("the headers", f.cost_before), ("the start", f.cost_start)] {
            let change = f.cost_after - before;
            let name = format!("change in cost from {from}");
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
        ("largest scaling", lengths.iter().take(used).copied().fold(1.0, f64::max)),
        ("smallest scaling", lengths.iter().take(used).copied().fold(1.0, f64::min)),
    ] {
        checks.push(between(name, value, AFFINE.lengths));
    }
    let determinant = f.transform.determinant();
    let name = "volume scaling (determinant; negative for a reflection)";
    checks.push(between(name, determinant, AFFINE.volumes));
    let transform = Transform::Affine(f.transform);
    let error = transform
        .inverse()
        .map_or(f64::INFINITY, |i| transform.inverse_consistency(&i, &f.corners).largest);
    let name = "inverse-consistency error at the corners";
    checks.push(
        Check::at_most(name, error, AFFINE.inverse_error).in_unit("mm").or(Remedy::FewerFreedoms),
    );
    let mut remarks: Vec<Text> = f.compared.map(Text::from).into_iter().collect();
    if !shown {
        remarks.push(
            "the images have nothing in common inside their outlines, so only the outlines were compared"
                .into(),
        );
    }
    remarks.extend(fit_mirrored(&f.evidence, f.model.flat));
    let (mirrored, bounds) = (f.evidence.mirrored_leads(), AFFINE.mirrored);
    if exceed(mirrored, bounds[2]) {
        let name = "gain in edge agreement from mirroring one image";
        checks.push(Check::at_most(name, mirrored[0], bounds[2][0]).or(Remedy::Handedness));
    }
    if agreement < AFFINE.agreement {
        remarks.push(f.evidence.words().into());
    }
    let (own, headers) = (&f.evidence.found, &f.evidence.headers);
    if headers.edges > own.edges && headers.information > own.information {
        remarks.push("the headers alone align the images better than this result".into());
    }
    if f.sampled_overlap < 0.5 {
        remarks.push(text!(
            "only {:.0} % of the smaller image's voxels count towards the cost",
            f.sampled_overlap * 100.0
        ));
    }
    Verdict::new(checks, remarks)
}
