//! Starting threads where memory may be short.

use voxalign_image::memory;

use crate::error::{ComputeError, Result};

/// The stack of a thread, and what the system and the runtime add to it, bytes.
const STACK: usize = (2 << 20) + (96 << 10);
/// What is left for all else.
const SPARE: usize = 1 << 20;

fn needed(threads: usize) -> usize {
    threads.saturating_mul(STACK).saturating_add(SPARE)
}

/// Checks that there is memory for the stacks of so many threads. A thread that begins without what the
/// runtime needs beside its stack ends the program, so that it is not tried.
///
/// # Errors
/// [`ComputeError::Threads`].
pub fn check(threads: usize) -> Result<()> {
    match memory::room::<u8>(needed(threads)) {
        Ok(_) => Ok(()),
        Err(e) => Err(refused(threads, e)),
    }
}

/// That so many threads cannot be started.
#[must_use]
pub fn refused(threads: usize, why: impl std::fmt::Display) -> ComputeError {
    let needed = memory::amount(needed(threads) as u64);
    let free = memory::host().free;
    ComputeError::Threads { threads, needed, free, why: why.to_string() }
}
