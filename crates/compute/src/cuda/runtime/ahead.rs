//! Background compilation of kernels ahead of their first launch.
//!
//! The first run on a machine compiles what it launches, one program after the other as the launches come, which
//! takes some seconds. What registrations usually launch is known: other threads begin with it when the device
//! starts, and whoever needs a program meanwhile waits for that one alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use super::program::Program;
use super::{Cuda, Target, declare};
use crate::cpu::threads;
use crate::cuda::reduce::BLOCKS;

/// The most threads, each of which takes some hundred megabytes while it compiles.
const THREADS: usize = 8;

/// A file of kernels, and the macros that it is compiled with.
type Usual = (&'static str, &'static [(&'static str, i64)]);

/// The programs that an affine registration and a deformation with default options launch, the slowest to compile
/// first.
const USUAL: [Usual; 15] = [
    ("filter/recursive.cu", &[]),
    ("histogram/samples.cu", &[]),
    ("resample/resample.cu", &[]),
    ("histogram/histogram.cu", &[("TERMS", 3), ("DIRECT", 0)]),
    ("filter/filter.cu", &[]),
    ("stencil/stencil.cu", &[]),
    ("flow/force.cu", &[]),
    ("similarity/correlation.cu", &[("RX", 2), ("RY", 2), ("RZ", 2)]),
    ("flow/norms.cu", &[("BLOCKS", BLOCKS as i64)]),
    ("flow/flow.cu", &[]),
    ("resample/fields.cu", &[]),
    ("filter/smooth.cu", &[("RX", 6), ("RY", 6), ("RZ", 6)]),
    ("filter/smooth.cu", &[("RX", 2), ("RY", 2), ("RZ", 2)]),
    ("filter/smooth.cu", &[("RX", 3), ("RY", 3), ("RZ", 3)]),
    ("similarity/means.cu", &[]),
];

fn usual() -> impl Iterator<Item = Program> {
    USUAL.iter().filter_map(|&(file, macros)| {
        let program = declare::ALL.iter().find(|d| d.file == file)?.program();
        Some(if macros.is_empty() { program } else { program.with(macros) })
    })
}

/// Threads that compile; those that are at it are waited for at the end, and nothing is begun any more.
#[derive(Debug)]
pub struct CompilingAhead {
    next: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for CompilingAhead {
    fn drop(&mut self) {
        self.next.store(USUAL.len(), Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that has failed is compiled again by whoever needs it, who says what is wrong.
            let _ = thread.join();
        }
    }
}

impl Cuda {
    /// Begins to compile the kernels that registrations usually launch, where the cache does not have them, with
    /// as many threads as the machine can spare. None where nothing is to be done: on a machine that has compiled
    /// them before, on one of few threads, and without a GPU.
    #[must_use]
    pub fn compile_ahead(&self) -> Option<CompilingAhead> {
        let Target::Gpu(gpu) = &self.0.target else { return None };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (cores / 2).min(THREADS);
        // One of them stands for all.
        if count < 2 || gpu.knows(&usual().next()?) || threads::check(count).is_err() {
            return None;
        }
        let programs: Arc<[Program]> = usual().collect();
        let next = Arc::new(AtomicUsize::new(0));
        let thread = |_| {
            let (cuda, programs, next) = (self.clone(), Arc::clone(&programs), Arc::clone(&next));
            let work = move || {
                let Target::Gpu(gpu) = &cuda.0.target else { return };
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // An error comes again where the program is needed.
                    let _ = gpu.compile(program);
                }
            };
            Builder::new().name("kernels".to_owned()).spawn(work).ok()
        };
        Some(CompilingAhead { threads: (0..count).filter_map(thread).collect(), next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_ahead_is_there() {
        let programs: Vec<Program> = usual().collect();
        assert_eq!(programs.len(), USUAL.len(), "a file of the list is not declared");
        let mut slots: Vec<_> = programs.iter().map(Program::slot).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), USUAL.len(), "the same twice");
        assert!(programs.iter().all(|program| !program.kernels().is_empty()));
    }

    /// The macros are those that the families have.
    #[test]
    fn programs_of_the_families_are_among_them() {
        let slots: Vec<_> = usual().map(|program| program.slot()).collect();
        let smooth = [2, 3, 6].map(|radius| crate::cuda::smooth::of_windows([radius; 3]));
        for program in smooth.into_iter().chain([crate::cuda::similarity::of_windows([2; 3])]) {
            assert!(slots.contains(&program.slot()), "{}", program.name());
        }
    }
}
