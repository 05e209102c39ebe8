//! Similarities of two images under an affine map, with their exact derivatives.
//!
//! [`cost`] holds the formulas: functions of the sums that the
//! [`Histogram`](voxalign_compute::ops::Histogram) operators give, with their derivatives in those
//! sums. [`Level`] brings images and sums together at one scale and evaluates many affine maps at
//! once. [`range`](mod@range) finds the ranges that histograms span, [`reference`](mod@reference) is
//! the correlation ratio written plainly, for checks.
//!
//! The similarities of deformable registration are energies with a slope in every voxel; they are in
//! [`diffeo::channel`](crate::diffeo::channel).

pub mod cost;
pub mod level;
pub mod range;
pub mod reference;

pub use cost::{Cost, CostSums};
pub use level::{Evaluation, Level, LevelSettings};
