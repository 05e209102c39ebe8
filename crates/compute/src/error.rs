//! Errors of devices.

use crate::Dims;
use voxalign_image::memory::{OutOfMemory, amount};

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, ComputeError>;

/// An operation that could not be done. Nothing of the output is to be relied on afterwards.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// A buffer whose length does not match its sizes.
    #[error("{what}: expected {expected} elements, found {found}")]
    Length {
        /// The argument.
        what: &'static str,
        /// The length that the other arguments ask for.
        expected: usize,
        /// The length that was given.
        found: usize,
    },
    /// A grid without voxels, or one whose number of voxels does not fit the machine.
    #[error(
        "{what}: sizes {dims:?} do not make a grid; each must be at least 1 and their product must fit in memory"
    )]
    Dims {
        /// The argument.
        what: &'static str,
        /// The sizes that were given.
        dims: Dims,
    },
    /// An argument whose value has no meaning for the operation.
    #[error("{what} is {value}, but must be {expected}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// The value that was given.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The device has not the memory that was asked for.
    #[error(
        "{device}: out of memory: {}{}; use smaller images, or free some of that memory",
        asked_text(*bytes),
        free_text(.free)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// The size of the request, in bytes (saturated if it does not fit); 0 if it was an internal one of the
        /// driver or of a library, whose size is unknown.
        bytes: u64,
        /// The memory that was free, in bytes, if the device knows.
        free: Option<u64>,
    },
    /// The device has not the memory for a copy of a volume that its texture units read.
    #[error(
        "{device}: out of memory: {} were requested for a copy of the volume for the texture units{}; use rays \
         that need none (trilinear without texture units, Siddon or Joseph), or free some of that memory",
        amount(*bytes),
        free_text(.free)
    )]
    TextureMemory {
        /// The device.
        device: String,
        /// The size of the copy, in bytes.
        bytes: u64,
        /// The memory that was free, in bytes, if the device knows.
        free: Option<u64>,
    },
    /// The threads of the CPU cannot be started.
    #[error(
        "{threads} threads could not be started{}: their stacks need {} of memory{}; use fewer threads, or \
         allow more memory",
        why.as_ref().map_or_else(String::new, |why| format!(" ({why})")),
        amount(*needed),
        free.map_or_else(String::new, |free| format!(", and {} are free", amount(free)))
    )]
    Threads {
        /// The number of threads.
        threads: usize,
        /// The memory for them, in bytes.
        needed: u64,
        /// The memory that was free, in bytes, if the system reports it.
        free: Option<u64>,
        /// The system's message, if there was one.
        why: Option<String>,
    },
    /// A backend that cannot be used on this machine.
    #[error("{backend} cannot be used: {reason}")]
    Unavailable {
        /// The backend.
        backend: &'static str,
        /// What is missing, and how to get it.
        reason: String,
    },
    /// The device cannot do what was asked for.
    #[error("{device}: {what} is not supported; {remedy}")]
    Unsupported {
        /// The device.
        device: String,
        /// The unsupported request.
        what: String,
        /// The alternative.
        remedy: &'static str,
    },
    /// The device or its driver failed.
    #[error("{device}: {message}")]
    Backend {
        /// The device.
        device: String,
        /// The message of the device or its driver.
        message: String,
    },
}

fn asked_text(bytes: u64) -> String {
    match bytes {
        0 => "the driver or a library requested more than there is".into(),
        _ => format!("{} were requested", amount(bytes)),
    }
}

fn free_text(free: &Option<u64>) -> String {
    free.map_or_else(String::new, |bytes| format!(", {} are free", amount(bytes)))
}

impl From<OutOfMemory> for ComputeError {
    /// Memory of the host.
    fn from(refused: OutOfMemory) -> Self {
        Self::OutOfMemory { device: "cpu".into(), bytes: refused.bytes, free: refused.free }
    }
}

impl ComputeError {
    /// An argument whose value has no meaning.
    pub fn argument(
        what: &'static str,
        value: impl std::fmt::Display,
        expected: &'static str,
    ) -> Self {
        Self::Argument { what, value: value.to_string(), expected }
    }
}

/// Checks that a buffer has the length that the other arguments ask for.
///
/// # Errors
/// [`ComputeError::Length`] if it has not.
pub fn check_len(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(ComputeError::Length { what, expected, found }) }
}

/// Checks that a buffer of `len` elements has so many from one on.
///
/// # Errors
/// [`ComputeError::Length`] if it has not.
pub fn check_part(len: usize, first: usize, count: usize) -> Result<()> {
    let found = len.saturating_sub(first);
    match count <= found && first <= len {
        true => Ok(()),
        false => Err(ComputeError::Length { what: "a part of a buffer", expected: count, found }),
    }
}

/// The number of voxels of a grid.
///
/// # Errors
/// [`ComputeError::Dims`] if a size is zero or the product does not fit.
pub fn voxels(what: &'static str, dims: Dims) -> Result<usize> {
    dims.iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|&n| n > 0 && n <= isize::MAX as usize / 32)
        .ok_or(ComputeError::Dims { what, dims })
}
