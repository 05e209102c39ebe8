//! The headers of DICOM files (PS3.5, section 7, and PS3.10, section 7).
//!
//! They are parsed here because dicom-rs, which is the crate for it, asks for memory by what a length says
//! and calls itself for every nested sequence: 184 bytes made dicom-object 0.10.1 ask for 3.9 GB, and a file
//! of 4 MB ended the program.

use super::stream::{BUFFER, End, Stream};
use super::tags::{self, Syntax, Tag, written};
use crate::error::{IoError, Result, shorten};
use crate::source::{Source, read_full};
use crate::text::printable;
use std::io::Read;

/// A value as stored.
#[derive(Debug)]
pub(super) enum Value {
    Bytes { representation: [u8; 2], bytes: Vec<u8> },
    Items(Vec<DataSet>),
}

/// The attributes that are looked at.
#[derive(Debug, Default)]
pub(super) struct DataSet {
    pub(super) values: Vec<(Tag, Value)>,
    pub(super) big_endian: bool,
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
    /// Whether an attribute is there.
    pub(super) fn has(&self, tag: Tag) -> bool {
        self.get(tag).is_some()
    }

    /// The bytes of all numbers and texts, also those of items, but for lists that are looked at once a file.
    pub(super) fn weight(&self) -> usize {
        let of = |(tag, value): &(Tag, Value)| match value {
            _ if tags::is_of_the_file(*tag) => 0,
            Value::Bytes { representation: [b'O', _] | [b'U', b'N'], .. } => 0,
            Value::Bytes { bytes, .. } => bytes.len(),
            Value::Items(items) => items.iter().map(DataSet::weight).sum(),
        };
        self.values.iter().map(of).sum()
    }

    fn get(&self, tag: Tag) -> Option<&Value> {
        self.values.iter().find(|(t, _)| *t == tag).map(|(_, value)| value)
    }

    /// The bytes of a value; nothing where it is missing.
    pub(super) fn bytes(&self, tag: Tag) -> Option<&[u8]> {
        match self.get(tag) {
            Some(Value::Bytes { bytes, .. }) => Some(bytes),
            _ => None,
        }
    }

    /// A text without the blanks around it, with controls [written out](printable); nothing where it is missing or empty.
    pub(super) fn text(&self, tag: Tag) -> Option<String> {
        let Some(Value::Bytes { bytes, .. }) = self.get(tag) else { return None };
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| printable(text, &[]).into_owned())
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
            b"US" | b"AT" => stored!(u16),
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
                "unpack the series first, for instance with `gdcmconv --raw` or `dcmdjpeg IN OUT`",
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
