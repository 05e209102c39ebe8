//! Two images under an affine map: a [`Level`] brings images and the sums that a
//! [similarity](crate::similarity) is a function of together at one scale, and evaluates many maps at once,
//! with exact derivatives. [`range`](mod@range) finds the ranges that histograms span,
//! [`reference`](mod@reference) is the correlation ratio written plainly, for checks.

pub mod level;
pub mod range;
pub mod reference;

pub use level::{Level, LevelSettings};
