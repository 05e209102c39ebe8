//! The errors of this crate.

use std::path::PathBuf;
use thiserror::Error;
use voxalign_compute::ComputeError;
use voxalign_compute::comm::CommError;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;
use voxalign_io::IoError;
use voxalign_register::RegisterError;

/// The result of what is done with many images.
pub type Result<T> = std::result::Result<T, PopulationError>;

/// What can go wrong with many images.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PopulationError {
    /// Geometry that cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Ranks or devices that work together.
    #[error(transparent)]
    Ranks(#[from] CommError),
    /// An operator failed.
    #[error(transparent)]
    Compute(#[from] ComputeError),
    /// A registration failed.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] IoError),
    /// An image that cannot be read, or is not like the others.
    #[error("{}: {what}", file.display())]
    Input {
        /// Its file.
        file: PathBuf,
        /// What is wrong with it, and what would help.
        what: String,
    },
    /// An option has a value that cannot be used.
    #[error("{option} cannot be {value}: {remedy}")]
    Option {
        /// Name of the option; that of the command line without its dashes.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        remedy: String,
    },
    /// Facts that ranks tell each other, or that a run keeps, are not what they should be.
    #[error("what the processes of this run tell each other cannot be read: {0}")]
    Exchange(String),
    /// The listener asked to stop.
    #[error("stopped")]
    Stopped,
}

impl From<OutOfMemory> for PopulationError {
    fn from(refused: OutOfMemory) -> Self {
        Self::Image(refused.into())
    }
}
