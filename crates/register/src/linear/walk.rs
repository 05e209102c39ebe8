//! The rounds of a search, one after the other.

use super::candidates::{changed, distinct, perturbed, pick, principal_starts, reflected};
use super::moments::Moments;
use super::plan::{Action, From, Keep, Plan, Round, Until};
use super::rotations::{angle, between, rotations};
use crate::error::Result;
use crate::search::Objective;
use crate::search::pose::{Model, Pose};
use crate::search::refine::Candidate;
use crate::search::stage::Stage;

/// The least distance between two different alignments, as a fraction of the object's radius.
pub(super) const ELSEWHERE: f64 = 0.3;

/// Where a search can start.
pub(super) struct Starts {
    pub(super) start: Pose,
    /// The alignment of the headers.
    pub(super) headers: Pose,
    /// Further starts of a full search: the alignment of the headers, and aligned image centres.
    pub(super) others: Vec<Pose>,
    /// Of the fixed and of the moving image.
    pub(super) moments: [Moments; 2],
}

/// The state of a search between its rounds.
pub(super) struct Walk<'a> {
    model: &'a Model,
    plan: &'a Plan,
    starts: &'a Starts,
    /// Those that are refined further.
    pub(super) candidates: Vec<Candidate>,
    /// Those that wait while the first one is.
    waiting: Vec<Candidate>,
    /// The best alignments that are apart from each other.
    rivals: Vec<Candidate>,
    /// Degrees of freedom of the rounds of a stage.
    opened: Vec<usize>,
    /// The best alignment with one image mirrored.
    pub(super) mirrored: Option<Pose>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(model: &'a Model, plan: &'a Plan, starts: &'a Starts) -> Self {
        let candidates = vec![Candidate { pose: starts.start, cost: f64::INFINITY }];
        let (waiting, rivals, opened) = (Vec::new(), Vec::new(), Vec::new());
        Self { model, plan, starts, candidates, waiting, rivals, opened, mirrored: None }
    }

    /// The best candidate.
    pub(super) fn best(&self) -> Candidate {
        let none = Candidate { pose: self.starts.start, cost: f64::INFINITY };
        self.candidates.first().copied().unwrap_or(none)
    }

    /// The degrees of freedom that were opened since the last call.
    pub(super) fn take_opened(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.opened)
    }

    /// Lets others compete with the candidates; the best stays.
    pub(super) fn compete(&mut self, others: Vec<Candidate>) {
        let all = [others, std::mem::take(&mut self.candidates)].concat();
        self.candidates = distinct(all, self.model, 0.0, 1);
    }

    /// Finds the best alignment with the fixed image mirrored about the middle of its object.
    pub(super) fn mirror(
        &mut self,
        stage: &mut Stage<'_>,
        objective: &dyn Objective,
        spacing: f64,
    ) -> Result<()> {
        let Some(best) = self.candidates.first() else { return Ok(()) };
        let axes = if self.model.flat { 2 } else { 3 };
        let poses: Vec<Pose> = (0..axes).map(|axis| reflected(&best.pose, axis)).collect();
        let by_cost = |a: &Candidate, b: &Candidate| a.cost.total_cmp(&b.cost);
        let found = stage.costs(objective, &poses, |e| e.cost)?.into_iter().min_by(by_cost);
        let Some(found) = found else { return Ok(()) };
        let steps = Until::Gain(0.02).steps(spacing);
        let refined = stage.refine(objective, &[found.pose], self.plan.largest, steps)?;
        self.mirrored = refined.first().map(|c| c.pose);
        Ok(())
    }

    /// Makes a round.
    pub(super) fn round(
        &mut self,
        stage: &mut Stage<'_>,
        objective: &dyn Objective,
        spacing: f64,
        round: &Round,
    ) -> Result<()> {
        let poses = self.poses(round.from);
        if poses.is_empty() {
            return Ok(());
        }
        stage.part(round.what, round.part.0, round.part.1);
        let mut found = match round.action {
            Action::Score => stage.costs(objective, &poses, |e| e.cost)?,
            Action::Refine(freedom, until) => {
                if round.from != From::Others {
                    self.opened.push(self.model.parameters(freedom));
                }
                stage.refine(objective, &poses, freedom, until.steps(spacing))?
            }
        };
        for &keep in &round.keep {
            found = self.keep(keep, found);
        }
        self.candidates = found;
        Ok(())
    }

    /// The poses that a round begins with.
    fn poses(&mut self, from: From) -> Vec<Pose> {
        let (start, flat) = (self.starts.start, self.model.flat);
        let of = |candidates: &[Candidate]| candidates.iter().map(|c| c.pose).collect();
        match from {
            From::Start => vec![start],
            From::Axes => {
                let [fixed, moving] = &self.starts.moments;
                principal_starts(&start, fixed, moving)
            }
            From::Rotations(step) => rotations(&self.plan.range, step, flat)
                .iter()
                .map(|r| Pose { rotation: r * start.rotation, ..start })
                .collect(),
            From::Between(step, width) => {
                let rotations = rotations(&self.plan.range, step, flat);
                between(&rotations, &start, &self.candidates, width)
            }
            From::Candidates => of(&self.candidates),
            From::CandidatesAndStarts => {
                [of(&self.candidates), self.starts.others.clone()].concat()
            }
            From::Neighbours => {
                let scaling = self.plan.scaling();
                let near = self.candidates.iter().flat_map(|c| perturbed(&c.pose, flat, scaling));
                near.chain([start]).chain(self.starts.others.iter().copied()).collect()
            }
            From::Changed => {
                self.candidates.iter().flat_map(|c| changed(&c.pose, self.plan.largest)).collect()
            }
            From::First => {
                self.waiting = self.candidates.split_off(1.min(self.candidates.len()));
                of(&self.candidates)
            }
            From::Others => of(&std::mem::take(&mut self.waiting)),
        }
    }

    /// The selection of the candidates that were found.
    fn keep(&mut self, keep: Keep, found: Vec<Candidate>) -> Vec<Candidate> {
        let elsewhere = self.plan.elsewhere;
        match keep {
            Keep::All => found,
            Keep::Minima(apart) => {
                let mut all = [found, self.candidates.clone()].concat();
                all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
                let mut picked = pick(&all, apart);
                let start = self.starts.start.rotation;
                if !picked.iter().any(|p| angle(&p.pose.rotation, &start) < 1e-3) {
                    // The start itself is always among the candidates, whose first it is.
                    picked.extend(self.candidates.first());
                }
                picked
            }
            Keep::Distinct(apart, most) => distinct(found, self.model, apart, most),
            Keep::Rivals(kept) => {
                self.rivals = distinct(found, self.model, elsewhere, Plan::RIVALS);
                self.rivals.iter().take(kept).copied().collect()
            }
            Keep::Compete => {
                let all = [self.candidates.clone(), found].concat();
                self.keep(Keep::Rivals(1), all)
            }
        }
    }
}
