//! Starting threads where memory may be short.

use voxalign_image::memory;

use crate::error::{ComputeError, Result};

/// The stack of a thread, and what the system and the runtime add to it, bytes.
const STACK: usize = (2 << 20) + (96 << 10);
/// What is left for all else: what other threads ask for while these start, and tables that a thread makes when it begins.
const SPARE: usize = 8 << 20;

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
        Err(_) => Err(error(threads, None)),
    }
}

/// That so many threads cannot be started, as the system says.
#[must_use]
pub fn refused(threads: usize, why: impl std::fmt::Display) -> ComputeError {
    error(threads, Some(why.to_string()))
}

fn error(threads: usize, why: Option<String>) -> ComputeError {
    let free = memory::host().free;
    ComputeError::Threads { threads, needed: needed(threads) as u64, free, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_beyond_all_memory_are_refused_with_words() {
        assert!(check(1).is_ok());
        let said = check(1 << 40).unwrap_err().to_string();
        assert!(said.contains(" TiB of memory"), "{said}");
        let said = refused(2, "try again").to_string();
        assert!(said.starts_with("2 threads could not be started (try again): "), "{said}");
    }
}
