//! A CUDA device: a GPU, or its emulation on the host.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::lanes::{Lane, Touch, in_order};
use super::late::Late;
use super::limit::{self, Ledger, MemoryLimit};
use super::pinned::Turns;
use super::program::{Arg, Kernel, Shape};
use super::{GpuInfo, cache, cufft, emulated, gpu, nvrtc};
use crate::device::{Device, Memory};
use crate::error::{ComputeError, Result};

/// Bytes of a stream for communication between the blocks of a launch.
pub(crate) const SCRATCH: usize = 256 << 10;

/// Where kernels run.
#[derive(Debug)]
pub(in crate::cuda) enum Target {
    Gpu(gpu::Gpu),
    Emulated(Arc<emulated::Emulated>),
}

impl Target {
    /// Gives memory back, after the work that was asked for before in the stream.
    pub(in crate::cuda) fn free(&self, address: u64) {
        match self {
            Target::Gpu(gpu) => gpu.free(address),
            Target::Emulated(emulated) => emulated.free(address),
        }
    }

    /// Sets bytes of the device to zero.
    ///
    /// # Safety
    /// The bytes are of one buffer, borrowed for change.
    pub(in crate::cuda) unsafe fn zero(&self, address: u64, bytes: usize) -> Result<()> {
        match self {
            Target::Gpu(gpu) => gpu.zero(address, bytes),
            Target::Emulated(_) => {
                // SAFETY: emulated memory is that of the host; the rest is the caller's care.
                unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
                Ok(())
            }
        }
    }
}

/// A GPU, or the host in its place. A handle is cheap to clone; clones mean the same device.
#[derive(Debug, Clone)]
pub struct Cuda(pub(in crate::cuda) Arc<Inner>);

#[derive(Debug)]
pub(in crate::cuda) struct Inner {
    pub(in crate::cuda) plans: cufft::Plans,
    pub(in crate::cuda) target: Target,
    /// The work submitted to the stream of this handle.
    pub(in crate::cuda) lane: Arc<Lane>,
    pub(in crate::cuda) scratch: Mutex<Option<u64>>,
    /// Bytes of the buffers of this handle alone.
    pub(in crate::cuda) live: AtomicU64,
    pub(in crate::cuda) ledger: Arc<Ledger>,
    /// For the handle of a queue.
    pub(in crate::cuda) turn: Option<Turns>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // What was left undone has nobody to wait for it.
        let _ = self.lane.catch_up(u64::MAX);
        let scratch = self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(address) = scratch {
            self.target.free(address);
        }
        // Plans need the context, which ends with the target.
        if let Target::Gpu(gpu) = &self.target
            && gpu.bind().is_ok()
        {
            self.plans.clear();
        }
    }
}

/// The use of a device's memory pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStatistics {
    /// Bytes of the buffers that there are now.
    pub live: u64,
    /// The most bytes that there were at once.
    pub peak: u64,
    /// The number of buffers made.
    pub allocations: u64,
    /// Bytes that the pool holds of the GPU, where there is one. In a steady state this does not
    /// change: what is freed is given out again.
    pub reserved: Option<u64>,
}

/// The work submitted to a device so far, by this handle and those derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkStatistics {
    /// Kernels.
    pub launches: u64,
    /// Buffers that were set to zero.
    pub clears: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Copies to the host that it waits for at once.
    pub downloads: u64,
    /// Numbers that [arrive](crate::Transfer::arriving) at the host.
    pub arrivals: u64,
}

/// The number of GPUs that the driver finds, at least one; whether they can be used, [`Cuda::new`] determines.
///
/// # Errors
/// [`ComputeError::Unavailable`] with what is missing or too old, and how to get it.
pub fn gpu_count() -> Result<usize> {
    match gpu::count() {
        Ok(0) => Err(unavailable("the CUDA driver finds no GPU".into())),
        other => other.map_err(unavailable),
    }
}

/// Facts about the GPUs of this machine, or why one of them cannot be used.
///
/// # Errors
/// As [`gpu_count`] and [`Cuda::new`].
pub fn gpus() -> Result<Vec<GpuInfo>> {
    let count = gpu_count()?;
    let list = (0..count).map(|i| gpu::Gpu::new(i).map(|g| g.info().clone()));
    list.collect::<std::result::Result<_, _>>().map_err(unavailable)
}

/// The version of the compiler library NVRTC that is found, such as `(12, 8)`.
///
/// # Errors
/// [`ComputeError::Unavailable`] if there is none, or it is too old, and how to get it.
pub fn compiler() -> Result<(i32, i32)> {
    // Without a driver any compiler does.
    let driver = gpu::start_driver().map_or(i32::MAX, |version| version.0);
    nvrtc::nvrtc(driver).map(nvrtc::Nvrtc::version).map_err(unavailable)
}

/// The folder that compiled kernels are kept in; none where the user has no home.
#[must_use]
pub fn kernel_cache() -> Option<std::path::PathBuf> {
    cache::KernelCache::new().folder().cloned()
}

/// Why compiled kernels cannot be kept in [their folder](kernel_cache), where that is so; every run
/// compiles them then. Tries it, and makes the folder if there is none yet.
#[must_use]
pub fn kernel_cache_problem() -> Option<String> {
    cache::KernelCache::new().problem()
}

kernels! { CHECK = "check/check.cu";
    fn count_up[32](out: &mut [u32]);
}

fn unavailable(reason: String) -> ComputeError {
    ComputeError::Unavailable { backend: "cuda", reason }
}

impl Device for Cuda {}

impl Cuda {
    /// The GPU of a number, counted from 0 as the driver does.
    ///
    /// # Errors
    /// [`ComputeError::Unavailable`] if there is no such GPU, driver or compiler library, or one of
    /// them is too old.
    pub fn new(ordinal: usize) -> Result<Self> {
        let gpu = gpu::Gpu::new(ordinal).map_err(unavailable)?;
        let cuda = Self::on(Target::Gpu(gpu));
        cuda.try_kernel().map_err(|e| unavailable(format!("it cannot run kernels: {e}")))?;
        Ok(cuda)
    }

    /// Compiles and runs a small kernel: a driver, a compiler and a GPU that are all there may still
    /// not fit each other.
    pub(in crate::cuda) fn try_kernel(&self) -> Result<()> {
        let mut out = self.alloc_unset::<u32>(32)?;
        // SAFETY: as many numbers are written as there are threads.
        unsafe { CHECK.count_up(self, Shape::blocks(1, 32), &mut out)? };
        if self.download(&out)?.into_iter().eq(0..32) {
            Ok(())
        } else {
            Err(ComputeError::Backend {
                device: self.name(),
                message: "a kernel that counts to 32 gave wrong numbers".into(),
            })
        }
    }

    /// The host in place of a GPU, for tests of the kernels.
    ///
    /// # Errors
    /// If there is no C++ compiler.
    pub fn emulated() -> Result<Self> {
        let cuda = Self::on(Target::Emulated(Arc::new(emulated::Emulated::new(None)?)));
        cuda.try_kernel()?;
        Ok(cuda)
    }

    /// The same with streams that do nothing until somebody waits for them, for tests of synchronisation. Freed
    /// memory is overwritten, and kept until the device is dropped.
    ///
    /// # Errors
    /// As [`emulated`](Self::emulated).
    pub fn emulated_late(late: Late) -> Result<Self> {
        Ok(Self::on(Target::Emulated(Arc::new(emulated::Emulated::new(Some(late))?))))
    }

    pub(in crate::cuda) fn on(target: Target) -> Self {
        Self::made(target, None, Arc::default(), Late::First)
    }

    /// A handle of a kind: late where all of the kind are, of an emulated device.
    pub(in crate::cuda) fn made(
        target: Target,
        turn: Option<Turns>,
        ledger: Arc<Ledger>,
        kind: Late,
    ) -> Self {
        let track = match &target {
            Target::Gpu(gpu) => Some(Arc::clone(gpu.track())),
            Target::Emulated(_) => None,
        };
        let is_late = match &target {
            Target::Gpu(_) => false,
            Target::Emulated(emulated) => emulated.late == Some(kind),
        };
        Self(Arc::new(Inner {
            plans: cufft::Plans::default(),
            target,
            lane: Lane::new(track, is_late),
            scratch: Mutex::default(),
            live: AtomicU64::default(),
            ledger,
            turn,
        }))
    }

    /// Runs `launch` with the address of [`SCRATCH`] bytes that kernels of this stream use one after
    /// the other. They are zero at first, and have what the kernel before left in them.
    pub(crate) fn with_scratch(&self, launch: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        // No buffer: that would hold this handle. Kept locked as the emulation has no stream that
        // puts launches of several threads in order.
        let mut scratch = self.0.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let address = match *scratch {
            Some(address) => address,
            None => {
                let address = self.take(SCRATCH)?;
                // SAFETY: the memory is new and has that length.
                let zeroed = unsafe { self.0.target.zero(address, SCRATCH) };
                zeroed.inspect_err(|_| self.0.target.free(address))?;
                *scratch = Some(address);
                address
            }
        };
        launch(address).inspect_err(|_| {
            // What was left in it may be that of half a kernel.
            *scratch = None;
            self.0.target.free(address);
        })
    }

    /// Limits the memory that this handle and its queues give out from now on, for tests of allocation failures: a
    /// request above the limit fails like one that the device cannot meet. Memory that the driver or a library
    /// takes by itself is not limited.
    pub fn limit_memory(&self, limit: MemoryLimit) {
        *self.limit() = limit;
    }

    pub(in crate::cuda) fn limit(&self) -> MutexGuard<'_, MemoryLimit> {
        self.0.ledger.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another stream of work on the same device: the work of the two handles may run at the same time, except on
    /// the same buffers, where it runs in the order of submission.
    ///
    /// # Errors
    /// What failed on the device before.
    pub fn fork(&self) -> Result<Self> {
        self.forked(None)
    }

    /// The same, for the turns of a queue.
    pub(in crate::cuda) fn forked(&self, turn: Option<Turns>) -> Result<Self> {
        let target = match &self.0.target {
            Target::Gpu(gpu) => Target::Gpu(gpu.fork()?),
            Target::Emulated(emulated) => Target::Emulated(Arc::clone(emulated)),
        };
        Ok(Self::made(target, turn, Arc::clone(&self.0.ledger), Late::Forks))
    }

    /// Makes the stream of this handle wait for all work submitted to another handle's so far. The caller does not
    /// wait. Where they share buffers that happens automatically.
    ///
    /// # Errors
    /// What failed on the device before.
    pub fn wait_for(&self, other: &Self) -> Result<()> {
        if self.identity() != other.identity() {
            return Err(ComputeError::argument(
                "the handle to wait for",
                other.name(),
                "one of the same device",
            ));
        }
        self.0.lane.wait_for(&other.0.lane, other.0.lane.asked())
    }

    /// Puts what `work` asks the device for into the stream of this handle, after what other handles do
    /// with the buffers that it uses.
    pub(in crate::cuda) fn using<'a, R>(
        &self,
        touched: impl Iterator<Item = Touch<'a>> + Clone,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        touched.clone().try_for_each(|touch| self.check_owner(touch.owner))?;
        in_order(&self.0.lane, touched.map(|touch| (touch.uses, touch.access)), work)
    }

    /// A number for the device, the same for all handles that may share buffers.
    pub(in crate::cuda) fn identity(&self) -> usize {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.identity(),
            Target::Emulated(emulated) => Arc::as_ptr(emulated) as usize,
        }
    }

    /// Refuses a buffer of another device.
    pub(in crate::cuda) fn check_owner(&self, owner: usize) -> Result<()> {
        self.check_turn()?;
        if owner == 0 || owner == self.identity() {
            return Ok(());
        }
        Err(ComputeError::argument("a buffer", "in the memory of another device", "of this device"))
    }

    /// Facts about the GPU; none for an emulated one.
    #[must_use]
    pub fn info(&self) -> Option<&GpuInfo> {
        match &self.0.target {
            Target::Gpu(gpu) => Some(gpu.info()),
            Target::Emulated(_) => None,
        }
    }

    /// Whether the host emulates the GPU.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self.0.target, Target::Emulated(_))
    }

    /// The memory pool's use by this handle and those derived from it.
    #[must_use]
    pub fn pool(&self) -> PoolStatistics {
        PoolStatistics {
            live: self.0.ledger.live.load(Ordering::Relaxed),
            peak: self.0.ledger.peak.load(Ordering::Relaxed),
            allocations: self.0.ledger.allocations.load(Ordering::Relaxed),
            reserved: match &self.0.target {
                Target::Gpu(gpu) => gpu.reserved(),
                Target::Emulated(_) => None,
            },
        }
    }

    /// The work submitted to the device so far, by this handle and those derived from it. The work of CUDA
    /// libraries is not counted.
    #[must_use]
    pub fn work(&self) -> WorkStatistics {
        let ledger = &self.0.ledger;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WorkStatistics {
            launches: of(&ledger.launches),
            clears: of(&ledger.clears),
            uploads: of(&ledger.uploads),
            downloads: of(&ledger.downloads),
            arrivals: of(&ledger.arrivals),
        }
    }

    /// Counts one submission to the device.
    pub(in crate::cuda) fn count(&self, what: impl FnOnce(&limit::Ledger) -> &AtomicU64) {
        what(&self.0.ledger).fetch_add(1, Ordering::Relaxed);
    }

    /// The names of the kernels that an emulated device has run.
    #[must_use]
    pub fn launched(&self) -> BTreeSet<String> {
        match &self.0.target {
            Target::Gpu(_) => BTreeSet::new(),
            Target::Emulated(emulated) => emulated.launched(),
        }
    }

    /// The multiprocessors; a few for an emulated device.
    pub(crate) fn multiprocessors(&self) -> usize {
        self.info().map_or(4, |i| i.multiprocessors)
    }

    /// The shared memory that a block can have, bytes.
    pub(crate) fn shared_memory(&self) -> usize {
        self.info().map_or(96 << 10, |i| i.shared_memory)
    }

    /// The CUDA stream that work is put into, for libraries of CUDA; none on an emulated device.
    pub(crate) fn stream(&self) -> Option<*mut std::ffi::c_void> {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.bind().ok().map(|()| gpu.stream()),
            Target::Emulated(_) => None,
        }
    }

    /// The error of an operator that this backend has not.
    pub(in crate::cuda) fn unsupported(&self, what: &str) -> ComputeError {
        ComputeError::Unsupported {
            device: self.name(),
            what: what.into(),
            remedy: "use the device cpu for it",
        }
    }

    /// Puts a kernel into the stream; `others` are buffers that it also reads, whose addresses are in memory.
    ///
    /// # Safety
    /// The parameters must be those of the kernel in number, order and type, and with them it must
    /// not read or write outside of the buffers.
    pub(crate) unsafe fn launch(
        &self,
        kernel: Kernel<'_>,
        shape: Shape,
        args: &[Arg],
        others: &[Arg],
    ) -> Result<()> {
        self.check_turn()?;
        self.count(|ledger| &ledger.launches);
        let touched = args.iter().chain(others).filter_map(Arg::touch);
        // SAFETY: passed on to the caller.
        self.using(touched, || unsafe {
            match &self.0.target {
                Target::Gpu(gpu) => gpu.launch(kernel, shape, args),
                Target::Emulated(emulated) if self.0.lane.backlog.is_none() => {
                    emulated.launch(kernel, shape, args)
                }
                Target::Emulated(emulated) => {
                    let (emulated, program) = (Arc::clone(emulated), kernel.program.clone());
                    let (index, args) = (kernel.index, args.to_vec());
                    let job = move || emulated.launch(program.kernel(index), shape, &args);
                    self.0.lane.perform(job)
                }
            }
        })
    }
}
