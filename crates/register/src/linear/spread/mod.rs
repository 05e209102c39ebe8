//! Affine registration of images that no single device has to hold, by an exact joint histogram.
//!
//! Whole images are searched at the scale of about a million pixels (volumes: two), by [`register_affine`](super::register_affine) at the first rank. Its
//! result is refined scale by scale up to full resolution, where pixels are [spread over ranks](crate::search::distributed): a
//! [`SpreadObjective`] counts them in whole numbers, so that the path of the optimiser and the result have the same bits for any number of
//! ranks, any strategy, and any way to cut images.
//!
//! Nothing takes a whole image of a finer scale: ranges of values come from exact counts over all ranks, and the evidence for the verdict is
//! that of the coarse scale, under the map of the finest one.

mod held;
mod objective;
mod options;
mod placed;
mod ranges;
mod register;
mod scales;
mod source;
mod supply;
#[cfg(test)]
mod tests;

pub use objective::SpreadObjective;
pub use options::{Placement, SpreadMemory, SpreadOptions, SpreadResult, SpreadScale};
pub use placed::check_memory;
pub use register::{CoarseImages, SpreadInput, coarse_images, register_spread};
pub use source::{ImageBlocks, PixelBlock};
