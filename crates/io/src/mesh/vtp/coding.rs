//! How the arrays of VTK XML are stored.

use super::Array;
use crate::error::{IoError, Result, shorten};
use crate::mesh::bytes::{AGAIN, Base64, Cursor, Number, Values, count, read_exactly};
use flate2::bufread::ZlibDecoder;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// How arrays are stored in a file.
#[derive(Debug)]
pub(crate) struct Coding<'b> {
    pub(super) big: bool,
    /// The type of lengths.
    pub(super) length: Number,
    pub(super) packed: bool,
    /// What is appended, and whether as base64.
    pub(super) appended: Option<(&'b [u8], bool)>,
}

impl Coding<'_> {
    /// The numbers of an array.
    pub(super) fn values(&self, path: &Path, array: &Array<'_>) -> Result<Values<'static>> {
        let wrong = |problem: String| IoError::malformed(path, problem, AGAIN);
        let start = &array.start;
        let number = match start.need(path, "type")? {
            "Int8" => Number::I8,
            "UInt8" => Number::U8,
            "Int16" => Number::I16,
            "UInt16" => Number::U16,
            "Int32" => Number::I32,
            "UInt32" => Number::U32,
            "Int64" => Number::I64,
            "UInt64" => Number::U64,
            "Float32" => Number::F32,
            "Float64" => Number::F64,
            other => return Err(wrong(format!("the type of an array is '{}'", shorten(other)))),
        };
        if start.get("format").unwrap_or("ascii") == "ascii" {
            return match Cursor::new(path, array.text.as_bytes()).all_text()? {
                Values::Text(values) => Ok(Values::Text(values)),
                Values::Bytes { .. } => Ok(Values::Text(Vec::new())),
            };
        }
        let bytes = self.bytes(path, array)?;
        if !bytes.len().is_multiple_of(number.size()) {
            return Err(wrong(format!("an array of {} bytes cannot be", bytes.len())));
        }
        Ok(Values::Bytes { bytes: Cow::Owned(bytes), number, big: self.big })
    }

    /// The bytes of an array that is not text.
    pub(super) fn bytes(&self, path: &Path, array: &Array<'_>) -> Result<Vec<u8>> {
        let wrong = |problem: String| IoError::malformed(path, problem, AGAIN);
        let start = &array.start;
        match start.get("format").unwrap_or("ascii") {
            "binary" => self.block(path, array.text.trim().as_bytes(), true),
            "appended" => {
                let offset = count(path, "bytes", start.get("offset"))?;
                let (all, base64) =
                    self.appended.ok_or_else(|| wrong("there is no <AppendedData>".into()))?;
                let rest = all.get(offset..).ok_or_else(|| {
                    wrong(format!("an array begins at {offset} of {} bytes", all.len()))
                })?;
                self.block(path, rest, base64)
            }
            other => Err(wrong(format!("the format of an array is '{}'", shorten(other)))),
        }
    }

    /// The bytes of an array, whose lengths come first.
    fn block(&self, path: &Path, bytes: &[u8], base64: bool) -> Result<Vec<u8>> {
        let mut whole = bytes;
        let mut decoded = Base64::new(bytes);
        let reader: &mut dyn Read = if base64 { &mut decoded } else { &mut whole };
        let wrong = |problem: String| IoError::malformed(path, problem, AGAIN);
        let fits = |claimed: usize| {
            if claimed <= bytes.len() {
                return Ok(());
            }
            Err(wrong(format!("{claimed} bytes are said to be in {}", bytes.len())))
        };
        let length = |reader: &mut dyn Read| {
            let mut bytes = Vec::new();
            read_exactly(path, reader, self.length.size(), &mut bytes)?;
            // Larger than can be counted is larger than the file.
            Ok(self.length.value(&bytes, self.big) as usize)
        };
        let mut done = Vec::new();
        let first = length(reader)?;
        if !self.packed {
            fits(first)?;
            read_exactly(path, reader, first, &mut done)?;
            return Ok(done);
        }
        fits(first.saturating_mul(self.length.size()))?;
        let [size, last] = [length(reader)?, length(reader)?];
        let mut sizes = Vec::new();
        for _ in 0..first {
            sizes.push(length(reader)?);
        }
        for (block, &packed) in sizes.iter().enumerate() {
            fits(packed)?;
            let mut piece = Vec::new();
            read_exactly(path, reader, packed, &mut piece)?;
            let expected = if block + 1 == first && last > 0 { last } else { size };
            read_exactly(path, &mut ZlibDecoder::new(&piece[..]), expected, &mut done)?;
        }
        Ok(done)
    }
}
