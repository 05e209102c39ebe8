//! The CUDA backend: one GPU, or its emulation on the host for tests.
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
//! Work is put into one stream, in the order in which it is asked for. Queues have streams of their own;
//! what they and others do to one buffer happens in the order in which it was asked for as well. What
//! waits for the device is what brings data to the host, [`Memory::synchronize`](crate::Memory::synchronize), and an upload of more
//! than the pinned memory it goes through (8 MiB).
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

#[macro_use]
mod runtime;

mod accumulate;
mod elastic;
mod elementwise;
mod filter;
mod flow;
mod fourier;
mod front;
mod histogram;
mod joint;
mod pairwise;
mod points;
pub(crate) mod raycast;
mod reduce;
mod regions;
mod resample;
mod similarity;
mod simplices;
mod smooth;
mod sort;
mod sparse;
mod splat;
mod stencil;
mod tetrahedra;
mod values;

pub use histogram::CudaSamples;
pub use raycast::CudaRayVolume;
use runtime::{Arg, Program, SCRATCH, Shape, Target, Texture};
pub use runtime::{
    CompilingAhead, Cuda, CudaBuffer, Foreign, GpuInfo, Late, MemoryLimit, PoolStatistics,
    Resident, Transfers, WorkStatistics, compiler, gpu_count, gpu_of, gpus, kernel_cache,
    kernel_cache_problem, shared_copy, transfers,
};
use runtime::{cufft, declare, lanes, slabs, tiles};

#[cfg(test)]
pub(crate) mod tests;
