//! Codecs from bytes to bytes.

use super::blosc;
use super::chain::Damage;
use crate::gzip::GzipReader;
use crate::source::read_full;
use flate2::bufread::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;
use voxalign_image::memory;

/// Bytes that a packed byte may stand for, and some for small chunks: chunks of one value are packed well.
const VALUES_OF_A_BYTE: usize = 1 << 16;
const SMALL: usize = 1 << 26;

/// How bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zlib,
    Zstd,
    Lz4,
    Blosc,
    /// Four bytes at the end, which are checked.
    Crc32c,
}

impl Packing {
    /// By the name of either version of Zarr.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("numcodecs.").unwrap_or(name) {
            "gzip" => Self::Gzip,
            "zlib" => Self::Zlib,
            "zstd" => Self::Zstd,
            "lz4" => Self::Lz4,
            "blosc" => Self::Blosc,
            "crc32c" => Self::Crc32c,
            _ => return None,
        })
    }

    /// Unpacks at most `room` bytes; more of them are an error.
    pub(super) fn unpack(self, packed: &[u8], room: usize) -> Result<Vec<u8>, Damage> {
        if room > packed.len().saturating_mul(VALUES_OF_A_BYTE).saturating_add(SMALL) {
            return Err(format!("{} bytes cannot hold {room}", packed.len()).into());
        }
        match self {
            Self::Gzip => stream(GzipReader::new(packed), room),
            Self::Zlib => stream(ZlibDecoder::new(packed), room),
            Self::Zstd => zstd(packed, room),
            Self::Lz4 => {
                let (size, rest) = packed.split_first_chunk::<4>().ok_or_else(cut)?;
                let size = u32::from_le_bytes(*size) as usize;
                check(size, room)?;
                let mut out = memory::zeroed(size)?;
                lz4(rest, &mut out)?;
                Ok(out)
            }
            Self::Blosc => blosc::unpack(packed, room),
            Self::Crc32c => {
                let (bytes, sum) = packed.split_last_chunk::<4>().ok_or_else(cut)?;
                if crc32c(bytes) != u32::from_le_bytes(*sum) {
                    return Err("its checksum is not that of its bytes".to_owned().into());
                }
                Ok(memory::copied(bytes)?)
            }
        }
    }
}

pub(super) fn cut() -> Damage {
    "it ends early".to_owned().into()
}

fn check(size: usize, room: usize) -> Result<(), Damage> {
    if size <= room {
        return Ok(());
    }
    Err(format!("it has {size} bytes of values, but {room} are needed").into())
}

/// All that a reader gives, into as much memory as is expected.
fn stream(mut reader: impl Read, room: usize) -> Result<Vec<u8>, Damage> {
    let mut out = memory::zeroed(room)?;
    let damaged = |e: std::io::Error| Damage::from(format!("it is damaged ({e})"));
    let n = read_full(&mut reader, &mut out).map_err(damaged)?;
    // What is behind is asked for, too: checksums are there.
    if n == room && read_full(&mut reader, &mut [0]).map_err(damaged)? > 0 {
        return Err(format!("it has more than the {room} bytes of values that are needed").into());
    }
    out.truncate(n);
    Ok(out)
}

pub(super) fn zstd(packed: &[u8], room: usize) -> Result<Vec<u8>, Damage> {
    // What the decoder holds is no more than a chunk.
    let window = (room as u64).max(SMALL as u64);
    let mut reader = StreamingDecoder::new_with_max_window_size(packed, window)
        .map_err(|e| format!("it is no zstd frame ({e})"))?;
    let out = stream(&mut reader, room)?;
    let decoder = reader.into_frame_decoder();
    let written = decoder.get_checksum_from_data();
    if written.is_some() && written != decoder.get_calculated_checksum() {
        return Err("its checksum is not that of its values".to_owned().into());
    }
    Ok(out)
}

pub(super) fn zlib(packed: &[u8], room: usize) -> Result<Vec<u8>, Damage> {
    stream(ZlibDecoder::new(packed), room)
}

/// A block of LZ4, which fills `out`.
pub(super) fn lz4(packed: &[u8], out: &mut [u8]) -> Result<(), Damage> {
    match lz4_flex::block::decompress_into(packed, out) {
        Ok(n) if n == out.len() => Ok(()),
        Ok(n) => Err(format!("a block has {n} bytes instead of {}", out.len()).into()),
        Err(e) => Err(format!("a block is damaged ({e})").into()),
    }
}

/// The CRC-32C (Castagnoli) of bytes: the polynomial 0x1EDC6F41, reflected.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut value = i as u32;
            let mut bit = 0;
            while bit < 8 {
                value = (value >> 1) ^ if value & 1 == 1 { 0x82F6_3B78 } else { 0 };
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    };
    !bytes
        .iter()
        .fold(u32::MAX, |crc, &b| (crc >> 8) ^ TABLE[((crc ^ u32::from(b)) & 255) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let counting: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&counting), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn more_than_is_expected_is_refused() {
        let mut packed = Vec::new();
        let mut encoder = flate2::write::ZlibEncoder::new(&mut packed, flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, &[7; 100_000]).unwrap();
        encoder.finish().unwrap();
        assert_eq!(Packing::Zlib.unpack(&packed, 100_000).unwrap(), [7; 100_000]);
        assert!(Packing::Zlib.unpack(&packed, 99_999).is_err());
        assert_eq!(Packing::Zlib.unpack(&packed, 100_004).unwrap().len(), 100_000);
        assert!(Packing::Zlib.unpack(&packed, 1 << 40).is_err());
        for cut in 0..packed.len() {
            assert!(
                !matches!(Packing::Zlib.unpack(&packed[..cut], 100_000), Ok(b) if b.len() == 100_000)
            );
        }
    }
}
