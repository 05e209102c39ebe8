//! Similarities of two images under an affine map, with their exact derivatives.
//!
//! [`cost`] holds the formulas: functions of the sums that the `histogram` operators give, with
//! their derivatives in those sums. [`level`] brings images and sums together at one scale.

pub mod cost;
pub mod level;
pub mod range;
pub mod reference;

pub use cost::Cost;
pub use level::{Evaluation, Level, LevelSettings};
