//! Decoding numbers from the bytes of a file.

use crate::error::{IoError, Result, shorten};
use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;
use voxalign_image::memory;

/// What helps where a file has less than it says.
pub(crate) const AGAIN: &str = "the file is damaged: copy or download it again";

/// How a number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// Bytes of one.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The value of its bytes; 0 where their number is another.
    pub(crate) fn value(self, bytes: &[u8], big: bool) -> f64 {
        macro_rules! of {
            ($number:ty) => {
                bytes.try_into().map_or(0.0, |bytes| {
                    (if big {
                        <$number>::from_be_bytes(bytes)
                    } else {
                        <$number>::from_le_bytes(bytes)
                    }) as f64
                })
            };
        }
        match self {
            Self::I8 => of!(i8),
            Self::U8 => of!(u8),
            Self::I16 => of!(i16),
            Self::U16 => of!(u16),
            Self::I32 => of!(i32),
            Self::U32 => of!(u32),
            Self::I64 => of!(i64),
            Self::U64 => of!(u64),
            Self::F32 => of!(f32),
            Self::F64 => of!(f64),
        }
    }
}

/// An array of a file.
#[derive(Debug, Clone)]
pub(crate) enum Values<'a> {
    /// Out of text.
    Text(Vec<f64>),
    /// As stored.
    Bytes { bytes: Cow<'a, [u8]>, number: Number, big: bool },
}

impl Values<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Bytes { bytes, number, .. } => bytes.len() / number.size(),
        }
    }

    /// A value; 0 where there is none.
    pub(crate) fn at(&self, i: usize) -> f64 {
        match self {
            Self::Text(values) => values.get(i).copied().unwrap_or(0.0),
            Self::Bytes { bytes, number, big } => {
                let start = i.saturating_mul(number.size());
                let one = bytes.get(start..start.saturating_add(number.size()));
                one.map_or(0.0, |one| number.value(one, *big))
            }
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = f64> {
        (0..self.len()).map(|i| self.at(i))
    }

    /// All as indices of vertices.
    pub(crate) fn indices(&self, path: &Path) -> Result<Vec<u32>> {
        let mut indices = memory::room(self.len()).map_err(|e| IoError::memory(path, e))?;
        for value in self.iter() {
            indices.push(index(path, value)?);
        }
        Ok(indices)
    }
}

/// The index of a vertex.
pub(crate) fn index(path: &Path, value: f64) -> Result<u32> {
    if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
        return Ok(value as u32);
    }
    let problem = format!("the index {value} of a vertex is not a whole number within 32 bits");
    Err(IoError::malformed(path, problem, AGAIN))
}

/// A number of things.
pub(crate) fn count(path: &Path, what: &str, text: Option<&str>) -> Result<usize> {
    let text = text.unwrap_or_default();
    text.parse().map_err(|_| {
        let problem = format!("'{}' is not a number of {what}", shorten(text));
        IoError::malformed(path, problem, AGAIN)
    })
}

/// The bytes of a file, from the first to the last.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    pub(crate) path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0 }
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// So many bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.saturating_add(len);
        let Some(bytes) = self.bytes.get(self.at..end) else {
            let (expected, found) = (end as u64, self.bytes.len() as u64);
            return Err(IoError::Truncated { path: self.path.into(), expected, found });
        };
        self.at = end;
        Ok(bytes)
    }

    /// One binary number.
    pub(crate) fn number(&mut self, number: Number, big: bool) -> Result<f64> {
        Ok(number.value(self.take(number.size())?, big))
    }

    /// So many binary numbers.
    pub(crate) fn binary(&mut self, number: Number, len: usize, big: bool) -> Result<Values<'a>> {
        let bytes = self.take(len.saturating_mul(number.size()))?;
        Ok(Values::Bytes { bytes: Cow::Borrowed(bytes), number, big })
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|&b| b == b'\n');
        self.at += end.map_or(rest.len(), |end| end + 1);
        let line = &rest[..end.unwrap_or(rest.len())];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next line as text.
    pub(crate) fn text_line(&mut self) -> Option<Cow<'a, str>> {
        self.line().map(String::from_utf8_lossy)
    }

    pub(crate) fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(rest.len());
    }

    /// The next word of text; nothing at the end.
    pub(crate) fn word(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).filter(|word| !word.is_empty())
    }

    /// The next word as a number.
    pub(crate) fn text_number(&mut self) -> Result<f64> {
        let Some(word) = self.word() else {
            return Err(IoError::malformed(
                self.path,
                "the file ends where a number should be",
                AGAIN,
            ));
        };
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        number.ok_or_else(|| {
            let line = self.line_number();
            let word = String::from_utf8_lossy(word);
            let problem = format!("line {line}: '{}' is not a number", shorten(&word));
            IoError::malformed(self.path, problem, "correct the line")
        })
    }

    /// So many numbers of text.
    pub(crate) fn text(&mut self, len: usize) -> Result<Values<'a>> {
        // A number and the space before the next take two bytes.
        if len > self.rest().len() / 2 + 1 {
            let problem = format!("{len} numbers are said to be in {} bytes", self.rest().len());
            return Err(IoError::malformed(self.path, problem, AGAIN));
        }
        let mut values = memory::room(len).map_err(|e| IoError::memory(self.path, e))?;
        for _ in 0..len {
            values.push(self.text_number()?);
        }
        Ok(Values::Text(values))
    }

    /// All numbers of text that are left.
    pub(crate) fn all_text(&mut self) -> Result<Values<'a>> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            if self.rest().is_empty() {
                return Ok(Values::Text(values));
            }
            let value = self.text_number()?;
            memory::push(&mut values, value).map_err(|e| IoError::memory(self.path, e))?;
        }
    }

    /// The line of what was read last, counted from 1.
    pub(crate) fn line_number(&self) -> usize {
        let before = self.bytes.get(..self.at.saturating_sub(1)).unwrap_or_default();
        1 + before.iter().filter(|&&b| b == b'\n').count()
    }
}

/// Exactly so many bytes of a reader; memory is asked for as they come.
pub(crate) fn read_exactly(
    path: &Path,
    reader: &mut dyn Read,
    expected: usize,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    const FIRST: usize = 1 << 16;
    let start = bytes.len();
    let end = start.saturating_add(expected);
    while bytes.len() < end {
        let from = bytes.len();
        let more = (from - start).max(FIRST).min(end - from);
        memory::resize(bytes, from + more, 0).map_err(|e| IoError::memory(path, e))?;
        let read = crate::source::read_full(reader, bytes.get_mut(from..).unwrap_or_default())
            .map_err(|e| IoError::reading(path, e))?;
        if read < more {
            let problem = format!(
                "an array of {expected} bytes is expected, but {} are there",
                from - start + read
            );
            return Err(IoError::malformed(path, problem, AGAIN));
        }
    }
    Ok(())
}

/// Bytes out of base64 text. Several pieces, each with its own padding, may follow each other, as VTK writes them.
#[derive(Debug)]
pub(crate) struct Base64<'a> {
    text: &'a [u8],
    group: [u8; 3],
    given: usize,
    have: usize,
}

impl<'a> Base64<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, group: [0; 3], given: 0, have: 0 }
    }

    /// The next group; nothing at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let (mut value, mut digits, mut padding) = (0u32, 0, 0);
        while digits + padding < 4 {
            let Some((&sign, rest)) = self.text.split_first() else { break };
            self.text = rest;
            let digit = match sign {
                b'A'..=b'Z' => sign - b'A',
                b'a'..=b'z' => sign - b'a' + 26,
                b'0'..=b'9' => sign - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if digits >= 2 => {
                    padding += 1;
                    continue;
                }
                _ if sign.is_ascii_whitespace() => continue,
                _ => return Err(wrong(format!("'{}' is not base64", sign.escape_ascii()))),
            };
            if padding > 0 {
                return Err(wrong("base64 continues after its padding".to_owned()));
            }
            value = value << 6 | u32::from(digit);
            digits += 1;
        }
        if digits == 0 {
            return Ok(false);
        }
        if digits == 1 {
            return Err(wrong("base64 ends within a byte".to_owned()));
        }
        let [_, a, b, c] = (value << (6 * (4 - digits))).to_be_bytes();
        (self.group, self.given, self.have) = ([a, b, c], 0, digits - 1);
        Ok(true)
    }
}

impl Read for Base64<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        for byte in buffer {
            if self.given == self.have && !self.fill()? {
                break;
            }
            *byte = self.group.get(self.given).copied().unwrap_or_default();
            self.given += 1;
            done += 1;
        }
        Ok(done)
    }
}

/// Base64 of bytes, in one line.
pub(crate) fn to_base64(bytes: &[u8], sink: &mut dyn io::Write) -> io::Result<()> {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sign = |group: u32, place: u32| SIGNS[(group >> (18 - 6 * place) & 63) as usize];
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        let mut signs = [0, 1, 2, 3].map(|place| sign(group, place));
        signs[three.len() + 1..].fill(b'=');
        sink.write_all(&signs)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Base64::new(text).read_to_end(&mut bytes).map(|_| bytes)
    }

    #[test]
    fn base64_of_several_pieces() {
        assert_eq!(decoded(b"TWFu").unwrap(), b"Man");
        assert_eq!(decoded(b" TWE=\nTQ==\tTWFu").unwrap(), b"MaMMan");
        assert_eq!(decoded(b"TWE").unwrap(), b"Ma");
        for wrong in [&b"T"[..], b"T===", b"TW=u", b"T*Fu", b"\xff"] {
            assert!(decoded(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lines_and_words() {
        let mut cursor = Cursor::new(Path::new("a"), b"one\r\n 2 3.5e1\n\nx");
        assert_eq!(cursor.line().unwrap(), b"one");
        assert_eq!(cursor.text(2).unwrap().iter().collect::<Vec<_>>(), [2.0, 35.0]);
        let said = cursor.text_number().unwrap_err().to_string();
        assert_eq!(said, "'a': line 4: 'x' is not a number; correct the line");
        assert!(cursor.take(1).is_err() && cursor.text(9).is_err() && cursor.line().is_none());
    }

    proptest! {
        #[test]
        fn base64_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let mut text = Vec::new();
            to_base64(&bytes, &mut text).unwrap();
            prop_assert_eq!(decoded(&text).unwrap(), bytes);
        }
    }
}
