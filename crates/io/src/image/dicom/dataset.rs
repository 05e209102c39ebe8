//! The elements of DICOM files (PS3.5, section 7, and PS3.10, section 7).
//!
//! They are parsed here because the readers that there are ask for memory by what a length says, and
//! call themselves for every nested sequence, so that a few damaged bytes end the program. Values that
//! are not looked at, the pixels before all, are jumped over.

use super::tags::{self, Syntax, Tag, written};
use crate::error::{IoError, Result, shorten};
use crate::source::{Source, read_full};
use flate2::bufread::DeflateDecoder;
use std::io::{BufRead, BufReader, Read};

/// Bytes that are read from the disk at a time: headers are short.
const BUFFER: usize = 1 << 14;
/// Bytes that are read and left out rather than jumped over.
const SHORT: u64 = 1 << 14;
/// The longest value of one attribute, bytes.
const LONGEST: u64 = 1 << 22;
/// How deep sequences that are looked at, and those that are not, may lie in each other.
const DEEPEST: usize = 8;
const DEEPEST_SKIPPED: usize = 64;

/// A value as stored.
#[derive(Debug)]
enum Value {
    Bytes { representation: [u8; 2], bytes: Vec<u8> },
    Items(Vec<DataSet>),
}

/// The attributes that are looked at.
#[derive(Debug, Default)]
pub(super) struct DataSet {
    values: Vec<(Tag, Value)>,
    big_endian: bool,
}

/// Where the pixels lie.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pixels {
    /// There are none.
    None,
    /// As they are: the attribute, its representation, where it begins and its length.
    Plain { tag: Tag, words: bool, at: u64, length: u64 },
    /// In fragments: where each begins and its length, and where frames begin.
    Fragments { pieces: Vec<(u64, u64)>, offsets: Vec<u64> },
}

/// The header of a file.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) set: DataSet,
    pub(super) syntax: Syntax,
    pub(super) pixels: Pixels,
    /// Where the data set begins, bytes.
    pub(super) begin: u64,
    /// What is wrong behind the attributes in `set`.
    pub(super) problem: Option<IoError>,
}

impl DataSet {
    fn get(&self, tag: Tag) -> Option<&Value> {
        self.values.iter().find(|(t, _)| *t == tag).map(|(_, value)| value)
    }

    /// A text without the blanks around it; nothing where it is missing or empty.
    pub(super) fn text(&self, tag: Tag) -> Option<String> {
        let Some(Value::Bytes { bytes, .. }) = self.get(tag) else { return None };
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_string())
    }

    /// All numbers of an attribute, none where it is missing or empty; otherwise what is wrong.
    pub(super) fn numbers(&self, tag: Tag) -> std::result::Result<Vec<f64>, String> {
        let Some(Value::Bytes { representation, bytes }) = self.get(tag) else {
            return Ok(Vec::new());
        };
        macro_rules! stored {
            ($ty:ty) => {
                Ok(bytes
                    .chunks_exact(size_of::<$ty>())
                    .map(|b| {
                        let mut a = [0; size_of::<$ty>()];
                        a.copy_from_slice(b);
                        (if self.big_endian {
                            <$ty>::from_be_bytes(a)
                        } else {
                            <$ty>::from_le_bytes(a)
                        }) as f64
                    })
                    .collect())
            };
        }
        match representation {
            b"US" => stored!(u16),
            b"SS" => stored!(i16),
            b"UL" => stored!(u32),
            b"SL" => stored!(i32),
            b"FL" => stored!(f32),
            b"FD" => stored!(f64),
            b"OV" | b"UV" => stored!(u64),
            _ => {
                let Some(text) = self.text(tag) else { return Ok(Vec::new()) };
                text.split('\\')
                    .map(|word| {
                        let word = word.trim_matches(|c: char| c.is_whitespace() || c == '\0');
                        word.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| {
                            format!(
                                "{} has '{}', which is not a number",
                                written(tag),
                                shorten(word)
                            )
                        })
                    })
                    .collect()
            }
        }
    }

    /// The first number of an attribute.
    pub(super) fn number(&self, tag: Tag) -> std::result::Result<Option<f64>, String> {
        Ok(self.numbers(tag)?.first().copied())
    }

    /// The first number of an attribute, which has to be whole and not negative.
    pub(super) fn count(&self, tag: Tag) -> std::result::Result<Option<usize>, String> {
        match self.number(tag)? {
            Some(v) if v < 0.0 || v.fract() != 0.0 || v > f64::from(u32::MAX) => {
                Err(format!("{} is {v}, which is not a count", written(tag)))
            }
            found => Ok(found.map(|v| v as usize)),
        }
    }

    /// The items of a sequence.
    pub(super) fn items(&self, tag: Tag) -> &[DataSet] {
        match self.get(tag) {
            Some(Value::Items(items)) => items,
            _ => &[],
        }
    }

    /// The first item of a sequence.
    pub(super) fn item(&self, tag: Tag) -> Option<&DataSet> {
        self.items(tag).first()
    }
}

/// Whether bytes are those of a DICOM file: `DICM` after 128 bytes, or an element of the first groups.
pub(super) fn is_dicom(head: &[u8]) -> bool {
    head.get(128..132) == Some(b"DICM") || bare(head).is_some()
}

/// How a data set that begins without `DICM` is written: its first element is of the group 2 or 8.
fn bare(head: &[u8]) -> Option<Syntax> {
    let &[a, b, c, d, e, f, g, h] = head.first_chunk::<8>()?;
    let letters = e.is_ascii_uppercase() && f.is_ascii_uppercase();
    let plain = Syntax::EXPLICIT;
    match (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])) {
        (2, 0..=0x16) if letters => Some(plain),
        (8, 0..=0x20) if letters => Some(plain),
        (8, 0..=0x20) if g == 0 && h == 0 => Some(Syntax { implicit: true, ..plain }),
        (0x0800, _) if letters && u16::from_be_bytes([c, d]) <= 0x20 => {
            Some(Syntax { big_endian: true, ..plain })
        }
        _ => None,
    }
}

/// Reads the header of a file up to its pixels.
///
/// Damage after the first attributes is kept in [`Parsed::problem`], so that a caller can tell to
/// which series the file belongs.
pub(super) fn parse(source: &Source<'_>) -> Result<Parsed> {
    let path = source.path();
    let mut head = Vec::new();
    let mut raw = source.raw_with(0, BUFFER)?;
    raw.by_ref().take(140).read_to_end(&mut head).map_err(|e| IoError::reading(path, e))?;
    let preamble = head.get(128..132) == Some(b"DICM");
    let bare = bare(&head);
    if !preamble && bare.is_none() {
        return Err(IoError::malformed(
            path,
            "this is not a DICOM file: it has no 'DICM' after 128 bytes and begins with no element of \
             the group 0008",
            "check that it is complete; where another program reads it, convert the series with \
             dcm2niix first",
        ));
    }
    let start = if preamble { 132 } else { 0 };
    let (meta, mut begin) = meta(source, start)?;
    let uid = meta.text(tags::TRANSFER_SYNTAX);
    let mut refused = None;
    let mut syntax = match (&uid, bare.filter(|_| !preamble)) {
        (Some(uid), _) => Syntax::of(uid).unwrap_or_else(|what| {
            refused = Some(IoError::unsupported(
                path,
                format!(
                    "its pixels are packed as {what} ({}), which is not supported",
                    shorten(uid)
                ),
                "unpack the series first, for instance with `gdcmconv --raw` or `dcmdjpeg`",
            ));
            Syntax::EXPLICIT
        }),
        (None, Some(syntax)) => syntax,
        (None, None) => Syntax::EXPLICIT,
    };
    let mut stream = Stream::new(source, begin, syntax)?;
    if !syntax.deflated && !syntax.big_endian {
        // Some programs write the data set otherwise than the transfer syntax says.
        let mut first = [0; 6];
        if read_full(&mut stream.reader, &mut first).map_err(|e| IoError::reading(path, e))? == 6 {
            syntax.implicit = !(first[4].is_ascii_uppercase() && first[5].is_ascii_uppercase());
        }
        stream = Stream::new(source, begin, syntax)?;
    }
    if syntax.deflated {
        begin = stream.origin;
    }
    let mut set = DataSet { big_endian: syntax.big_endian, ..DataSet::default() };
    let mut pixels = Pixels::None;
    let problem = stream.fill(&mut set, syntax, End::File, 0, Some(&mut pixels)).err().or(refused);
    Ok(Parsed { set, syntax, pixels, begin, problem })
}

/// The elements of the group 2, and where the data set begins.
fn meta(source: &Source<'_>, start: u64) -> Result<(DataSet, u64)> {
    let syntax = Syntax::EXPLICIT;
    let mut stream = Stream::new(source, start, syntax)?;
    let mut set = DataSet::default();
    let mut end = u64::MAX;
    loop {
        let begin = stream.at;
        let deflated = set
            .text(tags::TRANSFER_SYNTAX)
            .is_some_and(|u| Syntax::of(&u).is_ok_and(|s| s.deflated));
        // What is deflated may begin with any bytes.
        if deflated && begin >= end {
            return Ok((set, begin));
        }
        let Some(bytes) = stream.tag_bytes()? else { return Ok((set, begin)) };
        if bytes[..2] != [2, 0] {
            return Ok((set, begin));
        }
        let element = stream.element_of(bytes, syntax)?;
        stream.value(&mut set, &element, syntax, 0)?;
        if element.tag == tags::META_LENGTH
            && let Ok(Some(n)) = set.count(tags::META_LENGTH)
        {
            end = stream.at.saturating_add(n as u64);
        }
    }
}

/// Where a data set ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    File,
    At(u64),
    Delimiter,
}

/// The first part of an element.
#[derive(Debug)]
struct Element {
    tag: Tag,
    representation: [u8; 2],
    /// It is written as a value of unknown kind; what is in it is written without kinds (PS3.5, 6.2.2).
    unknown: bool,
    /// Nothing where it is not written.
    length: Option<u64>,
}

/// The bytes of a data set, one after the other.
struct Stream<'a, 's> {
    source: &'s Source<'a>,
    reader: Box<dyn BufRead + Send + 'a>,
    deflated: bool,
    /// Bytes before the data set, where it is deflated.
    origin: u64,
    /// Bytes read: of the file, or of what came out of deflate.
    at: u64,
}

/// A reader of what is deflated from a byte of a source on.
pub(super) fn inflate<'a>(source: &Source<'a>, from: u64) -> Result<Box<dyn BufRead + Send + 'a>> {
    let raw = source.raw_with(from, BUFFER)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, DeflateDecoder::new(raw))))
}

impl<'a, 's> Stream<'a, 's> {
    fn new(source: &'s Source<'a>, from: u64, syntax: Syntax) -> Result<Self> {
        let deflated = syntax.deflated;
        let reader =
            if deflated { inflate(source, from)? } else { source.raw_with(from, BUFFER)? };
        Ok(Self { source, reader, deflated, origin: from, at: if deflated { 0 } else { from } })
    }

    /// Bytes up to the end; what is deflated has no end that is known.
    fn left(&self) -> u64 {
        if self.deflated { u64::MAX } else { self.source.length().saturating_sub(self.at) }
    }

    fn cut(&self, needed: u64) -> IoError {
        IoError::Truncated {
            path: self.source.path().into(),
            expected: self.at.saturating_add(needed),
            found: if self.deflated { self.at } else { self.source.length() },
        }
    }

    fn wrong(&self, problem: String) -> IoError {
        let remedy = "the file is probably damaged: copy or download it again";
        IoError::malformed(self.source.path(), format!("{problem} at byte {}", self.at), remedy)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
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
    fn tag_bytes(&mut self) -> Result<Option<[u8; 4]>> {
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

    fn element_of(&mut self, bytes: [u8; 4], syntax: Syntax) -> Result<Element> {
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
    fn fill(
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
    fn value(
        &mut self,
        set: &mut DataSet,
        element: &Element,
        syntax: Syntax,
        depth: usize,
    ) -> Result<()> {
        let tag = element.tag;
        let wanted = tags::representation(tag);
        let sequence = wanted == Some(*b"SQ");
        match element.length {
            None if !sequence => return self.skip_sequence(element, syntax),
            Some(n) if wanted.is_none() => return self.skip(n),
            Some(n) if n > self.left() => return Err(self.cut(n)),
            Some(n) if !sequence && n > LONGEST => {
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
                // At most LONGEST; what comes out of deflate is asked for as it comes.
                let length = length.unwrap_or(0);
                let mut bytes = Vec::new();
                (&mut self.reader)
                    .take(length)
                    .read_to_end(&mut bytes)
                    .map_err(|e| IoError::reading(self.source.path(), e))?;
                self.at += bytes.len() as u64;
                if (bytes.len() as u64) < length {
                    return Err(self.cut(length - bytes.len() as u64));
                }
                Value::Bytes { representation: element.representation, bytes }
            }
        };
        set.values.push((tag, value));
        Ok(())
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
                    items.push(set);
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
                        offsets.push(u64::from(u32::from_le_bytes(self.take()?)));
                    }
                    self.skip(length % 4)?;
                }
                tags::ITEM => {
                    pieces.push((self.at, length));
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
