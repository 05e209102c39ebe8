//! The verdict on an affine registration.

use crate::evidence::{Evidence, LITTLE, Unmasked};
use crate::limits::AFFINE;
use crate::search::pose::Model;
use crate::verdict::{Check, Remedy, Verdict};
use voxalign_image::{Affine, Transform, Vector3};
use voxalign_options::{Text, text};

/// The name of the check of the agreement of the images.
pub const AGREEMENT_CHECK: &str =
    "agreement of edges, information and tissue, independent of the cost";

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

/// The smallest and the largest scaling along any direction, of a slice within its plane.
fn scalings(transform: &Affine, flat: bool) -> [f64; 2] {
    let stretch = transform.matrix.svd(false, false).singular_values;
    let mut lengths: Vec<f64> = stretch.iter().copied().collect();
    if flat {
        // The direction across the slice keeps its length.
        lengths.sort_by(|a, b| b.ln().abs().total_cmp(&a.ln().abs()));
        lengths.truncate(2);
    }
    let ends: [fn(f64, f64) -> f64; 2] = [f64::min, f64::max];
    ends.map(|end| lengths.iter().copied().fold(f64::NAN, end))
}

/// Checks everything and sums it up.
pub(super) fn judge(f: &Findings) -> Verdict {
    let mut checks = Vec::new();
    let agreement = f.evidence.agreement();
    checks.push(Check::at_least(AGREEMENT_CHECK, agreement, AFFINE.agreement).or(
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
    let between = |name: &str, value: f64, (low, high): (f64, f64)| {
        let passed = value >= low && value <= high;
        Check::new(name, value, format!("between {low} and {high}"), passed)
            .or(Remedy::FewerFreedoms)
    };
    let [smallest, largest] = scalings(&f.transform, f.model.flat);
    for (name, value) in [("largest scaling", largest), ("smallest scaling", smallest)] {
        checks.push(between(name, value, AFFINE.lengths));
    }
    let determinant = f.transform.determinant();
    let scaled = if f.model.flat { "area" } else { "volume" };
    let name = format!("{scaled} scaling (determinant; negative for a reflection)");
    checks.push(between(&name, determinant, AFFINE.volumes));
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
        let what = if f.model.flat { "pixels" } else { "voxels" };
        remarks.push(text!(
            "only {:.0} % of the smaller image's {what} count towards the cost",
            f.sampled_overlap * 100.0
        ));
    }
    Verdict::new(checks, remarks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Matrix3;

    #[test]
    fn scalings_of_slices_are_those_within_the_plane() {
        let (s, c) = 0.4f64.sin_cos();
        let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
        let of = |x: f64, y: f64, flat: bool| {
            let matrix = turn * Matrix3::from_diagonal(&Vector3::new(x, y, 1.0));
            scalings(&Affine::new(matrix, Vector3::zeros()), flat)
        };
        for (found, expected) in [
            (of(0.8, 0.9, true), [0.8, 0.9]),
            (of(0.8, 0.9, false), [0.8, 1.0]),
            (of(1.2, 1.1, true), [1.1, 1.2]),
            (of(1.2, 1.1, false), [1.0, 1.2]),
        ] {
            assert!((0..2).all(|i| (found[i] - expected[i]).abs() < 1e-12), "{found:?}");
        }
    }
}
