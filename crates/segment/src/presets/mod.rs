//! Forces and steps for one kind of object each, with what is needed to know them by: white matter, heads, bone.

mod bone;
mod depth;
mod head;
mod mosaic;
mod tissues;

pub use bone::Bone;
pub use depth::depths;
pub use head::{Head, Wave};
pub use mosaic::Mosaic;
pub use tissues::{SharedDeviation, shares};
