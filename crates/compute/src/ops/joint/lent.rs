//! What the operators are lent.

use voxalign_compute_macros::forwarded;

use super::{Block, Pixel};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::host::HostBuffer;

/// The bins of a block of the fixed image, and the part of it that is looked at.
#[derive(Debug)]
#[forwarded]
pub struct FixedPart<'a, D: Memory> {
    /// The block that is in memory.
    pub block: Block,
    /// Its bins: see [`FixedBins`](super::FixedBins).
    pub bins: &'a D::Buffer<u8>,
    /// The pixels of the image that are looked at, in the block.
    pub part: Block,
}

/// Pixels of 8 or 16 bits, in the memory of a device or of the host: one of the four.
#[derive(Debug)]
#[forwarded]
pub struct Pixels<'a, D: Memory> {
    /// 8 bits, on the device.
    pub bytes: Option<&'a D::Buffer<u8>>,
    /// 16 bits, on the device.
    pub words: Option<&'a D::Buffer<u16>>,
    /// 8 bits, in memory of the host that the device reaches: [`host_alloc`](crate::Transfer::host_alloc) or [`host_map`](crate::Transfer::host_map).
    pub host_bytes: Option<&'a HostBuffer<u8>>,
    /// 16 bits, in memory of the host that the device reaches.
    pub host_words: Option<&'a HostBuffer<u16>>,
}

impl<'a, D: Memory> Pixels<'a, D> {
    const NONE: Self = Self { bytes: None, words: None, host_bytes: None, host_words: None };

    /// Pixels in the memory of a device.
    #[must_use]
    pub fn on_device<P: Pixel>(buffer: &'a D::Buffer<P>) -> Self {
        P::lend(buffer)
    }

    /// Pixels in memory of the host that the device reaches.
    #[must_use]
    pub fn on_host<P: Pixel>(buffer: &'a HostBuffer<P>) -> Self {
        P::lend_host(buffer)
    }

    /// Whether they have 16 bits.
    pub(crate) fn is_wide(&self) -> bool {
        self.words.is_some() || self.host_words.is_some()
    }

    /// Whether they are in the memory of a device.
    pub(crate) fn is_on_device(&self) -> bool {
        self.bytes.is_some() || self.words.is_some()
    }

    /// Their number.
    pub(crate) fn len(&self) -> Result<usize> {
        let lengths = [
            self.bytes.map(DeviceBuffer::len),
            self.words.map(DeviceBuffer::len),
            self.host_bytes.map(|b| b.len()),
            self.host_words.map(|b| b.len()),
        ];
        let mut found = lengths.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(len), None) => Ok(len),
            _ => Err(ComputeError::argument("pixels", "none or several buffers", "one buffer")),
        }
    }
}

/// Lends buffers of its type; a part of [`Pixel`].
pub trait Lend: crate::device::Element {
    /// Pixels in the memory of a device.
    #[doc(hidden)]
    fn lend<D: Memory>(buffer: &D::Buffer<Self>) -> Pixels<'_, D>;

    /// Pixels in memory of the host.
    #[doc(hidden)]
    fn lend_host<D: Memory>(buffer: &HostBuffer<Self>) -> Pixels<'_, D>;
}

impl Lend for u8 {
    fn lend<D: Memory>(buffer: &D::Buffer<Self>) -> Pixels<'_, D> {
        Pixels { bytes: Some(buffer), ..Pixels::NONE }
    }

    fn lend_host<D: Memory>(buffer: &HostBuffer<Self>) -> Pixels<'_, D> {
        Pixels { host_bytes: Some(buffer), ..Pixels::NONE }
    }
}

impl Lend for u16 {
    fn lend<D: Memory>(buffer: &D::Buffer<Self>) -> Pixels<'_, D> {
        Pixels { words: Some(buffer), ..Pixels::NONE }
    }

    fn lend_host<D: Memory>(buffer: &HostBuffer<Self>) -> Pixels<'_, D> {
        Pixels { host_words: Some(buffer), ..Pixels::NONE }
    }
}

/// A block of the moving image in memory, and the cells that it answers for.
#[forwarded]
pub struct Brick<'a, D: Memory> {
    /// The block that is in memory.
    pub stored: Block,
    /// The cells of interpolation that samples are looked for in; their upper pixels have to be stored as well.
    pub cells: Block,
    /// The pixels of the block.
    pub pixels: Pixels<'a, D>,
}

impl<'a, D: Memory> Brick<'a, D> {
    /// A block that answers for all cells whose pixels it has, of an image with these sizes.
    #[must_use]
    pub fn new(stored: Block, image: crate::Dims, pixels: Pixels<'a, D>) -> Self {
        Self { stored, cells: cells_of(&stored, image), pixels }
    }

    /// The same for some of the cells.
    #[must_use]
    pub fn within(self, cells: Block) -> Self {
        Self { cells: self.cells.common(&cells), ..self }
    }
}

/// The cells whose pixels a block has.
fn cells_of(stored: &Block, image: crate::Dims) -> Block {
    let one_less = |a: usize| match image[a] {
        1 => stored.dims[a],
        _ => stored.dims[a].saturating_sub(1),
    };
    Block { origin: stored.origin, dims: [0, 1, 2].map(one_less) }
}
