//! The executor: items pass through stages, each stage on its engine, with buffers used in turn.

use super::model::{Engine, Model};
use super::plan::{Plan, Queue, Ring, Shape, Step, Submitted, dependencies};
use super::simulate::simulate;
use super::trace::{StageName, Task, Trace};
use crate::error::{PopulationError, Result};
use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use voxalign_compute::cpu::threads;

/// The argument of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The item.
    pub item: usize,
    /// The number of the queue that runs the stage, below [`Pipeline::queues`]: two turns with one
    /// number run one after the other, unless the stage has several workers.
    pub queue: usize,
}

/// The work of a stage on one item.
pub type Work<'a> = Box<dyn Fn(Turn) -> Result<()> + Send + Sync + 'a>;

/// A stage.
pub struct Stage<'a> {
    name: StageName,
    work: Work<'a>,
    /// The work after a forced synchronisation.
    pub(super) after: Option<Work<'a>>,
}

impl<'a> Stage<'a> {
    /// A stage whose work is over when it returns.
    pub fn new(
        name: impl Into<String>,
        engine: Engine,
        work: impl Fn(Turn) -> Result<()> + Send + Sync + 'a,
    ) -> Self {
        let name = StageName { name: name.into(), engine, workers: 1 };
        Self { name, work: Box::new(work), after: None }
    }

    /// A stage in two parts, between which a single-threaded host program would wait for all that the
    /// device has been asked for: as where a number is needed on the host in the middle of a kernel
    /// sequence (Ha 2011, section 4.5.1).
    pub fn synchronising(
        name: impl Into<String>,
        engine: Engine,
        before: impl Fn(Turn) -> Result<()> + Send + Sync + 'a,
        after: impl Fn(Turn) -> Result<()> + Send + Sync + 'a,
    ) -> Self {
        Self { after: Some(Box::new(after)), ..Self::new(name, engine, before) }
    }

    /// The same with several threads, which take items in order and may end them in any. For stages
    /// without a synchronisation; of the device one thread feeds a queue.
    #[must_use]
    pub fn with_workers(mut self, workers: usize) -> Self {
        let several = self.after.is_none() && !self.name.engine.is_device();
        self.name.workers = if several { workers.max(1) } else { 1 };
        self
    }
}

/// A listener to a run.
pub trait Listener: Sync {
    /// `done` of `count` items have gone through all stages.
    fn ended(&self, done: usize, count: usize) {
        let _ = (done, count);
    }
    /// Whether the run should end as soon as it can.
    fn stop(&self) -> bool {
        false
    }
}

/// No listener.
impl Listener for () {}

/// An ordered list of stages and the buffers that they hand on.
///
/// ```
/// use std::sync::Mutex;
/// use voxalign_population::stream::{Engine, Model, Pipeline, Ring, Stage};
///
/// // Squares, from a buffer of three numbers that the items take in turns.
/// let ring: [Mutex<u64>; 3] = Default::default();
/// let sum = Mutex::new(0);
/// let stages = vec![
///     Stage::new("fill", Engine::Reader, |t| {
///         *ring[t.item % 3].lock().unwrap() = t.item as u64;
///         Ok(())
///     }),
///     Stage::new("add", Engine::Compute, |t| {
///         *sum.lock().unwrap() += ring[t.item % 3].lock().unwrap().pow(2);
///         Ok(())
///     }),
/// ];
/// let rings = vec![Ring { first: 0, last: 1, size: 3, keep: 0 }];
/// let trace = Pipeline::new(stages, rings)?.run(0..10, Model::default(), &())?;
/// assert_eq!(trace.tasks.len(), 20);
/// assert_eq!(*sum.lock().unwrap(), 285);
/// # Ok::<(), voxalign_population::PopulationError>(())
/// ```
pub struct Pipeline<'a> {
    pub(super) stages: Vec<Stage<'a>>,
    rings: Vec<Ring>,
}

/// A failure of a task.
enum Failure {
    Error(PopulationError),
    Panic(Box<dyn Any + Send>),
}

/// The state shared by the threads of a run.
struct State {
    queues: Vec<VecDeque<Submitted>>,
    /// Nothing will be asked for any more.
    closed: bool,
    /// Tasks of the device that were asked for and have not ended.
    device: usize,
    ended: Vec<Vec<bool>>,
    done: usize,
    /// The first failure, by item and stage.
    failure: Option<((usize, usize), Failure)>,
    tasks: Vec<Task>,
}

struct Run<'r, 'a> {
    pipeline: &'r Pipeline<'a>,
    items: Range<usize>,
    begin: Instant,
    listener: &'r dyn Listener,
    state: Mutex<State>,
    changed: Condvar,
}

fn option(
    option: &'static str,
    value: impl ToString,
    remedy: impl Into<String>,
) -> PopulationError {
    PopulationError::option(option, value, remedy)
}

impl<'a> Pipeline<'a> {
    /// Stages in the order in which an item goes through them, and the rings between them.
    ///
    /// # Errors
    /// No stages; a ring over stages that are not there, or of too few buffers for what is kept.
    pub fn new(stages: Vec<Stage<'a>>, rings: Vec<Ring>) -> Result<Self> {
        if stages.is_empty() {
            return Err(option("stages", "none", "give at least one"));
        }
        for ring in &rings {
            if ring.first > ring.last || ring.last >= stages.len() || ring.size <= ring.keep {
                return Err(option(
                    "ring",
                    format!("{ring:?}"),
                    format!(
                        "its stages must be among the {} there are, first before last, and its \
                         size above what is kept",
                        stages.len()
                    ),
                ));
            }
        }
        Ok(Self { stages, rings })
    }

    fn shapes(&self) -> Vec<Shape> {
        let shape = |s: &Stage<'_>| Shape { name: s.name.clone(), synchronises: s.after.is_some() };
        self.stages.iter().map(shape).collect()
    }

    /// The number of queues that a model takes for this many stages and items, at most.
    #[must_use]
    pub fn queues(stages: usize, items: usize, model: Model) -> usize {
        match model {
            Model::Synchronous => 1,
            Model::Implicit { streams } => streams.unwrap_or(items).clamp(1, items.max(1)) + stages,
            _ => stages,
        }
    }

    /// The trace of a run in which each stage would take the given seconds, before and after its
    /// synchronisation, and all work on one engine came one after the other; nothing is run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn predict(
        &self,
        items: Range<usize>,
        model: Model,
        seconds: &[[f64; 2]],
    ) -> Result<Trace> {
        let hardware = |e: Engine| e as usize;
        Ok(self.planned(items, model, seconds, hardware)?.1)
    }

    /// As [`predict`](Self::predict) on hardware with one unit for copies in both directions.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn predict_with_one_copy_unit(
        &self,
        items: Range<usize>,
        model: Model,
        seconds: &[[f64; 2]],
    ) -> Result<Trace> {
        let hardware = |e: Engine| if e == Engine::Download { Engine::Upload } else { e } as usize;
        Ok(self.planned(items, model, seconds, hardware)?.1)
    }

    /// The plan, run on paper: a plan that could stand still is refused.
    fn planned(
        &self,
        items: Range<usize>,
        model: Model,
        seconds: &[[f64; 2]],
        hardware: impl Fn(Engine) -> usize,
    ) -> Result<(Plan, Trace)> {
        if seconds.len() != self.stages.len() {
            let value = format!("{} pairs", seconds.len());
            return Err(option("seconds", value, format!("give {}", self.stages.len())));
        }
        let shapes = self.shapes();
        if let Model::Implicit { .. } = model
            && let Some(ring) = self.rings.iter().find(|r| {
                let device = |stage: usize| self.stages[stage].name.engine.is_device();
                r.size < items.len() && device(r.first) && device(r.last)
            })
        {
            return Err(option(
                "model of the stream",
                model,
                format!(
                    "it holds all {} images at once, but there are {} buffers between '{}' and \
                     '{}'; use more memory, or a model that streams, such as {}",
                    items.len(),
                    ring.size,
                    self.stages[ring.first].name.name,
                    self.stages[ring.last].name.name,
                    Model::default()
                ),
            ));
        }
        let plan = Plan::new(&shapes, items.clone(), model);
        match simulate(&plan, &shapes, &self.rings, items, seconds, hardware) {
            Ok(trace) => Ok((plan, trace)),
            Err(stuck) => Err(option(
                "model of the stream",
                model,
                format!(
                    "item {} would wait forever for a buffer before '{}'; use larger rings",
                    stuck.item, self.stages[stuck.stage].name.name
                ),
            )),
        }
    }

    /// Runs the items of a range through all stages. Items before the range count as done: a run can continue where
    /// another ended.
    ///
    /// The calling thread asks for the tasks in the order of the model; each queue has threads of its
    /// own. Where a stage synchronises, the caller asks for its first part, waits until the device has
    /// done all that it was asked for, and only then goes on.
    ///
    /// # Errors
    /// A model that the rings do not allow; the first error of a stage, by item and stage, once all that
    /// was at work has ended; [`PopulationError::Stopped`].
    ///
    /// # Panics
    /// A panic of a stage goes on here, once all threads have ended.
    pub fn run(&self, items: Range<usize>, model: Model, listener: &dyn Listener) -> Result<Trace> {
        let nothing = vec![[0.0; 2]; self.stages.len()];
        let (plan, _) = self.planned(items.clone(), model, &nothing, |e| e as usize)?;
        let run = Run {
            pipeline: self,
            items: items.clone(),
            begin: Instant::now(),
            listener,
            state: Mutex::new(State {
                queues: vec![VecDeque::new(); plan.queues.len()],
                closed: false,
                device: 0,
                ended: vec![vec![false; items.len()]; self.stages.len()],
                done: 0,
                failure: None,
                tasks: Vec::with_capacity(2 * items.len() * self.stages.len()),
            }),
            changed: Condvar::new(),
        };
        let workers = |queue: &Queue| queue.workers.min(items.len()).max(1);
        let all: usize = plan.queues.iter().map(workers).sum();
        threads::check(all)?;
        let gate = Gate::default();
        std::thread::scope(|scope| {
            let (run, gate, mut begun) = (&run, &gate, 0);
            for (i, queue) in plan.queues.iter().enumerate() {
                for worker in 0..workers(queue) {
                    let thread =
                        std::thread::Builder::new().name(format!("{}-{worker}", queue.name));
                    let serve = move || {
                        gate.pass();
                        run.serve(i);
                    };
                    match thread.spawn_scoped(scope, serve) {
                        Ok(_) => begun += 1,
                        Err(e) => {
                            run.fail((0, 0), Failure::Error(threads::refused(all, e).into()));
                        }
                    }
                }
            }
            gate.open_for(begun);
            run.ask(&plan.steps);
        });
        let state = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.failure {
            Some((_, Failure::Error(error))) => Err(error),
            Some((_, Failure::Panic(payload))) => resume_unwind(payload),
            None => Ok(Trace {
                queues: plan.queues.into_iter().map(|q| q.name).collect(),
                stages: self.stages.iter().map(|s| s.name.clone()).collect(),
                tasks: state.tasks,
            }),
        }
    }
}

impl Run<'_, '_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn is_device(&self, stage: usize) -> bool {
        self.pipeline.stages[stage].name.engine.is_device()
    }

    /// Asks for all tasks, as a host program would.
    fn ask(&self, steps: &[Step]) {
        for step in steps {
            let mut state = self.lock();
            match step {
                Step::Submit(task) => {
                    state.queues[task.queue].push_back(*task);
                    state.device += usize::from(self.is_device(task.stage));
                    self.changed.notify_all();
                }
                Step::Synchronise => {
                    while state.device > 0 && state.failure.is_none() {
                        state = self.wait(state);
                    }
                }
            }
            if state.failure.is_some() {
                break;
            }
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn fail(&self, place: (usize, usize), failure: Failure) {
        let mut state = self.lock();
        if state.failure.as_ref().is_none_or(|(first, _)| place < *first) {
            state.failure = Some((place, failure));
        }
        self.changed.notify_all();
    }

    /// Runs the tasks of a queue until there are no more.
    fn serve(&self, queue: usize) {
        // A listener may panic as well; the others must not wait for this thread then.
        let served = catch_unwind(AssertUnwindSafe(|| self.serve_all(queue)));
        if let Err(payload) = served {
            self.fail((usize::MAX, 0), Failure::Panic(payload));
        }
    }

    fn serve_all(&self, queue: usize) {
        while let Some(task) = self.next(queue) {
            let stage = &self.pipeline.stages[task.stage];
            let work = if task.part == 0 { Some(&stage.work) } else { stage.after.as_ref() };
            let start = self.begin.elapsed().as_secs_f64();
            let result = work.map_or(Ok(Ok(())), |work| {
                catch_unwind(AssertUnwindSafe(|| work(Turn { item: task.item, queue })))
            });
            let end = self.begin.elapsed().as_secs_f64();
            let place = (task.item, task.stage);
            match result {
                Ok(Ok(())) => self.end(task, start, end),
                Ok(Err(error)) => self.fail(place, Failure::Error(error)),
                Err(payload) => self.fail(place, Failure::Panic(payload)),
            }
        }
    }

    /// The next task of a queue, once all that it waits for has ended; none if the run is over.
    fn next(&self, queue: usize) -> Option<Submitted> {
        let mut state = self.lock();
        let task = loop {
            if state.failure.is_some() {
                return None;
            }
            match state.queues[queue].pop_front() {
                Some(task) => break task,
                None if state.closed => return None,
                None => state = self.wait(state),
            }
        };
        let first = self.items.start;
        let waits = |state: &State| {
            dependencies(&self.pipeline.rings, first, task)
                .any(|(stage, item)| !state.ended[stage][item - first])
        };
        while waits(&state) {
            if state.failure.is_some() {
                return None;
            }
            state = self.wait(state);
        }
        drop(state);
        if task.stage == 0 && task.part == 0 && self.listener.stop() {
            // After every error of an item.
            self.fail((usize::MAX, 0), Failure::Error(PopulationError::Stopped));
            return None;
        }
        Some(task)
    }

    fn end(&self, task: Submitted, start: f64, end: f64) {
        let mut state = self.lock();
        let Submitted { queue, stage, item, part, last } = task;
        state.tasks.push(Task { queue, stage, item, part, start, end });
        state.device -= usize::from(self.is_device(stage));
        if last {
            state.ended[stage][item - self.items.start] = true;
        }
        let all = last && stage + 1 == self.pipeline.stages.len();
        state.done += usize::from(all);
        let done = state.done;
        self.changed.notify_all();
        drop(state);
        if all {
            self.listener.ended(done, self.items.len());
        }
    }
}

/// Where threads wait for each other to begin: until all have, none takes memory that another one needs for
/// that.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    /// The initialisation of a thread.
    fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A barrier for this many threads.
    fn open_for(&self, threads: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 < threads {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 = true;
        self.changed.notify_all();
    }
}
