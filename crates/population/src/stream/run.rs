//! Streaming operators on the executor: from files or memory through host and device, and back.

use super::images::{Sink, Source};
use super::model::{Engine, Model, Order};
use super::operators::{LargestValue, Mimo, Miso, SlidingWindow, Stack, Window};
use super::pipeline::{Listener, Pipeline, Stage, Turn};
use super::plan::Ring;
use super::trace::Trace;
use crate::error::{PopulationError, Result};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use voxalign_compute::{Device, HostBuffer, Queue};
use voxalign_image::memory::amount;

/// How images are streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// The model; none for the one that streams, with the order that is measured to be best where a
    /// stage synchronises.
    pub model: Option<Model>,
    /// Threads that read and unpack files.
    pub readers: usize,
    /// Bytes of the device that the buffers may take; by default what is free.
    pub memory: Option<u64>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { model: None, readers: 2, memory: None }
    }
}

/// A result, and how it came about.
#[derive(Debug, Clone)]
pub struct Streamed<T> {
    /// The result.
    pub value: T,
    /// The timeline.
    pub trace: Trace,
    /// The order of upload, execution and download, where it was measured.
    pub order: Option<Order>,
    /// Bytes of the buffers: on the host and on the device.
    pub bytes: [u64; 2],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// The number of buffers of each ring.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    read: usize,
    device: usize,
    write: usize,
}

impl Sizes {
    /// For a model and this many items; `base` are the buffers between the stages of the device, and `keep` items
    /// are used again later.
    fn new(options: &StreamOptions, items: usize, base: usize, keep: usize) -> Self {
        let readers = options.readers.max(1);
        match options.model {
            Some(Model::Synchronous) => Self { read: 1, device: 1 + keep, write: 1 },
            Some(Model::Implicit { .. }) => {
                Self { read: readers + 1, device: items.max(1) + keep, write: 2 }
            }
            _ => Self { read: readers + 1, device: base + keep, write: 2 },
        }
    }
}

/// The streams of a run: the device seen from each queue.
struct Queues<D: Device>(Vec<Queue<D>>);

impl<D: Device> Queues<D> {
    fn new(device: &D, stages: usize, items: usize, options: &StreamOptions) -> Result<Self> {
        let model = options.model.unwrap_or_default();
        let count = Pipeline::queues(stages, items, model);
        Ok(Self((0..count).map(|_| Ok(device.queue()?)).collect::<Result<_>>()?))
    }

    fn run<R>(&self, turn: Turn, work: impl FnOnce(&D) -> Result<R>) -> Result<R> {
        self.0[turn.queue].run(work)
    }
}

/// Images on their way to the device: read into buffers that take turns, or in memory for good.
struct Arrivals<'s> {
    source: &'s dyn Source,
    resident: bool,
    ring: Vec<Mutex<HostBuffer<f32>>>,
}

impl<'s> Arrivals<'s> {
    fn new<D: Device>(device: &D, source: &'s dyn Source, size: usize) -> Result<Self> {
        let resident = source.resident(0).is_some();
        let size = if resident { 0 } else { size };
        Ok(Self { source, resident, ring: host_ring(device, source.grid().len(), size)? })
    }

    fn buffer(&self, turn: Turn) -> MutexGuard<'_, HostBuffer<f32>> {
        lock(&self.ring[turn.item % self.ring.len()])
    }

    fn read(&self, turn: Turn) -> Result<()> {
        self.source.read(turn.item, &mut self.buffer(turn))
    }

    fn upload<D: Device>(
        &self,
        queues: &Queues<D>,
        turn: Turn,
        to: &mut D::Buffer<f32>,
    ) -> Result<()> {
        match self.source.resident(turn.item) {
            Some(from) => queues.run(turn, |d| Ok(d.upload_from(from, to)?)),
            None => queues.run(turn, |d| Ok(d.hand_over(&mut self.buffer(turn), to)?)),
        }
    }
}

/// Refuses what the device has no room for.
fn check_memory<D: Device>(
    device: &D,
    options: &StreamOptions,
    items: usize,
    bytes: u64,
) -> Result<()> {
    let Some(free) = options.memory.or_else(|| device.memory().free).filter(|f| *f < bytes) else {
        return Ok(());
    };
    let (option, value, remedy) = match options.model {
        Some(model @ Model::Implicit { .. }) => (
            "model of the stream",
            model.to_string(),
            format!(
                "it holds all {items} images at once, which takes {} of device memory, of which {} can be used; \
                 use a model that streams, such as {}",
                amount(bytes),
                amount(free),
                Model::default()
            ),
        ),
        _ => (
            "usable memory",
            amount(free),
            format!(
                "the buffers take {}; use smaller images, or a device with more memory",
                amount(bytes)
            ),
        ),
    };
    Err(PopulationError::option(option, value, remedy))
}

fn go(
    pipeline: &Pipeline<'_>,
    items: usize,
    options: &StreamOptions,
    listener: &dyn Listener,
) -> Result<(Option<Order>, Trace)> {
    match options.model {
        Some(model) => Ok((None, pipeline.run(0..items, model, listener)?)),
        None => pipeline.run_measured(items, listener).map(|(o, t)| (Some(o), t)),
    }
}

fn host_ring<D: Device>(device: &D, n: usize, size: usize) -> Result<Vec<Mutex<HostBuffer<f32>>>> {
    (0..size).map(|_| Ok(Mutex::new(device.host_alloc(n)?))).collect()
}

fn device_ring<D: Device>(
    device: &D,
    n: usize,
    size: usize,
) -> Result<Vec<RwLock<D::Buffer<f32>>>> {
    (0..size).map(|_| Ok(RwLock::new(device.alloc(n)?))).collect()
}

/// Applies an operator that makes an image of each image.
///
/// Images are read, uploaded, worked on, downloaded and written at the same time, each stage on
/// another image (Ha 2011, section 4.6). Memory does not depend on their number.
///
/// # Errors
/// Those of source, operator and sink; too little memory; [`PopulationError::Stopped`].
pub fn mimo<D: Device, O: Mimo<D>>(
    device: &D,
    source: &dyn Source,
    operator: &O,
    sink: &dyn Sink,
    options: &StreamOptions,
    listener: &dyn Listener,
) -> Result<Streamed<()>> {
    sliding_window(device, source, &Alone(operator), sink, options, listener)
}

/// A window of one image.
struct Alone<'o, O>(&'o O);

impl<D: Device, O: Mimo<D>> SlidingWindow<D> for Alone<'_, O> {
    type Work = O::Work;

    fn radius(&self) -> usize {
        0
    }
    fn workspace(&self, device: &D, stack: &Stack) -> Result<O::Work> {
        self.0.workspace(device, stack)
    }
    fn synchronises(&self) -> bool {
        self.0.synchronises()
    }
    fn measure(&self, device: &D, window: &Window<'_, D>) -> Result<Vec<f64>> {
        self.0.measure(device, window.images[window.centre])
    }
    fn apply(
        &self,
        device: &D,
        window: &Window<'_, D>,
        numbers: &[f64],
        work: &mut O::Work,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        self.0.apply(device, window.images[window.centre], numbers, work, out)
    }
}

/// Applies an operator that makes image `k` of the result of images `k − r` to `k + r`. Each image is
/// read and uploaded once: the device keeps those of the window.
///
/// # Errors
/// As [`mimo`].
pub fn sliding_window<D: Device, O: SlidingWindow<D>>(
    device: &D,
    source: &dyn Source,
    operator: &O,
    sink: &dyn Sink,
    options: &StreamOptions,
    listener: &dyn Listener,
) -> Result<Streamed<()>> {
    let (n, count, radius) = (source.grid().len(), source.count(), operator.radius());
    // Item `t` brings image `t` and makes image `t − radius` of the result.
    let items = count + radius;
    let sizes = Sizes::new(options, items, 3, 2 * radius);
    let outputs = sizes.device - 2 * radius;
    let bytes = |buffers: usize| 4 * (n * buffers) as u64;
    check_memory(device, options, count, bytes(sizes.device + outputs))?;
    let stack = Stack { dims: source.grid().dims(), spacing: source.grid().spacing(), count };
    let queues = Queues::new(device, 5, items, options)?;
    let workspaces = queues.0.iter().map(|_| operator.workspace(device, &stack).map(Mutex::new));
    let workspaces = workspaces.collect::<Result<Vec<_>>>()?;
    let arrivals = Arrivals::new(device, source, sizes.read)?;
    let images = device_ring(device, n, sizes.device)?;
    let results: Vec<_> = (0..outputs)
        .map(|_| Ok(Mutex::new((device.alloc::<f32>(n)?, Vec::<f64>::new()))))
        .collect::<Result<_>>()?;
    let kept = sink.resident(0).is_some();
    let leaving = host_ring(device, n, if kept { 0 } else { sizes.write })?;

    let made = |t: Turn| t.item.checked_sub(radius);
    let with_window = |t: Turn, k: usize, f: &mut dyn FnMut(&Window<'_, D>) -> Result<()>| {
        let range = k.saturating_sub(radius)..=(k + radius).min(count - 1);
        let (first, centre) = (*range.start(), k - range.start());
        let guards: Vec<_> = range.map(|j| read(&images[j % images.len()])).collect();
        let window: Vec<&D::Buffer<f32>> = guards.iter().map(|g| &**g).collect();
        debug_assert!(t.item >= first);
        f(&Window { images: &window, centre, item: k })
    };
    let measure = |t: Turn| {
        let Some(k) = made(t) else { return Ok(()) };
        queues.run(t, |d| {
            with_window(t, k, &mut |w| {
                lock(&results[t.item % outputs]).1 = operator.measure(d, w)?;
                Ok(())
            })
        })
    };
    let apply = |t: Turn| {
        let Some(k) = made(t) else { return Ok(()) };
        queues.run(t, |d| {
            with_window(t, k, &mut |w| {
                let (out, numbers) = &mut *lock(&results[t.item % outputs]);
                operator.apply(d, w, numbers, &mut lock(&workspaces[t.queue]), out)
            })
        })
    };
    let execute = if operator.synchronises() {
        Stage::synchronising("execute", Engine::Compute, measure, apply)
    } else {
        Stage::new("execute", Engine::Compute, apply)
    };
    let upload = |t: Turn| {
        if t.item >= count {
            return Ok(());
        }
        let mut to = write(&images[t.item % images.len()]);
        arrivals.upload(&queues, t, &mut to)
    };
    let download = |t: Turn| {
        let Some(k) = made(t) else { return Ok(()) };
        let from = &mut lock(&results[t.item % outputs]).0;
        match sink.resident(k) {
            Some(to) => queues.run(t, |d| Ok(d.download_to(from, &mut lock(to))?)),
            None => {
                let mut to = lock(&leaving[t.item % leaving.len()]);
                queues.run(t, |d| Ok(d.hand_back(from, &mut to)?))
            }
        }
    };
    let mut stages = Vec::new();
    let mut rings = Vec::new();
    if !arrivals.resident {
        let fill = |t: Turn| if t.item < count { arrivals.read(t) } else { Ok(()) };
        stages.push(Stage::new("read", Engine::Reader, fill).with_workers(options.readers));
        rings.push(Ring { first: 0, last: 1, size: arrivals.ring.len(), keep: 0 });
    }
    let first = stages.len();
    stages.push(Stage::new("upload", Engine::Upload, upload));
    stages.push(execute);
    stages.push(Stage::new("download", Engine::Download, download));
    rings.extend([
        Ring { first, last: first + 1, size: sizes.device, keep: 2 * radius },
        Ring { first: first + 1, last: first + 2, size: outputs, keep: 0 },
    ]);
    if !kept {
        stages.push(Stage::new("write", Engine::Writer, |t| match made(t) {
            Some(k) => sink.write(k, &lock(&leaving[t.item % leaving.len()])),
            None => Ok(()),
        }));
        rings.push(Ring { first: first + 2, last: first + 3, size: leaving.len(), keep: 0 });
    }
    let (order, trace) = go(&Pipeline::new(stages, rings)?, items, options, listener)?;
    let host = arrivals.ring.len() + leaving.len();
    let bytes = [bytes(host), bytes(sizes.device + outputs)];
    Ok(Streamed { value: (), trace, order, bytes })
}

/// Applies an operator that makes one thing of all images. Images are read, uploaded and added at the
/// same time, each stage on another image. The result does not depend on their order, and memory not on
/// their number.
///
/// # Errors
/// As [`mimo`].
pub fn miso<D: Device, O: Miso<D>>(
    device: &D,
    source: &dyn Source,
    operator: &O,
    options: &StreamOptions,
    listener: &dyn Listener,
) -> Result<Streamed<O::Output>> {
    let (n, count) = (source.grid().len(), source.count());
    let sizes = Sizes::new(options, count, 2, 0);
    let bytes = |buffers: usize| 4 * (n * buffers) as u64;
    check_memory(device, options, count, bytes(sizes.device))?;
    let stack = Stack { dims: source.grid().dims(), spacing: source.grid().spacing(), count };
    let queues = Queues::new(device, 3, count, options)?;
    let arrivals = Arrivals::new(device, source, sizes.read)?;
    let images = device_ring(device, n, sizes.device)?;
    let state = Mutex::new(operator.start(device, &stack)?);
    let mut stages = Vec::new();
    let mut rings = Vec::new();
    if !arrivals.resident {
        let fill = |t: Turn| arrivals.read(t);
        stages.push(Stage::new("read", Engine::Reader, fill).with_workers(options.readers));
        rings.push(Ring { first: 0, last: 1, size: arrivals.ring.len(), keep: 0 });
    }
    let first = stages.len();
    stages.push(Stage::new("upload", Engine::Upload, |t| {
        arrivals.upload(&queues, t, &mut write(&images[t.item % images.len()]))
    }));
    stages.push(Stage::new("execute", Engine::Compute, |t| {
        let image = read(&images[t.item % images.len()]);
        // Held until the device is done: streams add one after the other.
        let mut state = lock(&state);
        queues.run(t, |d| operator.add(d, t.item, &image, &mut state))
    }));
    rings.push(Ring { first, last: first + 1, size: sizes.device, keep: 0 });
    let (order, trace) = go(&Pipeline::new(stages, rings)?, count, options, listener)?;
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let value = operator.finish(device, &stack, state)?;
    Ok(Streamed { value, trace, order, bytes: [bytes(arrivals.ring.len()), bytes(sizes.device)] })
}

/// A bound on the absolute value of all voxels, which scales sums in fixed point: the one that the source knows, or
/// else the largest value, from an extra pass over all images.
///
/// # Errors
/// As [`miso`].
pub fn bound<D: Device>(
    device: &D,
    source: &dyn Source,
    options: &StreamOptions,
    listener: &dyn Listener,
) -> Result<f64> {
    match source.bound() {
        Some(bound) => Ok(bound),
        None => Ok(miso(device, source, &LargestValue, options, listener)?.value),
    }
}
