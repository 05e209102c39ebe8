//! Errors of communication between ranks.

use crate::error::ComputeError;

/// The result of operations among ranks.
pub type Result<T> = std::result::Result<T, CommError>;

/// Something that ranks could not do together. Outputs are not to be relied on afterwards.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// Another rank failed and notified the others: see [`Communicator::agree`](super::Communicator::agree).
    #[error("rank {rank} failed: {message}")]
    Peer {
        /// The rank that failed; the lowest, where several did.
        rank: usize,
        /// Its message.
        message: String,
    },
    /// A rank ended while another one waited for it.
    #[error(
        "rank {rank} has ended, but rank {waiting} is still waiting for it in {operation}; its own message says why"
    )]
    Gone {
        /// The rank that has ended.
        rank: usize,
        /// The rank that reports it.
        waiting: usize,
        /// The operation it waited in.
        operation: &'static str,
    },
    /// A rank has ended the run.
    #[error("rank {rank} ended the run with the exit code {code}: {message}")]
    Aborted {
        /// The rank that ended it.
        rank: usize,
        /// The exit code.
        code: u8,
        /// Why.
        message: String,
    },
    /// Ranks ask for different things, where all have to ask for the same.
    #[error("the ranks are not at the same step: {what}; this is a bug in the program")]
    Mismatch {
        /// The operations that the ranks called.
        what: String,
    },
    /// The library of MPI failed.
    #[error("rank {rank} of {size}: {call}: {message}")]
    Mpi {
        /// The rank that reports it.
        rank: usize,
        /// The number of ranks.
        size: usize,
        /// The function that failed.
        call: &'static str,
        /// The message of the library.
        message: String,
    },
    /// Several processes cannot work together here.
    #[error("{0}")]
    Unavailable(String),
    /// An argument whose value has no meaning.
    #[error("rank {rank}: {what} is {value}, but must be {expected}")]
    Argument {
        /// The rank that was given it.
        rank: usize,
        /// The argument.
        what: &'static str,
        /// The value that was given.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A device of this rank failed.
    #[error(transparent)]
    Device(#[from] ComputeError),
}
