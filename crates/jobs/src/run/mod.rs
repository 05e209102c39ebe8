//! What jobs share: inputs and outputs, the record and the report, how a run ends.

mod files;
mod record;

pub use files::{Caller, Done};
pub(crate) use files::{Read, Run, end};
pub(crate) use record::{Clock, Input, Role, inputs, outside, peak_memory, record};

use crate::error::{Error, Result};
use crate::options::Product;
use crate::pair::Pair;
use crate::staged::Staged;
use std::path::Path;
use voxalign_image::{Affine, Transform};
use voxalign_io::names::LabelNames;
use voxalign_io::transform::{self, Geometry};
use voxalign_register::RegisterError;
use voxalign_register::scores::Resampled;
use voxalign_report::{Images, LabelRecord, RunRecord};

/// Names of files that every registration leaves.
pub(crate) const TRANSFORM: &str = "affine.tfm";
pub(crate) const TRANSFORM_FSL: &str = "affine.fsl.mat";
pub(crate) const WARPED: &str = "warped.nii.gz";
pub(crate) const RECORD: &str = "result.json";
pub(crate) const REPORT: &str = "report.html";

/// A file that a registration can leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// What it is, for the record.
    role: &'static str,
    name: &'static str,
    /// What has to be asked for to get it; nothing for record and report.
    product: Option<Product>,
}

impl Output {
    pub(crate) const fn new(
        role: &'static str,
        name: &'static str,
        product: Option<Product>,
    ) -> Self {
        Self { role, name, product }
    }
}

/// The moving image on the fixed grid before and after, with its scores.
#[derive(Debug)]
pub struct Views {
    /// Before the registration; for a deformation, by the affine part alone.
    pub before: Resampled,
    /// By the result.
    pub after: Resampled,
}

impl Views {
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

/// No output may be one of the inputs.
pub(crate) fn check_outputs<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str>,
    inputs: impl Iterator<Item = &'a Path> + Clone,
) -> Result<()> {
    for output in names.map(|name| folder.join(name)).filter(|path| path.exists()) {
        crate::files::check_output(&output, inputs.clone())?;
    }
    Ok(())
}

/// Writes an affine transform for ITK and for FSL.
pub(crate) fn write_affine(
    staged: &mut Staged<'_>,
    transform: &Affine,
    dimensions: usize,
    geometry: &Geometry<'_>,
) -> Result<()> {
    let transform = Transform::Affine(*transform);
    staged.write(TRANSFORM, |path| {
        // Tools for images of two dimensions take transforms of two dimensions only.
        if dimensions != 2 || !transform::write_itk_2d(path, &transform)? {
            transform::write(path, &transform, geometry)?;
        }
        Ok(())
    })?;
    staged.write(TRANSFORM_FSL, |path| transform::write(path, &transform, geometry))
}

/// An error of a registration, with the file that it is about, where it is one.
pub(crate) fn blamed(error: RegisterError, inputs: &[Input<'_>]) -> Error {
    let file = error.role().and_then(|role| inputs.iter().find(|i| i.is(role)));
    let failure = Error::from(error);
    match file {
        Some(input) => failure.at(&format!("'{}'", input.path().display())),
        None => failure,
    }
}

/// Adds the scores to a record: the named numbers, and every label with its name.
pub(crate) fn score_figures(record: &mut RunRecord, views: &Views, names: &LabelNames) {
    if let (Some(before), Some(after)) = (&views.before.scores.labels, &views.after.scores.labels) {
        record.labels = LabelRecord::all(before, after, names);
    }
    for (when, view) in [("before", &views.before), ("after", &views.after)] {
        let named = view.scores.figures().into_iter().map(|(n, v)| (format!("{n}_{when}"), v));
        record.figures.extend(named);
    }
}
