//! Unbiased atlases: the mean image of a population, and the deformation of each subject to it
//! (Joshi et al. 2004; Ha 2011, sections 1.3, 2.3.7 to 2.3.9 and 2.4).
//!
//! All subjects are matched to the template step by step, the template is their mean after each
//! step (Algorithms 4 and 5), and no subject is preferred: [`build`] gives the same bits whatever the
//! order in which images are given, as long as the [source](Source) has them in an order of its own.
//!
//! Sums over images are kept in [fixed point](voxalign_compute::ops::Accumulate).

mod align;
mod build;
mod cohort;
mod labels;
pub mod matching;
mod options;
mod outliers;
mod snapshot;
mod source;
mod verdict;

pub use align::{AlignOptions, Aligned, align};
pub use build::{Atlas, Found, Sink, Times, build, iterate};
pub use labels::{mean_overlap, most_frequent};
pub use options::{AtlasOptions, Sharpness};
pub use outliers::outlying;
pub use snapshot::{Slice, Snapshot};
pub use source::{Images, InMemory, Source, Subject};
pub use verdict::{Judged, judge, root_mean_square};
