//! Rigid, similarity and affine registration: a multi-resolution global search.

pub mod options;
pub mod result;

pub use options::{AffineOptions, Cost, Init, Search, SearchRange};
pub use result::{AffineResult, StageRecord, TracePoint};
pub use options::AffineInput;
