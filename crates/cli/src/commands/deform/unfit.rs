//! The end of a deformable registration whose affine part failed so far that no deformation can start
//! from it.

use super::job::{Job, OUTPUTS};
use super::record;
use crate::args::Products;
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Table};
use crate::registration::{self, Clock, Pair, Views, number};
use crate::remedy::{Speaker, worded};
use crate::staging::Staging;
use voxalign_compute::select::AnyDevice;
use voxalign_image::Transform;
use voxalign_register::linear::AffineResult;
use voxalign_register::resample::MovingImage;
use voxalign_register::{RegisterError, Remedy, Verdict};
use voxalign_report::InputRecord;
use voxalign_report::affine::{AffineReport, render};

/// What such an end needs.
pub(super) struct End<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) device: &'a AnyDevice,
    pub(super) machine: &'a Machine,
    /// The affine part that failed.
    pub(super) affine: &'a AffineResult,
    /// Why no deformation can start from it.
    pub(super) why: &'a RegisterError,
}

impl End<'_> {
    /// Writes record and report, which shows the affine part, and no transform.
    pub(super) fn write(
        &self,
        mut pair: Pair,
        staging: Staging,
        mut clock: Clock,
        inputs: Vec<InputRecord>,
    ) -> Result<Outcome, Failure> {
        let none = Products::none();
        let run = self.job.run.only(Some(&none));
        let outside = pair.outside(run.output_options);
        let moving = MovingImage::new(self.device, pair.take_moving()?)?;
        let scoring = pair.scoring(run.output_options, outside)?;
        let after =
            scoring.under(self.device, &moving, &Transform::Affine(self.affine.transform))?;
        let before = scoring.under(self.device, &moving, &Transform::identity())?;
        drop(moving);
        let views = Views { before, after };
        clock.lap("resample");

        let middle = pair.fixed.grid().centre();
        let (job, machine) = (self.job, self.machine);
        let mut record = record::of_affine_part(job, self.affine, middle, outside, machine, inputs);
        let verdict = Verdict::default();
        let verdict = verdict.after("affine part", &self.affine.verdict, Remedy::OtherAffinePart);
        let mut verdict = worded(verdict, Speaker::Deform);
        verdict.remarks.push(self.remark());
        verdict.remarks.extend(pair.remarks(&views));
        record.verdict = verdict;
        registration::score_figures(&mut record, &views, &pair.label_names);
        let report = |record: &_| render(&AffineReport { record, images: views.images(&pair) });
        let print = |record: &_| {
            let mut table = Table::new(["", "before (headers)", "after (affine)"]);
            let cost = [self.affine.cost_before, self.affine.cost_after];
            let [before, after] = cost.map(|cost| number(Some(cost)));
            table.row(["cost of the affine part".to_owned(), before, after]);
            registration::score_rows(&mut table, &views);
            output::line("");
            table.print();
            registration::print_end(record, run.output);
        };
        run.finish(staging, clock, &mut record, &OUTPUTS, || Ok(()), report, print)
    }

    /// That the registration ended early, and why.
    fn remark(&self) -> String {
        let why = match self.why {
            RegisterError::Option { option: "affine", value, .. } => format!("it is {value}"),
            _ => "it has no half-way map, which the symmetric model needs: it mirrors, or turns by 180 degrees"
                .to_owned(),
        };
        format!(
            "the affine part failed, and no deformation can start from it: {why}; no transform and no \
             image was written"
        )
    }
}
