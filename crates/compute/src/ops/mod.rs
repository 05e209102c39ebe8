//! The families of operators: traits with the mathematics in their docs, one file a family.

pub mod filter;
pub mod histogram;
pub mod resample;

pub use filter::Filter;
pub use histogram::Histogram;
pub use resample::Resample;
