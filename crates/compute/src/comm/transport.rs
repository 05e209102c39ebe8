//! The interface of transports: what moves bytes and sums between ranks.

use super::error::{CommError, Result};
use std::fmt::Debug;
use std::time::Instant;

/// How the numbers of the ranks become one. All of it is exact, so that neither the order of the
/// ranks nor their number matters; sums that leave the range of `i64` wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    /// The sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl Combine {
    /// Two numbers as one.
    #[must_use]
    pub fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Self::Sum => a.wrapping_add(b),
            Self::Max => a.max(b),
            Self::Min => a.min(b),
        }
    }
}

/// A way to connect ranks. [`Communicator`](super::Communicator) is built on one, and sees to it
/// that roots are ranks and that buffers which have to be equally long are.
///
/// All ranks have to make the same calls in the same order; each returns once this rank has what it
/// needs, or with an error if that cannot come any more.
pub trait Transport: Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// A description of the transport and of where this rank is.
    fn name(&self) -> String;

    /// Combines the numbers of all ranks, place by place; all get the result.
    ///
    /// # Errors
    /// [`CommError`], as for all that follow.
    fn reduce(&self, values: &mut [i64], combine: Combine) -> Result<()>;

    /// Gives the bytes of `root` to all, which have room for as many.
    ///
    /// # Errors
    /// [`CommError`].
    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()>;

    /// The blocks of all ranks, in their order; they may differ in length.
    ///
    /// # Errors
    /// [`CommError`].
    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// The blocks of all ranks, in their order, at `root`; nothing at the others.
    ///
    /// # Errors
    /// [`CommError`].
    fn gather(&self, block: &[u8], root: usize) -> Result<Option<Vec<Vec<u8>>>>;

    /// Gives a block of bytes to each rank, in their order, and returns those that this rank gets, in the order of the ranks that they are from.
    /// Blocks may differ in length, and are there for each rank.
    ///
    /// # Errors
    /// [`CommError`].
    fn all_to_all(&self, blocks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>>;

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// [`CommError`].
    fn barrier(&self) -> Result<()>;

    /// A way to connect the first `count` ranks alone, at each of them; nothing at the others. All ranks
    /// call it.
    ///
    /// # Errors
    /// [`CommError`].
    fn first(&self, count: usize) -> Result<Option<Box<dyn Transport>>>;

    /// Ends the run of all ranks. Where ranks are processes this does not return, and `message` has
    /// to be shown before, as the others are ended without a word; where they are threads, the
    /// others find it in their errors.
    fn abort(&self, code: u8, message: &str) -> CommError;

    /// Says that this rank is done. Nothing can be asked for afterwards.
    ///
    /// # Errors
    /// [`CommError`].
    fn finish(&self) -> Result<()>;

    /// Notes an operation that ranks did by themselves: when this rank came to it, when all were there, and when it was done.
    fn note(&self, name: &'static str, bytes: u64, times: [Instant; 3]) {
        let _ = (name, bytes, times);
    }
}
