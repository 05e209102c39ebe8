//! The container of Blosc, first version: blocks, possibly split by the bytes of values, possibly shuffled.

use super::chain::Damage;
use super::packing::{cut, lz4, zlib, zstd};
use voxalign_image::memory;

/// Values of more bytes are not split, nor are blocks of fewer values.
const SPLITS: usize = 16;
const FEWEST: usize = 128;

/// What is at the begin of a buffer.
struct Header {
    flags: u8,
    value: usize,
    bytes: usize,
    block: usize,
}

impl Header {
    fn read(packed: &[u8]) -> Result<Header, Damage> {
        let head = packed.first_chunk::<16>().ok_or_else(cut)?;
        let number = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        if head[0] > 2 {
            return Err(format!("it is of version {} of Blosc", head[0]).into());
        }
        if number(12) > packed.len() {
            return Err(cut());
        }
        Ok(Header {
            flags: head[2],
            value: usize::from(head[3]).max(1),
            bytes: number(4),
            block: number(8),
        })
    }

    fn codec(&self) -> u8 {
        self.flags >> 5
    }

    /// Streams that a block is of.
    fn streams(&self, length: usize) -> usize {
        let split = self.flags & 0x10 == 0
            && self.value <= SPLITS
            && self.block / self.value >= FEWEST
            && length == self.block;
        if split { self.value } else { 1 }
    }
}

/// Unpacks a buffer of at most `room` bytes.
pub(super) fn unpack(packed: &[u8], room: usize) -> Result<Vec<u8>, Damage> {
    let header = Header::read(packed)?;
    if header.bytes > room {
        let problem = format!("it has {} bytes of values, but {room} are needed", header.bytes);
        return Err(problem.into());
    }
    if header.flags & 2 != 0 {
        let stored = packed.get(16..16 + header.bytes).ok_or_else(cut)?;
        return Ok(memory::copied(stored)?);
    }
    let mut out = memory::zeroed(header.bytes)?;
    if header.bytes == 0 {
        return Ok(out);
    }
    if header.block == 0 || header.block > header.bytes {
        return Err(format!("its blocks have {} bytes", header.block).into());
    }
    let mut scratch = memory::zeroed(header.block)?;
    for (number, block) in out.chunks_mut(header.block).enumerate() {
        let at = packed.get(16 + 4 * number..).and_then(<[u8]>::first_chunk::<4>);
        let at = u32::from_le_bytes(*at.ok_or_else(cut)?) as usize;
        let from = packed.get(at..).ok_or_else(cut)?;
        let scratch = &mut scratch[..block.len()];
        streams(&header, from, scratch)?;
        unshuffle(&header, scratch, block);
    }
    Ok(out)
}

/// The streams of a block.
fn streams(header: &Header, mut from: &[u8], out: &mut [u8]) -> Result<(), Damage> {
    let count = header.streams(out.len());
    let length = out.len() / count;
    // What is left where the bytes are no multiple belongs to no stream.
    for stream in out.chunks_exact_mut(length.max(1)).take(count) {
        let (size, rest) = from.split_first_chunk::<4>().ok_or_else(cut)?;
        let packed = rest.get(..u32::from_le_bytes(*size) as usize).ok_or_else(cut)?;
        from = &rest[packed.len()..];
        if packed.len() == stream.len() {
            stream.copy_from_slice(packed);
            continue;
        }
        let unpacked = match header.codec() {
            0 => {
                blosclz(packed, stream).ok_or_else(|| "a block is damaged".to_owned())?;
                continue;
            }
            1 => {
                lz4(packed, stream)?;
                continue;
            }
            3 => zlib(packed, stream.len())?,
            4 => zstd(packed, stream.len())?,
            2 => return Err("it is packed by Snappy, which is not read".to_owned().into()),
            other => return Err(format!("it is packed by the codec {other} of Blosc").into()),
        };
        if unpacked.len() != stream.len() {
            return Err(format!("a block has {} bytes", unpacked.len()).into());
        }
        stream.copy_from_slice(&unpacked);
    }
    Ok(())
}

/// Puts the bytes or bits of values together again.
fn unshuffle(header: &Header, from: &[u8], to: &mut [u8]) {
    let size = header.value;
    let n = from.len() / size;
    let whole = n * size;
    if header.flags & 1 != 0 && size > 1 {
        for (i, value) in to[..whole].chunks_exact_mut(size).enumerate() {
            value.iter_mut().enumerate().for_each(|(j, byte)| *byte = from[j * n + i]);
        }
        to[whole..].copy_from_slice(&from[whole..]);
    } else if header.flags & 4 != 0 && n > 0 && n.is_multiple_of(8) {
        let row = n / 8;
        for (i, value) in to[..whole].chunks_exact_mut(size).enumerate() {
            for (j, byte) in value.iter_mut().enumerate() {
                let bit = |k: usize| (from[(8 * j + k) * row + i / 8] >> (i % 8) & 1) << k;
                *byte = (0..8).map(bit).sum();
            }
        }
        to[whole..].copy_from_slice(&from[whole..]);
    } else {
        to.copy_from_slice(from);
    }
}

/// The furthest that a short match is away.
const NEAR: usize = 8191;

/// BloscLZ: literals and matches as FastLZ has them, with a longer form for matches that are far away.
fn blosclz(packed: &[u8], out: &mut [u8]) -> Option<()> {
    let mut from = packed.iter().copied();
    let mut done = 0;
    let mut control = usize::from(from.next()? & 31);
    loop {
        if control < 32 {
            let to = out.get_mut(done..done + control + 1)?;
            for byte in to {
                *byte = from.next()?;
            }
            done += control + 1;
        } else {
            let mut length = (control >> 5) + 2;
            let mut distance = (control & 31) << 8;
            if control >> 5 == 7 {
                loop {
                    let more = usize::from(from.next()?);
                    length += more;
                    if more < 255 {
                        break;
                    }
                }
            }
            let low = usize::from(from.next()?);
            if low == 255 && distance == 31 << 8 {
                distance = usize::from(from.next()?) << 8;
                distance += usize::from(from.next()?) + NEAR;
            } else {
                distance += low;
            }
            let begin = done.checked_sub(distance + 1)?;
            if length > out.len() - done {
                return None;
            }
            for i in 0..length {
                out[done + i] = out[begin + i];
            }
            done += length;
        }
        match from.next() {
            Some(next) => control = usize::from(next),
            None => break,
        }
    }
    (done == out.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The begin of a buffer of so many bytes in blocks.
    fn header(flags: u8, bytes: u32, block: u32, packed: u32) -> Vec<u8> {
        let numbers = [bytes, block, packed].map(u32::to_le_bytes).concat();
        [&[2, 1, flags, 1], &numbers[..]].concat()
    }

    #[test]
    fn sizes_that_are_claimed_ask_for_no_memory() {
        // A buffer of no bytes in blocks of gigabytes.
        let mut packed = header(0, 0, 0xe1ff_0000, 16);
        packed.resize(116, 0);
        assert!(unpack(&packed, 4800).unwrap().is_empty());
        for (bytes, block) in [(4800, 0xe1ff_0000), (4800, 0), (4801, 4800), (u32::MAX, u32::MAX)] {
            let mut packed = header(0, bytes, block, 16);
            packed.resize(116, 0);
            assert!(unpack(&packed, 4800).is_err(), "{bytes} {block}");
        }
        assert!(unpack(&header(0, 0, 0, 17), 4800).is_err());
    }

    #[test]
    fn matches_of_blosclz_may_overlap_and_be_far() {
        let mut out = [0; 12];
        // A literal of two bytes, a match of three bytes more than it, one of the longest kind.
        let packed = [1, b'a', b'b', 1 << 5, 1, 7 << 5, 0, 0];
        assert!(blosclz(&packed, &mut out).is_none());
        let mut whole = [0; 14];
        assert!(blosclz(&packed, &mut whole).is_some());
        assert_eq!(&whole, b"ababaaaaaaaaaa");
        // Before the begin, beyond the end, and cut.
        assert!(blosclz(&[0, b'a', 1 << 5, 1], &mut out[..4]).is_none());
        assert!(blosclz(&[0, b'a', 1 << 5, 0], &mut out[..3]).is_none());
        assert!(blosclz(&[0, b'a', 1 << 5], &mut out[..4]).is_none());
        // Further away than thirteen bits: 8191 + 1 + 0x0102 bytes back.
        let mut far = vec![0; 9000];
        let mut packed = Vec::new();
        for i in 0..280u32 {
            packed.push(31);
            packed.extend((0..32).map(|j| (i * 32 + j) as u8 ^ (i >> 3) as u8));
        }
        packed.extend([1 << 5 | 31, 255, 1, 2]);
        far.resize(280 * 32 + 3, 0);
        assert!(blosclz(&packed, &mut far).is_some());
        let begin = 280 * 32 - (NEAR + 1 + 0x0102);
        assert_eq!(far[280 * 32..], far[begin..begin + 3]);
    }
}
