//! The kernel runtime: driver or emulation, memory and streams, compilation, declarations and launches.

#[macro_use]
pub(in crate::cuda) mod declare;

mod ahead;
mod cache;
pub(in crate::cuda) mod cufft;
pub(in crate::cuda) mod device;
mod emulated;
mod gpu;
pub(in crate::cuda) mod lanes;
mod late;
mod libraries;
mod limit;
mod memory;
mod nccl;
mod nvrtc;
mod pinned;
pub(in crate::cuda) mod program;
mod resident;
pub(in crate::cuda) mod slabs;
mod slots;
pub(in crate::cuda) mod tiles;
mod transfers;

pub use ahead::CompilingAhead;
pub use device::{
    Cuda, PoolStatistics, WorkStatistics, compiler, gpu_count, gpus, kernel_cache,
    kernel_cache_problem,
};
pub(in crate::cuda) use device::{SCRATCH, Target};
pub use gpu::GpuInfo;
pub(in crate::cuda) use gpu::Texture;
pub use late::Late;
pub use limit::MemoryLimit;
pub use memory::CudaBuffer;
pub(in crate::cuda) use program::{Arg, Program, Shape};
pub use resident::{Foreign, Resident, gpu_of, shared_copy};
pub use transfers::{Transfers, transfers};
