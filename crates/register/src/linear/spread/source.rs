//! Images of which any block of any scale can be read.

use crate::error::Result;
use voxalign_compute::ops::joint::Block;
use voxalign_image::Grid;

/// Pixels of 8 or 16 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PixelBlock {
    /// 8 bits.
    Bytes(Vec<u8>),
    /// 16 bits.
    Words(Vec<u16>),
}

impl PixelBlock {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Words(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of them as numbers.
    pub(super) fn row(&self, range: std::ops::Range<usize>) -> Box<dyn Iterator<Item = u16> + '_> {
        match self {
            Self::Bytes(values) => Box::new(values[range].iter().map(|&v| u16::from(v))),
            Self::Words(values) => Box::new(values[range].iter().copied()),
        }
    }

    /// As numbers, in their order.
    pub fn values(&self) -> Box<dyn Iterator<Item = u16> + '_> {
        match self {
            Self::Bytes(values) => Box::new(values.iter().map(|&v| u16::from(v))),
            Self::Words(values) => Box::new(values.iter().copied()),
        }
    }
}

/// An image at several scales, of which ranks read blocks. Its pixels have 8 or 16 bits at all scales.
pub trait ImageBlocks: Sync {
    /// The grids of its scales, fine to coarse, in one world; at least one.
    fn scales(&self) -> &[Grid];

    /// Whether its pixels have 16 bits.
    fn is_wide(&self) -> bool;

    /// The pixels of a block of a scale, x fastest.
    ///
    /// # Errors
    /// What cannot be read.
    fn read(&self, scale: usize, block: &Block) -> Result<PixelBlock>;

    /// Where pixels of a block count (not 0); none where all do. Only that of the fixed image is looked at.
    ///
    /// # Errors
    /// What cannot be read.
    fn mask(&self, scale: usize, block: &Block) -> Result<Option<Vec<u8>>> {
        let _ = (scale, block);
        Ok(None)
    }
}
