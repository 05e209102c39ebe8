//! Simulation of a run: when each task would start and end, given the duration of each stage.

use super::model::Engine;
use super::plan::{Plan, Ring, Shape, Step, Submitted, dependencies};
use super::trace::{Task, Trace};
use std::collections::VecDeque;
use std::ops::Range;

/// A task that would wait for ever: what it waits for is asked for only after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stuck {
    pub(super) stage: usize,
    pub(super) item: usize,
}

/// Queues, workers and engines with the times at which they are free.
struct Machine<'a> {
    rings: &'a [Ring],
    first_item: usize,
    /// Seconds of each stage, before and after its synchronisation.
    seconds: &'a [[f64; 2]],
    /// The engine of each stage, and when engines are free.
    engines: Vec<usize>,
    engine_free: Vec<f64>,
    /// Tasks in their queues, with the time at which they were asked for.
    queues: Vec<VecDeque<(Submitted, f64)>>,
    worker_free: Vec<Vec<f64>>,
    /// When each stage of each item ended.
    ended: Vec<Vec<Option<f64>>>,
    device: Vec<bool>,
    trace: Trace,
}

impl Machine<'_> {
    /// The first time at which the head of a queue can begin; none if it waits for a task that has not
    /// ended.
    fn earliest(&self, queue: usize) -> Option<(f64, usize)> {
        let (task, asked) = *self.queues[queue].front()?;
        let workers = self.worker_free[queue].iter().enumerate();
        let (worker, free) =
            workers.fold((0, f64::INFINITY), |a, (i, &t)| if t < a.1 { (i, t) } else { a });
        let mut start = asked.max(free);
        for (stage, item) in dependencies(self.rings, self.first_item, task) {
            start = start.max(self.ended[stage][item - self.first_item]?);
        }
        let engine = self.engines[task.stage];
        Some((start.max(self.engine_free[engine]), worker))
    }

    /// Lets the task run that can begin first. None if there is none that can.
    fn advance(&mut self) -> Option<()> {
        let ready = (0..self.queues.len()).filter_map(|q| Some((q, self.earliest(q)?)));
        let (queue, (start, worker)) =
            ready.min_by(|a, b| a.1.0.total_cmp(&b.1.0).then(a.0.cmp(&b.0)))?;
        let (task, _) = self.queues[queue].pop_front()?;
        let end = start + self.seconds[task.stage][task.part];
        self.worker_free[queue][worker] = end;
        // Readers are threads that do not wait for each other.
        if self.device[task.stage] {
            self.engine_free[self.engines[task.stage]] = end;
        }
        if task.last {
            self.ended[task.stage][task.item - self.first_item] = Some(end);
        }
        let Submitted { stage, item, part, .. } = task;
        self.trace.tasks.push(Task { queue, stage, item, part, start, end });
        Some(())
    }

    /// Whether work of the device is still in a queue.
    fn device_waits(&self) -> Option<Stuck> {
        let all = self.queues.iter().flatten();
        let task = all.map(|t| t.0).find(|t| self.device[t.stage])?;
        Some(Stuck { stage: task.stage, item: task.item })
    }
}

/// The trace that the plan would leave where each stage takes the given seconds (before and after its
/// synchronisation), and each engine of `hardware` does one thing at a time.
pub(super) fn simulate(
    plan: &Plan,
    stages: &[Shape],
    rings: &[Ring],
    items: Range<usize>,
    seconds: &[[f64; 2]],
    hardware: impl Fn(Engine) -> usize,
) -> Result<Trace, Stuck> {
    let engines: Vec<usize> = stages.iter().map(|s| hardware(s.name.engine)).collect();
    let mut machine = Machine {
        rings,
        first_item: items.start,
        seconds,
        engine_free: vec![0.0; engines.iter().max().map_or(0, |m| m + 1)],
        engines,
        queues: vec![VecDeque::new(); plan.queues.len()],
        worker_free: plan.queues.iter().map(|q| vec![0.0; q.workers.max(1)]).collect(),
        ended: vec![vec![None; items.len()]; stages.len()],
        device: stages.iter().map(|s| s.name.engine.is_device()).collect(),
        trace: Trace {
            queues: plan.queues.iter().map(|q| q.name.clone()).collect(),
            stages: stages.iter().map(|s| s.name.clone()).collect(),
            tasks: Vec::new(),
        },
    };
    let mut now = 0.0;
    for step in &plan.steps {
        match step {
            Step::Submit(task) => machine.queues[task.queue].push_back((*task, now)),
            Step::Synchronise => {
                while let Some(stuck) = machine.device_waits() {
                    machine.advance().ok_or(stuck)?;
                }
                let done = machine.trace.tasks.iter().filter(|t| machine.device[t.stage]);
                now = done.map(|t| t.end).fold(now, f64::max);
            }
        }
    }
    while machine.advance().is_some() {}
    match machine.queues.iter().flatten().next() {
        Some((task, _)) => Err(Stuck { stage: task.stage, item: task.item }),
        None => Ok(machine.trace),
    }
}
