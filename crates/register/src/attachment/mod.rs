//! What pulls: images ([`images`]), and what of them counts ([`moving_mask`]).

pub mod images;
pub mod moving_mask;
