//! Starting of threads where memory may be short.

use voxalign_image::memory;

use crate::error::{ComputeError, Result};

/// Checks that there is memory for the stacks of this many threads. A thread that lacks the memory that the runtime
/// needs besides its stack aborts the program, so it must not be started.
///
/// # Errors
/// [`ComputeError::Threads`].
pub fn check(threads: usize) -> Result<()> {
    memory::for_threads(threads).map_err(|_| error(threads, None))
}

/// The error that this many threads cannot be started, with the reason given by the system.
#[must_use]
pub fn refused(threads: usize, why: impl std::fmt::Display) -> ComputeError {
    error(threads, Some(why.to_string()))
}

fn error(threads: usize, why: Option<String>) -> ComputeError {
    let free = memory::host().free;
    let needed = memory::needed_by_threads(threads) as u64;
    ComputeError::Threads { threads, needed, free, why }
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
