//! The moving image resampled on the fixed grid.

use super::Pair;
use crate::error::Result;
use voxalign_io::names::LabelNames;
use voxalign_register::scores::Resampled;
use voxalign_report::{Images, LabelRecord, RunRecord, When};

/// The moving image on the fixed grid before and after, with its scores.
#[derive(Debug)]
pub struct Views {
    /// Before the registration; for a deformation, by the affine part alone.
    pub before: Resampled,
    /// By the result.
    pub after: Resampled,
}

impl Views {
    /// Brings what a report shows to the host, where that is elsewhere.
    ///
    /// # Errors
    /// Memory that runs out, what fails on a device.
    pub(crate) fn bring(&self, pair: &Pair) -> Result<()> {
        for image in [&*pair.fixed, &self.before.image, &self.after.image] {
            image.bring()?;
        }
        Ok(())
    }

    /// For the report.
    pub(crate) fn images<'a>(&'a self, pair: &'a Pair) -> Images<'a> {
        Images {
            fixed: &pair.fixed,
            before: &self.before.image,
            after: &self.after.image,
            fixed_mask: pair.fixed_mask.as_ref(),
            fixed_labels: pair.fixed_labels.as_ref(),
            before_labels: self.before.labels.as_ref(),
            after_labels: self.after.labels.as_ref(),
        }
    }
}

/// Adds the scores to a record: the named numbers, and every label with its name.
pub(crate) fn score_figures(record: &mut RunRecord, views: &Views, names: &LabelNames) {
    if let (Some(before), Some(after)) = (&views.before.scores.labels, &views.after.scores.labels) {
        record.labels = LabelRecord::all(before, after, names);
    }
    record.figures.set_scores(When::Before, &views.before.scores);
    record.figures.set_scores(When::After, &views.after.scores);
}
