//! PNG files.

use super::grey::Samples;
use super::window::{Note, Window};
use super::{Xray, check_claim};
use crate::error::{IoError, Result, shorten};
use crate::image::Oddity;
use crate::source::Source;
use png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, EncodingError, Transformations};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use voxalign_image::memory;

/// The keyword of the text with this library's note.
const KEYWORD: &str = "Comment";
/// Pixels converted at a time.
const PIECE: usize = 1 << 16;

/// Reads a picture.
pub(super) fn read(source: &Source<'_>) -> Result<Xray> {
    let path = source.path();
    let wrong = |e| refused(path, e);
    let mut decoder = Decoder::new(source.seekable()?);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(wrong)?;
    let info = reader.info();
    let dims = [info.width as usize, info.height as usize];
    let (stored, animated) = (info.bit_depth as u32, info.animation_control.is_some());
    let notes: Vec<_> = info
        .uncompressed_latin1_text
        .iter()
        .filter(|chunk| chunk.keyword == KEYWORD)
        .filter_map(|chunk| Note::parse(&chunk.text))
        .collect();
    let (kind, depth) = reader.output_color_type();
    let (colour, count) = match kind {
        ColorType::Grayscale => (false, 1),
        ColorType::GrayscaleAlpha => (false, 2),
        ColorType::Rgb | ColorType::Indexed => (true, 3),
        ColorType::Rgba => (true, 4),
    };
    let size = reader.output_buffer_size().unwrap_or(usize::MAX);
    check_claim(path, size as u64, source.length())?;
    let mut bytes = memory::zeroed(size).map_err(|refused| IoError::memory(path, refused))?;
    reader.next_frame(&mut bytes).map_err(wrong)?;
    // What is behind the still image of an animation are its other pictures.
    if !animated {
        reader.finish().map_err(wrong)?;
    }

    let mut image = Xray::new(dims);
    let samples = Samples { colour, count, bits: Some(stored) };
    let values = image.add_frame(path, 1)?;
    match depth {
        BitDepth::Sixteen => samples.fill(values, |pixel, c| {
            let at = 2 * (pixel * count + c);
            f64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
        }),
        _ => samples.fill(values, |pixel, c| f64::from(bytes[pixel * count + c])),
    }
    image.oddities = samples.oddities();
    if animated {
        let words = "it is an animation, of which the still image is read";
        image.say(Oddity::Other(words.into()));
    }
    for note in notes {
        image.apply(note, depth == BitDepth::Sixteen);
    }
    Ok(image)
}

/// An error about the content of a file.
fn refused(path: &Path, error: DecodingError) -> IoError {
    let remedy = "the file is damaged: copy or download it again";
    match error {
        DecodingError::IoError(e) if e.kind() == ErrorKind::UnexpectedEof => {
            IoError::malformed(path, "the file ends early", "copy or download it again")
        }
        DecodingError::IoError(e) => IoError::reading(path, e),
        DecodingError::LimitsExceeded => IoError::unsupported(
            path,
            "the metadata of this PNG file are too large",
            "save it without colour profiles and texts",
        ),
        e => {
            let e = shorten(&e.to_string());
            IoError::malformed(path, format!("this is not a valid PNG file ({e})"), remedy)
        }
    }
}

/// Writes values of 16 bits.
pub(super) fn write(
    sink: &mut dyn Write,
    values: &[f32],
    dims: [usize; 2],
    note: Note,
    window: Window,
) -> io::Result<()> {
    let fail = |e| match e {
        EncodingError::IoError(e) => e,
        other => io::Error::other(other.to_string()),
    };
    let [columns, rows] = dims.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let mut encoder = Encoder::new(sink, columns, rows);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Sixteen);
    encoder.add_text_chunk(KEYWORD.to_owned(), note.to_string()).map_err(fail)?;
    let mut writer = encoder.write_header().map_err(fail)?;
    let mut stream = writer.stream_writer().map_err(fail)?;
    let mut bytes = Vec::with_capacity(2 * PIECE);
    for piece in values.chunks(PIECE) {
        bytes.clear();
        bytes.extend(piece.iter().flat_map(|&v| window.stored(v).to_be_bytes()));
        stream.write_all(&bytes)?;
    }
    stream.finish().map_err(fail)?;
    writer.finish().map_err(fail)
}
