//! The work of one stage of a search.

use crate::error::{RegisterError, Result};
use crate::progress::{Event, Progress};
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::refine::{Candidate, refine};
use crate::search::{Objective, OptimiserKind, StageRecord, Steps, TracePoint};
use crate::similarity::Similarity;
use voxalign_image::Affine;
use voxalign_options::Choice;

/// When a refinement ends, in samples of its stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    /// A step is shorter than this, or two in a row gain next to nothing: enough for what is refined
    /// further.
    Gain(f64),
    /// A step is shorter than this, whatever it gains: a result. Where the cost is flat, gains end a
    /// search far from its minimum, and rounding decides where.
    Step(f64),
}

/// What an objective is made of, for the record.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// Spacing of its samples, mm.
    pub(super) spacing: [f64; 3],
    pub(super) samples: usize,
    /// Bins of its histogram.
    pub(super) bins: usize,
    pub(super) similarity: Similarity,
}

/// The work of one stage.
pub(super) struct Stage<'a> {
    objective: &'a dyn Objective,
    optimiser: OptimiserKind,
    model: &'a Model,
    progress: &'a dyn Progress,
    spacing: f64,
    evaluations: usize,
    best: f64,
    trace: Vec<TracePoint>,
    /// Part of the stage that was done before what is being done now, and the part that that is.
    done: (f64, f64),
    what: &'static str,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        objective: &'a dyn Objective,
        optimiser: OptimiserKind,
        model: &'a Model,
        spacing: f64,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            objective,
            optimiser,
            model,
            progress,
            spacing,
            evaluations: 0,
            best: f64::INFINITY,
            trace: Vec::new(),
            done: (0.0, 1.0),
            what: "",
        }
    }

    /// Names the next part of the work and how much of the stage it is.
    pub(super) fn part(&mut self, what: &'static str, from: f64, to: f64) {
        self.what = what;
        self.done = (from, to - from);
    }

    fn count(&mut self, costs: impl Iterator<Item = f64>, part: f64) -> Result<()> {
        for cost in costs {
            self.evaluations += 1;
            if cost < self.best {
                self.best = cost;
                self.trace.push(TracePoint { evaluation: self.evaluations, cost });
            }
        }
        self.progress.event(&Event::Step {
            done: (self.done.0 + self.done.1 * part).clamp(0.0, 1.0),
            evaluations: self.evaluations,
            best: self.best,
            what: self.what,
        });
        if self.progress.stop() { Err(RegisterError::Stopped) } else { Ok(()) }
    }

    /// The costs of poses, without derivatives.
    pub(super) fn costs(&mut self, poses: &[Pose]) -> Result<Vec<Candidate>> {
        let mut found = Vec::with_capacity(poses.len());
        let size = self.objective.batch();
        for (i, batch) in poses.chunks(size).enumerate() {
            let maps: Vec<Affine> = batch.iter().map(|p| self.model.affine(p)).collect();
            let costs = self.objective.evaluate(&maps, false)?;
            let done = ((i + 1) * size) as f64 / poses.len() as f64;
            self.count(costs.iter().map(|e| e.cost), done.min(1.0))?;
            found.extend(
                batch.iter().zip(&costs).map(|(&pose, e)| Candidate { pose, cost: e.cost }),
            );
        }
        Ok(found)
    }

    /// Refines many poses side by side: every round evaluates one point of each search together.
    pub(super) fn refine(
        &mut self,
        poses: &[Pose],
        freedom: Freedom,
        until: Until,
    ) -> Result<Vec<Candidate>> {
        let (step, improvement) = match until {
            Until::Gain(step) => (step, 3e-4 * step),
            Until::Step(step) => (step, 0.0),
        };
        let steps = Steps {
            first: 0.5 * self.spacing,
            longest: 4.0 * self.spacing,
            tolerance: step * self.spacing,
            improvement,
            evaluations: 60,
        };
        let (objective, model, kind) = (self.objective, self.model, self.optimiser);
        refine(objective, model, kind, poses, freedom, steps, &mut |costs, finished| {
            self.count(costs.iter().map(|e| e.cost), finished)
        })
    }

    /// The record of the stage.
    pub(super) fn record(
        self,
        about: About,
        dof: Vec<usize>,
        candidates: [usize; 2],
        cost_start: f64,
        cost_end: f64,
        seconds: f64,
    ) -> StageRecord {
        let name = format!("{} mm", display(self.spacing));
        self.progress.event(&Event::StageEnd {
            name: &name,
            evaluations: self.evaluations,
            start: cost_start,
            best: cost_end,
            seconds,
        });
        StageRecord {
            name,
            spacing: about.spacing,
            samples: about.samples,
            cost: about.similarity.name().to_owned(),
            bins: about.bins,
            dof,
            candidates,
            evaluations: self.evaluations,
            cost_start,
            cost_end,
            seconds,
            trace: self.trace,
        }
    }
}

/// A length without needless digits.
pub(super) fn display(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
