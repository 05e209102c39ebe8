//! The verdict on a deformable registration.

use crate::limits::DEFORMATION;
use crate::measures::FieldMeasures;
use crate::multiscale::ScaleRecord;
use crate::verdict::{Check, Remedy, Verdict};
use voxalign_options::text;

/// The findings on a result.
pub(super) struct Findings<'a> {
    pub(super) measures: &'a FieldMeasures,
    pub(super) scales: &'a [ScaleRecord],
    /// The fraction of the smaller field of view that overlaps the other under the affine map.
    pub(super) overlap: f64,
    /// Whether there is a mask of the fixed and of the moving image.
    pub(super) masked: [bool; 2],
    pub(super) mended: usize,
    /// Voxels of the grid of the fields.
    pub(super) voxels: usize,
    /// The smallest spacing of the fixed grid, mm.
    pub(super) voxel: f64,
}

/// Checks everything and sums it up.
pub(super) fn judge(f: &Findings<'_>) -> Verdict {
    // Scales that are too short to tell are left out.
    let changes = f.scales.iter().filter_map(|s| match s.energies.as_slice() {
        [first, .., last] => Some(last - first),
        _ => None,
    });
    let change: f64 = changes.sum();
    let falls = Check::at_most("change in energy over all scales", change, DEFORMATION.energy_rise);
    let overlap = Check::at_least("overlap of the fields of view", f.overlap, DEFORMATION.overlap);
    let mut checks = vec![falls.or(Remedy::Smoother), overlap.or(Remedy::OtherAffinePart)];
    checks.extend(field_checks(f.measures, f.voxel));
    let mut remarks = Vec::new();
    if f.mended > 0 {
        remarks.push(text!(
            "the final deformation was smoothed where it changed volumes too much or its inverse missed too far: {} % \
             of the voxels, each counted every time that it was smoothed",
            short(100.0 * f.mended as f64 / f.voxels.max(1) as f64)
        ));
    }
    let mask = match f.masked {
        [true, true] => Some("the masks of both images"),
        [true, false] => Some("the fixed mask"),
        [false, true] => Some("the moving mask"),
        [false, false] => None,
    };
    if let Some(mask) = mask {
        remarks.push(text!("only voxels inside {mask} drove the deformation"));
    }
    Verdict::new(checks, remarks)
}

/// The checks of a field and its inverse, on a grid whose smallest spacing is `voxel`, mm.
#[must_use]
pub fn field_checks(measures: &FieldMeasures, voxel: f64) -> Vec<Check> {
    let smallest = measures.smallest_jacobian;
    let mut checks = vec![
        Check::none("folded voxels", measures.folded),
        Check::new("smallest Jacobian determinant", smallest, "above 0", smallest > 0.0),
    ];
    if let Some(errors) = measures.inverse_consistency {
        for (name, value, most) in [
            (
                "mean inverse-consistency error over the grid",
                errors.mean,
                DEFORMATION.mean_inverse_error,
            ),
            (
                "largest inverse-consistency error",
                errors.largest,
                DEFORMATION.largest_inverse_error,
            ),
        ] {
            checks.push(Check::at_most(name, value, most * voxel).in_unit("mm"));
        }
    }
    checks.into_iter().map(|check| check.or(Remedy::Smoother)).collect()
}

/// Per cent with as many decimals as it takes to be more than nothing.
fn short(percent: f64) -> String {
    match percent {
        p if p < 0.01 => "less than 0.01".to_owned(),
        p if p < 10.0 => format!("{p:.2}"),
        p => format!("{p:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cent_are_short() {
        assert_eq!([0.001, 0.5, 12.3].map(short), ["less than 0.01", "0.50", "12"]);
    }
}
