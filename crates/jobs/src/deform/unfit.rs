//! The end of a deformable registration whose affine part failed so far that no deformation can start
//! from it.

use super::course::Task;
use super::{record, with_affine_part};
use crate::error::Result;
use crate::machine::Machine;
use crate::options::Products;
use crate::pair::{Pair, Views, outside, score_figures};
use crate::remedy::Speaker;
use crate::run::{Clock, Done, Run};
use crate::staged::Staged;
use voxalign_image::Transform;
use voxalign_options::OptionError;
use voxalign_register::linear::AffineResult;
use voxalign_register::resample::MovingImage;
use voxalign_register::{RegisterError, Verdict};
use voxalign_report::affine::{AffineReport, render};
use voxalign_report::{Figure, InputRecord, RunRecord, When};

/// What such an end needs.
pub(super) struct End<'a> {
    pub(super) task: &'a dyn Task,
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
        run: &Run<'_>,
        mut pair: Pair,
        staged: Staged<'_>,
        mut clock: Clock,
        inputs: Vec<InputRecord>,
    ) -> Result<Done<RunRecord>> {
        let none = Products::none();
        let run = run.only(Some(&none));
        let (device, written) = (&self.machine.device, run.output);
        let (rule, outside) = (pair.rule()?, outside(written, &pair.moving));
        let moving = MovingImage::new(device, pair.take_moving()?)?;
        let scoring = pair.scoring(&rule, (written, outside))?;
        let after = scoring.under(device, &moving, &Transform::Affine(self.affine.transform))?;
        let before = scoring.under(device, &moving, &Transform::identity())?;
        drop(moving);
        let views = Views { before, after };
        clock.lap("resample");

        let middle = pair.fixed.grid().centre();
        let of = (self.task.parameters(outside), &run);
        let mut record = record::of_affine_part(of, self.affine, middle, self.machine);
        record.inputs = inputs;
        let verdict = with_affine_part(Verdict::default(), Some(self.affine));
        let mut verdict = run.caller.worded(verdict, Speaker::Deform);
        verdict.remarks.push(self.remark());
        verdict.remarks.extend(pair.remarks(&views));
        record.verdict = verdict;
        score_figures(&mut record, &views, &pair.label_names);
        record.figures.set_at(Figure::AffineCost, When::Before, self.affine.cost_before);
        record.figures.set_at(Figure::AffineCost, When::After, self.affine.cost_after);
        let report = |record: &_| render(&AffineReport { record, images: views.images(&pair) });
        run.finish(staged, clock, record, &self.task.outputs(), || Ok(()), report)
    }

    /// That the registration ended early, and why.
    fn remark(&self) -> String {
        let why = match self.why {
            RegisterError::Option(OptionError::Value { value, .. }) => format!("it is {value}"),
            _ => "it has no half-way map, which the symmetric model needs: it mirrors, or turns by 180 degrees"
                .to_owned(),
        };
        format!(
            "the affine part failed, and no deformation can start from it: {why}; no transform and no \
             image was written"
        )
    }
}
