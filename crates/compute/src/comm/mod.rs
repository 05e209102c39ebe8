//! Communication between the processes and devices that share the images of a population.
//!
//! Work is shared in two levels (Ha 2011, section 2.3.8 and figure 2.11): ranks, which are processes
//! on any number of machines, and the devices of each rank. A [`Communicator`] connects ranks; a
//! [`Team`] is the devices of this rank with those of the others, and sums over both: within the rank
//! first, then between ranks. [`balance`] says who takes which images, and how many machines pay.
//!
//! # The same bits
//!
//! What is summed over ranks are integers (fixed point), what is compared is compared in one total
//! order: a result does not depend on the number of ranks, nor on which of them had which image.
//!
//! # Faults
//!
//! No rank waits for one that has failed. A failure that a rank can tell of, such as a file that it
//! cannot read, goes through [`Communicator::agree`]: all ranks see it. A rank that ends without a
//! word ends the wait of the others: where ranks are threads by [`CommError::Gone`], where they are
//! processes as the launcher (`mpirun`, `srun`) ends the job. Where a rank can do nothing but stop,
//! it says so by [`Communicator::abort`].
//!
//! # Example
//!
//! ```
//! use voxalign_compute::comm::{CommError, Communicator};
//!
//! /// The mean of numbers that ranks have in parts, in fixed point.
//! fn mean(ranks: &Communicator, own: &[f64]) -> Result<f64, CommError> {
//!     const ONE: f64 = 65536.0;
//!     let sum = own.iter().map(|v| (v * ONE).round() as i64).sum();
//!     let mut sums = [sum, own.len() as i64];
//!     ranks.all_reduce_sum(&mut sums)?;
//!     Ok(sums[0] as f64 / ONE / sums[1] as f64)
//! }
//!
//! let alone = mean(&Communicator::single(), &[1.0, 2.5, 4.0, 0.125])?;
//! let parts: [&[f64]; 2] = [&[1.0], &[2.5, 4.0, 0.125]];
//! let together = std::thread::scope(|scope| {
//!     let ranks = Communicator::local(2).into_iter().zip(parts);
//!     let threads: Vec<_> = ranks.map(|(rank, own)| scope.spawn(move || mean(&rank, own))).collect();
//!     threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
//! });
//! assert_eq!(together, [Ok(alone), Ok(alone)]);
//! # Ok::<(), CommError>(())
//! ```

pub mod balance;
mod clocked;
mod error;
mod launch;
mod local;
#[cfg(feature = "mpi")]
mod mpi;
mod shared;
mod single;
mod sums;
mod team;
mod transport;
mod value;

pub use clocked::{Clock, Operation};
pub use error::{CommError, Result};
pub use launch::Launch;
pub use shared::Segment;
pub(crate) use sums::check_buffers;
pub use sums::{DeviceSums, HostSums};
pub use team::{Member, Team};
pub use transport::{Combine, Transport};
pub use value::Value;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of numbers that are converted at a time.
const PIECE: usize = 1 << 22;

/// The ranks that work together, seen from one of them. A clone is the same rank.
///
/// All ranks have to make the same calls in the same order.
#[derive(Debug, Clone)]
pub struct Communicator(Arc<dyn Transport>);

impl Communicator {
    /// One process on its own.
    #[must_use]
    pub fn single() -> Self {
        Self::over(single::Single)
    }

    /// `size` ranks for as many threads of this process; the least is 1. A rank whose communicator
    /// is dropped has ended.
    #[must_use]
    pub fn local(size: usize) -> Vec<Self> {
        local::Local::group(size.max(1)).into_iter().map(Self::over).collect()
    }

    /// The processes that this one was started with by `mpirun` or `srun`; one process if it was
    /// started on its own. Every call gives the same.
    ///
    /// # Errors
    /// [`CommError::Unavailable`] if there are several processes and this program is built without
    /// the feature `mpi`; what the library of MPI says.
    pub fn world() -> Result<Self> {
        match Launch::of_this_process() {
            None => Ok(Self::single()),
            #[cfg(feature = "mpi")]
            Some(_) => mpi::world(),
            #[cfg(not(feature = "mpi"))]
            Some(launch) if launch.size == Some(1) => Ok(Self::single()),
            #[cfg(not(feature = "mpi"))]
            Some(launch) => Err(CommError::Unavailable(launch.needs_mpi())),
        }
    }

    /// The ranks that a transport connects.
    pub fn over(transport: impl Transport + 'static) -> Self {
        Self(Arc::new(transport))
    }

    /// The number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.rank()
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// A description of the transport and of where this rank is.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Whether this is the rank that prints and writes, number 0.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The sums over all ranks, place by place; all ranks get them. Exact: fixed-point numbers have
    /// the same sum for any number of ranks. A sum that leaves the range of `i64` wraps around, so
    /// the point has to leave room for as many numbers as are added.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if the ranks have different numbers of them; a rank that is gone; what
    /// MPI says.
    pub fn all_reduce_sum(&self, values: &mut [i64]) -> Result<()> {
        self.same_length("a sum", values.len())?;
        self.0.reduce(values, Combine::Sum)
    }

    /// The largest of the numbers of all ranks, place by place; −0 is below 0. Not a number, if one
    /// of them is not.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    pub fn all_reduce_max(&self, values: &mut [f64]) -> Result<()> {
        self.extremes(values, Combine::Max, i64::MAX)
    }

    /// The smallest of the numbers of all ranks, place by place; −0 is below 0. Not a number, if one
    /// of them is not.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    pub fn all_reduce_min(&self, values: &mut [f64]) -> Result<()> {
        self.extremes(values, Combine::Min, i64::MIN)
    }

    fn extremes(&self, values: &mut [f64], combine: Combine, nan: i64) -> Result<()> {
        self.same_length("a maximum or minimum", values.len())?;
        let mut keys: Vec<i64> = values.iter().map(|&v| value::ordered(v, nan)).collect();
        self.0.reduce(&mut keys, combine)?;
        for (value, key) in values.iter_mut().zip(keys) {
            *value = value::from_ordered(key);
        }
        Ok(())
    }

    /// Gives the numbers of `root` to all ranks, which have room for as many.
    ///
    /// # Errors
    /// [`CommError::Argument`] if there is no such rank; else as [`all_reduce_sum`](Self::all_reduce_sum).
    pub fn broadcast<T: Value>(&self, values: &mut [T], root: usize) -> Result<()> {
        self.check_root(root)?;
        self.same_length("a broadcast", values.len())?;
        if self.size() == 1 {
            return Ok(());
        }
        // In pieces, so that large images take little memory beside themselves.
        let piece = PIECE / T::BYTES;
        let mut bytes = vec![0; piece.min(values.len()) * T::BYTES];
        for values in values.chunks_mut(piece) {
            let bytes = &mut bytes[..values.len() * T::BYTES];
            if self.rank() == root {
                value::put_all(values, bytes);
            }
            self.0.broadcast(bytes, root)?;
            if self.rank() != root {
                for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
                    *value = T::get(bytes);
                }
            }
        }
        Ok(())
    }

    /// Gives the bytes of `root` to all ranks, whatever these hold and however long it is.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn broadcast_bytes(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        self.check_root(root)?;
        let mut len = [bytes.len() as u64];
        self.broadcast(&mut len, root)?;
        if self.rank() != root {
            bytes.clear();
            bytes.resize(len[0] as usize, 0);
        }
        self.0.broadcast(bytes, root)
    }

    /// The blocks of all ranks, in their order, at `root`, and nothing at the others. They may differ in length.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn gather<T: Value>(&self, block: &[T], root: usize) -> Result<Option<Vec<Vec<T>>>> {
        self.check_root(root)?;
        let blocks = self.0.gather(&value::to_bytes(block), root)?;
        blocks.map(|blocks| self.numbers(&blocks)).transpose()
    }

    /// The blocks of all ranks, in their order, at every rank. They may differ in length.
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    pub fn all_gather<T: Value>(&self, block: &[T]) -> Result<Vec<Vec<T>>> {
        self.numbers(&self.0.all_gather(&value::to_bytes(block))?)
    }

    fn numbers<T: Value>(&self, blocks: &[Vec<u8>]) -> Result<Vec<Vec<T>>> {
        let numbers = |(rank, block): (usize, &Vec<u8>)| {
            value::from_bytes(block).ok_or_else(|| CommError::Mismatch {
                what: format!(
                    "rank {rank} sends {} bytes, rank {} expects numbers of {} bytes",
                    block.len(),
                    self.rank(),
                    T::BYTES
                ),
            })
        };
        blocks.iter().enumerate().map(numbers).collect()
    }

    /// Gives a block of bytes to each rank, in their order, and returns those that this rank gets, in the order of the ranks that they are from. Blocks
    /// may differ in length, be empty, and be longer than what a call of MPI counts.
    ///
    /// # Errors
    /// [`CommError::Argument`], at every rank, if one does not have a block for each rank; a rank that is gone; what MPI says.
    pub fn all_to_all(&self, blocks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let mut odd = [i64::from(blocks.len() != self.size())];
        self.0.reduce(&mut odd, Combine::Max)?;
        if odd[0] == 0 {
            return self.0.all_to_all(blocks);
        }
        Err(CommError::Argument {
            rank: self.rank(),
            what: "the number of blocks to be exchanged",
            value: blocks.len().to_string(),
            expected: "that of ranks, at every rank",
        })
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// A rank that is gone; what MPI says.
    pub fn barrier(&self) -> Result<()> {
        self.0.barrier()
    }

    /// The result of this rank, if no rank has failed; else the failure of the lowest rank that has: that rank gets
    /// its own error back, the others [`CommError::Peer`] with its message. No rank thus goes on to wait for one
    /// that will not come.
    ///
    /// ```
    /// # use voxalign_compute::comm::{CommError, Communicator};
    /// # fn read(_: &str) -> Result<Vec<f32>, CommError> { Ok(vec![]) }
    /// # let ranks = Communicator::single();
    /// let image = ranks.agree(read("head.nii"))?;
    /// # Ok::<(), CommError>(())
    /// ```
    ///
    /// # Errors
    /// The failure, at every rank; or that of the ranks to hear from each other.
    pub fn agree<T, E>(&self, result: std::result::Result<T, E>) -> std::result::Result<T, E>
    where
        E: Display + From<CommError>,
    {
        if self.size() == 1 {
            return result;
        }
        const NONE: i64 = i64::MAX;
        let mut failed = [if result.is_ok() { NONE } else { self.rank() as i64 }];
        if let Err(error) = self.0.reduce(&mut failed, Combine::Min) {
            // What this rank has to say itself tells more.
            return result.and(Err(error.into()));
        }
        if failed[0] == NONE {
            return result;
        }
        let rank = failed[0] as usize;
        let mut message = match &result {
            Err(error) if rank == self.rank() => error.to_string().into_bytes(),
            _ => Vec::new(),
        };
        let told = self.broadcast_bytes(&mut message, rank);
        if rank == self.rank() {
            return result;
        }
        told?;
        let message = String::from_utf8_lossy(&message).into_owned();
        Err(CommError::Peer { rank, message }.into())
    }

    /// The first `count` ranks among themselves, at each of them; nothing at the others. All ranks call it.
    ///
    /// # Errors
    /// [`CommError::Argument`] if there are not so many; what MPI says.
    pub fn first(&self, count: usize) -> Result<Option<Self>> {
        if !(1..=self.size()).contains(&count) {
            return Err(CommError::Argument {
                rank: self.rank(),
                what: "the number of ranks",
                value: count.to_string(),
                expected: "at least 1, and at most that of all",
            });
        }
        if count == self.size() {
            return Ok(Some(self.clone()));
        }
        Ok(self.0.first(count)?.map(|transport| Self(Arc::from(transport))))
    }

    /// Ends the run of all ranks, for a failure that the others do not know of. Where ranks are
    /// processes this does not return, and the program has to have shown `message` before; where
    /// they are threads, the others find it in their errors.
    #[must_use]
    pub fn abort(&self, code: u8, message: &str) -> CommError {
        self.0.abort(code, message)
    }

    /// Says that this rank is done; processes have to before they end, and wait here for the others.
    /// Not for a rank that fails: the launcher takes one that ends without this for what it is.
    ///
    /// # Errors
    /// What MPI says.
    pub fn finish(&self) -> Result<()> {
        self.0.finish()
    }

    /// Notes an operation that ranks did by themselves, in memory that they share, where this is one with a clock: when this rank came to it, when all were
    /// there, and when it was done.
    pub fn note(&self, name: &'static str, bytes: u64, times: [Instant; 3]) {
        self.0.note(name, bytes, times);
    }

    fn check_root(&self, root: usize) -> Result<()> {
        if root < self.size() {
            return Ok(());
        }
        Err(CommError::Argument {
            rank: self.rank(),
            what: "the root",
            value: root.to_string(),
            expected: "the number of a rank, below that of all",
        })
    }

    /// Refuses buffers of different lengths, in which a library could wait for ever.
    fn same_length(&self, operation: &str, len: usize) -> Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        let len = len as i64;
        let mut bounds = [len, -len];
        self.0.reduce(&mut bounds, Combine::Max)?;
        let [most, least] = [bounds[0], -bounds[1]];
        if most == least {
            return Ok(());
        }
        let what = format!("in {operation} some have {most} numbers, others {least}");
        Err(CommError::Mismatch { what })
    }
}

#[cfg(test)]
mod tests;
