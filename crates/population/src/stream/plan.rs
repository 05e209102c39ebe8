//! The assignment of tasks to queues and their order of submission: the loop of a single-threaded host program,
//! written out.

use super::model::{Engine, Model, Order};
use super::trace::StageName;

/// A stage as the plan sees it.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) name: StageName,
    /// Whether it forces a synchronisation, and so has two parts.
    pub(super) synchronises: bool,
}

/// A range of stages that share a buffer of the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// The stage that fills the buffer.
    pub first: usize,
    /// The last stage that uses it.
    pub last: usize,
    /// The number of buffers; item `k` uses number `k mod size`.
    pub size: usize,
    /// The number of later items that still use it, in the stage after `first`: item `k + size` may begin stage
    /// `first` once item `k + keep` has ended stage `last`. 0 unless an operator looks back.
    pub keep: usize,
}

/// A task to be asked for, or a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Submit(Submitted),
    /// Until all work of the device that was asked for is done.
    Synchronise,
}

/// A task in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Submitted {
    pub(super) queue: usize,
    pub(super) stage: usize,
    pub(super) item: usize,
    pub(super) part: usize,
    /// Whether it is the last of its stage.
    pub(super) last: bool,
}

/// A queue: this many threads that take tasks in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) workers: usize,
}

/// Queues, and the work submitted to them.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) queues: Vec<Queue>,
    pub(super) steps: Vec<Step>,
}

/// Stages that follow each other in one queue.
struct Group {
    queue: usize,
    stages: Vec<usize>,
}

impl Plan {
    /// The plan of a model for the items of a range.
    pub(super) fn new(stages: &[Shape], items: std::ops::Range<usize>, model: Model) -> Self {
        match model {
            Model::Synchronous => {
                let queue = Queue { name: "all".into(), workers: 1 };
                let mut plan = Self { queues: vec![queue], steps: Vec::new() };
                for item in items {
                    (0..stages.len()).for_each(|s| plan.submit(stages, 0, s, item));
                }
                plan
            }
            Model::Implicit { streams } => {
                let all = items.len().max(1);
                Self::implicit(stages, items, streams.map_or(all, |n| n.clamp(1, all)))
            }
            Model::HardwareAware(mapping) => {
                let share = |e: Engine| e.is_device().then(|| mapping.queue(e));
                Self::explicit(stages, items, Order::UED, share)
            }
            Model::HardwareIndependent(order) => Self::explicit(stages, items, order, |_| None),
        }
    }

    fn submit(&mut self, stages: &[Shape], queue: usize, stage: usize, item: usize) {
        let submitted = Submitted { queue, stage, item, part: 0, last: true };
        if stages[stage].synchronises {
            self.steps.extend([
                Step::Submit(Submitted { last: false, ..submitted }),
                Step::Synchronise,
                Step::Submit(Submitted { part: 1, ..submitted }),
            ]);
        } else {
            self.steps.push(Step::Submit(submitted));
        }
    }

    /// Files have queues of their own; of the device, all of a stage before the next.
    fn implicit(stages: &[Shape], items: std::ops::Range<usize>, streams: usize) -> Self {
        let mut queues: Vec<Queue> =
            (0..streams).map(|i| Queue { name: format!("stream {i}"), workers: 1 }).collect();
        let own: Vec<Option<usize>> = stages
            .iter()
            .map(|s| {
                (!s.name.engine.is_device()).then(|| {
                    queues.push(Queue { name: s.name.name.clone(), workers: s.name.workers });
                    queues.len() - 1
                })
            })
            .collect();
        let mut plan = Self { queues, steps: Vec::new() };
        for (stage, own) in own.into_iter().enumerate() {
            for item in items.clone() {
                plan.submit(stages, own.unwrap_or(item % streams), stage, item);
            }
        }
        plan
    }

    /// A loop over the items in which each group of stages works on an item that is behind that of
    /// the group before, so that all are at work at once. Stages of the device for which `share`
    /// gives one number share a queue.
    fn explicit(
        stages: &[Shape],
        items: std::ops::Range<usize>,
        order: Order,
        share: impl Fn(Engine) -> Option<usize>,
    ) -> Self {
        let mut queues: Vec<Queue> = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut shared: Vec<(usize, usize)> = Vec::new();
        for (i, stage) in stages.iter().enumerate() {
            let engine = stage.name.engine;
            let number = share(engine);
            let known = number.and_then(|n| shared.iter().find(|s| s.0 == n)).map(|s| s.1);
            let queue = known.unwrap_or_else(|| {
                let (name, workers) = (stage.name.name.clone(), stage.name.workers);
                queues.push(Queue { name, workers });
                queues.len() - 1
            });
            match (number, known) {
                (Some(_), Some(_)) => {
                    let name = &mut queues[queue].name;
                    name.push_str(" + ");
                    name.push_str(&stage.name.name);
                }
                (Some(n), None) => shared.push((n, queue)),
                _ => {}
            }
            match groups.last_mut() {
                Some(group) if group.queue == queue => group.stages.push(i),
                _ => groups.push(Group { queue, stages: vec![i] }),
            }
        }
        // How many items a group is behind the first.
        let mut behind = vec![0; groups.len()];
        for i in 1..groups.len() {
            behind[i] = behind[i - 1] + queues[groups[i - 1].queue].workers.max(1);
        }
        // Groups in the order of asking: files first and last, as nothing in them waits.
        let place = |group: &Group| {
            let engine = stages[group.stages[0]].name.engine;
            match order.engines().iter().position(|e| *e == engine) {
                Some(place) => place + 1,
                None if engine == Engine::Reader => 0,
                None => 4,
            }
        };
        let mut asked: Vec<usize> = (0..groups.len()).collect();
        asked.sort_by_key(|&g| place(&groups[g]));
        let mut plan = Self { queues, steps: Vec::new() };
        let turns = items.len() + behind.last().copied().unwrap_or(0);
        for turn in 0..turns {
            for &g in &asked {
                let Some(item) = turn.checked_sub(behind[g]).filter(|k| *k < items.len()) else {
                    continue;
                };
                for &stage in &groups[g].stages {
                    plan.submit(stages, groups[g].queue, stage, items.start + item);
                }
            }
        }
        plan
    }
}

/// The dependencies of a task: the end of stage `.0` of item `.1`, for each.
pub(super) fn dependencies(
    rings: &[Ring],
    first_item: usize,
    task: Submitted,
) -> impl Iterator<Item = (usize, usize)> + '_ {
    let before = (task.part == 0 && task.stage > 0).then(|| (task.stage - 1, task.item));
    let slots = rings.iter().filter_map(move |ring| {
        if task.part != 0 || ring.first != task.stage {
            return None;
        }
        // The item that had the buffer before, and the last one that looks at it.
        let previous = task.item.checked_sub(ring.size)? + ring.keep;
        (previous >= first_item).then_some((ring.last, previous))
    });
    // Where later items look back, all that they look at has to be there: items of several queues may
    // fill their buffers in any order.
    let seen = rings.iter().filter(move |ring| task.part == 0 && ring.first + 1 == task.stage);
    let seen = seen.flat_map(move |ring| {
        let from = task.item.saturating_sub(ring.keep).max(first_item);
        (from..task.item).map(|item| (ring.first, item))
    });
    before.into_iter().chain(slots).chain(seen)
}
