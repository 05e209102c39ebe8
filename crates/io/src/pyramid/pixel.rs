//! Pixels of 8 and 16 bits.

use bytemuck::Pod;
use voxalign_image::memory;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// The type of the pixels that a [`PyramidSource`](super::PyramidSource) gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PixelType {
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
}

impl PixelType {
    /// Bytes of one pixel.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
        }
    }

    /// Short name: `u8` or `u16`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
        }
    }
}

impl std::fmt::Display for PixelType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A pixel: `u8` or `u16`.
pub trait Pixel:
    sealed::Sealed + Pod + Copy + Default + Ord + Eq + Send + Sync + Into<u32> + std::fmt::Debug
{
    /// Which it is.
    const TYPE: PixelType;

    /// A number that the type holds; the lowest bits of one that it does not.
    fn from_low_bits(value: u32) -> Self;

    /// Pixels to be read into.
    fn lend(pixels: &mut [Self]) -> PixelsMut<'_>;

    /// Pixels to be written.
    fn view(pixels: &[Self]) -> PixelsRef<'_>;
}

impl Pixel for u8 {
    const TYPE: PixelType = PixelType::U8;

    fn from_low_bits(value: u32) -> Self {
        value as u8
    }

    fn lend(pixels: &mut [Self]) -> PixelsMut<'_> {
        PixelsMut::U8(pixels)
    }

    fn view(pixels: &[Self]) -> PixelsRef<'_> {
        PixelsRef::U8(pixels)
    }
}

impl Pixel for u16 {
    const TYPE: PixelType = PixelType::U16;

    fn from_low_bits(value: u32) -> Self {
        value as u16
    }

    fn lend(pixels: &mut [Self]) -> PixelsMut<'_> {
        PixelsMut::U16(pixels)
    }

    fn view(pixels: &[Self]) -> PixelsRef<'_> {
        PixelsRef::U16(pixels)
    }
}

/// Pixels of either type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pixels {
    /// Of 8 bits.
    U8(Vec<u8>),
    /// Of 16 bits.
    U16(Vec<u16>),
}

impl Pixels {
    /// So many pixels of value 0.
    ///
    /// # Errors
    /// [`OutOfMemory`](memory::OutOfMemory).
    pub fn zeroed(kind: PixelType, len: usize) -> memory::Result<Self> {
        Ok(match kind {
            PixelType::U8 => Self::U8(memory::zeroed(len)?),
            PixelType::U16 => Self::U16(memory::zeroed(len)?),
        })
    }

    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn pixel_type(&self) -> PixelType {
        self.view().pixel_type()
    }

    /// Of which others can make what they like.
    #[must_use]
    pub fn view(&self) -> PixelsRef<'_> {
        match self {
            Self::U8(pixels) => PixelsRef::U8(pixels),
            Self::U16(pixels) => PixelsRef::U16(pixels),
        }
    }

    /// To be read into.
    pub fn lend(&mut self) -> PixelsMut<'_> {
        match self {
            Self::U8(pixels) => PixelsMut::U8(pixels),
            Self::U16(pixels) => PixelsMut::U16(pixels),
        }
    }
}

/// Pixels of either type that are lent to be read into.
#[derive(Debug)]
pub enum PixelsMut<'a> {
    /// Of 8 bits.
    U8(&'a mut [u8]),
    /// Of 16 bits.
    U16(&'a mut [u16]),
}

impl PixelsMut<'_> {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U8(pixels) => pixels.len(),
            Self::U16(pixels) => pixels.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn pixel_type(&self) -> PixelType {
        match self {
            Self::U8(_) => PixelType::U8,
            Self::U16(_) => PixelType::U16,
        }
    }
}

/// Pixels of either type that are lent to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelsRef<'a> {
    /// Of 8 bits.
    U8(&'a [u8]),
    /// Of 16 bits.
    U16(&'a [u16]),
}

impl PixelsRef<'_> {
    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U8(pixels) => pixels.len(),
            Self::U16(pixels) => pixels.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    #[must_use]
    pub fn pixel_type(&self) -> PixelType {
        match self {
            Self::U8(_) => PixelType::U8,
            Self::U16(_) => PixelType::U16,
        }
    }
}

/// Runs an expression with `$out` bound to the pixels of either type.
macro_rules! with_pixels {
    ($pixels:expr, $out:ident => $body:expr) => {
        match $pixels {
            $crate::pyramid::PixelsMut::U8($out) => $body,
            $crate::pyramid::PixelsMut::U16($out) => $body,
        }
    };
}
pub(super) use with_pixels;
