//! Rigid, similarity and affine registration: a multi-resolution global search.
//!
//! [`register_affine`] runs the four stages of FLIRT (Jenkinson and Smith 2001, Jenkinson et al.
//! 2002), as described in section 2.2 of Li et al. (2015): at 8 mm all rotations in steps of 60
//! degrees with a local search each, then in steps of 18 degrees with one evaluation each, the best
//! local minima refined with 7 degrees of freedom; at 4 mm the best of them with their neighbours; at
//! 2 mm 7, 9 and 12 degrees of freedom; at 1 mm 12. Where FLIRT has Powell's method, derivatives
//! lead by default ([`optimiser`](mod@crate::search::optimiser)).
//!
//! [`AffineInput`] borrows the images, [`AffineOptions`] has the degrees of freedom, the similarity
//! ([`Similarity`](crate::similarity::Similarity)), the start ([`Init`]) and how far to search ([`Search`]); [`AffineResult`] the map from
//! fixed to moving world, costs, stages and the verdict. An example is on the
//! [front page](crate) of this crate.
//!
//! A 2D image has its flat axis last; fixed and moving are both 2D or both 3D.

mod candidates;
mod held;
mod input;
mod levels;
mod moments;
mod options;
mod plan;
mod prepare;
mod prepared;
mod problem;
mod pyramid;
mod register;
mod rescue;
mod result;
mod rotations;
mod scales;
pub mod spread;
mod stages;
mod start;
mod thinned;
mod verdict;
mod walk;

pub use input::DeviceInput;
pub use options::{
    AffineInput, AffineOptions, AngleSteps, Angles, FullSearch, Init, Rescue, Search, SearchRange,
};
pub use prepared::PreparedFixed;
pub use pyramid::see;
pub use register::{register_affine, register_affine_on_device};
pub use result::{AffineResult, Attempt};
pub use verdict::AGREEMENT_CHECK;
