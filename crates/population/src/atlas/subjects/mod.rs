//! Subjects before their deformation, and between its steps: where their images come from and how they are prepared, where they are
//! kept.

pub(super) mod away;
pub(super) mod memory;
pub(super) mod prepare;
pub(super) mod source;
pub(super) mod weighted;
