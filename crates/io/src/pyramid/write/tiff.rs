//! Tiles of TIFF and BigTIFF: first those of all levels, in the order in which they come, then a directory a level.

use super::super::pixel::Pixels;
use super::plan::Plan;
use super::zarr::unwritten;
use super::{Tiles, tiles};
use crate::error::{IoError, Result};
use crate::image::Region;
use crate::source::read_full;
use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use voxalign_image::memory;

/// Bytes up to which offsets of 32 bits serve, with room for directories.
const CLASSIC: u64 = (1 << 32) - (1 << 28);

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Sink {
    path: PathBuf,
    big: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    end: u64,
    /// Where tiles are and how long, for each level.
    tables: Vec<Vec<(u64, u64)>>,
}

impl Sink {
    pub(super) fn create(path: &Path, plan: &Plan) -> Result<Self> {
        let mut tables = Vec::new();
        let mut bytes = 0u64;
        for level in &plan.levels {
            let across = across(level.dims(), level.tile);
            let table = memory::zeroed::<[u64; 2]>(across[0] * across[1]);
            // Asked for by what may be refused, and made of what is not large then.
            let n = table.map_err(|r| IoError::memory(path, r))?.len();
            tables.push(vec![(0, 0); n]);
            let tile = (level.tile[0] * level.tile[1]) as u64;
            let size = tile * (plan.channels * plan.pixel_type.size()) as u64;
            // What cannot be packed becomes a little longer.
            bytes = bytes.saturating_add((n as u64).saturating_mul(size + size / 1000 + 64));
        }
        let named = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("btf"));
        let big = named || bytes > CLASSIC;
        let fail = |e| IoError::writing(path, e);
        let mut file = File::create_new(path).map_err(fail)?;
        let head: &[u8] =
            if big { b"II\x2b\0\x08\0\0\0\0\0\0\0\0\0\0\0" } else { b"II\x2a\0\0\0\0\0" };
        file.write_all(head).map_err(fail)?;
        let state = Mutex::new(State { file, end: head.len() as u64, tables });
        Ok(Self { path: path.to_owned(), big, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, plan: &Plan, level: usize, tiles: Tiles) -> Result<()> {
        let fail = |e| IoError::writing(&plan.path, e);
        let of = &plan.levels[level];
        let columns = across(of.dims(), of.tile)[0];
        let packed: Result<Vec<(usize, Vec<u8>)>> = tiles
            .into_par_iter()
            .map(|([x, y, _], pixels)| Ok((y * columns + x, pack(plan, pixels)?)))
            .collect();
        let mut state = self.state();
        for (number, bytes) in packed? {
            let at = state.end;
            state.append(&bytes).map_err(fail)?;
            state.tables[level][number] = (at, bytes.len() as u64);
        }
        Ok(())
    }

    /// Pixels of all channels of a region that was written.
    pub(super) fn read(&self, plan: &Plan, level: usize, region: &Region) -> Result<Pixels> {
        let no_memory = |refused| IoError::memory(&plan.path, refused);
        let of = &plan.levels[level];
        let columns = across(of.dims(), of.tile)[0];
        let n = region.len();
        let mut out = Pixels::zeroed(plan.pixel_type, n * plan.channels).map_err(no_memory)?;
        let mut file = File::open(&self.path).map_err(|e| IoError::reading(&plan.path, e))?;
        for number in tiles::within(region, of.tile) {
            let (at, length) = self.state().tables[level][number[1] * columns + number[0]];
            if length == 0 {
                return Err(unwritten(plan, level, number));
            }
            let bytes = unpack(plan, &mut file, at, length)?;
            let corner = [number[0] * of.tile[0], number[1] * of.tile[1]];
            place(plan, &bytes, of.tile, corner, region, &mut out);
        }
        Ok(out)
    }

    /// Writes the directories, and where the first one is.
    pub(super) fn close(&self, plan: &Plan) -> Result<()> {
        let fail = |e| IoError::writing(&plan.path, e);
        let mut state = self.state();
        for (level, table) in state.tables.iter().enumerate() {
            if let Some(number) = table.iter().position(|&(_, length)| length == 0) {
                let of = &plan.levels[level];
                let columns = across(of.dims(), of.tile)[0];
                return Err(unwritten(plan, level, [number % columns, number / columns, 0]));
            }
        }
        // Where the place of the next directory is to be written.
        let mut link = if self.big { 8 } else { 4 };
        for level in 0..plan.levels.len() {
            let directory = Directory::new(plan, level, &state.tables[level], self.big)
                .map_err(|refused| IoError::memory(&plan.path, refused))?;
            let (at, next) = directory.write(&mut state).map_err(fail)?;
            state.patch(link, &offset(at, self.big)).map_err(fail)?;
            link = next;
        }
        state.file.sync_all().map_err(fail)
    }
}

impl State {
    /// Adds bytes at the end, so that the next ones begin at an even place.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(bytes)?;
        self.end += bytes.len() as u64;
        if !self.end.is_multiple_of(2) {
            self.file.write_all(&[0])?;
            self.end += 1;
        }
        Ok(())
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)
    }
}

fn across(dims: [usize; 3], tile: [usize; 3]) -> [usize; 2] {
    std::array::from_fn(|a| dims[a].div_ceil(tile[a]))
}

fn offset(at: u64, big: bool) -> Vec<u8> {
    at.to_le_bytes()[..if big { 8 } else { 4 }].to_vec()
}

/// The bytes of a tile, with the samples of a pixel beside each other.
fn pack(plan: &Plan, pixels: Pixels) -> Result<Vec<u8>> {
    let no_memory = |refused| IoError::memory(&plan.path, refused);
    let beside = match (plan.channels, pixels) {
        (1, pixels) => pixels,
        (n, Pixels::U8(p)) => Pixels::U8(interleaved(&p, n).map_err(no_memory)?),
        (n, Pixels::U16(p)) => Pixels::U16(interleaved(&p, n).map_err(no_memory)?),
    };
    let bytes = tiles::bytes(beside.view(), plan.is_signed()).map_err(no_memory)?;
    if plan.compression == 0 {
        return Ok(bytes);
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(plan.compression));
    let done = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    done.map_err(|e| IoError::writing(&plan.path, e))
}

fn interleaved<P: Copy>(planes: &[P], channels: usize) -> memory::Result<Vec<P>> {
    let n = planes.len() / channels;
    let mut out = memory::room(planes.len())?;
    (0..n).for_each(|i| out.extend((0..channels).map(|c| planes[c * n + i])));
    Ok(out)
}

/// The bytes of a tile that was written.
fn unpack(plan: &Plan, file: &mut File, at: u64, length: u64) -> Result<Vec<u8>> {
    let no_memory = |refused| IoError::memory(&plan.path, refused);
    let fail = |e| IoError::reading(&plan.path, e);
    let mut packed = memory::zeroed(length as usize).map_err(no_memory)?;
    file.seek(SeekFrom::Start(at)).map_err(fail)?;
    file.read_exact(&mut packed).map_err(fail)?;
    if plan.compression == 0 {
        return Ok(packed);
    }
    let [x, y, _] = plan.levels[0].tile;
    let size = x * y * plan.channels * plan.pixel_type.size();
    let mut bytes = memory::zeroed(size).map_err(no_memory)?;
    let n = read_full(&mut ZlibDecoder::new(&packed[..]), &mut bytes).map_err(fail)?;
    if n == size { Ok(bytes) } else { Err(fail(io::ErrorKind::UnexpectedEof.into())) }
}

/// Copies what is common of a tile and a region, channel by channel.
fn place(
    plan: &Plan,
    bytes: &[u8],
    tile: [usize; 3],
    corner: [usize; 2],
    region: &Region,
    out: &mut Pixels,
) {
    let n = region.len();
    let common: [std::ops::Range<usize>; 2] = std::array::from_fn(|a| {
        corner[a].max(region.start[a])..(corner[a] + tile[a]).min(region.start[a] + region.size[a])
    });
    for y in common[1].clone() {
        for x in common[0].clone() {
            let from = ((y - corner[1]) * tile[0] + x - corner[0]) * plan.channels;
            let to = (y - region.start[1]) * region.size[0] + x - region.start[0];
            for c in 0..plan.channels {
                let (from, to) = (from + c, c * n + to);
                match out {
                    Pixels::U8(out) => {
                        out[to] = bytes[from] ^ if plan.is_signed() { 1 << 7 } else { 0 };
                    }
                    Pixels::U16(out) => {
                        let value = u16::from_le_bytes([bytes[2 * from], bytes[2 * from + 1]]);
                        out[to] = value ^ if plan.is_signed() { 1 << 15 } else { 0 };
                    }
                }
            }
        }
    }
}

/// Tags in ascending order: number, type, count and bytes.
struct Directory {
    tags: Vec<(u16, u16, u64, Vec<u8>)>,
    big: bool,
}

const SHORT: u16 = 3;
const LONG: u16 = 4;
const RATIONAL: u16 = 5;
const LONG8: u16 = 16;

impl Directory {
    fn new(plan: &Plan, level: usize, table: &[(u64, u64)], big: bool) -> memory::Result<Self> {
        let of = &plan.levels[level];
        let short = |v: usize| (v as u16).to_le_bytes().to_vec();
        let long = |v: usize| (v as u32).to_le_bytes().to_vec();
        let each = |v: usize| short(v).repeat(plan.channels);
        let channels = plan.channels as u64;
        let places = |of: fn(&(u64, u64)) -> u64| -> memory::Result<Vec<u8>> {
            let mut out = memory::room(table.len() * 8)?;
            table.iter().for_each(|entry| out.extend(offset(of(entry), big)));
            Ok(out)
        };
        let kind = if big { LONG8 } else { LONG };
        let [sx, sy, _] = of.grid.spacing();
        let tags = vec![
            (254, LONG, 1, long(usize::from(level > 0))),
            (256, LONG, 1, long(of.dims()[0])),
            (257, LONG, 1, long(of.dims()[1])),
            (258, SHORT, channels, each(8 * plan.pixel_type.size())),
            (259, SHORT, 1, short(if plan.compression == 0 { 1 } else { 8 })),
            (262, SHORT, 1, short(if plan.channels == 3 { 2 } else { 1 })),
            (277, SHORT, 1, short(plan.channels)),
            (282, RATIONAL, 1, per_centimetre(sx)),
            (283, RATIONAL, 1, per_centimetre(sy)),
            (284, SHORT, 1, short(1)),
            (296, SHORT, 1, short(3)),
            (322, LONG, 1, long(of.tile[0])),
            (323, LONG, 1, long(of.tile[1])),
            (324, kind, table.len() as u64, places(|&(at, _)| at)?),
            (325, kind, table.len() as u64, places(|&(_, length)| length)?),
            (339, SHORT, channels, each(if plan.is_signed() { 2 } else { 1 })),
        ];
        Ok(Self { tags, big })
    }

    /// Writes it at the end; gives its place and that of the place of the next one.
    fn write(mut self, state: &mut State) -> io::Result<(u64, u64)> {
        let inline = if self.big { 8 } else { 4 };
        for (.., bytes) in &mut self.tags {
            if bytes.len() > inline {
                let at = state.end;
                state.append(bytes)?;
                *bytes = offset(at, self.big);
            }
            bytes.resize(inline, 0);
        }
        let count = self.tags.len() as u64;
        let mut out = offset(count, self.big);
        out.truncate(if self.big { 8 } else { 2 });
        for (tag, kind, count, bytes) in &self.tags {
            out.extend(tag.to_le_bytes());
            out.extend(kind.to_le_bytes());
            out.extend(offset(*count, self.big));
            out.extend(bytes);
        }
        let at = state.end;
        let next = at + out.len() as u64;
        out.extend(offset(0, self.big));
        state.append(&out)?;
        Ok((at, next))
    }
}

/// Pixels of this size, mm, in a centimetre, as a ratio.
fn per_centimetre(size: f64) -> Vec<u8> {
    let value = 10.0 / size;
    let below = (f64::from(u32::MAX) / value).clamp(1.0, 1e6).floor();
    let above = (value * below).round().clamp(1.0, f64::from(u32::MAX));
    [above as u32, below as u32].into_iter().flat_map(u32::to_le_bytes).collect()
}
