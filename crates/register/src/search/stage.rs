//! The stages of a search: the work of one, the poses that it keeps, and its record.

use super::objective::{Evaluation, Objective};
use super::optimiser::{OptimiserKind, Steps};
use super::pose::{Freedom, Model, Pose};
use super::refine::{Candidate, costs, refine};
use crate::error::{RegisterError, Result};
use crate::numbers::null_is_nan;
use crate::progress::{Event, Progress};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// A cost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Evaluations of this stage so far.
    pub evaluation: usize,
    /// The best cost of any candidate so far.
    pub cost: f64,
}

/// The record of one stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// Name, such as `8 mm`.
    pub name: String,
    /// Spacing of the samples of the fixed image, mm.
    pub spacing: [f64; 3],
    /// Samples of the fixed image.
    pub samples: usize,
    /// Its cost; empty where all stages have one and the same.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cost: String,
    /// Histogram bins.
    pub bins: usize,
    /// Degrees of freedom, in the order they were opened.
    pub dof: Vec<usize>,
    /// Candidates that entered and that were handed on.
    pub candidates: [usize; 2],
    /// Cost evaluations (one with a gradient counts once).
    pub evaluations: usize,
    /// Cost of the start transform at this stage's resolution.
    #[serde(deserialize_with = "null_is_nan")]
    pub cost_start: f64,
    /// Lowest cost at its end.
    #[serde(deserialize_with = "null_is_nan")]
    pub cost_end: f64,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Cost over evaluations.
    pub trace: Vec<TracePoint>,
}

impl StageRecord {
    /// Tells that the stage is over.
    pub(crate) fn told(self, progress: &dyn Progress) -> Self {
        progress.event(&Event::StageEnd {
            name: &self.name,
            evaluations: self.evaluations,
            start: self.cost_start,
            best: self.cost_end,
            seconds: self.seconds,
        });
        self
    }
}

/// Reports the start of a stage, of this many.
pub(crate) fn begin(progress: &dyn Progress, name: &str, index: usize, count: usize) {
    progress.event(&Event::StageStart {
        index,
        count,
        name,
        counts: "evaluations",
        value: "cost",
        share: 1.0 / count.max(1) as f64,
    });
}

/// The work of a stage.
pub(crate) struct Stage<'a> {
    model: &'a Model,
    optimiser: OptimiserKind,
    progress: &'a dyn Progress,
    began: Instant,
    /// Cost evaluations so far.
    pub(crate) evaluations: usize,
    /// Those of them that were batches of a refinement.
    pub(crate) iterations: usize,
    best: f64,
    trace: Vec<TracePoint>,
    /// Part of the stage that was done before what is being done now, and the part that that is.
    done: (f64, f64),
    what: &'static str,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(
        model: &'a Model,
        optimiser: OptimiserKind,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            model,
            optimiser,
            progress,
            began: Instant::now(),
            evaluations: 0,
            iterations: 0,
            best: f64::INFINITY,
            trace: Vec::new(),
            done: (0.0, 1.0),
            what: "",
        }
    }

    /// Names the next step and its fraction of the stage.
    pub(crate) fn part(&mut self, what: &'static str, from: f64, to: f64) {
        self.what = what;
        self.done = (from, to - from);
    }

    /// Counts evaluations, and reports them and the fraction of the current work that is done.
    ///
    /// # Errors
    /// [`Stopped`](RegisterError::Stopped) where the listener asks for it.
    pub(crate) fn count(&mut self, costs: impl Iterator<Item = f64>, part: f64) -> Result<()> {
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

    /// The costs of poses, without derivatives; `cost` is that of an evaluation.
    pub(crate) fn costs(
        &mut self,
        objective: &dyn Objective,
        poses: &[Pose],
        cost: fn(&Evaluation) -> f64,
    ) -> Result<Vec<Candidate>> {
        costs(objective, self.model, poses, cost, &mut |found, part| {
            self.count(found.iter().map(|e| e.cost), part)
        })
    }

    /// Refines many poses side by side: every round evaluates one point of each search together.
    pub(crate) fn refine(
        &mut self,
        objective: &dyn Objective,
        poses: &[Pose],
        freedom: Freedom,
        steps: Steps,
    ) -> Result<Vec<Candidate>> {
        let (model, kind) = (self.model, self.optimiser);
        refine(objective, model, kind, poses, freedom, steps, &mut |found, part| {
            self.iterations += 1;
            self.count(found.iter().map(|e| e.cost), part)
        })
    }

    /// The record of the stage, which has the rest already.
    pub(crate) fn end(self, record: StageRecord) -> StageRecord {
        let (evaluations, trace) = (self.evaluations, self.trace);
        let seconds = self.began.elapsed().as_secs_f64();
        StageRecord { evaluations, seconds, trace, ..record }.told(self.progress)
    }
}

/// The best candidates that are farther apart from each other than `apart`, by a `distance` of poses, best first.
pub(crate) fn distinct(
    mut candidates: Vec<Candidate>,
    apart: f64,
    most: usize,
    distance: impl Fn(&Pose, &Pose) -> f64,
) -> Vec<Candidate> {
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut kept: Vec<Candidate> = Vec::new();
    for c in candidates {
        if kept.len() >= most {
            break;
        }
        if kept.iter().all(|k| distance(&k.pose, &c.pose) > apart) {
            kept.push(c);
        }
    }
    kept
}
