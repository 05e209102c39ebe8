//! Artificial memory limits of a device, for tests of allocation failures.

use super::transfers::Moved;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// The memory that a device gives out. All of it, unless a test says otherwise: allocation failures can then be
/// tested on small images, and without a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryLimit {
    /// All that the device has.
    #[default]
    Device,
    /// At most this many bytes of buffers at once.
    Bytes(u64),
    /// This many more requests, and then none.
    Requests(u64),
}

impl MemoryLimit {
    /// Whether a request is met where there are buffers of `live` bytes; else the bytes that are free.
    pub(in crate::cuda) fn grant(&mut self, bytes: u64, live: u64) -> Result<(), u64> {
        match self {
            Self::Device => Ok(()),
            Self::Bytes(most) => {
                let free = most.saturating_sub(live);
                if bytes <= free { Ok(()) } else { Err(free) }
            }
            Self::Requests(0) => Err(0),
            Self::Requests(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

/// The memory use of a handle and its queues together.
#[derive(Debug, Default)]
pub(in crate::cuda) struct Ledger {
    pub(in crate::cuda) limit: Mutex<MemoryLimit>,
    /// Bytes of the buffers that there are now.
    pub(in crate::cuda) live: AtomicU64,
    /// The most bytes that there were at once.
    pub(in crate::cuda) peak: AtomicU64,
    /// The number of buffers made.
    pub(in crate::cuda) allocations: AtomicU64,
    /// The work so far, as in [`WorkStatistics`](super::WorkStatistics).
    pub(in crate::cuda) launches: AtomicU64,
    pub(in crate::cuda) clears: AtomicU64,
    pub(in crate::cuda) uploads: AtomicU64,
    pub(in crate::cuda) downloads: AtomicU64,
    pub(in crate::cuda) arrivals: AtomicU64,
    pub(in crate::cuda) moved: Moved,
}
