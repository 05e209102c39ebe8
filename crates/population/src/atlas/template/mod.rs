//! What is made of all subjects: the template with its geometry, its labels, and how sharp it is.

pub(super) mod conclude;
mod geometry;
pub(super) mod labels;
pub(super) mod measures;
pub(super) mod snapshot;
