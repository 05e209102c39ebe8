//! Files of voxalign: images, transforms and points.
//!
//! World space is RAS+ millimetres inside the program; what a format says otherwise (LPS in ITK,
//! NRRD and MetaImage, scaled voxels in FSL) is converted at this border and nowhere else.
//! Every read checks sizes before it allocates, every write goes to a temporary name that is
//! renamed when complete, and every error names the file, what is wrong and what helps.

pub mod atomic;
pub mod checksum;
pub mod error;
pub mod gzip;
pub mod image;
pub mod points;
mod source;
pub mod transform;

pub use error::{IoError, Result};
