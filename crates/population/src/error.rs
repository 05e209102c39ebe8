//! The errors of this crate.

use std::path::PathBuf;
use thiserror::Error;
use voxalign_compute::ComputeError;
use voxalign_compute::comm::CommError;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;
use voxalign_io::IoError;
use voxalign_options::OptionError;
use voxalign_register::RegisterError;

/// A stop is a stop.
impl From<RegisterError> for PopulationError {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Stopped => Self::Stopped,
            error => Self::Register(error),
        }
    }
}

impl PopulationError {
    /// An option with a value that it cannot have.
    pub fn option(name: &'static str, value: impl ToString, remedy: impl Into<String>) -> Self {
        Self::Option(OptionError::value(name, value, remedy))
    }
}

/// The result of operations on many images.
pub type Result<T> = std::result::Result<T, PopulationError>;

/// Errors of operations on many images.
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
    Register(RegisterError),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] IoError),
    /// A subject with a file that cannot be read, which a study can do without.
    #[error("{}: {what}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The problem, and the remedy.
        what: String,
    },
    /// An image that cannot be read, or is not like the others.
    #[error("{}: {what}", file.display())]
    Input {
        /// Its file.
        file: PathBuf,
        /// The problem, and the remedy.
        what: String,
    },
    /// An image has values that are not finite.
    #[error(
        "'{}': {count} voxel{} NaN or infinite{}",
        file.display(),
        if *.count == 1 { " is" } else { "s are" },
        first.map_or_else(String::new, |at| format!(", the first at {at:?}"))
    )]
    NotFinite {
        /// Its file.
        file: PathBuf,
        /// The number of voxels.
        count: usize,
        /// Indices of the first one, where they are known.
        first: Option<[usize; 3]>,
    },
    /// An image is not on the grid that it must share.
    #[error("'{}': {what} has {found}, '{}' has {expected}", file.display(), other.display())]
    OtherGrid {
        /// The file that the message is about.
        file: PathBuf,
        /// The part of it: `the image`, or `its mask`.
        what: &'static str,
        /// A description of the grid that was found.
        found: String,
        /// The image that sets the grid.
        other: PathBuf,
        /// A description of its grid.
        expected: String,
    },
    /// A registration of an image, or its preparation, failed.
    #[error("'{}': {source}", file.display())]
    Subject {
        /// The file of the image.
        file: PathBuf,
        /// Why.
        source: Box<RegisterError>,
    },
    /// An affine transform that has no logarithm, so that no mean can be taken with it.
    #[error(
        "'{}': its affine transform to the mean of all subjects mirrors it, or rotates it by 180 degrees: check \
         the image and the orientation in its header",
        file.display()
    )]
    Mirrored {
        /// The file of the image.
        file: PathBuf,
    },
    /// A checkpoint of another run.
    #[error(
        "'{}': this checkpoint is from a run with different images or options, or from another version of the program",
        path.display()
    )]
    OtherCheckpoint {
        /// The checkpoint.
        path: PathBuf,
    },
    /// A checkpoint that was made on another kind of device.
    #[error(
        "'{}': this checkpoint was made on the device '{made}', but this run computes on '{here}', which would \
         give slightly different results",
        path.display()
    )]
    OtherDevice {
        /// The checkpoint.
        path: PathBuf,
        /// The kind of device that it was made on, such as `cpu`.
        made: String,
        /// That of this run.
        here: String,
    },
    /// A checkpoint that is damaged, and that nothing can stand in for.
    #[error("'{}': {what}", path.display())]
    Damaged {
        /// The checkpoint, or a file of it.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// Images that do not make a set.
    #[error("{found}; {remedy}")]
    Images {
        /// The problem found.
        found: String,
        /// The remedy.
        remedy: String,
    },
    /// An option has a value that cannot be used.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A message between ranks, or saved state of a run, cannot be decoded.
    #[error("a message between the processes of this run cannot be read: {0}")]
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
