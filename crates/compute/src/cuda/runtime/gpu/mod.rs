//! A GPU: its context and streams. All calls of the driver are in this folder.

mod current;
mod driver;
mod kernels;
mod memory;
mod texture;

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUresult};

use super::cache::KernelCache;
use super::nvrtc::nvrtc;
use super::slots::Slots;
use crate::error::{ComputeError, Result};
pub(in crate::cuda) use current::Current;
use driver::{Context, Event, Stream, check, info, words};
use kernels::Module;
pub(in crate::cuda) use memory::Locked;
use memory::Staging;
pub(in crate::cuda) use texture::Texture;

pub(in crate::cuda) use driver::{count, start_driver};

/// The least compute capability that serves, times ten.
const OLDEST_GPU: i32 = 70;

/// Facts about a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number, as in `cuda:0`.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, such as `(9, 0)`.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Memory, bytes.
    pub memory: u64,
    /// Memory that is free now, bytes.
    pub free: u64,
    /// Cache of the second level, bytes.
    pub l2_cache: u64,
    /// Shared memory that a block can have, bytes.
    pub shared_memory: usize,
    /// The CUDA version that the driver serves, such as `(12, 4)`.
    pub driver: (i32, i32),
}

/// A stream of work on a GPU.
pub(in crate::cuda) struct Gpu {
    track: Arc<Track>,
    shared: Arc<Shared>,
}

/// A stream, which lives as long as anybody may wait for it.
pub(in crate::cuda) struct Track {
    // Before what they need: parts are dropped in this order.
    /// A point of the stream, for those that wait for it.
    reached: Event,
    stream: Stream,
    shared: Arc<Shared>,
}

/// Shared by the streams of a GPU.
pub(in crate::cuda) struct Shared {
    info: GpuInfo,
    /// The driver's pool for the GPU, which others of this process may use as well: there is one store of free
    /// memory, for any number of handles.
    pool: sys::CUmemoryPool,
    cache: KernelCache,
    options: Vec<String>,
    /// The name of the kernel launched last, for errors that are found later; null before the first.
    last: AtomicPtr<&'static str>,
    synchronous: bool,
    // What needs the context, and then the context: parts are dropped in this order.
    modules: Slots<Module>,
    staging: Mutex<Vec<Staging>>,
    /// Small ones.
    notes: Mutex<Vec<Staging>>,
    context: Context,
}

// SAFETY: handles of the driver may be used from any thread that has made the context current, which
// every call here does first; what is changed is behind locks.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Track {}
// SAFETY: as above.
unsafe impl Sync for Track {}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.info)
    }
}

impl std::ops::Deref for Gpu {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// Starts work on a GPU.
    pub(in crate::cuda) fn new(ordinal: usize) -> std::result::Result<Self, String> {
        let driver = start_driver()?;
        let count = count()?;
        if ordinal >= count {
            return Err(format!(
                "there is no GPU number {ordinal}; the driver finds {count}, \
                                counted from 0"
            ));
        }
        // The library of the compiler is opened beside the start of the context.
        std::thread::scope(|scope| {
            if crate::cpu::threads::check(1).is_ok() {
                // Where no thread can be had, it is opened below.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || nvrtc(driver.0));
            }
            Self::with_driver(ordinal, driver)
        })
    }

    fn with_driver(ordinal: usize, driver: (i32, i32)) -> std::result::Result<Self, String> {
        // SAFETY: handles come from the driver and are used as it documents; pointers are valid for
        // the calls.
        unsafe {
            let mut device = 0;
            check(sys::cuDeviceGet(&raw mut device, ordinal as i32))?;
            let context = Context::retain(device)?;
            let mut pool = std::ptr::null_mut();
            check(sys::cuDeviceGetDefaultMemPool(&raw mut pool, device))?;
            // What is freed stays with the pool: a steady state allocates nothing.
            let mut keep = u64::MAX;
            check(sys::cuMemPoolSetAttribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            ))?;
            let info = info(ordinal, device, driver)?;
            let capability = info.capability.0 * 10 + info.capability.1;
            if capability < OLDEST_GPU {
                let (major, minor) = info.capability;
                return Err(format!(
                    "the GPU number {ordinal} ({}) is too old: its compute capability is \
                     {major}.{minor}, but 7.0 or newer is needed (Volta, 2017)",
                    info.name
                ));
            }
            // Waits for the other thread, if there is one.
            let nvrtc = nvrtc(driver.0)?;
            let options = vec![
                format!("--gpu-architecture={}", nvrtc.architecture(capability)),
                "--std=c++17".to_owned(),
                "--fmad=false".to_owned(),
                "--generate-line-info".to_owned(),
                "-default-device".to_owned(),
            ];
            let shared = Shared {
                info,
                pool,
                cache: KernelCache::new(),
                options,
                last: AtomicPtr::default(),
                synchronous: std::env::var_os("VOXALIGN_CUDA_SYNCHRONOUS")
                    .is_some_and(|v| v == "1"),
                modules: Slots::default(),
                staging: Mutex::default(),
                notes: Mutex::default(),
                context,
            };
            let shared = Arc::new(shared);
            let track = Track::new(&shared).map_err(words)?;
            Ok(Self { track: Arc::new(track), shared })
        }
    }

    /// Another stream of the same GPU.
    pub(in crate::cuda) fn fork(&self) -> Result<Self> {
        self.bind()?;
        let track = Track::new(&self.shared).map_err(|code| self.error(code, "stream"))?;
        Ok(Self { track: Arc::new(track), shared: Arc::clone(&self.shared) })
    }

    /// The stream, for those that may wait for it.
    pub(in crate::cuda) fn track(&self) -> &Arc<Track> {
        &self.track
    }

    /// A number for the GPU, the same for all of its streams.
    pub(in crate::cuda) fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    pub(in crate::cuda) fn info(&self) -> &GpuInfo {
        &self.info
    }

    fn event(&self, timed: bool) -> Result<Event> {
        Event::new(timed).map_err(|code| self.error(code, "event"))
    }

    pub(in crate::cuda) fn stream(&self) -> *mut c_void {
        self.queue().cast()
    }

    /// The driver's stream.
    fn queue(&self) -> sys::CUstream {
        self.track.stream.0
    }

    pub(in crate::cuda) fn synchronize(&self) -> Result<()> {
        self.track.synchronize()
    }

    /// Seconds between two points of the stream: before and after what `f` asks for.
    pub(in crate::cuda) fn seconds(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        let mut f = |lap: Option<usize>| lap.map_or(Ok(()), |_| f());
        Ok(self.laps(1, &mut f)?.iter().sum())
    }

    /// Seconds on the stream for the work of each of this many calls of `f`, queued back to back; the work queued
    /// by `f` without a number comes before all of them.
    pub(in crate::cuda) fn laps(
        &self,
        count: usize,
        f: &mut dyn FnMut(Option<usize>) -> Result<()>,
    ) -> Result<Vec<f64>> {
        self.bind()?;
        let events: Vec<Event> = (0..=count).map(|_| self.event(true)).collect::<Result<_>>()?;
        for (i, event) in events.iter().enumerate() {
            f(i.checked_sub(1))?;
            self.bind()?;
            // SAFETY: the event and the stream are ours.
            unsafe { self.checked(sys::cuEventRecord(event.0, self.queue()), "event")? };
        }
        let between = |pair: &[Event]| {
            let mut milliseconds = 0.0;
            // SAFETY: both events are recorded; the pointer is valid.
            unsafe {
                self.checked(sys::cuEventSynchronize(pair[1].0), "work on the device")?;
                let code = sys::cuEventElapsedTime(&raw mut milliseconds, pair[0].0, pair[1].0);
                self.checked(code, "event")?;
            }
            Ok(f64::from(milliseconds) * 1e-3)
        };
        events.windows(2).map(between).collect()
    }
}

impl Track {
    /// A new stream; the context is current.
    fn new(shared: &Arc<Shared>) -> std::result::Result<Self, CUresult> {
        let (stream, reached) = (Stream::new()?, Event::new(false)?);
        Ok(Self { reached, stream, shared: Arc::clone(shared) })
    }

    /// Makes this stream wait for all work submitted to another one so far, without blocking the caller.
    pub(in crate::cuda) fn wait_for(&self, other: &Self) -> Result<()> {
        self.shared.bind()?;
        // Another thread may move the event on in between: then this stream waits for somewhat more.
        // SAFETY: the event and the streams are there; all are of one context.
        let asked = unsafe {
            let recorded = sys::cuEventRecord(other.reached.0, other.stream.0);
            let recorded = self.shared.checked(recorded, "event");
            recorded.and_then(|()| {
                let waits = sys::cuStreamWaitEvent(self.stream.0, other.reached.0, 0);
                self.shared.checked(waits, "event")
            })
        };
        // Where the driver cannot put it into the stream, it is waited for here.
        asked.or_else(|_| other.synchronize())
    }

    fn synchronize(&self) -> Result<()> {
        self.shared.bind()?;
        // SAFETY: the stream is ours.
        let code = unsafe { sys::cuStreamSynchronize(self.stream.0) };
        self.shared.checked(code, "work on the device")
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        // The event and the stream are destroyed next, which needs the context.
        let _ = self.shared.bind();
    }
}

impl Shared {
    pub(in crate::cuda) fn name(&self) -> String {
        format!("cuda:{} ({})", self.info.ordinal, self.info.name)
    }

    fn failed(&self, message: impl Into<String>) -> ComputeError {
        ComputeError::Backend { device: self.name(), message: message.into() }
    }

    /// An error reported by the driver, which may stem from any earlier work.
    fn error(&self, code: CUresult, what: &str) -> ComputeError {
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.out_of_memory(0);
        }
        // SAFETY: null, or a name that lives as long as the process.
        let last = unsafe { self.last.load(Ordering::Relaxed).as_ref() }.unwrap_or(&"none");
        self.failed(format!("{what}: {} (the kernel launched last: {last})", words(code)))
    }

    fn checked(&self, code: CUresult, what: &str) -> Result<()> {
        if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(self.error(code, what)) }
    }

    /// The same where the words are made for an error only.
    fn checked_as(&self, code: CUresult, what: impl FnOnce() -> String) -> Result<()> {
        if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(self.error(code, &what())) }
    }

    /// Makes the context current for this thread.
    pub(in crate::cuda) fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as this.
        self.checked(unsafe { sys::cuCtxSetCurrent(self.context.handle) }, "context")
    }

    /// Returns unused memory of the pool to the GPU.
    fn trim(&self) {
        // A pool that cannot be trimmed stays as it is.
        // SAFETY: the pool is that of the GPU, whose context is held.
        let _ = unsafe { sys::cuMemPoolTrimTo(self.pool, 0) };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the context is held. What needs it is dropped next.
        let _ = unsafe { sys::cuCtxSetCurrent(self.context.handle) };
        self.trim();
    }
}
