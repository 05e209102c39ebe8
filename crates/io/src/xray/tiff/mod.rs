//! TIFF files: every page is a frame.

use super::grey::Samples;
use super::window::Note;
use super::{Xray, check_claim};
use crate::error::{IoError, Result};
use crate::image::Oddity;
use crate::source::{SeekRead, Source};
use std::io::ErrorKind;
use std::path::Path;
use tiff::decoder::{BufferLayoutPreference, ChunkType, DecodingSampleType, Limits};
use tiff::tags::{CompressionMethod, PhotometricInterpretation, Tag};
use tiff::{ColorType, TiffError};
use voxalign_image::memory;

pub(crate) mod claims;
mod write;
pub(super) use write::write;

type Decoder<'a> = tiff::decoder::Decoder<Box<dyn SeekRead + 'a>>;

/// Values of a header, such as the places of strips, are no longer than this, bytes.
const LONGEST: u64 = 1 << 26;

/// Reads all pages.
pub(super) fn read(source: &Source<'_>) -> Result<Xray> {
    let path = source.path();
    claims::check(source)?;
    let mut limits = Limits::default();
    let of = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    limits.ifd_value_size = of(source.length().min(LONGEST));
    limits.intermediate_buffer_size = of(source.length());
    let wrong = |e| refused(path, e);
    let mut decoder = Decoder::new(source.seekable()?).map_err(wrong)?.with_limits(limits);
    let (mut image, mut claimed, mut small) = (None, 0, 0);
    let (mut note, mut words) = (None, true);
    loop {
        if is_small_copy(&mut decoder) {
            small += 1;
        } else {
            let page = Page::new(path, &mut decoder)?;
            let image = image.get_or_insert_with(|| Xray::new(page.dims));
            if page.dims != image.dims {
                return Err(other_size(path, image, page.dims));
            }
            if image.frames == 0 {
                let text = decoder.get_tag_ascii_string(Tag::ImageDescription).ok();
                note = text.and_then(|text| Note::parse(&text));
            }
            words &= page.kind == DecodingSampleType::U16;
            page.read(source, &mut decoder, image, &mut claimed)?;
        }
        if !decoder.more_images() {
            break;
        }
        decoder.next_image().map_err(wrong)?;
    }
    let Some(mut image) = image else {
        let problem = "all pages are small copies of others, which are not there";
        return Err(IoError::malformed(path, problem, "export the image again"));
    };
    if small > 0 {
        image.say(Oddity::Other(format!("{small} pages are small copies of others; not read")));
    }
    if let Some(note) = note {
        image.apply(note, words);
    }
    Ok(image)
}

/// Whether the page says that it is another one with fewer pixels.
fn is_small_copy(decoder: &mut Decoder<'_>) -> bool {
    let kind = decoder.find_tag_unsigned::<u32>(Tag::NewSubfileType);
    kind.is_ok_and(|kind| kind.is_some_and(|bits| bits & 1 == 1))
}

/// How the values of a page lie in memory.
struct Page {
    dims: [usize; 2],
    samples: Samples,
    kind: DecodingSampleType,
    /// Bytes of all values.
    bytes: usize,
    /// Distance of the samples of a pixel, in samples, where they are in planes of their own.
    plane: Option<usize>,
    dark: bool,
    packed: bool,
    /// The tag Orientation, which is 1 where rows begin at the top left.
    turned: u16,
}

impl Page {
    fn new(path: &Path, decoder: &mut Decoder<'_>) -> Result<Page> {
        let wrong = |e| refused(path, e);
        let (columns, rows) = decoder.dimensions().map_err(wrong)?;
        let colours = decoder.colortype().map_err(wrong)?;
        let unread = |what: String| {
            let remedy = "save it with 8 or 16 bits of grey, or with floats of 32 bits";
            IoError::unsupported(path, what, remedy)
        };
        let (colour, count) = match colours {
            ColorType::Gray(_) => (false, 1),
            ColorType::GrayA(_) => (false, 2),
            ColorType::Multiband { num_samples, .. } => (false, usize::from(num_samples)),
            ColorType::RGB(_) => (true, 3),
            ColorType::RGBA(_) => (true, 4),
            other => {
                return Err(unread(format!("colours of the kind {other:?} are not supported")));
            }
        };
        let layout: BufferLayoutPreference = decoder.image_buffer_layout().map_err(wrong)?;
        let kind = layout.sample_type.filter(|_| colours.bit_depth() >= 8);
        let bits = u32::from(colours.bit_depth());
        let Some(kind) = kind.filter(|kind| 8 * size_of(*kind) == bits as usize) else {
            return Err(unread(format!("values of {bits} bits are not supported")));
        };
        let float = matches!(
            kind,
            DecodingSampleType::F16 | DecodingSampleType::F32 | DecodingSampleType::F64
        );
        let samples = Samples { colour, count, bits: (!float).then_some(bits) };
        let plane = layout.plane_stride.filter(|_| layout.planes > 1);
        if plane.is_some() && decoder.get_chunk_type() == ChunkType::Tile {
            return Err(unread("colours in tiles of their own are not supported".to_owned()));
        }
        let tag =
            |decoder: &mut Decoder<'_>, tag| decoder.find_tag_unsigned::<u16>(tag).ok().flatten();
        let photometric = tag(decoder, Tag::PhotometricInterpretation);
        let compression = tag(decoder, Tag::Compression);
        let turned = tag(decoder, Tag::Orientation).unwrap_or(1);
        Ok(Page {
            turned,
            dims: [columns as usize, rows as usize],
            samples,
            kind,
            bytes: layout.complete_len,
            plane: plane.map(|bytes| bytes.get() / size_of(kind)),
            dark: photometric == Some(PhotometricInterpretation::WhiteIsZero.to_u16()),
            packed: compression.is_some_and(|c| c != CompressionMethod::None.to_u16()),
        })
    }

    /// Adds the values to the frames; `claimed` is how many bytes pages have.
    fn read(
        &self,
        source: &Source<'_>,
        decoder: &mut Decoder<'_>,
        image: &mut Xray,
        claimed: &mut u64,
    ) -> Result<()> {
        let path = source.path();
        let wrong = |e| refused(path, e);
        let no_memory = |refused| IoError::memory(path, refused);
        *claimed = claimed.saturating_add(self.bytes as u64);
        check_claim(path, *claimed, source.length())?;
        self.check_strips(source, decoder)?;
        // Of eight bytes each, so that any kind of value may lie in them.
        let mut words: Vec<u64> = memory::zeroed(self.bytes.div_ceil(8)).map_err(no_memory)?;
        let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..self.bytes];
        decoder.read_image_bytes(bytes).map_err(wrong)?;
        let (samples, count) = (self.samples, self.samples.count);
        let needed = self.dims[0] * self.dims[1] * count * size_of(self.kind);
        if needed > bytes.len() {
            let problem = format!("a page has {} bytes of values instead of {needed}", bytes.len());
            return Err(IoError::malformed(path, problem, "export the image again"));
        }
        let values = image.add_frame(path, 1)?;
        let plane = self.plane;
        let at = |pixel, c| plane.map_or(pixel * count + c, |stride| c * stride + pixel);
        macro_rules! of {
            ($ty:ty) => {{
                const SIZE: usize = std::mem::size_of::<$ty>();
                samples.fill(values, |pixel, c| {
                    let mut own = [0; SIZE];
                    own.copy_from_slice(&bytes[SIZE * at(pixel, c)..][..SIZE]);
                    <$ty>::from_ne_bytes(own) as f64
                });
            }};
        }
        match self.kind {
            DecodingSampleType::U8 => of!(u8),
            DecodingSampleType::U16 => of!(u16),
            DecodingSampleType::U32 => of!(u32),
            DecodingSampleType::U64 => of!(u64),
            DecodingSampleType::I8 => of!(i8),
            DecodingSampleType::I16 => of!(i16),
            DecodingSampleType::I32 => of!(i32),
            DecodingSampleType::I64 => of!(i64),
            DecodingSampleType::F32 => of!(f32),
            DecodingSampleType::F64 => of!(f64),
            DecodingSampleType::F16 => {
                let what = "floats of 16 bits are not supported";
                return Err(IoError::unsupported(path, what, "save it with floats of 32 bits"));
            }
        }
        samples.oddities().into_iter().for_each(|oddity| image.say(oddity));
        if self.turned > 1 {
            image.say(Oddity::Other(format!(
                "its Orientation is {}, by which the first row and column may be at another side of the picture; they \
                 are taken as they are stored",
                self.turned
            )));
        }
        if self.dark {
            let words = "large values are dark (white is zero); they are inverted";
            image.say(Oddity::Inverted(words.into()));
        }
        if matches!(self.kind, DecodingSampleType::F64) {
            image.say(Oddity::Other("64-bit floats are rounded to 32 bits".into()));
        }
        Ok(())
    }

    /// An error where strips or tiles are not within the file, are too short, or have rows that the file cannot hold:
    /// the decoder asks for memory for a row.
    fn check_strips(&self, source: &Source<'_>, decoder: &mut Decoder<'_>) -> Result<()> {
        let path = source.path();
        let wrong = |e| refused(path, e);
        let samples = decoder.find_tag_unsigned::<u16>(Tag::SamplesPerPixel).ok().flatten();
        let samples = usize::from(samples.unwrap_or(1)).max(self.samples.count);
        let row = u64::from(decoder.chunk_dimensions().0)
            .saturating_mul((samples * size_of(self.kind)) as u64);
        check_claim(path, row, source.length())?;
        let [begins, sizes] = match decoder.get_chunk_type() {
            ChunkType::Strip => [Tag::StripOffsets, Tag::StripByteCounts],
            ChunkType::Tile => [Tag::TileOffsets, Tag::TileByteCounts],
        };
        let begins = decoder.get_tag_u64_vec(begins).map_err(wrong)?;
        let sizes = decoder.get_tag_u64_vec(sizes).map_err(wrong)?;
        let ends = begins.iter().zip(&sizes).map(|(begin, size)| begin.saturating_add(*size));
        let (end, total) =
            (ends.max().unwrap_or(0), sizes.iter().fold(0, |a: u64, b| a.saturating_add(*b)));
        if end > source.length() {
            let found = source.length();
            return Err(IoError::Truncated { path: path.into(), expected: end, found });
        }
        if !self.packed && total < self.bytes as u64 {
            let problem = format!("a page has {total} bytes of values instead of {}", self.bytes);
            return Err(IoError::malformed(path, problem, "export the image again"));
        }
        Ok(())
    }
}

fn size_of(kind: DecodingSampleType) -> usize {
    use DecodingSampleType as K;
    match kind {
        K::U8 | K::I8 => 1,
        K::U16 | K::I16 | K::F16 => 2,
        K::U32 | K::I32 | K::F32 => 4,
        K::U64 | K::I64 | K::F64 => 8,
    }
}

fn other_size(path: &Path, image: &Xray, [columns, rows]: [usize; 2]) -> IoError {
    let [width, height] = image.dims;
    IoError::malformed(
        path,
        format!(
            "page {} has {columns} x {rows} pixels, but the one before has {width} x {height}",
            image.frames + 1
        ),
        "pages are frames of one size; save the others apart, for instance with `tiffsplit`",
    )
}

/// An error about the content of a file.
fn refused(path: &Path, error: TiffError) -> IoError {
    let short = |e: &dyn std::fmt::Display| e.to_string().chars().take(160).collect::<String>();
    let remedy = "the file is damaged: copy or download it again";
    match error {
        TiffError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            IoError::malformed(path, "the file ends early", "copy or download it again")
        }
        TiffError::IoError(e) => IoError::reading(path, e),
        TiffError::UnsupportedError(e) => IoError::unsupported(
            path,
            format!("this kind of TIFF file is not supported ({})", short(&e)),
            "save it with 8 or 16 bits of grey or floats of 32 bits, without compression or with LZW, \
             deflate or PackBits",
        ),
        e => {
            let problem = format!("this is not a valid TIFF file ({})", short(&e));
            IoError::malformed(path, problem, remedy)
        }
    }
}
