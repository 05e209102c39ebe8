//! Files of voxalign: images, transforms and points.
//!
//! World space is RAS+ millimetres inside the program; what a format says otherwise (LPS in ITK,
//! NRRD and MetaImage, scaled voxels in FSL) is converted at this border and nowhere else.
//! Every read checks sizes before it allocates, every write goes to a temporary name that is
//! renamed when complete, and every error names the file, what is wrong and what helps.
//!
//! ```no_run
//! use voxalign_io::image::{WriteOptions, read_volume_with_info, write_volume};
//! use voxalign_io::transform::{self, Geometry};
//!
//! # fn main() -> voxalign_io::Result<()> {
//! let (fixed, info) = read_volume_with_info("fixed.nii.gz")?;
//! for oddity in &info.oddities {
//!     println!("{oddity}");
//! }
//! let geometry = Geometry { fixed: Some(fixed.grid()), moving: None };
//! let transform = transform::read("moving_to_fixed0GenericAffine.mat", &geometry)?;
//! transform::write("moving_to_fixed.tfm", &transform, &geometry)?;
//! write_volume("copy.nrrd", &fixed, &WriteOptions::default())
//! # }
//! ```

pub mod atomic;
pub mod checksum;
pub mod error;
pub mod gzip;
pub mod image;
pub mod points;
mod source;
pub mod transform;

pub use error::{IoError, Result};
