//! Subjects before their deformation and between its steps: the source of their images, their preparation, and
//! where they are kept.

pub(super) mod away;
pub(super) mod memory;
pub(super) mod prepare;
pub(super) mod source;
pub(super) mod weighted;
