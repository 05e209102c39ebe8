//! The template: the mean of all subjects, with its geometry, its labels and its sharpness.

pub(super) mod conclude;
mod geometry;
pub(super) mod labels;
pub(super) mod measures;
pub(super) mod snapshot;
