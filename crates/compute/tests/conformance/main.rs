//! Every operator of every backend against a naive `f64` reference: the checks of [`voxalign_conformance`], and what is to
//! be said of these backends alone.
//!
//! On the CPU a check runs at every SIMD level that the machine has and with several threads, on a GPU if the environment
//! variable `VOXALIGN_TEST_DEVICE` names one (`cuda`, `cuda:1`), and with the kernels of the GPU emulated on the host.

// A check that does not hold is a panic; one that is skipped says so.
#![allow(clippy::unwrap_used, clippy::float_cmp, clippy::print_stderr)]

mod chosen;
mod devices;
mod kernels;
mod late;
mod memory;
mod schemes;
mod team;
mod threads;

mod cpu {
    voxalign_conformance::all!(crate::devices::cpus);
    voxalign_conformance::baselines!(crate::devices::cpus);
}

mod cuda {
    voxalign_conformance::all!(crate::devices::gpu);
    voxalign_conformance::baselines!(crate::devices::gpu);
}
