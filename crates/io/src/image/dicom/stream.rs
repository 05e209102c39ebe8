//! The elements of DICOM data sets, one after the other (PS3.5, section 7).
//!
//! Values that are not looked at, the pixels before all, are jumped over.

use super::dataset::{DataSet, Pixels, Value};
use super::tags::{self, Syntax, Tag, written};
use crate::error::{IoError, Result};
use crate::source::{Source, read_full};
use flate2::bufread::DeflateDecoder;
use std::io::{BufRead, BufReader, Read};
use voxalign_image::memory;

/// Bytes that are read from the disk at a time: headers are short.
pub(super) const BUFFER: usize = 1 << 14;
/// Bytes that are read and left out rather than jumped over.
const SHORT: u64 = 1 << 14;
/// The longest value of one attribute, bytes, and that of a text: the standard has 64 letters, some of them several times.
const LONGEST: u64 = 1 << 22;
const LONGEST_TEXT: u64 = 1 << 10;
/// deflate makes at most this of a byte.
const TIGHTEST: u64 = 1032;
/// How deep sequences that are looked at, and those that are not, may lie in each other.
const DEEPEST: usize = 8;
const DEEPEST_SKIPPED: usize = 64;

/// Where a data set ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    File,
    At(u64),
    Delimiter,
}

/// The first part of an element.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) tag: Tag,
    representation: [u8; 2],
    /// It is written as a value of unknown kind; what is in it is written without kinds (PS3.5, 6.2.2).
    unknown: bool,
    /// Nothing where it is not written.
    length: Option<u64>,
}

/// The bytes of a data set, one after the other.
pub(super) struct Stream<'a, 's> {
    source: &'s Source<'a>,
    pub(super) reader: Box<dyn BufRead + Send + 'a>,
    deflated: bool,
    /// Bytes before the data set, where it is deflated.
    pub(super) origin: u64,
    /// Bytes read: of the file, or of what came out of deflate.
    pub(super) at: u64,
    /// Bytes that values may still take in memory.
    room: u64,
}

/// What a header may take in memory, and be long where it comes out of deflate: bytes, by those of its file.
pub(super) fn allowance(file: u64) -> u64 {
    file.saturating_mul(16).saturating_add(64 << 20)
}

/// The longest value of a kind, bytes.
fn longest(representation: Option<[u8; 2]>) -> u64 {
    const TEXTS: [&[u8; 2]; 10] =
        [b"AE", b"AS", b"CS", b"DA", b"DT", b"LO", b"PN", b"SH", b"TM", b"UI"];
    let text = representation.is_some_and(|kind| TEXTS.contains(&&kind));
    if text { LONGEST_TEXT } else { LONGEST }
}

/// A reader of what is deflated from a byte of a source on.
pub(super) fn inflate<'a>(source: &Source<'a>, from: u64) -> Result<Box<dyn BufRead + Send + 'a>> {
    let raw = source.raw_with(from, BUFFER)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, DeflateDecoder::new(raw))))
}

impl<'a, 's> Stream<'a, 's> {
    pub(super) fn new(source: &'s Source<'a>, from: u64, syntax: Syntax) -> Result<Self> {
        let deflated = syntax.deflated;
        let reader =
            if deflated { inflate(source, from)? } else { source.raw_with(from, BUFFER)? };
        let (at, room) = (if deflated { 0 } else { from }, allowance(source.length()));
        Ok(Self { source, reader, deflated, origin: from, at, room })
    }

    /// Where the bytes end; of what is deflated, where they end at the latest.
    fn end(&self) -> u64 {
        let length = self.source.length();
        if !self.deflated {
            return length;
        }
        length.saturating_sub(self.origin).saturating_mul(TIGHTEST)
    }

    /// Bytes up to the end.
    fn left(&self) -> u64 {
        self.end().saturating_sub(self.at)
    }

    /// Counts what is kept in memory.
    fn keep(&mut self, bytes: usize) -> Result<()> {
        match self.room.checked_sub(bytes as u64) {
            Some(room) => self.room = room,
            None => return Err(self.too_much()),
        }
        Ok(())
    }

    fn too_much(&self) -> IoError {
        let length = self.source.length();
        let problem = format!(
            "the header of this file of {} takes more than {}",
            memory::amount(length),
            memory::amount(allowance(length))
        );
        let remedy = "no image has such a header: the file is damaged, copy or download it again";
        IoError::malformed(self.source.path(), problem, remedy)
    }

    /// Whether what comes out of deflate, up to a byte, is no longer than a header may be.
    fn check_inflated(&self, to: u64) -> Result<()> {
        if self.deflated && to > allowance(self.source.length()) {
            return Err(self.too_much());
        }
        Ok(())
    }

    fn no_memory(&self, refused: memory::OutOfMemory) -> IoError {
        IoError::memory(self.source.path(), refused)
    }

    fn cut(&self, needed: u64) -> IoError {
        IoError::Truncated {
            path: self.source.path().into(),
            expected: self.at.saturating_add(needed),
            found: if self.deflated { self.end().max(self.at) } else { self.source.length() },
        }
    }

    fn wrong(&self, problem: String) -> IoError {
        let remedy = "the file is probably damaged: copy or download it again";
        IoError::malformed(self.source.path(), format!("{problem} at byte {}", self.at), remedy)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.check_inflated(self.at)?;
        let n = read_full(&mut self.reader, bytes)
            .map_err(|e| IoError::reading(self.source.path(), e))?;
        self.at += n as u64;
        Ok(n)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        if self.read(&mut bytes)? < N { Err(self.cut(N as u64)) } else { Ok(bytes) }
    }

    /// The bytes of the next tag; nothing at the end of the file.
    pub(super) fn tag_bytes(&mut self) -> Result<Option<[u8; 4]>> {
        let mut bytes = [0; 4];
        match self.read(&mut bytes)? {
            0 => Ok(None),
            4 => Ok(Some(bytes)),
            n => Err(self.cut(4 - n as u64)),
        }
    }

    fn skip(&mut self, n: u64) -> Result<()> {
        if n > self.left() {
            return Err(self.cut(n));
        }
        self.check_inflated(self.at.saturating_add(n))?;
        if !self.deflated && n > SHORT {
            self.at += n;
            self.reader = self.source.raw_with(self.at, BUFFER)?;
            return Ok(());
        }
        let done = std::io::copy(&mut (&mut self.reader).take(n), &mut std::io::sink())
            .map_err(|e| IoError::reading(self.source.path(), e))?;
        self.at += done;
        if done < n { Err(self.cut(n - done)) } else { Ok(()) }
    }

    /// The next element; nothing at the end of the file.
    fn element(&mut self, syntax: Syntax) -> Result<Option<Element>> {
        match self.tag_bytes()? {
            Some(bytes) => self.element_of(bytes, syntax).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn element_of(&mut self, bytes: [u8; 4], syntax: Syntax) -> Result<Element> {
        let [a, b, c, d] = bytes;
        let u16_of =
            |v| if syntax.big_endian { u16::from_be_bytes(v) } else { u16::from_le_bytes(v) };
        let u32_of =
            |v| if syntax.big_endian { u32::from_be_bytes(v) } else { u32::from_le_bytes(v) };
        let tag = u32::from(u16_of([a, b])) << 16 | u32::from(u16_of([c, d]));
        let known = tags::representation(tag).unwrap_or(*b"UN");
        let (representation, length) = if tag >> 16 == 0xFFFE || syntax.implicit {
            (known, u32_of(self.take()?))
        } else {
            let [x, y, m, n] = self.take()?;
            match &[x, y] {
                b"OB" | b"OD" | b"OF" | b"OL" | b"OV" | b"OW" | b"SQ" | b"SV" | b"UC" | b"UN"
                | b"UR" | b"UT" | b"UV" => ([x, y], u32_of(self.take()?)),
                [b'A'..=b'Z', b'A'..=b'Z'] | b"??" | b"  " | b"\0\0" => {
                    ([x, y], u32::from(u16_of([m, n])))
                }
                other => {
                    let other = String::from_utf8_lossy(other).escape_debug().to_string();
                    let problem = format!(
                        "the element {} has '{other}' for the kind of its value",
                        written(tag)
                    );
                    return Err(self.wrong(problem));
                }
            }
        };
        let unknown = representation == *b"UN";
        let representation = if unknown { known } else { representation };
        let length = (length != u32::MAX).then_some(u64::from(length));
        Ok(Element { tag, representation, unknown, length })
    }

    /// Adds the elements up to the end of a data set; at the pixels of the file it stops.
    pub(super) fn fill(
        &mut self,
        set: &mut DataSet,
        syntax: Syntax,
        end: End,
        depth: usize,
        mut pixels: Option<&mut Pixels>,
    ) -> Result<()> {
        loop {
            if let End::At(at) = end
                && self.at >= at
            {
                return if self.at == at {
                    Ok(())
                } else {
                    Err(self.wrong(
                        "an element is longer than the item that it is in, which ends".into(),
                    ))
                };
            }
            let Some(element) = self.element(syntax)? else {
                return if end == End::File { Ok(()) } else { Err(self.cut(8)) };
            };
            match (element.tag, &mut pixels) {
                (tags::ITEM_END, _) if end == End::Delimiter => return Ok(()),
                // What is left of items that ended already, and what fills the file up.
                (0xFFFE_0000.., _) => {
                    return Err(self.wrong(format!(
                        "there is {} outside of a sequence",
                        written(element.tag)
                    )));
                }
                (tags::PIXELS | tags::FLOAT_PIXELS | tags::DOUBLE_PIXELS, Some(pixels)) => {
                    **pixels = self.pixels(&element, syntax)?;
                    return Ok(());
                }
                _ => self.value(set, &element, syntax, depth)?,
            }
        }
    }

    /// The value of an element, kept where it is looked at.
    pub(super) fn value(
        &mut self,
        set: &mut DataSet,
        element: &Element,
        syntax: Syntax,
        depth: usize,
    ) -> Result<()> {
        let tag = element.tag;
        // Of attributes that are there several times the first counts.
        let wanted = tags::representation(tag).filter(|_| !set.has(tag));
        let sequence = wanted == Some(*b"SQ");
        match element.length {
            None if !sequence => return self.skip_sequence(element, syntax),
            Some(n) if wanted.is_none() => return self.skip(n),
            Some(n) if n > self.left() => return Err(self.cut(n)),
            Some(n) if !sequence && n > longest(wanted) => {
                return Err(self.wrong(format!("the value of {} has {n} bytes", written(tag))));
            }
            _ => {}
        }
        let value = match element.length {
            length if sequence => {
                let inner = Syntax { implicit: syntax.implicit || element.unknown, ..syntax };
                Value::Items(self.items(length, inner, depth + 1)?)
            }
            length => {
                // At most LONGEST.
                let length = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
                self.keep(length)?;
                let mut bytes =
                    memory::zeroed(length).map_err(|refused| self.no_memory(refused))?;
                let n = self.read(&mut bytes)?;
                if n < length {
                    return Err(self.cut((length - n) as u64));
                }
                Value::Bytes { representation: element.representation, bytes }
            }
        };
        self.keep(size_of::<(Tag, Value)>())?;
        memory::push(&mut set.values, (tag, value)).map_err(|refused| self.no_memory(refused))
    }

    /// The items of a sequence that is looked at.
    fn items(&mut self, length: Option<u64>, syntax: Syntax, depth: usize) -> Result<Vec<DataSet>> {
        if depth > DEEPEST {
            return Err(self.wrong(format!("sequences lie more than {DEEPEST} deep in each other")));
        }
        let end = length.map(|n| self.at.saturating_add(n));
        let mut items = Vec::new();
        while end.is_none_or(|end| self.at < end) {
            let Some(element) = self.element(syntax)? else { return Err(self.cut(8)) };
            match (element.tag, element.length) {
                (tags::SEQUENCE_END, _) => break,
                (tags::ITEM, length) => {
                    if length.is_some_and(|n| n > self.left()) {
                        return Err(self.cut(length.unwrap_or(0)));
                    }
                    let end = length.map_or(End::Delimiter, |n| End::At(self.at + n));
                    let mut set = DataSet { big_endian: syntax.big_endian, ..DataSet::default() };
                    self.fill(&mut set, syntax, end, depth, None)?;
                    self.keep(size_of::<DataSet>())?;
                    memory::push(&mut items, set).map_err(|refused| self.no_memory(refused))?;
                }
                (tag, _) => {
                    return Err(
                        self.wrong(format!("there is {} where an item is expected", written(tag)))
                    );
                }
            }
        }
        Ok(items)
    }

    /// Goes past a sequence without a written length, whatever it holds.
    fn skip_sequence(&mut self, element: &Element, mut syntax: Syntax) -> Result<()> {
        syntax.implicit |= element.unknown;
        // Whether each of what is open is an item.
        let mut open = vec![false];
        while let Some(&in_item) = open.last() {
            let Some(element) = self.element(syntax)? else { return Err(self.cut(8)) };
            match (element.tag, in_item, element.length) {
                (tags::SEQUENCE_END, false, _) | (tags::ITEM_END, true, _) => {
                    open.pop();
                }
                (tags::ITEM, false, Some(n)) => self.skip(n)?,
                (tags::ITEM, false, None) => open.push(true),
                (tag, _, _) if !in_item || tag >= 0xFFFE_0000 => {
                    return Err(self.wrong(format!("there is {} out of its place", written(tag))));
                }
                (_, _, Some(n)) => self.skip(n)?,
                (_, _, None) => open.push(false),
            }
            if open.len() > DEEPEST_SKIPPED {
                return Err(self.wrong(format!(
                    "sequences lie more than {DEEPEST_SKIPPED} deep in each other"
                )));
            }
        }
        Ok(())
    }

    /// Where the pixels lie that begin here.
    fn pixels(&mut self, element: &Element, syntax: Syntax) -> Result<Pixels> {
        if let Some(length) = element.length {
            if length > self.left() {
                return Err(self.cut(length));
            }
            let words = &element.representation == b"OW";
            return Ok(Pixels::Plain { tag: element.tag, words, at: self.at, length });
        }
        let mut pieces = Vec::new();
        let mut offsets = Vec::new();
        let mut first = true;
        while let Some(element) = self.element(syntax)? {
            let (tag, Some(length)) = (element.tag, element.length) else {
                return Err(self.wrong("a fragment of the pixels has no length".into()));
            };
            match tag {
                tags::SEQUENCE_END => break,
                tags::ITEM if length > self.left() => return Err(self.cut(length)),
                tags::ITEM if std::mem::take(&mut first) => {
                    for _ in 0..length / 4 {
                        let offset = u64::from(u32::from_le_bytes(self.take()?));
                        self.keep(size_of::<u64>())?;
                        memory::push(&mut offsets, offset)
                            .map_err(|refused| self.no_memory(refused))?;
                    }
                    self.skip(length % 4)?;
                }
                tags::ITEM => {
                    self.keep(size_of::<(u64, u64)>())?;
                    memory::push(&mut pieces, (self.at, length))
                        .map_err(|refused| self.no_memory(refused))?;
                    self.skip(length)?;
                }
                _ => {
                    return Err(self.wrong(format!("there is {} among the pixels", written(tag))));
                }
            }
        }
        Ok(Pixels::Fragments { pieces, offsets })
    }
}
