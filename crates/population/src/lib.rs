//! Populations of images: streaming operators and atlases.
//!
//! [`stream`] runs operators over any number of images in bounded memory: stages that read, bring to
//! the device, compute, bring back and write overlap as the engines of the machine allow (Ha 2011,
//! chapter 4).
//!
//! [`atlas`] builds the unbiased mean of a population, with the deformation of every subject to it.
//!
//! [`exchange`] is how ranks tell each other facts.
//!
//! # Conventions
//!
//! - A result has the same bits for any number of threads and processes, and for any order of the
//!   images: what is summed over images is summed in fixed point.
//! - Weights of images are relative; they are divided by their sum.

pub mod atlas;
mod error;
pub mod exchange;
pub mod stream;

pub use error::{PopulationError, Result};
