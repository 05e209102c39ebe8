//! One directory of a TIFF file.

use super::describe;
use crate::error::{IoError, Result, shorten};
use crate::image::{DataType, Oddity};
use crate::pyramid::of_resolution;
use crate::source::SeekRead;
use std::path::Path;
use tiff::decoder::Decoder;
use tiff::decoder::ifd::Value;
use tiff::tags::{IfdPointer, Tag};
use tiff::{Directory, TiffError};

pub(super) type Reader<'a> = Decoder<Box<dyn SeekRead + 'a>>;

/// Bytes of a description that are looked at.
const TEXT: usize = 1 << 16;

/// How tiles are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Lzw,
    Deflate,
    PackBits,
    Jpeg,
}

/// An image of a file: a directory.
#[derive(Debug)]
pub(super) struct Page {
    /// Columns and rows.
    pub(super) dims: [usize; 2],
    /// Sizes of a tile; of a strip, whose last one may have fewer rows.
    pub(super) tile: [usize; 2],
    pub(super) tiled: bool,
    /// Tiles along columns and rows.
    pub(super) across: [usize; 2],
    pub(super) data_type: DataType,
    /// Samples of a pixel, opacity included.
    pub(super) samples: usize,
    /// Whether the samples are colours; otherwise those after the first that have a meaning are channels.
    pub(super) opacity: bool,
    /// Whether each sample has tiles of its own.
    pub(super) planar: bool,
    pub(super) white_is_zero: bool,
    pub(super) packing: Packing,
    /// Whether JPEG has luminance and colour differences.
    pub(super) differences: bool,
    /// Whether values are differences to those before them.
    pub(super) predicted: bool,
    pub(super) big_endian: bool,
    pub(super) offsets: Vec<u64>,
    pub(super) lengths: Vec<u64>,
    pub(super) tables: Vec<u8>,
    /// mm, where the file says it.
    pub(super) pixel_size: Option<[f64; 2]>,
    /// The tag Orientation, which is 1 where rows begin at the top left.
    orientation: u64,
    /// Whether it says that it is a smaller copy of another one.
    pub(super) small: bool,
    /// Directories below.
    pub(super) below: Vec<IfdPointer>,
}

/// The tags of a directory.
struct Tags<'r, 'a> {
    reader: &'r mut Reader<'a>,
    directory: Directory,
    path: &'r Path,
}

impl Tags<'_, '_> {
    fn value(&mut self, tag: Tag) -> Result<Option<Value>> {
        let path = self.path;
        self.reader
            .read_directory_tags(&self.directory)
            .find_tag(tag)
            .map_err(|e| refused(path, &e))
    }

    fn number(&mut self, tag: Tag) -> Result<Option<u64>> {
        let path = self.path;
        match self.value(tag)? {
            None => Ok(None),
            // A value a sample: all are the same in what is read.
            Some(Value::List(list)) => match list.first() {
                Some(first) => first.clone().into_u64().map(Some).map_err(|e| refused(path, &e)),
                None => Ok(None),
            },
            Some(value) => value.into_u64().map(Some).map_err(|e| refused(path, &e)),
        }
    }

    fn size(&mut self, tag: Tag, absent: usize) -> Result<usize> {
        let value = self.number(tag)?;
        Ok(value.map_or(absent, |v| usize::try_from(v).unwrap_or(usize::MAX)))
    }

    fn numbers(&mut self, tag: Tag) -> Result<Vec<u64>> {
        let path = self.path;
        self.value(tag)?.map_or(Ok(Vec::new()), Value::into_u64_vec).map_err(|e| refused(path, &e))
    }

    /// The beginning of a text.
    fn text(&mut self, tag: Tag) -> String {
        let mut bytes = vec![0; TEXT];
        let read = self
            .reader
            .read_directory_tags(&self.directory)
            .find_tag_bytes(tag, &mut bytes, 0)
            .unwrap_or_default();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(TEXT);
        bytes.truncate(read.unwrap_or(0).min(end));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A ratio that is above 0.
    fn ratio(&mut self, tag: Tag) -> Option<f64> {
        let value = match self.value(tag).ok()?? {
            Value::Rational(n, d) => f64::from(n) / f64::from(d),
            Value::Float(value) => f64::from(value),
            Value::Double(value) => value,
            _ => return None,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

impl Page {
    /// Reads the directory at a place; what of it is not supported is an error.
    pub(super) fn read(path: &Path, reader: &mut Reader<'_>, directory: Directory) -> Result<Page> {
        let big_endian = reader.byte_order() == tiff::tags::ByteOrder::BigEndian;
        let mut tags = Tags { reader, directory, path };
        let dims = [tags.size(Tag::ImageWidth, 0)?, tags.size(Tag::ImageLength, 0)?];
        if dims.contains(&0) {
            return Err(wrong(path, format!("an image has the sizes {dims:?}")));
        }
        let samples = tags.size(Tag::SamplesPerPixel, 1)?;
        let data_type = data_type(path, &mut tags)?;
        let photometric = tags.number(Tag::PhotometricInterpretation)?.unwrap_or(1);
        let (packing, differences) = packing(path, &mut tags, photometric)?;
        let extra = tags.numbers(Tag::ExtraSamples)?;
        // 1 and 2 are opacity; programs that write several channels of no meaning say 0.
        let opacity = extra.last().is_some_and(|kind| matches!(kind, 1 | 2));
        match (photometric, samples) {
            (0 | 1, 1..=65535) | (2, 3..=65535) => {}
            (6, 3) if packing == Packing::Jpeg => {}
            _ => {
                let what =
                    format!("{samples} samples of the photometric interpretation {photometric}");
                let remedy = "save it with grey values or with red, green and blue";
                return Err(IoError::unsupported(path, what, remedy));
            }
        }
        let predictor = tags.number(Tag::Predictor)?.unwrap_or(1);
        if !(predictor == 1 || predictor == 2 && data_type.is_integer()) {
            let what = format!("the predictor {predictor} of {data_type} is not supported");
            return Err(IoError::unsupported(path, what, "save it without a predictor"));
        }
        let planar = samples > 1 && tags.number(Tag::PlanarConfiguration)? == Some(2);
        if planar && packing == Packing::Jpeg && photometric == 6 {
            let what = "JPEG with samples in planes of their own is not supported";
            return Err(IoError::unsupported(path, what, "save the samples beside each other"));
        }
        let orientation = tags.number(Tag::Orientation)?.unwrap_or(1);
        let small = tags.number(Tag::NewSubfileType)?.unwrap_or(0) & 1 == 1;
        let pixel_size = pixel_size(&mut tags);
        let below = tags.value(Tag::SubIfd)?.map_or(Ok(Vec::new()), Value::into_ifd_vec);
        let mut page = Page {
            dims,
            tile: dims,
            tiled: false,
            across: [1; 2],
            data_type,
            samples,
            opacity,
            planar,
            white_is_zero: photometric == 0,
            packing,
            differences,
            predicted: predictor == 2 && matches!(packing, Packing::Lzw | Packing::Deflate),
            big_endian,
            offsets: Vec::new(),
            lengths: Vec::new(),
            tables: Vec::new(),
            pixel_size,
            orientation,
            small,
            below: below.map_err(|e| refused(path, &e))?,
        };
        if packing == Packing::Jpeg {
            page.tables = tags
                .value(Tag::JPEGTables)?
                .map_or(Ok(Vec::new()), Value::into_u8_vec)
                .map_err(|e| refused(path, &e))?;
        }
        page.find_tiles(&mut tags)?;
        Ok(page)
    }

    /// Where tiles or strips are.
    fn find_tiles(&mut self, tags: &mut Tags<'_, '_>) -> Result<()> {
        let path = tags.path;
        let [nx, ny] = self.dims;
        self.tiled = tags.directory.contains(Tag::TileOffsets);
        let (begins, sizes) = if self.tiled {
            self.tile = [tags.size(Tag::TileWidth, 0)?, tags.size(Tag::TileLength, 0)?];
            (Tag::TileOffsets, Tag::TileByteCounts)
        } else {
            self.tile = [nx, tags.size(Tag::RowsPerStrip, ny)?.min(ny)];
            (Tag::StripOffsets, Tag::StripByteCounts)
        };
        if self.tile.contains(&0) {
            return Err(wrong(path, format!("an image has tiles of the sizes {:?}", self.tile)));
        }
        self.across = std::array::from_fn(|a| self.dims[a].div_ceil(self.tile[a]));
        self.offsets = tags.numbers(begins)?;
        self.lengths = tags.numbers(sizes)?;
        let planes = if self.planar { self.samples } else { 1 };
        let needed = self.across.iter().try_fold(planes, |n: usize, &m| n.checked_mul(m));
        if needed.is_none_or(|n| self.offsets.len() < n || self.lengths.len() < n) {
            let problem = format!(
                "an image of {nx} x {ny} pixels has {} tiles of {:?}",
                self.offsets.len().min(self.lengths.len()),
                self.tile
            );
            return Err(wrong(path, problem));
        }
        Ok(())
    }

    /// Channels, of which one can be chosen: samples that are no opacity.
    pub(super) fn channels(&self) -> usize {
        let opaque = self.samples - usize::from(self.opacity && self.samples > 1);
        opaque.max(1)
    }

    /// What is unusual about the order of rows and columns.
    pub(super) fn turned(&self) -> Option<Oddity> {
        let words = format!(
            "its Orientation is {}, by which the first row and column may be at another side of the picture; they \
             are taken as they are stored",
            self.orientation
        );
        (self.orientation > 1).then_some(Oddity::Other(words))
    }

    /// Whether a small part takes as long as a far larger one: packed strips of long rows, and tiles of millions of pixels.
    pub(super) fn slow(&self) -> bool {
        const LONG: usize = 1 << 12;
        const LARGE: usize = 1 << 22;
        let [columns, rows] = self.tile;
        self.packing != Packing::None && (columns > LONG || columns.saturating_mul(rows) > LARGE)
    }

    /// Tiles of one plane.
    pub(super) fn tiles(&self) -> usize {
        self.across[0] * self.across[1]
    }

    /// Rows that a tile has.
    pub(super) fn rows(&self, number: usize) -> usize {
        let row = number % self.tiles() / self.across[0];
        if self.tiled { self.tile[1] } else { self.tile[1].min(self.dims[1] - row * self.tile[1]) }
    }

    /// Whether another one has values of the same kind.
    pub(super) fn is_alike(&self, other: &Page) -> bool {
        (self.data_type, self.samples, self.white_is_zero)
            == (other.data_type, other.samples, other.white_is_zero)
    }
}

/// The stored type.
fn data_type(path: &Path, tags: &mut Tags<'_, '_>) -> Result<DataType> {
    let bits = tags.number(Tag::BitsPerSample)?.unwrap_or(1);
    let format = tags.number(Tag::SampleFormat)?.unwrap_or(1);
    Ok(match (format, bits) {
        (1 | 4, 8) => DataType::U8,
        (1 | 4, 16) => DataType::U16,
        (1 | 4, 32) => DataType::U32,
        (1 | 4, 64) => DataType::U64,
        (2, 8) => DataType::I8,
        (2, 16) => DataType::I16,
        (2, 32) => DataType::I32,
        (2, 64) => DataType::I64,
        (3, 32) => DataType::F32,
        (3, 64) => DataType::F64,
        _ => {
            let what = format!("values of {bits} bits of the sample format {format}");
            return Err(IoError::unsupported(path, what, "save it with 8 or 16 bits"));
        }
    })
}

/// How tiles are packed, and whether colours are differences.
fn packing(path: &Path, tags: &mut Tags<'_, '_>, photometric: u64) -> Result<(Packing, bool)> {
    let packing = match tags.number(Tag::Compression)?.unwrap_or(1) {
        1 => Packing::None,
        5 => Packing::Lzw,
        8 | 32946 => Packing::Deflate,
        32773 => Packing::PackBits,
        7 => Packing::Jpeg,
        other => {
            let what = format!("the compression {other} is not supported");
            let remedy = "save it without compression, or with LZW, deflate, PackBits or JPEG";
            return Err(IoError::unsupported(path, what, remedy));
        }
    };
    if packing == Packing::Jpeg && tags.number(Tag::BitsPerSample)? != Some(8) {
        let what = "JPEG of other than 8 bits is not supported";
        return Err(IoError::unsupported(path, what, "save it with deflate"));
    }
    Ok((packing, photometric == 6))
}

/// Sizes of a pixel, mm: those of a description, or by the resolution.
fn pixel_size(tags: &mut Tags<'_, '_>) -> Option<[f64; 2]> {
    if let Some(size) = describe::pixel_size(&tags.text(Tag::ImageDescription)) {
        return Some(size);
    }
    let unit = match tags.number(Tag::ResolutionUnit).ok()?.unwrap_or(2) {
        2 => 25.4,
        3 => 10.0,
        _ => return None,
    };
    let size = [tags.ratio(Tag::XResolution)?, tags.ratio(Tag::YResolution)?].map(|n| unit / n);
    of_resolution(size)
}

pub(super) fn wrong(path: &Path, problem: String) -> IoError {
    IoError::malformed(path, problem, "the file is damaged: copy or download it again")
}

/// An error about the content of a file.
pub(super) fn refused(path: &Path, error: &TiffError) -> IoError {
    wrong(path, format!("this is not a valid TIFF file ({})", shorten(&error.to_string())))
}
