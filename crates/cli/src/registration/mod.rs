//! What the registrations share: inputs and outputs, scores before and after, the record.

mod record;

pub(crate) use record::{AFFINE, Clock, inputs, name_of, peak_memory, record};

use crate::args::Interpolation;
use crate::failure::Failure;
use crate::files::{self, Staging};
use crate::resample::{self, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid, LabelMap, Transform, Volume};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::compare::{
    CompareError, ImageScores, OverlapRule, OverlapScores, compare_images, compare_labels,
    same_grid,
};
use voxalign_report::OutputRecord;

/// Bins of the joint histogram for the scores that are reported beside the cost.
const SCORE_BINS: usize = 64;

/// Scores of the moving image on the fixed grid, before or after.
pub(crate) struct Scores {
    pub(crate) images: Option<ImageScores>,
    pub(crate) labels: Option<OverlapScores>,
}

/// The moving image on the fixed grid.
pub(crate) struct Resampled {
    pub(crate) image: Volume<f32>,
    pub(crate) labels: Option<LabelMap>,
    pub(crate) scores: Scores,
}

/// What a moving image is resampled onto and compared with.
pub(crate) struct View<'a> {
    pub(crate) fixed: &'a Volume<f32>,
    pub(crate) fixed_mask: Option<&'a Volume<f32>>,
    pub(crate) fixed_labels: Option<&'a LabelMap>,
    pub(crate) moving_labels: Option<&'a LabelMap>,
    /// Which labels count.
    pub(crate) rule: &'a OverlapRule,
    pub(crate) interpolation: Interpolation,
    /// The value outside of the moving image.
    pub(crate) outside: f32,
}

impl View<'_> {
    /// The moving image and labels on the fixed grid, and how well they agree with the fixed ones.
    pub(crate) fn resample<D: Device>(
        &self,
        device: &D,
        source: &Source<'_, D>,
        transform: &Transform,
    ) -> Result<Resampled, Failure> {
        let grid = self.fixed.grid();
        // Outside is NaN at first, so that the scores are those of the overlap.
        let mut image = source.onto(grid, transform, self.interpolation, f32::NAN)?;
        // Where the images do not overlap at all there are no scores.
        let images = match compare_images(self.fixed, &image, self.fixed_mask, SCORE_BINS) {
            Ok(scores) => Some(scores),
            Err(CompareError::Nothing { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        image.data_mut().iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = self.outside);
        let labels = self.moving_labels;
        let labels = labels
            .map(|m| resample::labels(device, m, grid, transform, Interpolation::Nearest, 0))
            .transpose()?;
        let overlap = match (self.fixed_labels, &labels) {
            (Some(fixed), Some(warped)) => Some(compare_labels(fixed, warped, None, self.rule)?),
            _ => None,
        };
        Ok(Resampled { image, labels, scores: Scores { images, labels: overlap } })
    }
}

/// No output may be one of the inputs.
pub(crate) fn check_outputs<'a>(
    folder: &Path,
    names: &[&str],
    inputs: impl Iterator<Item = &'a Path> + Clone,
) -> Result<(), Failure> {
    for output in names.iter().map(|name| folder.join(name)).filter(|path| path.exists()) {
        files::check_output(&output, inputs.clone())?;
    }
    Ok(())
}

/// Label maps come in pairs.
pub(crate) fn check_labels(
    fixed: &Option<PathBuf>,
    moving: &Option<PathBuf>,
) -> Result<(), Failure> {
    if fixed.is_some() != moving.is_some() {
        return Err(Failure::input(
            "--fixed-labels and --moving-labels belong together; give both or neither",
        ));
    }
    Ok(())
}

/// Which labels count, of two maps of which the first is on the grid of the fixed image.
pub(crate) fn label_rule(
    fixed: &LabelMap,
    moving: &LabelMap,
    grid: &Grid,
) -> Result<OverlapRule, Failure> {
    same_grid(fixed.grid(), grid)
        .map_err(|e| Failure::from(e).at("--fixed-labels and the fixed image"))?;
    let rule = OverlapRule::common_labels(fixed, moving);
    if rule.only.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(Failure::input(
            "--fixed-labels and --moving-labels have no label in common; check that they use the \
             same numbers",
        ));
    }
    Ok(rule)
}

/// Takes an image out once it is not needed in its place any more; one voxel is left.
pub(crate) fn take(image: &mut Volume<f32>) -> Result<Volume<f32>, Failure> {
    let one = Volume::filled(Grid::axis_aligned([1; 3], [1.0; 3])?, 0.0);
    Ok(std::mem::replace(image, one))
}

/// Writes an affine transform for ITK and for FSL.
pub(crate) fn write_affine(
    staging: &mut Staging,
    [itk, fsl]: [&str; 2],
    transform: &Affine,
    dimensions: usize,
    geometry: &Geometry<'_>,
) -> Result<(), Failure> {
    let transform = Transform::Affine(*transform);
    let path = staging.path(itk)?;
    // Tools for images of two dimensions take transforms of two dimensions only.
    if dimensions != 2 || !transform::write_itk_2d(&path, &transform)? {
        transform::write(&path, &transform, geometry)?;
    }
    transform::write(staging.path(fsl)?, &transform, geometry)?;
    Ok(())
}

/// Writes a text.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(voxalign_io::atomic::write_file(path, |w| w.write_all(text.as_bytes()))?)
}

/// The files that a result has, by role and name.
pub(crate) fn outputs(staging: &Staging, names: &[(&str, &str)]) -> Vec<OutputRecord> {
    let record = |&(role, name): &(&str, &str)| OutputRecord {
        role: role.to_owned(),
        path: staging.final_path(name).display().to_string(),
    };
    names.iter().map(record).collect()
}

/// Adds the scores to the named numbers of a record.
pub(crate) fn score_figures(figures: &mut BTreeMap<String, f64>, before: &Scores, after: &Scores) {
    for (when, scores) in [("before", before), ("after", after)] {
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                figures.insert(format!("{name}_{when}"), value);
            }
        };
        let images = scores.images.as_ref();
        put("rms", images.map(|s| s.rms));
        put("ncc", images.and_then(|s| s.ncc));
        put("mi", images.map(|s| s.mi));
        put("nmi", images.and_then(|s| s.nmi));
        put("label_overlap", scores.labels.as_ref().and_then(|l| l.mean_dice));
    }
}
