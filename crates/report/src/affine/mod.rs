//! The report on an affine registration.

use crate::error::{ReportError, Result};
use crate::record::RunRecord;
use voxalign_image::{Grid, LabelMap, Volume};

/// What a report on an affine registration is made of.
///
/// All images are on the grid of the fixed image.
#[derive(Debug, Clone, Copy)]
pub struct AffineReport<'a> {
    /// The record of the run.
    pub record: &'a RunRecord,
    /// The fixed image.
    pub fixed: &'a Volume<f32>,
    /// The moving image, resampled onto the fixed grid as it was before: under the headers alone,
    /// or under the start transform.
    pub before: &'a Volume<f32>,
    /// The moving image, resampled onto the fixed grid under the result.
    pub after: &'a Volume<f32>,
    /// Regions of the fixed image.
    pub fixed_labels: Option<&'a LabelMap>,
    /// Regions of the moving image as they were before.
    pub before_labels: Option<&'a LabelMap>,
    /// Regions of the moving image under the result.
    pub after_labels: Option<&'a LabelMap>,
}

/// The report as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::OtherGrid`] where an image is not on the grid of the fixed image,
/// [`ReportError::Png`] where a picture cannot be compressed.
pub fn render(report: &AffineReport<'_>) -> Result<String> {
    check_grids(report)?;
    Ok(String::new())
}

/// Whether all images are on the grid of the fixed image.
fn check_grids(report: &AffineReport<'_>) -> Result<()> {
    let fixed = report.fixed.grid();
    let tolerance = fixed.spacing().into_iter().fold(f64::INFINITY, f64::min) * 0.01;
    let mut grids: Vec<(&'static str, &Grid)> =
        vec![("moving (before)", report.before.grid()), ("moving (after)", report.after.grid())];
    let labels = [
        ("fixed label", report.fixed_labels),
        ("moving label (before)", report.before_labels),
        ("moving label (after)", report.after_labels),
    ];
    grids.extend(labels.into_iter().filter_map(|(role, map)| Some((role, map?.grid()))));
    for (role, grid) in grids {
        if !grid.approx_eq(fixed, tolerance) {
            return Err(ReportError::OtherGrid {
                role,
                found: grid.to_string(),
                fixed: fixed.to_string(),
            });
        }
    }
    Ok(())
}
