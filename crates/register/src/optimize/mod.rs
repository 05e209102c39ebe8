//! Optimisers that are asked for the next point and told its value, so that many searches can be
//! evaluated together.

mod bfgs;

pub use bfgs::{Bfgs, BfgsSettings};
