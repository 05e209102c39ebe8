//! Evidence for an alignment from the two images, independent of the cost that found it.
//!
//! A cost that was optimised is low at the end of any search, also of images that have nothing in common. Evidence
//! does not know the cost: it is measured at one scale, on both images together, and compared with what the same
//! images give under other alignments, which is what chance gives for them:
//!
//! - **edges**: how far the gradients of both images lie in one line where either image has an edge. With the
//!   gradients `f` and `m` it is `sum (f.m)^2 / |f||m| / sqrt(sum |f|^2 sum |m|^2)`, 0 to 1, for any relation of
//!   intensities (after Haber and Modersitzki 2006).
//! - **information** that each image has of the other in the whole overlap, as a part of the smaller entropy.
//! - **tissue**: the information, in nats, within what is foreground in both (Otsu 1979): an outline alone tells
//!   nothing of it.
//!
//! Entropies are corrected for few samples (Miller 1955).

mod image;
mod measures;
mod seen;

pub use measures::{Measures, Relation, information};
pub use seen::{Evidence, Seen, Unmasked};
pub(crate) use seen::{LITTLE, middle_extent};
