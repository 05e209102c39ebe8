//! Images that are larger than memory, block by block.

pub(crate) mod warp;
