//! Diffeomorphic registration: invertible deformations found by integrating velocity fields (Ha 2011, sections
//! 1.3 and 2.2).
//!
//! [`register_deformable`] takes pairs of images ([`DeformInput`]) and [`Matching`], and gives
//! the displacement field and its inverse with what they do to space
//! ([`DeformResult`]). An example is on the [front page](crate) of this crate.
//!
//! Intensities are calibrated to 0 to 1 first ([`calibrate`]), and the grid is clipped to the common
//! foreground ([`clip`]). Then, at every iteration of every scale ([`multiscale`](crate::multiscale)), what
//! pulls ([`attachment`](crate::attachment)) gives its derivative: a [similarity](mod@crate::similarity) its derivative
//! in the values of the warped image, which times the image's gradient is the force, and landmarks
//! covectors. A [`solver`](crate::model::solver) makes a velocity of it, and the field moves along, as the
//! [`model`](crate::model) says: greedy steps are the fastest, exchanging the images inverts what the
//! symmetric model finds, and LDDMM finds the shortest path.
//!
//! At the end [`mend`](crate::model::mend) smooths where volumes change extremely, and
//! [`measures`](crate::measures) counts folds and how far field and inverse are from undoing each other.
//!
//! Within this module fields are displacements in voxels of their grid, on the device; results are in
//! mm. Beyond the border of its grid a field goes on with its border values; the moving image has
//! its background there, or, where tissue reaches the border, nothing that counts.

pub mod calibrate;
pub mod clip;
mod elastic;
mod evidence;
mod input;
mod pair;
mod part;
mod prepared;
mod register;
mod result;
mod slices;
mod suited;
mod verdict;

pub use crate::model::{
    DeformModel, Flow, Greedy, Lddmm, Matching, Multiscale, PathRecord, StepRule, Symmetric,
};
pub use elastic::{ElasticSetting, register_elastic};
pub use evidence::{DeformationEvidence, energy_allowed, information_asked};
pub use input::{ChannelInput, DeformInput, Intensities, Preparation, ShapeInput};
pub use part::{TISSUE, as_it_is, calibrated};
pub use prepared::{Parts, PreparedPair};
pub use register::{
    Conclusion, check_similarity, check_start, object_of, register_deformable, to_world,
};
pub use result::DeformResult;
pub use slices::{
    SliceEvidence, SliceInput, SliceResult, SlicesEvidence, SlicesInput, SlicesResult,
    check_slices, register_slices,
};
pub use suited::Suited;
pub use verdict::field_checks;
