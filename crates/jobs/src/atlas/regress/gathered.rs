//! Data collected for the subjects of one atlas of a regression.

use super::super::outcome::subjects::subject;
use super::super::study::{Prepared, Study};
use crate::error::Result;
use crate::files;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Displacement, LabelMap, Transform};
use voxalign_population::atlas::Found;
use voxalign_register::resample::labels_onto;
use voxalign_report::SubjectRecord;

/// What gathers for the subjects of an atlas, in whatever order devices are done with them.
#[derive(Default)]
pub(super) struct Gathered(Vec<(usize, SubjectRecord, Option<Carried>)>);

/// The label maps of a subject after the affine map and after the deformation.
struct Carried {
    before: LabelMap,
    after: LabelMap,
}

/// The same in the order of the subjects.
#[derive(Default)]
pub(super) struct Ordered {
    pub(super) subjects: Vec<SubjectRecord>,
    pub(super) numbers: Vec<usize>,
    /// Label maps after the affine map and after the deformation, with the weights of their subjects.
    pub(super) before: Vec<LabelMap>,
    pub(super) after: Vec<LabelMap>,
    pub(super) weights: Vec<f64>,
}

impl Gathered {
    /// Takes what was found for a subject.
    pub(super) fn take(
        &mut self,
        (device, study): (&AnyDevice, &Study<'_>),
        prepared: &Prepared<'_>,
        number: usize,
        weight: f64,
        found: Found,
    ) -> Result<()> {
        let (entry, affine) = (&prepared.entries[number], &prepared.aligned.affines[number]);
        let record = SubjectRecord { weight, ..subject(study, entry, affine, &found) };
        let mut carried = None;
        if let Some(path) = &entry.labels {
            let labels = files::labels(path, study.listener)?;
            let (grid, nearest) = (&prepared.aligned.grid, LabelInterpolation::Nearest);
            let linear = Transform::Affine(*affine);
            let before = labels_onto(device, &labels, grid, &linear, nearest, 0)?;
            let warp = Transform::Displacement(Displacement::new(found.forward));
            let whole = Transform::Composite(vec![warp, linear]);
            let after = labels_onto(device, &labels, grid, &whole, nearest, 0)?;
            carried = Some(Carried { before, after });
        }
        self.0.push((number, record, carried));
        Ok(())
    }

    /// All of it, in the order of the subjects.
    pub(super) fn ordered(mut self) -> Ordered {
        self.0.sort_by_key(|(number, ..)| *number);
        let mut all = Ordered::default();
        for (number, record, carried) in self.0 {
            if let Some(Carried { before, after }) = carried {
                all.before.push(before);
                all.after.push(after);
                all.weights.push(record.weight);
            }
            all.numbers.push(number);
            all.subjects.push(record);
        }
        all
    }
}
