//! Tiles and strips, unpacked.

use super::page::{Packing, Page};
use crate::error::{IoError, Result, shorten};
use crate::pyramid::byte_count;
use crate::source::{Source, read_full};
use flate2::bufread::ZlibDecoder;
use jpeg_decoder::{ColorTransform, PixelFormat};
use std::io::Read;
use std::ops::Range;
use voxalign_image::memory;
use weezl::{BitOrder, decode};

/// Values that a byte of a packed tile may stand for, and some for small tiles.
const VALUES_OF_A_BYTE: u64 = 1 << 12;
const SMALL: u64 = 1 << 22;

/// Rows of a tile, all samples of it that are stored together, in this machine's order of bytes.
pub(super) fn rows(
    source: &Source<'_>,
    page: &Page,
    number: usize,
    rows: Range<usize>,
) -> Result<Vec<u8>> {
    let tile = Tile { source, page, number };
    let samples = if page.planar { 1 } else { page.samples };
    let row = byte_count(source.path(), &[page.tile[0], samples, page.data_type.size()])?;
    // A tile may be said to be of any width: no product below is larger than this one.
    byte_count(source.path(), &[row, rows.end])?;
    let (offset, length) = (page.offsets[number], page.lengths[number]);
    if length == 0 {
        return Err(tile.wrong("it was not written".to_owned()));
    }
    let end = offset.saturating_add(length);
    if end > source.length() {
        let found = source.length().saturating_sub(offset);
        return Err(
            tile.wrong(format!("it has {found} of its {length} bytes: the file ends early"))
        );
    }
    let from = row as u64 * rows.start as u64;
    if page.packing == Packing::None {
        let needed = from.saturating_add(row as u64 * rows.len() as u64);
        if needed > length {
            return Err(tile.wrong(format!("it has {length} bytes, but {needed} are needed")));
        }
        let mut bytes = tile.zeroed(row * rows.len())?;
        tile.read(offset + from, &mut bytes)?;
        tile.to_native(&mut bytes);
        return Ok(bytes);
    }
    let packed = {
        let mut packed = tile.zeroed(usize::try_from(length).unwrap_or(usize::MAX))?;
        tile.read(offset, &mut packed)?;
        packed
    };
    // What is before the last row that is asked for has to be unpacked; JPEG has all of it.
    let last = if page.packing == Packing::Jpeg { page.rows(number) } else { rows.end };
    let all = byte_count(source.path(), &[row, last])?;
    tile.check_claim(length, all)?;
    let mut bytes = match page.packing {
        Packing::Jpeg => tile.jpeg(&packed, all)?,
        Packing::Lzw => tile.lzw(&packed, all)?,
        Packing::PackBits => tile.pack_bits(&packed, all)?,
        Packing::Deflate | Packing::None => {
            let mut bytes = tile.zeroed(all)?;
            let n = read_full(&mut ZlibDecoder::new(&packed[..]), &mut bytes)
                .map_err(|e| tile.wrong(format!("it is damaged ({})", shorten(&e.to_string()))))?;
            tile.complete(n, all)?;
            bytes
        }
    };
    let from = row * rows.start;
    bytes.copy_within(from..from + row * rows.len(), 0);
    bytes.truncate(row * rows.len());
    tile.to_native(&mut bytes);
    if page.predicted {
        bytes.chunks_exact_mut(row).for_each(|row| sum_up(row, samples, page.data_type.size()));
    }
    Ok(bytes)
}

struct Tile<'t> {
    source: &'t Source<'t>,
    page: &'t Page,
    number: usize,
}

impl Tile<'_> {
    fn wrong(&self, problem: String) -> IoError {
        let kind = if self.page.tiled { "tile" } else { "strip" };
        let number = self.number % self.page.tiles();
        let (x, y) = (number % self.page.across[0], number / self.page.across[0]);
        let [nx, ny] = self.page.dims;
        IoError::malformed(
            self.source.path(),
            format!(
                "{kind} {} (column {x}, row {y}) of the image of {nx} x {ny} pixels: {problem}",
                self.number
            ),
            "the file is damaged: copy or download it again",
        )
    }

    fn check_claim(&self, length: u64, all: usize) -> Result<()> {
        if all as u64 <= length.saturating_mul(VALUES_OF_A_BYTE).saturating_add(SMALL) {
            return Ok(());
        }
        Err(self.wrong(format!("{length} bytes cannot hold {all} bytes of values")))
    }

    fn zeroed(&self, length: usize) -> Result<Vec<u8>> {
        memory::zeroed(length).map_err(|refused| IoError::memory(self.source.path(), refused))
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let path = self.source.path();
        let mut reader = self.source.raw_with(offset, bytes.len().clamp(1, 1 << 18))?;
        let n = read_full(&mut reader, bytes).map_err(|e| IoError::reading(path, e))?;
        self.complete(n, bytes.len())
    }

    fn complete(&self, found: usize, needed: usize) -> Result<()> {
        if found == needed {
            return Ok(());
        }
        Err(self.wrong(format!("it has {found} bytes of values, but {needed} are needed")))
    }

    fn to_native(&self, bytes: &mut [u8]) {
        let size = self.page.data_type.size();
        // What JPEG unpacks is of bytes.
        if size > 1 && self.page.big_endian != cfg!(target_endian = "big") {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
    }

    fn lzw(&self, packed: &[u8], all: usize) -> Result<Vec<u8>> {
        let mut bytes = self.zeroed(all)?;
        let mut decoder = decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
        let (mut from, mut to) = (0, 0);
        while to < all {
            let done = decoder.decode_bytes(&packed[from..], &mut bytes[to..]);
            from += done.consumed_in;
            to += done.consumed_out;
            match done.status {
                Ok(weezl::LzwStatus::Ok) if done.consumed_in + done.consumed_out > 0 => {}
                Ok(_) => break,
                Err(e) => return Err(self.wrong(format!("it is damaged ({e})"))),
            }
        }
        self.complete(to, all)?;
        Ok(bytes)
    }

    fn pack_bits(&self, packed: &[u8], all: usize) -> Result<Vec<u8>> {
        let mut bytes = self.zeroed(all)?;
        let (mut left, mut to) = (packed, 0);
        while to < all {
            let Some((&control, rest)) = left.split_first() else { break };
            let (count, source) = match control {
                0..=127 => (usize::from(control) + 1, usize::from(control) + 1),
                128 => {
                    left = rest;
                    continue;
                }
                _ => (257 - usize::from(control), 1),
            };
            let Some(values) = rest.get(..source) else { break };
            let now = count.min(all - to);
            for (i, byte) in bytes[to..to + now].iter_mut().enumerate() {
                *byte = values[if source == 1 { 0 } else { i }];
            }
            to += now;
            left = &rest[source..];
        }
        self.complete(to, all)?;
        Ok(bytes)
    }

    fn jpeg(&self, packed: &[u8], all: usize) -> Result<Vec<u8>> {
        let damaged = |e: &dyn std::fmt::Display| {
            self.wrong(format!("its JPEG data are damaged ({})", shorten(&e.to_string())))
        };
        // Tables that all tiles share go before those of the tile, between one begin of an image and one end.
        let tables = &self.page.tables;
        let (tables, own) = if tables.len() > 4 && packed.starts_with(&[0xff, 0xd8]) {
            let end = if tables.ends_with(&[0xff, 0xd9]) { tables.len() - 2 } else { tables.len() };
            (&tables[..end], &packed[2..])
        } else {
            (&tables[..0], packed)
        };
        let mut decoder = jpeg_decoder::Decoder::new(tables.chain(own));
        let samples = if self.page.planar { 1 } else { self.page.samples };
        decoder.set_color_transform(match (samples, self.page.differences) {
            (1, _) => ColorTransform::Grayscale,
            (_, true) => ColorTransform::YCbCr,
            (_, false) => ColorTransform::RGB,
        });
        let longest = self.page.tile[0].saturating_mul(self.page.tile[1]).saturating_mul(samples);
        decoder.set_max_decoding_buffer_size(longest);
        decoder.read_info().map_err(|e| damaged(&e))?;
        let info = decoder.info().ok_or_else(|| damaged(&"no header"))?;
        let found = match info.pixel_format {
            PixelFormat::L8 => 1,
            PixelFormat::RGB24 => 3,
            _ => return Err(damaged(&"samples of an unexpected kind")),
        };
        let (width, height) = (usize::from(info.width), usize::from(info.height));
        // The last strip may be as long as the others.
        let rows = self.page.rows(self.number)..=self.page.tile[1];
        if (width, found) != (self.page.tile[0], samples) || !rows.contains(&height) {
            return Err(damaged(&format!("{width} x {height} pixels of {found} samples")));
        }
        self.check_claim(packed.len() as u64, width.saturating_mul(height).saturating_mul(found))?;
        // The decoder asks for this by itself, where a refusal would end the program.
        drop(self.zeroed(width.saturating_mul(height).saturating_mul(2 * found))?);
        let bytes = decoder.decode().map_err(|e| damaged(&e))?;
        self.complete(bytes.len().min(all), all)?;
        Ok(bytes)
    }
}

/// Sums up a row of differences, sample by sample.
fn sum_up(row: &mut [u8], samples: usize, size: usize) {
    macro_rules! of {
        ($ty:ty) => {{
            const SIZE: usize = std::mem::size_of::<$ty>();
            let value = |row: &[u8], i: usize| {
                let mut own = [0; SIZE];
                own.copy_from_slice(&row[SIZE * i..SIZE * (i + 1)]);
                <$ty>::from_ne_bytes(own)
            };
            for i in samples..row.len() / SIZE {
                let sum = value(row, i).wrapping_add(value(row, i - samples));
                row[SIZE * i..SIZE * (i + 1)].copy_from_slice(&sum.to_ne_bytes());
            }
        }};
    }
    match size {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        _ => of!(u64),
    }
}
