//! Registration of one pair of images.
//!
//! A registration is made of orthogonal parts: a similarity ([`metric`]), a transform model with
//! its schedule of scales ([`linear`]) and an optimiser ([`optimize`]). What a registration says of
//! itself at the end is its [`verdict`].

pub mod choice;
pub mod compare;
pub mod diffeo;
pub mod error;
pub mod fields;
pub mod linear;
pub mod metric;
pub mod optimize;
pub mod progress;
pub mod resample;
pub mod scores;
pub mod verdict;

pub use choice::Choice;
pub use error::{RegisterError, Result};
pub use progress::{Event, Progress, Silent};
pub use verdict::{Check, Verdict};
