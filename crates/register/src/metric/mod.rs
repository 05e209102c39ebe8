//! Two images under an affine map: a [`Level`] computes the sums behind a [similarity](crate::similarity) at
//! one scale and evaluates many maps at once, with exact derivatives. [`range`](mod@range) finds the intensity
//! ranges of histograms, [`reference`](mod@reference) is a plain correlation ratio for checks.

pub mod level;
pub mod range;
pub mod reference;

pub(crate) use level::to_world;
pub use level::{Level, LevelSettings};
