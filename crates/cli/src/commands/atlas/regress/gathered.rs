//! What gathers for the subjects of one atlas of a regression.

use super::super::prepared::Prepared;
use crate::failure::Failure;
use crate::files;
use voxalign_compute::Device;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_image::{Displacement, LabelMap, Transform};
use voxalign_population::atlas::{Atlas, Found, Judged, judge};
use voxalign_register::Verdict;
use voxalign_register::resample::labels_onto;
use voxalign_report::SubjectRecord;

/// What gathers for the subjects of an atlas.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) subjects: Vec<SubjectRecord>,
    numbers: Vec<usize>,
    /// Label maps after the affine map and after the deformation, with the weights of their subjects.
    pub(super) before: Vec<LabelMap>,
    pub(super) after: Vec<LabelMap>,
    pub(super) weights: Vec<f64>,
}

impl Gathered {
    /// Takes what was found for a subject.
    pub(super) fn take<D: Device>(
        &mut self,
        device: &D,
        prepared: &Prepared,
        number: usize,
        weight: f64,
        found: Found,
    ) -> Result<(), Failure> {
        let (entry, affine) = (&prepared.entries[number], &prepared.aligned.affines[number]);
        let rows = affine.rows();
        self.numbers.push(number);
        self.subjects.push(SubjectRecord {
            name: entry.name.clone(),
            weight,
            covariates: entry.covariates.clone(),
            affine: [rows[0], rows[1], rows[2], [0.0, 0.0, 0.0, 1.0]],
            correlation: [f64::NAN; 2],
            measures: found.measures,
            mended: found.mended,
            outlying: false,
            verdict: found.verdict,
        });
        if let Some(path) = &entry.labels {
            let labels = files::labels(path)?;
            let (grid, nearest) = (&prepared.aligned.grid, LabelInterpolation::Nearest);
            let linear = Transform::Affine(*affine);
            self.before.push(labels_onto(device, &labels, grid, &linear, nearest, 0)?);
            let warp = Transform::Displacement(Displacement::new(found.forward));
            let whole = Transform::Composite(vec![warp, linear]);
            self.after.push(labels_onto(device, &labels, grid, &whole, nearest, 0)?);
            self.weights.push(weight);
        }
        Ok(())
    }

    /// The verdict on the atlas, and which subjects are unlike the others.
    pub(super) fn judge(&self, prepared: &Prepared, atlas: &Atlas) -> (Verdict, Vec<bool>) {
        let judged: Vec<_> = self
            .subjects
            .iter()
            .zip(&self.numbers)
            .map(|(s, number)| Judged {
                name: &s.name,
                deformation: &s.verdict,
                affine: prepared.aligned.verdicts.get(*number),
            })
            .collect();
        judge(atlas, &judged)
    }
}
