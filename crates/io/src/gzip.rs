//! Fast gzip with the same bytes for any number of threads.
//!
//! [`GzipWriter`] cuts the input into pieces of fixed size, deflates them in parallel, each on its
//! own and ended by a synchronising flush, and joins them into one gzip member (or zlib stream)
//! with one checksum. Any reader reads it.
//!
//! In the numbers of a displacement field hardly any bytes repeat, and the search for those that do takes most
//! of the time and gains nothing: a piece of which a sample says so is coded by the frequency of its bytes alone.

use crc32fast::Hasher;
use flate2::bufread::GzDecoder;
use rayon::prelude::*;
use simd_adler32::Adler32;
use std::io::{self, BufRead, Read, Write};
use voxalign_image::memory;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status, Strategy};

/// Bytes of input in one piece.
const PIECE: usize = 1 << 19;
/// Pieces that are compressed together; memory is about twice this many pieces.
const BATCH: usize = 16;

/// The checksum at the end, which tells the two containers apart.
enum Checksum {
    /// gzip.
    Crc(Hasher),
    /// zlib.
    Adler(Adler32),
}

/// Compresses what is written to it as one gzip member (or one zlib stream).
///
/// The bytes depend on the input and the level only, not on the number of threads nor on how
/// the input was cut into calls of `write`. Call [`GzipWriter::finish`] at the end.
pub struct GzipWriter<W: Write> {
    sink: W,
    level: u32,
    checksum: Checksum,
    length: u64,
    waiting: Vec<u8>,
}

impl<W: Write> GzipWriter<W> {
    /// Begins a gzip member; `level` is clamped to 1..=9.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn new(mut sink: W, level: u32) -> io::Result<Self> {
        // Deflate, no flags, no time, unknown system: nothing that changes from run to run.
        sink.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])?;
        Ok(Self::with(sink, level, Checksum::Crc(Hasher::new())))
    }

    /// Begins a zlib stream, as MetaImage has; `level` is clamped to 1..=9.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn zlib(mut sink: W, level: u32) -> io::Result<Self> {
        sink.write_all(&[0x78, 0x5e])?;
        Ok(Self::with(sink, level, Checksum::Adler(Adler32::new())))
    }

    fn with(sink: W, level: u32, checksum: Checksum) -> Self {
        Self { sink, level: level.clamp(1, 9), checksum, length: 0, waiting: Vec::new() }
    }

    /// Compresses what waits; `last` ends the deflate stream.
    fn compress_waiting(&mut self, last: bool) -> io::Result<()> {
        let mut pieces: Vec<&[u8]> = self.waiting.chunks(PIECE).collect();
        if last && pieces.is_empty() {
            pieces.push(&[]);
        }
        let end = if last { pieces.len() - 1 } else { usize::MAX };
        let with_crc = matches!(self.checksum, Checksum::Crc(_));
        let level = self.level as i32;
        let packed: Vec<_> = pieces
            .par_iter()
            .enumerate()
            .map_init(
                || Packer::new(level),
                |packer, (i, piece)| {
                    let mut crc = Hasher::new();
                    if with_crc {
                        crc.update(piece);
                    }
                    packer.pack(piece, i == end).map(|bytes| (bytes, crc))
                },
            )
            .collect();
        for result in packed {
            let (bytes, crc) = result?;
            self.sink.write_all(&bytes)?;
            if let Checksum::Crc(total) = &mut self.checksum {
                total.combine(&crc);
            }
        }
        if let Checksum::Adler(total) = &mut self.checksum {
            total.write(&self.waiting);
        }
        self.length += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Compresses the rest, writes the checksum and gives the sink back.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.compress_waiting(true)?;
        let Self { mut sink, checksum, length, .. } = self;
        match checksum {
            Checksum::Crc(crc) => {
                sink.write_all(&crc.finalize().to_le_bytes())?;
                sink.write_all(&(length as u32).to_le_bytes())?;
            }
            Checksum::Adler(adler) => sink.write_all(&adler.finish().to_be_bytes())?,
        }
        Ok(sink)
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(PIECE * BATCH - self.waiting.len());
        let needed = self.waiting.len() + n;
        if needed > self.waiting.capacity() {
            let room = needed.next_power_of_two().min(PIECE * BATCH);
            let more = room - self.waiting.len();
            asked(room, || self.waiting.try_reserve_exact(more).ok())?;
        }
        self.waiting.extend_from_slice(&bytes[..n]);
        if self.waiting.len() == PIECE * BATCH {
            self.compress_waiting(false)?;
        }
        Ok(n)
    }

    /// Does nothing: pieces have a fixed size.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Asks for memory, of which there shall be so many bytes.
fn asked(bytes: usize, request: impl FnOnce() -> Option<()>) -> io::Result<()> {
    memory::ask::<u8, ()>(bytes, request)
        .map_err(|refused| io::Error::new(io::ErrorKind::OutOfMemory, refused))
}

/// Deflates pieces.
struct Packer {
    /// Looks for bytes that were there before.
    matching: Deflate,
    /// Codes bytes by their frequency.
    entropy: Deflate,
}

/// Stretches of a piece that are tried, and bytes of each.
const STRETCHES: usize = 4;
const STRETCH: usize = 4 << 10;

impl Packer {
    fn new(level: i32) -> Self {
        // Raw deflate: the containers are written here.
        let of = |strategy| {
            let usual = DeflateConfig::new(level);
            Deflate::new_with_config(DeflateConfig { window_bits: -15, strategy, ..usual })
        };
        Self { matching: of(Strategy::Default), entropy: of(Strategy::HuffmanOnly) }
    }

    /// One piece, ended by a synchronising flush or by the end of the stream.
    fn pack(&mut self, piece: &[u8], last: bool) -> io::Result<Vec<u8>> {
        let packer = if self.repeats(piece)? { &mut self.matching } else { &mut self.entropy };
        deflate(packer, piece, last)
    }

    /// Whether bytes repeat in a sample of a piece, so that it pays to look for them.
    fn repeats(&mut self, piece: &[u8]) -> io::Result<bool> {
        if piece.len() < 4 * STRETCHES * STRETCH {
            return Ok(true);
        }
        let stretches = piece.chunks(piece.len() / STRETCHES).take(STRETCHES);
        let sample: Vec<u8> = stretches.flat_map(|s| &s[..STRETCH]).copied().collect();
        let matching = deflate(&mut self.matching, &sample, true)?.len();
        let entropy = deflate(&mut self.entropy, &sample, true)?.len();
        Ok(100 * matching < 97 * entropy)
    }
}

/// Some bytes as raw deflate.
fn deflate(state: &mut Deflate, piece: &[u8], last: bool) -> io::Result<Vec<u8>> {
    state.reset();
    let flush = if last { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
    let mut out = Vec::new();
    loop {
        let more = piece.len() + piece.len() / 64 + 64;
        asked(out.len() + more, || out.try_reserve_exact(more).ok())?;
        out.resize(out.len() + more, 0);
        let (done, filled) = (state.total_in() as usize, state.total_out() as usize);
        let status = state.compress(&piece[done..], &mut out[filled..], flush);
        let status = status.map_err(|e| io::Error::other(format!("deflate: {e:?}")))?;
        let (done, filled) = (state.total_in() as usize, state.total_out() as usize);
        if status == Status::StreamEnd || (!last && done == piece.len() && filled < out.len()) {
            out.truncate(filled);
            return Ok(out);
        }
    }
}

/// Reads gzip of one or several members; what follows the last member is ignored, as `gzip` does.
pub struct GzipReader<R: BufRead> {
    state: State<R>,
}

enum State<R: BufRead> {
    Member(Box<GzDecoder<R>>),
    Done,
}

impl<R: BufRead> GzipReader<R> {
    /// A reader of a stream that begins with a gzip header.
    pub fn new(source: R) -> Self {
        Self { state: State::Member(Box::new(GzDecoder::new(source))) }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let State::Member(decoder) = &mut self.state else { return Ok(0) };
            let n = decoder.read(buffer)?;
            if n > 0 {
                return Ok(n);
            }
            let State::Member(decoder) = std::mem::replace(&mut self.state, State::Done) else {
                return Ok(0);
            };
            let mut source = decoder.into_inner();
            let next = source.fill_buf()?;
            if next.starts_with(&[0x1f, 0x8b]) || next == [0x1f] {
                *self = Self::new(source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::{MultiGzDecoder, ZlibDecoder};
    use proptest::prelude::*;

    /// Bytes with some structure.
    fn bytes(n: usize, seed: u32) -> Vec<u8> {
        let mut x = seed | 1;
        (0..n)
            .map(|i| {
                x ^= x << 13;
                x ^= x >> 17;
                x ^= x << 5;
                if x & 3 == 0 { (x >> 8) as u8 } else { (i / 100) as u8 }
            })
            .collect()
    }

    fn pack(data: &[u8], level: u32, step: usize) -> Vec<u8> {
        let mut writer = GzipWriter::new(Vec::new(), level).unwrap();
        data.chunks(step.max(1)).for_each(|c| writer.write_all(c).unwrap());
        writer.finish().unwrap()
    }

    fn unpack(packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzipReader::new(packed).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn every_size_round_trips() {
        for n in [0, 1, PIECE - 1, PIECE, PIECE + 1, BATCH * PIECE, BATCH * PIECE + 77] {
            let data = bytes(n, 7);
            let packed = pack(&data, 3, 1 << 16);
            assert_eq!(unpack(&packed), data, "{n}");
            let mut other = Vec::new();
            MultiGzDecoder::new(&packed[..]).read_to_end(&mut other).unwrap();
            assert!(other == data);
            let mut zlib = GzipWriter::zlib(Vec::new(), 3).unwrap();
            zlib.write_all(&data).unwrap();
            let mut back = Vec::new();
            ZlibDecoder::new(&zlib.finish().unwrap()[..]).read_to_end(&mut back).unwrap();
            assert!(back == data);
        }
    }

    #[test]
    fn bytes_do_not_depend_on_threads_or_calls() {
        let data = bytes(3 * PIECE + 12345, 3);
        let first = pack(&data, 3, 1000);
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| pack(&data, 3, 777_777)) == first, "{threads} threads");
        }
    }

    /// Bytes are looked for where they repeat, and coded by their frequency where they do not.
    #[test]
    fn what_does_not_repeat_is_not_looked_for() {
        let field = |i: usize| (0.37 * i as f32).sin() * (0.0011 * i as f32).cos();
        let numbers: Vec<u8> = (0..PIECE / 4).flat_map(|i| field(i).to_le_bytes()).collect();
        let image: Vec<u8> = (0..PIECE).map(|i| (i / 3 % 251) as u8).collect();
        // A background before the numbers: the stretches see both.
        let half = [vec![0; PIECE / 2], numbers[..PIECE / 2].to_vec()].concat();
        let level = 2;
        for (data, repeats) in [(&numbers, false), (&image, true), (&half, true)] {
            let mut packer = Packer::new(level);
            assert_eq!(packer.repeats(data).unwrap(), repeats);
            let matching = deflate(&mut packer.matching, data, true).unwrap().len();
            let entropy = deflate(&mut packer.entropy, data, true).unwrap().len();
            let found = packer.pack(data, true).unwrap().len();
            assert_eq!(found, if repeats { matching } else { entropy });
            assert!(found as f64 <= 1.02 * matching.min(entropy) as f64);
            assert_eq!(unpack(&pack(data, 2, 1 << 16)), *data);
        }
    }

    #[test]
    fn several_members_and_trailing_zeros() {
        let mut packed = pack(b"one ", 1, 9);
        packed.extend(pack(b"two", 9, 9));
        packed.extend([0; 512]);
        assert_eq!(unpack(&packed), b"one two");
    }

    #[test]
    fn damage_is_an_error() {
        let data = bytes(10_000, 5);
        let packed = pack(&data, 3, 1000);
        let read = |p: &[u8]| GzipReader::new(p).read_to_end(&mut Vec::new());
        assert!(read(&packed[..packed.len() - 3]).is_err());
        let mut wrong = packed.clone();
        let n = wrong.len();
        wrong[n - 6] ^= 1;
        assert!(read(&wrong).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn round_trip(data in prop::collection::vec(any::<u8>(), 0..5000), level in 0u32..12) {
            prop_assert_eq!(unpack(&pack(&data, level, 100)), data);
        }
    }
}
