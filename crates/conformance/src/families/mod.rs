//! The checks, a file or folder a family.

pub(crate) mod accumulate;
pub(crate) mod contexts;
pub(crate) mod elastic;
pub(crate) mod elementwise;
pub(crate) mod filter;
pub(crate) mod flow;
pub(crate) mod fourier;
pub(crate) mod front;
pub(crate) mod histogram;
pub(crate) mod host;
pub(crate) mod joint;
pub(crate) mod pairwise;
pub(crate) mod points;
pub(crate) mod raycast;
pub(crate) mod reduce;
pub(crate) mod regions;
pub(crate) mod resample;
#[cfg(feature = "baselines")]
pub(crate) mod schemes;
pub(crate) mod similarity;
pub(crate) mod simplices;
pub(crate) mod sort;
pub(crate) mod sparse;
pub(crate) mod splat;
pub(crate) mod stencil;
pub(crate) mod team;
pub(crate) mod tetrahedra;
pub(crate) mod turns;
pub(crate) mod values;
pub(crate) mod weights;

pub(crate) use resample::{fields, labels};
