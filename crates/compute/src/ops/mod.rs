//! The families of operators: traits with the mathematics in their docs, one file a family.

pub mod elastic;
pub mod elementwise;
pub mod expression;
pub mod filter;
pub mod flow;
pub mod fourier;
pub(crate) mod functions;
pub mod histogram;
pub(crate) mod linear;
pub mod reduce;
pub mod resample;
pub mod similarity;
pub mod sort;
pub mod stencil;

pub use elastic::Elastic;
pub use elementwise::Elementwise;
pub use filter::Filter;
pub use flow::Flow;
pub use fourier::Fourier;
pub use histogram::Histogram;
pub use reduce::Reduce;
pub use resample::Resample;
pub use similarity::Similarity;
pub use sort::{Sort, SortKey};
pub use stencil::Stencil;
