//! The devices to test.

// A check that is skipped says so.
#![allow(clippy::print_stderr)]

use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::cuda::{Cuda, Late};

/// Every SIMD level of this machine with one thread, and the best one with more.
pub(crate) fn cpus() -> Vec<Cpu> {
    let cpu = |threads, simd| Cpu::new(Some(threads)).unwrap().with_simd(simd).unwrap();
    let mut cpus: Vec<Cpu> = Simd::available().into_iter().map(|simd| cpu(1, simd)).collect();
    cpus.extend([2, 5].map(|threads| cpu(threads, Simd::detect())));
    cpus
}

/// The number of the GPU that the environment names, if it does.
pub(crate) fn gpu_number() -> Option<usize> {
    let name = std::env::var("VOXALIGN_TEST_DEVICE").unwrap_or_default();
    match name.as_str() {
        "cuda" => Some(0),
        _ => match name.strip_prefix("cuda:") {
            Some(number) => Some(number.parse().unwrap()),
            None => {
                eprintln!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
                None
            }
        },
    }
}

/// The GPU that the environment names, if it does.
pub(crate) fn gpu() -> Option<Cuda> {
    // One device for all tests: they run at the same time, as programs' threads do.
    static DEVICE: std::sync::OnceLock<Cuda> = std::sync::OnceLock::new();
    gpu_number().map(|number| DEVICE.get_or_init(|| Cuda::new(number).unwrap()).clone())
}

/// The kernels of the GPU on the host, with a record of its own of what ran.
pub(crate) fn emulated() -> Option<Cuda> {
    required(Cuda::emulated())
}

/// The same with streams that are late.
pub(crate) fn emulated_late(late: Late) -> Option<Cuda> {
    required(Cuda::emulated_late(late))
}

fn required(emulated: voxalign_compute::Result<Cuda>) -> Option<Cuda> {
    match emulated {
        Ok(cuda) => Some(cuda),
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}
