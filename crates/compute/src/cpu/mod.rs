//! The CPU backend: a thread pool of its own, and SIMD chosen at run time.
//!
//! It needs nothing installed and is the default. A [`Cpu`] has a number of threads and a [`Simd`]
//! level; neither changes a bit of a result. Work is done when a call returns.
//!
//! ```
//! use voxalign_compute::ops::Stencil;
//! use voxalign_compute::{Memory, cpu::Cpu, cpu::Simd};
//!
//! let dims = [4, 3, 1];
//! let image: Vec<f32> = (0..12).map(|i| (i % 4) as f32).collect();
//! let mut results = Vec::new();
//! for cpu in [Cpu::new(None)?, Cpu::new(Some(1))?.with_simd(Simd::Scalar)?] {
//!     let src = cpu.upload(&image)?;
//!     let mut gradient = cpu.alloc(3 * 12)?;
//!     cpu.gradient(&src, dims, [0.5, 1.0, 1.0], &mut gradient)?;
//!     results.push(cpu.into_host(gradient)?);
//! }
//! assert_eq!(results[0][..12], [2.0; 12]);
//! assert_eq!(results[0], results[1]);
//! # Ok::<(), voxalign_compute::ComputeError>(())
//! ```

mod accumulate;
mod elastic;
mod elementwise;
mod filter;
mod flow;
pub(crate) mod fourier;
mod front;
pub mod histogram;
mod joint;
mod lines;
mod lit;
mod memory;
mod pairwise;
mod panels;
mod points;
mod raycast;
mod reduce;
mod regions;
mod resample;
pub(crate) mod simd;
mod similarity;
mod simplices;
mod sine;
mod sort;
mod sparse;
mod splat;
mod stencil;
mod tetrahedra;
pub mod threads;
mod values;
mod window;

use std::sync::Arc;

use rayon::prelude::*;

use crate::device::Device;
use crate::error::{ComputeError, Result};

pub use histogram::CpuSamples;
pub use memory::CpuBuffer;
pub use raycast::CpuRayVolume;
pub use simd::Simd;

/// A CPU device: a pool of threads and a SIMD level. Neither changes the bits of a result.
#[derive(Clone, Debug)]
pub struct Cpu {
    pool: Arc<rayon::ThreadPool>,
    simd: Simd,
}

impl Device for Cpu {}

impl Cpu {
    /// A device with `threads` threads, by default as many as are available to this process, and the best SIMD
    /// level of the processor.
    ///
    /// # Errors
    /// If `threads` is zero, or the threads cannot be started.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        let threads = match threads {
            Some(0) => return Err(ComputeError::argument("threads", 0, "at least 1")),
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        threads::check(threads)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("voxalign-{i}"))
            .build()
            .map_err(|e| threads::refused(threads, e))?;
        // Threads ask for memory as they begin, and when they look for others' work for the first time: what
        // is checked afterwards must find it gone.
        pool.broadcast(|_| rayon::yield_now());
        Ok(Self { pool: Arc::new(pool), simd: Simd::detect() })
    }

    /// The same device at another SIMD level.
    ///
    /// # Errors
    /// If the processor has not that level.
    pub fn with_simd(self, simd: Simd) -> Result<Self> {
        Ok(Self { simd: simd.check()?, ..self })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// The SIMD level.
    pub fn simd(&self) -> Simd {
        self.simd
    }

    /// Runs `f` in the pool of this device: parallel iterators inside it use its threads.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.pool.install(f)
    }

    /// Calls `f` for every task below `tasks`, in any order, on all threads.
    pub(crate) fn tasks(&self, tasks: usize, f: impl Fn(usize) + Send + Sync) {
        if tasks <= 1 || self.threads() == 1 {
            (0..tasks).for_each(f);
        } else {
            self.install(|| (0..tasks).into_par_iter().for_each(f));
        }
    }

    /// The results of `f` for every task below `tasks`, in the order of the tasks.
    pub(crate) fn collect<R: Send>(
        &self,
        tasks: usize,
        f: impl Fn(usize) -> R + Send + Sync,
    ) -> Vec<R> {
        if tasks <= 1 || self.threads() == 1 {
            (0..tasks).map(f).collect()
        } else {
            self.install(|| (0..tasks).into_par_iter().map(f).collect())
        }
    }

    /// As [`collect`](Self::collect), of tasks that may fail: then the error of the first that did.
    pub(crate) fn try_collect<R: Send>(
        &self,
        tasks: usize,
        f: impl Fn(usize) -> Result<R> + Send + Sync,
    ) -> Result<Vec<R>> {
        self.collect(tasks, f).into_iter().collect()
    }

    /// Calls `f` with the number and the content of every chunk of `data`, on all threads. The
    /// last chunk may be shorter.
    pub(crate) fn chunks_mut<T: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        f: impl Fn(usize, &mut [T]) + Send + Sync,
    ) {
        if data.len() <= chunk || self.threads() == 1 {
            data.chunks_mut(chunk).enumerate().for_each(|(i, c)| f(i, c));
        } else {
            self.install(|| data.par_chunks_mut(chunk).enumerate().for_each(|(i, c)| f(i, c)));
        }
    }

    /// As [`chunks_mut`](Self::chunks_mut), over the three components of a field at once.
    pub(crate) fn chunks_mut_3<T: Send>(
        &self,
        data: &mut [T],
        chunk: usize,
        f: impl Fn(usize, [&mut [T]; 3]) + Send + Sync,
    ) {
        let n = data.len() / 3;
        let (x, rest) = data.split_at_mut(n);
        let (y, z) = rest.split_at_mut(n);
        if n <= chunk || self.threads() == 1 {
            let yz = y.chunks_mut(chunk).zip(z.chunks_mut(chunk));
            x.chunks_mut(chunk).zip(yz).enumerate().for_each(|(i, (x, (y, z)))| f(i, [x, y, z]));
        } else {
            self.install(|| {
                let yz = y.par_chunks_mut(chunk).zip(z.par_chunks_mut(chunk));
                let xyz = x.par_chunks_mut(chunk).zip(yz).enumerate();
                xyz.for_each(|(i, (x, (y, z)))| f(i, [x, y, z]));
            });
        }
    }

    /// As [`chunks_mut`](Self::chunks_mut), over several slices of one length at once.
    pub(crate) fn chunks_mut_of<T: Send, const N: usize>(
        &self,
        data: [&mut [T]; N],
        chunk: usize,
        f: impl Fn(usize, [&mut [T]; N]) + Send + Sync,
    ) {
        let len = data.first().map_or(0, |first| first.len());
        if len > chunk && self.threads() > 1 {
            self.install(|| by_halves(0, data, chunk, &f));
            return;
        }
        let mut rest = data;
        for task in 0..len.div_ceil(chunk) {
            let (part, left) = split(rest, chunk.min(len - task * chunk));
            f(task, part);
            rest = left;
        }
    }
}

/// Several slices of one length, cut at one place.
fn split<T, const N: usize>(data: [&mut [T]; N], at: usize) -> ([&mut [T]; N], [&mut [T]; N]) {
    let mut rest = [const { None }; N];
    let mut number = 0;
    let first = data.map(|slice| {
        let (first, second) = slice.split_at_mut(at);
        rest[number] = Some(second);
        number += 1;
        first
    });
    (first, rest.map(Option::unwrap_or_default))
}

/// Calls `f` for the chunks of slices, halves of them by other threads; `first` is the number of the first chunk.
fn by_halves<T: Send, const N: usize>(
    first: usize,
    data: [&mut [T]; N],
    chunk: usize,
    f: &(impl Fn(usize, [&mut [T]; N]) + Sync),
) {
    let chunks = data.first().map_or(0, |slice| slice.len().div_ceil(chunk));
    match chunks {
        0 => {}
        1 => f(first, data),
        _ => {
            let half = chunks / 2;
            let (low, high) = split(data, half * chunk);
            rayon::join(
                || by_halves(first, low, chunk, f),
                || by_halves(first + half, high, chunk, f),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_several_slices_are_those_of_each() {
        for threads in [1, 3] {
            let cpu = Cpu::new(Some(threads)).unwrap();
            for (len, chunk) in [(0, 4), (1, 4), (4, 4), (5, 4), (8, 4), (1001, 7), (3, 1)] {
                let (mut a, mut b) = (vec![0usize; len], vec![0usize; len]);
                cpu.chunks_mut_of([&mut a[..], &mut b[..]], chunk, |task, [a, b]| {
                    assert!(a.len() == b.len() && a.len() <= chunk && !a.is_empty());
                    a.fill(task + 1);
                    b.fill(2 * task + 2);
                });
                let expected: Vec<usize> = (0..len).map(|i| i / chunk + 1).collect();
                assert_eq!(a, expected);
                assert!(b.iter().zip(&expected).all(|(b, e)| *b == 2 * e));
            }
        }
    }
}
