//! Stages of adjustable cost: copies and kernels on a GPU, pauses on the CPU.

use super::Watch;
use crate::Host;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use voxalign_compute::ComputeError;
use voxalign_compute::ops::Elementwise;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::select::{AnyBuffer, AnyDevice};
use voxalign_compute::{HostBuffer, Memory, Queue, Transfer};
use voxalign_jobs::Result;
use voxalign_jobs::check;
use voxalign_population::stream::operators::{Mimo, Stack};
use voxalign_population::stream::{Engine, Model, Pipeline, Ring, Stage, Trace, Turn};

/// Ratios of execution to transfer.
const RATIOS: [f64; 9] = [0.1, 0.2, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0];
/// Seconds of upload and download on the CPU.
const PAUSES: [f64; 2] = [2e-3, 1.6e-3];
/// Pieces of host memory that represent all images.
const PIECES: usize = 4;
/// Passes over memory that set a kernel's time.
const PASSES: usize = 40;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    /// The variable.
    pub(super) at: f64,
    pub(super) model: String,
    /// Of all images.
    pub(super) seconds: f64,
    /// The time of the slowest stage.
    pub(super) bound: f64,
}

/// Timelines by model.
pub(super) type Traces = Vec<(String, Trace)>;

/// How the three stages do their work.
enum Means {
    /// Each engine rests so long, one item at a time.
    Pauses([Mutex<()>; 3]),
    /// Copies from and to these, and this many seconds per pass over memory.
    Copies { from: Vec<HostBuffer<f32>>, to: Vec<Mutex<HostBuffer<f32>>>, pass: f64 },
}

/// Upload, execution and download.
pub(super) struct Load<'d> {
    device: &'d AnyDevice,
    host: &'d dyn Host,
    voxels: usize,
    means: Means,
    /// Seconds of both copies together.
    transfer: f64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'d> Load<'d> {
    pub(super) fn new(
        (device, host): (&'d AnyDevice, &'d dyn Host),
        gpu: bool,
        dims: [usize; 3],
    ) -> Result<Self> {
        let voxels = dims.iter().product();
        let mut load =
            Self { device, host, voxels, means: Means::Pauses(Default::default()), transfer: 0.0 };
        if !gpu {
            load.transfer = PAUSES.iter().sum();
            return Ok(load);
        }
        let pieces =
            || (0..PIECES).map(|_| device.host_alloc(voxels)).collect::<Result<Vec<_>, _>>();
        let to = pieces()?.into_iter().map(Mutex::new).collect();
        load.means = Means::Copies { from: pieces()?, to, pass: 1.0 };
        // The times of one after the other, once all is warm.
        let execution = PASSES as f64;
        load.run(Model::Synchronous, 3, execution, None)?;
        let trace = load.run(Model::Synchronous, 8, execution, None)?;
        load.transfer = (trace.busy(0) + trace.busy(2)) / 8.0;
        if let Means::Copies { pass, .. } = &mut load.means {
            *pass = trace.busy(1) / 8.0 / execution;
        }
        Ok(load)
    }

    /// Part of an execution.
    fn compute(
        &self,
        seconds: f64,
        queue: &Queue<AnyDevice>,
        image: &Mutex<AnyBuffer<f32>>,
    ) -> voxalign_population::Result<()> {
        match &self.means {
            Means::Pauses(engines) => pause(&engines[1], seconds),
            Means::Copies { pass, .. } => {
                let passes = (seconds / pass).round() as usize;
                let image = &mut lock(image);
                let step = x(0) * 0.999 + 0.001;
                queue.run(|d| {
                    (0..passes).try_for_each(|_| d.eval_in_place(&step, image, &[], &[], None))
                })?;
            }
        }
        Ok(())
    }

    /// Runs the stages, with an execution of this many seconds and a synchronisation at a fraction of it.
    fn run(&self, model: Model, images: usize, seconds: f64, place: Option<f64>) -> Result<Trace> {
        check(self.host)?;
        let size = match model {
            Model::Implicit { .. } => images,
            _ => 3,
        };
        let held = if matches!(self.means, Means::Pauses(_)) { 1 } else { self.voxels };
        let buffers = (0..size).map(|_| self.device.alloc::<f32>(held).map(Mutex::new));
        let buffers = buffers.collect::<Result<Vec<_>, ComputeError>>()?;
        let queues = (0..Pipeline::queues(3, images, model)).map(|_| self.device.queue());
        let queues = queues.collect::<Result<Vec<_>, ComputeError>>()?;
        self.device.synchronize()?;
        let buffer = |t: Turn| &buffers[t.item % size];
        let part = |t: Turn, s: f64| self.compute(s, &queues[t.queue], buffer(t));
        let execute = match place {
            Some(r) => Stage::synchronising(
                "execute",
                Engine::Compute,
                move |t| part(t, seconds * r),
                move |t| part(t, seconds * (1.0 - r)),
            ),
            None => Stage::new("execute", Engine::Compute, move |t| part(t, seconds)),
        };
        let stages = vec![
            Stage::new("upload", Engine::Upload, |t| {
                match &self.means {
                    Means::Pauses(engines) => pause(&engines[0], PAUSES[0]),
                    Means::Copies { from, .. } => {
                        let to = &mut lock(buffer(t));
                        let from = &from[t.item % PIECES];
                        queues[t.queue].run(|d| d.upload_from(from, to))?;
                    }
                }
                Ok(())
            }),
            execute,
            Stage::new("download", Engine::Download, |t| {
                match &self.means {
                    Means::Pauses(engines) => pause(&engines[2], PAUSES[1]),
                    Means::Copies { to, .. } => {
                        let from = &lock(buffer(t));
                        let to = &mut lock(&to[t.item % PIECES]);
                        queues[t.queue].run(|d| d.download_to(from, to))?;
                    }
                }
                Ok(())
            }),
        ];
        let rings = vec![Ring { first: 0, last: 2, size, keep: 0 }];
        Ok(Pipeline::new(stages, rings)?.run(0..images, model, &Watch(self.host))?)
    }

    /// All models at one place.
    fn models(
        &self,
        at: f64,
        images: usize,
        seconds: f64,
        place: Option<f64>,
    ) -> Result<Vec<(Point, Trace)>> {
        let mut found: Vec<(Point, Trace)> = Vec::new();
        for model in Model::all() {
            let trace = self.run(model, images, seconds, place)?;
            let bound = match &self.means {
                // What was asked for: a machine that is busy with other things rests longer.
                Means::Pauses(_) => images as f64 * seconds.max(PAUSES[0]).max(PAUSES[1]),
                // Of the first, the synchronous: where streams wait for an engine, their stages look longer.
                Means::Copies { .. } => found.first().map_or_else(|| trace.bound(), |f| f.0.bound),
            };
            let point = Point { at, model: model.to_string(), seconds: trace.wall(), bound };
            found.push((point, trace));
        }
        Ok(found)
    }

    /// All models over the ratios of execution to transfer.
    pub(super) fn over_ratios(&self, images: usize) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for ratio in RATIOS {
            let found = self.models(ratio, images, ratio * self.transfer, None)?;
            points.extend(found.into_iter().map(|f| f.0));
        }
        Ok(points)
    }

    /// All models over the places of a synchronisation, and the traces of that in the middle.
    pub(super) fn over_places(&self, images: usize) -> Result<(Vec<Point>, Traces)> {
        let (mut points, mut traces) = (Vec::new(), Vec::new());
        for tenth in 1..10u32 {
            let place = f64::from(tenth) / 10.0;
            for (point, trace) in self.models(place, images, self.transfer, Some(place))? {
                if tenth == 5 {
                    traces.push((point.model.clone(), trace));
                }
                points.push(point);
            }
        }
        Ok((points, traces))
    }
}

/// Keeps an engine busy for so long. The end of a pause is late by what the system takes to wake a thread;
/// the last part is waited for awake.
fn pause(engine: &Mutex<()>, seconds: f64) {
    const AWAKE: f64 = 1e-4;
    let _one = lock(engine);
    let start = Instant::now();
    if seconds > AWAKE {
        std::thread::sleep(Duration::from_secs_f64(seconds - AWAKE));
    }
    while start.elapsed().as_secs_f64() < seconds {
        std::hint::spin_loop();
    }
}

/// An execution of an adjustable length that hands its image on as it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lasting {
    /// This many seconds, of an engine that is neither core nor disk.
    Rest(f64),
    /// This many passes over memory.
    Passes {
        count: usize,
        /// On a GPU.
        gpu: bool,
    },
}

impl Lasting {
    /// Where it is done.
    pub(super) fn place(self) -> &'static str {
        match self {
            Self::Rest(_) => "an engine of its own",
            Self::Passes { gpu: true, .. } => "the GPU",
            Self::Passes { gpu: false, .. } => "the cores",
        }
    }
}

/// Below all values.
const LEAST: f32 = -1e30;

impl Mimo<AnyDevice> for Lasting {
    type Work = ();

    fn workspace(&self, _: &AnyDevice, _: &Stack) -> voxalign_population::Result<()> {
        Ok(())
    }

    fn apply(
        &self,
        device: &AnyDevice,
        image: &AnyBuffer<f32>,
        _: &[f64],
        (): &mut (),
        out: &mut AnyBuffer<f32>,
    ) -> voxalign_population::Result<()> {
        let step = x(0).max(param(0));
        match *self {
            Self::Rest(seconds) => {
                let start = Instant::now();
                device.copy(image, out)?;
                pause(&Mutex::new(()), (seconds - start.elapsed().as_secs_f64()).max(0.0));
            }
            Self::Passes { count, .. } => {
                device.eval(&step, &[image], &[LEAST], None, out)?;
                for _ in 1..count {
                    device.eval_in_place(&step, out, &[], &[LEAST], None)?;
                }
            }
        }
        Ok(())
    }
}

/// The time of a pass over the memory of this many voxels.
pub(super) fn pass_seconds(device: &AnyDevice, voxels: usize) -> Result<f64> {
    let step = x(0).max(param(0));
    let mut image = device.alloc::<f32>(voxels)?;
    let mut all = || {
        (0..PASSES).try_for_each(|_| device.eval_in_place(&step, &mut image, &[], &[LEAST], None))
    };
    all()?;
    Ok(device.seconds(&mut all)? / PASSES as f64)
}
