//! PNG and JPEG pictures, which are held whole.

use super::flat::{no_volume, only_zarr};
use super::grey::Grey;
use super::level::{Level, PyramidFormat, PyramidInfo};
use super::options::{Missing, PyramidOptions};
use super::pixel::{Pixel, Pixels, PixelsMut};
use super::{PyramidSource, byte_count, lps_grid, of_resolution};
use crate::error::{IoError, Result, shorten};
use crate::image::{DataType, Oddity, Region};
use crate::source::Source;
use jpeg_decoder::PixelFormat;
use png::{BitDepth, ColorType, Transformations};
use std::path::Path;
use voxalign_image::memory;

/// Values that a byte of a packed picture may stand for, and some for small files.
const VALUES_OF_A_BYTE: u64 = 1 << 12;
const SMALL: u64 = 1 << 22;
/// Bytes of a JPEG file, which is unpacked from memory.
const LARGEST: u64 = 1 << 32;

#[derive(Debug)]
struct Picture {
    info: PyramidInfo,
    pixels: Pixels,
}

/// What a picture has beside its values.
struct Found {
    dims: [usize; 2],
    data_type: DataType,
    channels: usize,
    size: Option<[f64; 2]>,
}

fn damaged(path: &Path, kind: &str, error: &dyn std::fmt::Display) -> IoError {
    let said = shorten(&error.to_string());
    IoError::malformed(
        path,
        format!("this is not a valid {kind} file ({said})"),
        "the file is damaged: copy or download it again",
    )
}

fn check_claim(path: &Path, bytes: usize, length: u64) -> Result<()> {
    if bytes as u64 <= length.saturating_mul(VALUES_OF_A_BYTE).saturating_add(SMALL) {
        return Ok(());
    }
    Err(IoError::malformed(
        path,
        format!("the header claims {bytes} bytes of values, which {length} bytes cannot hold"),
        "the file is damaged: copy or download it again",
    ))
}

pub(super) fn png(source: &Source<'_>, options: &PyramidOptions) -> Result<Box<dyn PyramidSource>> {
    let path = source.path();
    let wrong = |e: png::DecodingError| damaged(path, "PNG", &e);
    let mut decoder = png::Decoder::new(source.seekable()?);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(wrong)?;
    let header = reader.info();
    let dims = [header.width as usize, header.height as usize];
    let size = header.pixel_dims.filter(|d| d.unit == png::Unit::Meter && d.xppu > 0 && d.yppu > 0);
    let size = size.and_then(|d| of_resolution([d.xppu, d.yppu].map(|n| 1000.0 / f64::from(n))));
    let (kind, depth) = reader.output_color_type();
    let channels = match kind {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb | ColorType::Indexed => 3,
        ColorType::Rgba => 4,
    };
    let wide = depth == BitDepth::Sixteen;
    let length = reader.output_buffer_size().unwrap_or(usize::MAX);
    check_claim(path, length, source.length())?;
    let mut bytes = memory::zeroed(length).map_err(|refused| IoError::memory(path, refused))?;
    reader.next_frame(&mut bytes).map_err(wrong)?;
    if wide && cfg!(target_endian = "little") {
        bytes.chunks_exact_mut(2).for_each(<[u8]>::reverse);
    }
    let data_type = if wide { DataType::U16 } else { DataType::U8 };
    let mut found = Found { dims, data_type, channels, size };
    // Opacity is no channel to choose from.
    let stride = channels;
    if matches!(kind, ColorType::GrayscaleAlpha | ColorType::Rgba) {
        found.channels = channels - 1;
    }
    picture(path, options, found, &bytes, stride)
}

pub(super) fn jpeg(
    source: &Source<'_>,
    options: &PyramidOptions,
) -> Result<Box<dyn PyramidSource>> {
    let path = source.path();
    let wrong = |e: jpeg_decoder::Error| damaged(path, "JPEG", &e);
    let packed = source.read_all(LARGEST)?;
    let mut decoder = jpeg_decoder::Decoder::new(&packed[..]);
    decoder.read_info().map_err(wrong)?;
    let header = decoder.info().ok_or_else(|| damaged(path, "JPEG", &"no header"))?;
    let dims = [usize::from(header.width), usize::from(header.height)];
    let (data_type, channels) = match header.pixel_format {
        PixelFormat::L8 => (DataType::U8, 1),
        PixelFormat::L16 => (DataType::U16, 1),
        PixelFormat::RGB24 => (DataType::U8, 3),
        PixelFormat::CMYK32 => {
            let remedy = "save it with red, green and blue";
            return Err(IoError::unsupported(path, "JPEG in colours of print (CMYK)", remedy));
        }
    };
    let length = byte_count(path, &[dims[0], dims[1], channels, data_type.size()])?;
    check_claim(path, length, source.length())?;
    decoder.set_max_decoding_buffer_size(length);
    // The decoder asks for this by itself, where a refusal would end the program.
    drop(memory::room::<u8>(length.saturating_mul(2)).map_err(|r| IoError::memory(path, r))?);
    let bytes = decoder.decode().map_err(wrong)?;
    picture(
        path,
        options,
        Found { dims, data_type, channels, size: density(&packed) },
        &bytes,
        channels,
    )
}

/// The sizes of a pixel that a JFIF header says, mm.
fn density(packed: &[u8]) -> Option<[f64; 2]> {
    let header = packed.get(..20)?;
    if header[2..4] != [0xff, 0xe0] || &header[6..11] != b"JFIF\0" {
        return None;
    }
    let unit = match header[13] {
        1 => 25.4,
        2 => 10.0,
        _ => return None,
    };
    let per = [[header[14], header[15]], [header[16], header[17]]].map(u16::from_be_bytes);
    of_resolution(per.map(|n| unit / f64::from(n)))
}

fn picture(
    path: &Path,
    options: &PyramidOptions,
    found: Found,
    bytes: &[u8],
    stride: usize,
) -> Result<Box<dyn PyramidSource>> {
    if options.missing != Missing::Error {
        return Err(only_zarr(path));
    }
    if let Some(number) = options.volume.filter(|&n| n > 0) {
        return Err(no_volume(path, number, 1));
    }
    let Found { dims: [nx, ny], data_type, channels, size } = found;
    let grey = Grey::new(path, data_type, channels, options)?;
    let n = byte_count(path, &[nx, ny])?;
    if byte_count(path, &[n, stride, data_type.size()])? > bytes.len() {
        return Err(damaged(path, "picture", &"it has fewer values than it says"));
    }
    let mut pixels =
        Pixels::zeroed(grey.pixel_type(), n).map_err(|refused| IoError::memory(path, refused))?;
    let first = grey.needed().start;
    let at = |pixel: usize, c: usize| pixel * stride + first + c;
    match &mut pixels {
        Pixels::U8(out) => grey.fill(bytes, at, out),
        Pixels::U16(out) => grey.fill(bytes, at, out),
    }
    let [x, y] = size.unwrap_or([1.0; 2]);
    let grid = lps_grid([nx, ny, 1], [x, y, x], [0.0; 3]).map_err(|e| IoError::image(path, e))?;
    let info = PyramidInfo {
        path: path.to_owned(),
        files: vec![path.to_owned()],
        options: options.clone(),
        format: PyramidFormat::Picture,
        levels: vec![Level::new(grid, [nx, ny, 1])],
        data_type,
        channels,
        pixel_type: grey.pixel_type(),
        offset: grey.offset(),
        pixel_size_known: size.is_some(),
        oddities: unknown_size(size.is_some()).into_iter().chain(grey.oddities()).collect(),
    };
    Ok(Box::new(Picture { info, pixels }))
}

/// What is said where the size of a pixel is not known.
pub(super) fn unknown_size(known: bool) -> Vec<Oddity> {
    let words = "the file does not say how large a pixel is; 1 mm is assumed";
    if known { Vec::new() } else { vec![Oddity::Other(words.to_owned())] }
}

/// Copies a region of an image of two dimensions.
fn copy<P: Pixel>(from: &[P], columns: usize, region: &Region, out: &mut [P]) {
    for (row, out) in out.chunks_exact_mut(region.size[0]).enumerate() {
        let at = (region.start[1] + row) * columns + region.start[0];
        out.copy_from_slice(&from[at..at + out.len()]);
    }
}

impl PyramidSource for Picture {
    fn info(&self) -> &PyramidInfo {
        &self.info
    }

    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> Result<()> {
        let [columns, ..] = self.info.check(level, region, &out)?.dims();
        match (&self.pixels, out) {
            (Pixels::U8(from), PixelsMut::U8(out)) => copy(from, columns, region, out),
            (Pixels::U16(from), PixelsMut::U16(out)) => copy(from, columns, region, out),
            // The types were compared before.
            _ => {}
        }
        Ok(())
    }
}
