//! One-dimensional datasets of numbers or strings.

use super::chunks::{self, Chunk};
use super::input::{Cursor, Fault, Input, Outcome, UNDEFINED, damaged, unsupported};
use super::object::{Object, kind};
use flate2::read::ZlibDecoder;
use std::io::Read;

/// Values that are converted at once.
const BATCH: usize = 1 << 14;
/// deflate makes at most this of a byte.
const TIGHTEST: u64 = 1032;
/// Longest text, bytes.
const LONGEST: u64 = 4096;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Float {
        size: usize,
        big: bool,
    },
    /// Text of a size.
    Fixed {
        size: usize,
    },
    /// Text that is elsewhere.
    Variable,
}

/// Where values are.
enum Layout {
    Compact(Vec<u8>),
    Contiguous { address: u64, size: u64 },
    Chunked { length: u64, chunks: Vec<Chunk>, packed: bool },
}

/// A dataset that can be read.
pub(super) struct Dataset<'i, 'a> {
    input: &'i Input<'a>,
    kind: Type,
    count: u64,
    layout: Layout,
}

impl<'i, 'a> Dataset<'i, 'a> {
    /// The dataset at an address.
    pub(super) fn read(input: &'i Input<'a>, address: u64) -> Outcome<Self> {
        let object = Object::read(input, address)?;
        let need = |which: u16, what: &str| match object.first(which)? {
            Some(message) => Ok(message),
            None => damaged(format!("the object at byte {address} has no {what}")),
        };
        let count = extent(need(kind::DATASPACE, "sizes")?)?;
        let kind = datatype(need(kind::DATATYPE, "type")?)?;
        if object.first(kind::EXTERNAL)?.is_some() {
            return unsupported("its values are in another file");
        }
        let packed = match object.first(kind::FILTERS)? {
            Some(message) => filters(message)?,
            None => false,
        };
        let size = match kind {
            Type::Float { size, .. } | Type::Fixed { size } => size as u64,
            Type::Variable => 16,
        };
        let Some(bytes) = count.checked_mul(size) else {
            return damaged(format!("a dataset of {count} values"));
        };
        let message = need(kind::LAYOUT, "place of its values")?;
        let layout = layout(input, message, count, size, packed)?;
        match &layout {
            _ if count == 0 => {}
            Layout::Compact(data) if (data.len() as u64) < bytes => {
                return damaged(format!("{} bytes for {count} values", data.len()));
            }
            Layout::Compact(_) => {}
            Layout::Contiguous { address: UNDEFINED, .. } => {
                return damaged("a dataset was made, but no values were written");
            }
            Layout::Contiguous { address, size } => {
                if *size < bytes {
                    return damaged(format!("{size} bytes for {count} values"));
                }
                input.holds(*address, bytes)?;
            }
            Layout::Chunked { chunks, packed, .. } => {
                let mut stored = 0u64;
                for chunk in chunks {
                    input.holds(chunk.address, chunk.size)?;
                    stored = stored.saturating_add(chunk.size);
                }
                let most = stored.saturating_mul(if *packed { TIGHTEST } else { 1 });
                if stored > input.length() || most < bytes {
                    return damaged(format!("{stored} stored bytes for {count} values"));
                }
            }
        }
        Ok(Self { input, kind, count, layout })
    }

    /// The number of values.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Gives all values to `sink` in their order, some thousand at a time.
    pub(super) fn numbers(&self, sink: &mut dyn FnMut(&[f64]) -> Outcome<()>) -> Outcome<()> {
        let Type::Float { size, big } = self.kind else {
            return damaged("there is a text in the place of numbers");
        };
        if self.count == 0 {
            return Ok(());
        }
        let stored = match &self.layout {
            Layout::Compact(data) => data.len() as u64,
            Layout::Contiguous { .. } => self.count * size as u64,
            Layout::Chunked { chunks, .. } => chunks.iter().map(|chunk| chunk.size).sum(),
        };
        self.input.count_values(stored)?;
        let most = self.count.min(BATCH as u64) as usize;
        let mut batch = Batch { size, big, bytes: vec![0; most * size], values: Vec::new() };
        match &self.layout {
            Layout::Compact(data) => batch.read(&mut &data[..], self.count, sink),
            Layout::Contiguous { address, .. } => {
                let len = self.count * size as u64;
                batch.read(&mut self.input.stream(*address, len)?, self.count, sink)
            }
            Layout::Chunked { length, chunks, packed } => {
                let mut left = self.count;
                for chunk in chunks {
                    let wanted = left.min(*length);
                    let stored = self.input.stream(chunk.address, chunk.size)?;
                    if *packed && chunk.mask & 1 == 0 {
                        let mut plain = ZlibDecoder::new(stored);
                        batch.read(&mut plain, wanted, sink)?;
                        // The end of the stream has a checksum.
                        let surplus = (*length - wanted) * size as u64;
                        let rest = std::io::copy(
                            &mut plain.take(surplus.saturating_add(1)),
                            &mut std::io::sink(),
                        );
                        if rest.map_err(Fault::Reading)? > surplus {
                            return damaged("a chunk has more values than it should");
                        }
                    } else {
                        batch.read(&mut stored.take(u64::MAX), wanted, sink)?;
                    }
                    left -= wanted;
                }
                if left == 0 { Ok(()) } else { damaged(format!("{left} values are missing")) }
            }
        }
    }

    /// The values, at most `limit` of them.
    pub(super) fn vector(&self, limit: u64) -> Outcome<Vec<f64>> {
        if self.count > limit {
            return damaged(format!("{} numbers where at most {limit} are expected", self.count));
        }
        let mut all = Vec::new();
        self.numbers(&mut |values| {
            all.extend_from_slice(values);
            Ok(())
        })?;
        Ok(all)
    }

    /// The first text.
    pub(super) fn text(&self) -> Outcome<String> {
        let bytes = match (self.kind, &self.layout) {
            _ if self.count == 0 => return damaged("a text is empty"),
            (Type::Fixed { size }, _) if size as u64 > LONGEST => {
                return damaged(format!("a text has {size} bytes"));
            }
            (Type::Fixed { size }, Layout::Compact(data)) => data[..size].to_vec(),
            (Type::Fixed { size }, Layout::Contiguous { address, .. }) => {
                self.input.piece(*address, size as u64)?
            }
            (Type::Variable, Layout::Compact(data)) => self.elsewhere(&data[..16])?,
            (Type::Variable, Layout::Contiguous { address, .. }) => {
                self.elsewhere(&self.input.piece(*address, 16)?)?
            }
            (Type::Float { .. }, _) => return damaged("there are numbers in the place of a text"),
            (_, Layout::Chunked { .. }) => return unsupported("it has texts in chunks"),
        };
        let text = bytes.split(|&b| b == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).trim_end().to_owned())
    }

    /// A text of the global heap: a collection of numbered objects.
    fn elsewhere(&self, descriptor: &[u8]) -> Outcome<Vec<u8>> {
        let mut c = Cursor::new(descriptor);
        let (length, address, number) = (u64::from(c.four()?), c.eight()?, c.four()?);
        if length > LONGEST {
            return damaged(format!("a text has {length} bytes"));
        }
        let head = self.input.piece(address, 16)?;
        let mut c = Cursor::new(&head);
        c.expect(b"GCOL\x01", "heap of texts")?;
        c.skip(3)?;
        let collection = self.input.piece(address, c.eight()?)?;
        let mut c = Cursor::new(&collection);
        c.skip(16)?;
        while c.left() >= 16 {
            let index = u32::from(c.two()?);
            c.skip(6)?;
            let size = c.eight()?;
            // 0 is the free rest.
            if index == 0 {
                break;
            }
            let padded = size.checked_next_multiple_of(8).unwrap_or(u64::MAX);
            let object = c.take(usize::try_from(padded).unwrap_or(usize::MAX))?;
            if index == number && length <= size {
                return Ok(object[..length as usize].to_vec());
            }
        }
        damaged("a text is not in its heap")
    }
}

/// Bytes on their way to numbers.
struct Batch {
    size: usize,
    big: bool,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

impl Batch {
    /// Reads a number of values.
    fn read(
        &mut self,
        reader: &mut dyn Read,
        count: u64,
        sink: &mut dyn FnMut(&[f64]) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut left = count;
        while left > 0 {
            let n = left.min(BATCH as u64) as usize;
            let bytes = &mut self.bytes[..n * self.size];
            reader.read_exact(bytes).map_err(Fault::Reading)?;
            if self.big {
                bytes.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
            }
            self.values.clear();
            if self.size == 8 {
                let (all, _) = bytes.as_chunks::<8>();
                self.values.extend(all.iter().map(|b| f64::from_le_bytes(*b)));
            } else {
                let (all, _) = bytes.as_chunks::<4>();
                self.values.extend(all.iter().map(|b| f64::from(f32::from_le_bytes(*b))));
            }
            sink(&self.values)?;
            left -= n as u64;
        }
        Ok(())
    }
}

/// The number of values of a dataspace.
fn extent(message: &[u8]) -> Outcome<u64> {
    let mut c = Cursor::new(message);
    let version = c.byte()?;
    let rank = c.byte()?;
    c.skip(1)?;
    let scalar = match version {
        1 => {
            c.skip(5)?;
            rank == 0
        }
        2 => match c.byte()? {
            2 => return Ok(0),
            kind => kind == 0,
        },
        _ => return unsupported(format!("HDF5 dataspaces of version {version} are not known")),
    };
    match rank {
        0 if scalar => Ok(1),
        1 => c.eight(),
        _ => damaged(format!("a dataset has {rank} axes instead of one")),
    }
}

fn datatype(message: &[u8]) -> Outcome<Type> {
    let mut c = Cursor::new(message);
    let class = c.byte()? & 15;
    let bits = c.number(3)?;
    let size = c.four()?;
    match class {
        1 => {
            let properties = c.take(12)?;
            let single = [0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];
            let double = [0, 0, 64, 0, 52, 11, 0, 52, 255, 3, 0, 0];
            // Byte order and padding; the place of the sign.
            let (order, sign) = (bits & 0x4f, bits >> 8 & 0xff);
            let known = (size == 4 && properties == single && sign == 31)
                || (size == 8 && properties == double && sign == 63);
            if !known || order > 1 {
                return unsupported(format!("its numbers of {size} bytes are of an unusual kind"));
            }
            Ok(Type::Float { size: size as usize, big: order == 1 })
        }
        3 if size > 0 => Ok(Type::Fixed { size: size as usize }),
        9 if bits & 15 == 1 && size == 16 => Ok(Type::Variable),
        0 => damaged("there are whole numbers where numbers with a fraction or a text are needed"),
        _ => damaged(format!("there are values of HDF5's class {class}")),
    }
}

/// Whether values are compressed by deflate; other filters are refused.
fn filters(message: &[u8]) -> Outcome<bool> {
    let mut c = Cursor::new(message);
    let version = c.byte()?;
    let count = c.byte()?;
    match version {
        1 => c.skip(6)?,
        2 => {}
        _ => return unsupported(format!("HDF5 filters of version {version} are not known")),
    }
    for _ in 0..count {
        let id = c.two()?;
        let name = if version == 1 || id >= 256 { usize::from(c.two()?) } else { 0 };
        c.skip(2)?;
        let values = usize::from(c.two()?);
        c.skip(if version == 1 { name.next_multiple_of(8) } else { name })?;
        c.skip(4 * (values + if version == 1 { values % 2 } else { 0 }))?;
        if id != 1 || count > 1 {
            return unsupported(format!(
                "its values went through the filter {id} of HDF5; only deflate (1) is supported"
            ));
        }
    }
    Ok(count > 0)
}

fn layout(
    input: &Input<'_>,
    message: &[u8],
    count: u64,
    size: u64,
    packed: bool,
) -> Outcome<Layout> {
    let mut c = Cursor::new(message);
    let version = c.byte()?;
    if !(3..=5).contains(&version) {
        return unsupported(format!("HDF5 layouts of version {version} are not known"));
    }
    match c.byte()? {
        0 => {
            let len = usize::from(c.two()?);
            Ok(Layout::Compact(c.take(len)?.to_vec()))
        }
        1 => Ok(Layout::Contiguous { address: c.eight()?, size: c.eight()? }),
        2 => {
            let (length, chunks) = chunks::read(input, &mut c, version, [count, size], packed)?;
            Ok(Layout::Chunked { length, chunks, packed })
        }
        _ => unsupported("its values are in other files (a virtual dataset)"),
    }
}
