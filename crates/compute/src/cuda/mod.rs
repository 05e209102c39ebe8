//! The CUDA backend: one GPU, or the host in its place for tests.
//!
//! Nothing of CUDA is needed to build it. The driver and the compiler library NVRTC are looked for
//! when a [`Cuda`] is made; where they are missing the error says so in words, and how to get them.
//! Kernels are CUDA C++ files in `kernels/`, compiled for the GPU at hand and kept on disk
//! ([`kernel_cache`]). Fourier transforms take cuFFT, which is looked for when the first one is asked
//! for.
//!
//! ```no_run
//! use voxalign_compute::{Memory, cuda::Cuda};
//!
//! let gpu = Cuda::new(0)?;
//! println!("{}: {:?} bytes", gpu.name(), gpu.memory().total);
//! # Ok::<(), voxalign_compute::ComputeError>(())
//! ```
//!
//! Work is put into one stream, in the order in which it is asked for. What waits for the device is
//! what brings data to the host, [`Memory::synchronize`], and an upload of more than the pinned
//! memory it goes through (8 MiB).
//! Memory comes from a stream-ordered pool that keeps what is freed.
//!
//! [`Cuda::emulated`] runs the same kernels, launched by the same code, on the host: blocks one
//! after the other, threads as fibres, with every access checked. It is slow; it is how kernels
//! are tested on machines without a GPU.
//!
//! | variable of the environment | what it does |
//! |---|---|
//! | `VOXALIGN_KERNEL_CACHE` | the folder of compiled kernels |
//! | `VOXALIGN_CUDA_SYNCHRONOUS=1` | waits after every launch, so that an error names its kernel |

mod cache;
mod cufft;
mod elastic;
mod elementwise;
mod emulated;
mod filter;
mod flow;
mod fourier;
mod gpu;
pub(crate) mod histogram;
mod libraries;
mod memory;
mod nvrtc;
mod program;
mod reduce;
mod resample;
mod similarity;
mod slabs;
mod smooth;
mod sort;
mod stencil;
mod tiles;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::device::{Device, Memory};
use crate::error::{ComputeError, Result};

pub use gpu::GpuInfo;
pub use histogram::{CudaSamples, Tuned, TunedBy};
pub use memory::CudaBuffer;
#[allow(unused_imports)] // for operators that pass structures
pub(crate) use program::{Arg, Plain, Program, Shape};

/// Bytes that a stream has for what the blocks of a launch tell each other.
pub(crate) const SCRATCH: usize = 256 << 10;

/// Where kernels run.
#[derive(Debug)]
enum Target {
    Gpu(gpu::Gpu),
    Emulated(emulated::Emulated),
}

/// A GPU, or the host in its place. A handle is cheap to clone; clones mean the same device.
#[derive(Debug, Clone)]
pub struct Cuda(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    plans: cufft::Plans,
    target: Target,
    scratch: Mutex<Option<u64>>,
    live: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    /// The scheme for binned sums that is best here, once it is known.
    tuned: std::sync::OnceLock<Tuned>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let scratch = self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match (&self.target, scratch) {
            (Target::Gpu(gpu), Some(address)) => gpu.free(address),
            (Target::Emulated(emulated), Some(address)) => emulated.free(address),
            (_, None) => {}
        }
        // Plans need the context, which ends with the target.
        if let Target::Gpu(gpu) = &self.target
            && gpu.bind().is_ok()
        {
            self.plans.clear();
        }
    }
}

/// What the memory pool of a device has given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStatistics {
    /// Bytes of the buffers that there are now.
    pub live: u64,
    /// The most bytes that there were at once.
    pub peak: u64,
    /// How many buffers were made.
    pub allocations: u64,
    /// Bytes that the pool holds of the GPU, where there is one. In a steady state this does not
    /// change: what is freed is given out again.
    pub reserved: Option<u64>,
}

/// How many GPUs the driver finds, one at least; whether they can be used, [`Cuda::new`] tells.
///
/// # Errors
/// [`ComputeError::Unavailable`] with what is missing or too old, and how to get it.
pub fn gpu_count() -> Result<usize> {
    match gpu::count() {
        Ok(0) => Err(unavailable("the CUDA driver finds no GPU".into())),
        other => other.map_err(unavailable),
    }
}

/// What is known of the GPUs of this machine, or in words why one of them cannot be used.
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
        cuda.try_kernel().map_err(|e| unavailable(format!("it does not run kernels: {e}")))?;
        Ok(cuda)
    }

    /// Compiles and runs a small kernel: a driver, a compiler and a GPU that are all there may still
    /// not fit each other.
    fn try_kernel(&self) -> Result<()> {
        static CHECK: LazyLock<Program> =
            LazyLock::new(|| Program::new("check", include_str!("kernels/check.cu")));
        let mut out = self.alloc_unset::<u32>(32)?;
        // SAFETY: the kernel has one parameter, and writes as many numbers as there are threads.
        unsafe { self.launch(&CHECK, "count_up", Shape::blocks(1, 32), &[(&mut out).into()])? };
        if self.download(&out)?.into_iter().eq(0..32) {
            Ok(())
        } else {
            Err(ComputeError::Backend {
                device: self.name(),
                message: "a kernel that counts to 32 gave other numbers".into(),
            })
        }
    }

    /// The host in place of a GPU, for tests of the kernels.
    ///
    /// # Errors
    /// If there is no C++ compiler.
    pub fn emulated() -> Result<Self> {
        let cuda = Self::on(Target::Emulated(emulated::Emulated::new()?));
        cuda.try_kernel()?;
        Ok(cuda)
    }

    fn on(target: Target) -> Self {
        let zero = AtomicU64::default;
        let (plans, tuned) = (cufft::Plans::default(), std::sync::OnceLock::new());
        Self(Arc::new(Inner {
            plans,
            target,
            scratch: Mutex::default(),
            live: zero(),
            peak: zero(),
            allocations: zero(),
            tuned,
        }))
    }

    /// Runs `launch` with the address of [`SCRATCH`] bytes that kernels of this stream use one after
    /// the other. They are zero at first, and have what the kernel before left in them.
    pub(crate) fn with_scratch(&self, launch: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        // No buffer: that would hold this handle. Kept locked as the emulation has no stream that
        // puts launches of several threads in order.
        let mut scratch = self.0.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let address = match (*scratch, &self.0.target) {
            (Some(address), _) => address,
            (None, Target::Gpu(gpu)) => {
                let address = gpu.alloc(SCRATCH)?;
                gpu.zero(address, SCRATCH).inspect_err(|_| gpu.free(address))?;
                address
            }
            (None, Target::Emulated(emulated)) => emulated.alloc_zeros(SCRATCH),
        };
        *scratch = Some(address);
        launch(address)
    }

    /// Another stream of work on the same device: what is asked of the one and of the other handle
    /// may run at the same time. Each handle counts its own buffers.
    ///
    /// # Errors
    /// What failed on the device before.
    ///
    /// # Safety
    /// A buffer belongs to the stream of the handle that made it. Before it is used through another
    /// handle, that one has to [wait](Self::wait_for) for the first; before it is changed or dropped
    /// after such use, the first has to wait for the other.
    pub unsafe fn fork(&self) -> Result<Self> {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.fork().map(|g| Self::on(Target::Gpu(g))),
            Target::Emulated(_) => Ok(self.clone()),
        }
    }

    /// Lets the stream of this handle wait for all that was asked of another handle's so far. The
    /// caller does not wait.
    ///
    /// # Errors
    /// What failed on the device before.
    pub fn wait_for(&self, other: &Self) -> Result<()> {
        match (&self.0.target, &other.0.target) {
            _ if self.identity() != other.identity() => Err(ComputeError::argument(
                "the handle to wait for",
                other.name(),
                "one of the same device",
            )),
            (Target::Gpu(gpu), Target::Gpu(other)) => gpu.wait_for(other),
            _ => Ok(()), // the host does one thing after the other
        }
    }

    /// A number for the device, the same for all handles that may share buffers.
    fn identity(&self) -> usize {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.identity(),
            Target::Emulated(emulated) => std::ptr::from_ref(emulated) as usize,
        }
    }

    /// Refuses a buffer of another device.
    fn check_owner(&self, owner: usize) -> Result<()> {
        if owner == 0 || owner == self.identity() {
            return Ok(());
        }
        Err(ComputeError::argument("a buffer", "in the memory of another device", "of this device"))
    }

    /// What is known of the GPU; nothing for an emulated one.
    #[must_use]
    pub fn info(&self) -> Option<&GpuInfo> {
        match &self.0.target {
            Target::Gpu(gpu) => Some(gpu.info()),
            Target::Emulated(_) => None,
        }
    }

    /// Whether the host stands for the GPU.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self.0.target, Target::Emulated(_))
    }

    /// What the memory pool has given out.
    #[must_use]
    pub fn pool(&self) -> PoolStatistics {
        PoolStatistics {
            live: self.0.live.load(Ordering::Relaxed),
            peak: self.0.peak.load(Ordering::Relaxed),
            allocations: self.0.allocations.load(Ordering::Relaxed),
            reserved: match &self.0.target {
                Target::Gpu(gpu) => gpu.reserved(),
                Target::Emulated(_) => None,
            },
        }
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

    /// How many blocks of a kernel fit on a multiprocessor at once.
    #[allow(dead_code)] // used by the operators that size their grids to the device
    pub(crate) fn occupancy(
        &self,
        program: &Program,
        kernel: &str,
        threads: u32,
        shared: u32,
    ) -> Result<usize> {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.occupancy(program, kernel, threads, shared),
            Target::Emulated(_) => Ok(1),
        }
    }

    /// The CUDA stream that work is put into, for libraries of CUDA; none on an emulated device.
    pub(crate) fn stream(&self) -> Option<*mut std::ffi::c_void> {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.bind().ok().map(|()| gpu.stream()),
            Target::Emulated(_) => None,
        }
    }

    /// The error of an operator that this backend has not.
    fn unsupported(&self, what: &str) -> ComputeError {
        ComputeError::Unsupported {
            device: self.name(),
            what: what.into(),
            remedy: "use the device cpu for it",
        }
    }

    /// Puts a kernel into the stream.
    ///
    /// # Safety
    /// The parameters must be those of the kernel in number, order and type, and with them it must
    /// not read or write outside of the buffers.
    pub(crate) unsafe fn launch(
        &self,
        program: &Program,
        kernel: &str,
        shape: Shape,
        args: &[Arg],
    ) -> Result<()> {
        args.iter().try_for_each(|arg| self.check_owner(arg.owner))?;
        // SAFETY: passed on to the caller.
        unsafe {
            match &self.0.target {
                Target::Gpu(gpu) => gpu.launch(program, kernel, shape, args),
                Target::Emulated(emulated) => emulated.launch(program, kernel, shape, args),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::device::Memory;
    use crate::ops::Reduce;
    use crate::ops::reduce::Reduction;

    const TEXT: &str = r#"#include "prelude.cuh"
KERNEL(block_sums, 256, IN(float) a, OUT(float) b, u32 n) {
    SHARED(float, scratch, 32);
    u64 i = global_thread();
    float sum = block_sum(i < n ? a[i] : 0.0f, scratch);
    if (threadIdx.x == 0) b[blockIdx.x] = sum;
}
KERNEL(reversed, 256, IN(u32) a, OUT(u32) b) {
    DYNAMIC_SHARED(u32, all);
    all[threadIdx.x] = a[global_thread()];
    __syncthreads();
    b[global_thread()] = all[blockDim.x - 1 - threadIdx.x];
}
KERNEL(beyond, 32, OUT(u32) b, u32 at) { b[at + threadIdx.x] = 1; }
KERNEL(stuck, 64, OUT(u32) b) {
    if (threadIdx.x == 3) __syncthreads();
    else __syncwarp();
    b[threadIdx.x] = 1;
}
"#;

    /// The kernels of the GPU on the host; none where there is no C++ compiler, unless it is required.
    pub(crate) fn emulated() -> Option<Cuda> {
        match Cuda::emulated() {
            Ok(cuda) => Some(cuda),
            Err(e) => {
                let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
                assert!(!required, "the kernels of the GPU cannot be tested: {e}");
                eprintln!("skipped: {e}");
                None
            }
        }
    }

    #[test]
    fn the_emulation_runs_kernels_and_finds_their_faults() {
        let Some(cuda) = emulated() else { return };
        let program = Program::new("test", TEXT);
        assert_eq!(
            program.kernels().collect::<Vec<_>>(),
            ["block_sums", "reversed", "beyond", "stuck"]
        );
        let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let a = cuda.upload(&data).unwrap();
        let mut b = cuda.alloc::<f32>(4).unwrap();
        let launch = |kernel: &str, shape: Shape, args: &[Arg]| {
            // SAFETY: the parameters are those of the kernels above; faults are what is tested.
            unsafe { cuda.launch(&program, kernel, shape, args) }
        };
        launch(
            "block_sums",
            Shape::blocks(4, 256),
            &[(&a).into(), (&mut b).into(), 1000u32.into()],
        )
        .unwrap();
        let sums = cuda.download(&b).unwrap();
        assert_eq!(sums.iter().sum::<f32>(), 499_500.0);
        assert_eq!(sums[0], (0..256).sum::<i32>() as f32);
        let counts = cuda.upload(&(0..64u32).collect::<Vec<_>>()).unwrap();
        let mut turned = cuda.alloc::<u32>(64).unwrap();
        let shape = Shape::blocks(2, 32).with_shared(128);
        launch("reversed", shape, &[(&counts).into(), (&mut turned).into()]).unwrap();
        let turned = cuda.download(&turned).unwrap();
        assert!((0..64).all(|i| turned[i as usize] == (31 - i % 32) + i / 32 * 32));

        let mut small = cuda.alloc::<u32>(40).unwrap();
        let beyond = launch("beyond", Shape::blocks(1, 32), &[(&mut small).into(), 10u32.into()]);
        let message = beyond.unwrap_err().to_string();
        assert!(message.contains("beyond") && message.contains("index 4"), "{message}");
        let stuck = launch("stuck", Shape::blocks(1, 32), &[(&mut small).into()]);
        assert!(stuck.unwrap_err().to_string().contains("for ever"));
        let wrong = launch(
            "reversed",
            Shape::blocks(1, 32).with_shared(64),
            &[(&counts).into(), (&mut small).into()],
        );
        assert!(wrong.unwrap_err().to_string().contains("outside"));
        let missing = launch("reversed", shape, &[(&counts).into()]);
        assert!(missing.unwrap_err().to_string().contains("parameters"));
        assert!(cuda.launched().contains("block_sums"));
    }

    /// On a GPU, if the environment names one.
    #[test]
    fn a_gpu_runs_kernels_and_keeps_its_memory() {
        if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|v| v.starts_with("cuda")) {
            let cuda = Cuda::new(0).unwrap();
            let program = Program::new("test", TEXT);
            for n in [0usize, 1, 1000, 3_000_001] {
                let data: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
                let a = cuda.upload(&data).unwrap();
                assert_eq!(cuda.download(&a).unwrap(), data);
                let blocks = n.div_ceil(256).max(1);
                let mut reserved = None;
                for _ in 0..3 {
                    let mut b = cuda.alloc::<f32>(blocks).unwrap();
                    let args = [(&a).into(), (&mut b).into(), (n as u32).into()];
                    // SAFETY: the parameters are those of the kernel above.
                    unsafe {
                        cuda.launch(&program, "block_sums", Shape::blocks(blocks, 256), &args)
                            .unwrap();
                    }
                    let sum: f64 = cuda.into_host(b).unwrap().iter().map(|&v| f64::from(v)).sum();
                    assert_eq!(sum, data.iter().map(|&v| f64::from(v)).sum::<f64>());
                    let now = cuda.pool().reserved;
                    assert!(reserved.is_none() || reserved == now, "the pool grew");
                    reserved = now;
                }
            }
            let message = cuda.alloc::<f64>(1 << 45).unwrap_err().to_string();
            assert!(message.contains("out of memory") && message.contains("free"), "{message}");
            let more = cuda.memory().free.unwrap() / 4;
            let first = cuda.alloc_unset::<f32>((more / 2) as usize).unwrap();
            let message = cuda.alloc_unset::<f32>(more as usize).unwrap_err().to_string();
            assert!(message.contains("out of memory"), "{message}");
            drop(first);
            // After such an error the device goes on.
            let again = cuda.alloc::<f32>(1000).unwrap();
            assert_eq!(cuda.download(&again).unwrap(), vec![0.0; 1000]);
            let bad = Program::new("bad", "KERNEL(broken, 32, IN(float) a) { nonsense; }");
            // SAFETY: it does not compile.
            let e = unsafe { cuda.launch(&bad, "broken", Shape::blocks(1, 32), &[Arg::NULL]) };
            assert!(e.unwrap_err().to_string().contains("bad"));
            let seconds = cuda.seconds(&mut || cuda.alloc::<f32>(1 << 24).map(|_| ())).unwrap();
            assert!(seconds > 0.0 && seconds < 0.1, "{seconds}");
            // SAFETY: each waits for the other below.
            let other = unsafe { cuda.fork() }.unwrap();
            let a = cuda.upload(&vec![1.5f32; 1 << 22]).unwrap();
            other.wait_for(&cuda).unwrap();
            let mut b = other.alloc::<f32>(1 << 22).unwrap();
            other.copy(&a, &mut b).unwrap();
            cuda.wait_for(&other).unwrap();
            drop(a);
            assert!(other.into_host(b).unwrap().iter().all(|&v| v == 1.5));
            // Reductions in two streams at once do not meet.
            let data = vec![1f32; 1 << 22];
            let mut sums = [&cuda, &other].map(|c| {
                (c, c.upload(&data).unwrap(), c.alloc::<f64>(200).unwrap(), c.alloc(1).unwrap())
            });
            for i in 0..200 {
                for (c, ones, _, sum) in &mut sums {
                    c.reduce_into(&[ones], &[Reduction::Sum(0)], sum).unwrap();
                }
                for (c, _, all, sum) in &sums {
                    let (from, to) = (sum.address(), all.address() + 8 * i);
                    let Target::Gpu(gpu) = &c.0.target else { panic!("no GPU") };
                    gpu.copy(from, to, 8).unwrap();
                }
            }
            for (c, _, all, _) in sums {
                assert_eq!(c.into_host(all).unwrap(), vec![f64::from(1 << 22); 200]);
            }
            eprintln!("{:?} {:?} {seconds}", cuda.info(), cuda.pool());
        } else {
            eprintln!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
        }
    }

    #[test]
    fn the_pool_counts() {
        let Some(cuda) = emulated() else { return };
        let before = cuda.pool().allocations;
        let a = cuda.alloc::<f64>(100).unwrap();
        let b = cuda.alloc::<u8>(7).unwrap();
        assert_eq!(cuda.pool().live, 807);
        drop(a);
        assert_eq!(cuda.pool().live, 7);
        assert_eq!((cuda.pool().peak, cuda.pool().allocations - before), (807, 2));
        drop(b);
        assert!(cuda.alloc::<f64>(usize::MAX / 4).is_err());
    }

    #[test]
    fn what_is_missing_is_said() {
        match gpus() {
            Ok(list) => assert!(list.iter().all(|g| g.memory > 0)),
            Err(e) => assert!(e.to_string().starts_with("cuda cannot be used: "), "{e}"),
        }
    }
}
