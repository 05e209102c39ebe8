//! Diffeomorphic registration: deformations that can be undone, and are found by flowing along
//! velocities (Ha 2011, sections 1.3 and 2.2).
//!
//! [`register_deformable`] takes pairs of images ([`DeformInput`]) and [`DeformOptions`], and gives
//! the displacement field and its inverse on the fixed grid with what they do to space
//! ([`DeformResult`]). An example is on the [front page](crate) of this crate.
//!
//! Intensities are calibrated to 0 to 1 first ([`calibrate`]), and the grid is clipped to the common
//! foreground ([`clip`]). Then, at every iteration of every scale ([`multiscale`]), a similarity gives
//! its slope in the values of the warped image ([`channel`], [`similarity`](crate::similarity)), the slope times the image's gradient is
//! the force, a [`solver`] makes a velocity of it, and the field moves along ([`side`]). The models
//! differ in what flows:
//!
//! | [model](DeformModel) | what flows | |
//! |---|---|---|
//! | [`greedy`] | the moving image | the fastest |
//! | [`symmetric`] | both, to a middle | exchanging the images inverts the result |
//! | [`lddmm`] | the moving image, along a path of velocities that is optimised as a whole | the shortest path |
//!
//! At the end [`mend`] smooths where volumes change extremely, and [`measures`] counts folds and how
//! far field and inverse are from undoing each other.
//!
//! Within this module fields are displacements in voxels of their grid, on the device; results are in
//! mm. Beyond the border of its grid a field goes on with its border values; the moving image has
//! its background there, or, where tissue reaches the border, nothing that counts.

pub mod calibrate;
pub mod channel;
pub mod clip;
pub mod greedy;
pub mod lddmm;
pub mod measures;
pub mod mend;
pub mod moving_mask;
pub mod multiscale;
mod options;
mod register;
mod result;
pub mod side;
pub mod solver;
pub mod symmetric;
mod verdict;

pub use options::{ChannelInput, DeformInput, DeformModel, DeformOptions, StepRule};
pub use register::{
    Conclusion, TISSUE, calibrated, check_similarity, check_start, object_of, register_deformable,
    to_world,
};
pub use result::{DeformResult, PathRecord};
pub use verdict::field_checks;
