//! Timelines of runs: when each task ran.

use super::model::Engine;
use serde::{Deserialize, Serialize};

/// One task: a stage of an item, or the part of it before or after a forced synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its queue, as a place in [`Trace::queues`].
    pub queue: usize,
    /// Its stage, as a place in [`Trace::stages`].
    pub stage: usize,
    /// The item.
    pub item: usize,
    /// 0, or 1 after a synchronisation within the stage.
    pub part: usize,
    /// Begin, seconds since that of the run.
    pub start: f64,
    /// End, seconds since the begin of the run.
    pub end: f64,
}

/// A stage, for its readers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageName {
    /// Its name.
    pub name: String,
    /// The engine that does its work.
    pub engine: Engine,
    /// The number of items that it may process at once.
    pub workers: usize,
}

/// All tasks of a run, in the order in which they ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// The names of the queues.
    pub queues: Vec<String>,
    /// The stages.
    pub stages: Vec<StageName>,
    /// The tasks.
    pub tasks: Vec<Task>,
}

impl Trace {
    /// Seconds that the tasks of a stage took together.
    #[must_use]
    pub fn busy(&self, stage: usize) -> f64 {
        self.tasks.iter().filter(|t| t.stage == stage).map(|t| t.end - t.start).sum()
    }

    /// Seconds from the begin of the run to the end of the last task.
    #[must_use]
    pub fn wall(&self) -> f64 {
        self.tasks.iter().map(|t| t.end).fold(0.0, f64::max)
    }

    /// The least time that a run of these stages can take, seconds: that of the stage which takes
    /// longest over all items, `n max(T)` (Ha 2011, section 4.4.2); a stage with several workers
    /// counts as so much faster.
    #[must_use]
    pub fn bound(&self) -> f64 {
        let times = self.stages.iter().enumerate();
        times.map(|(i, s)| self.busy(i) / s.workers.max(1) as f64).fold(0.0, f64::max)
    }

    /// Adds the tasks of a run of the same stages that began `after` seconds later. Its queues are
    /// added as those of the same names.
    pub(super) fn append(&mut self, other: Self, after: f64) {
        if self.stages.is_empty() {
            self.stages = other.stages;
        }
        let places: Vec<usize> = other
            .queues
            .into_iter()
            .map(|name| {
                self.queues.iter().position(|q| *q == name).unwrap_or_else(|| {
                    self.queues.push(name);
                    self.queues.len() - 1
                })
            })
            .collect();
        self.tasks.extend(other.tasks.into_iter().map(|t| Task {
            queue: places[t.queue],
            start: t.start + after,
            end: t.end + after,
            ..t
        }));
    }
}
