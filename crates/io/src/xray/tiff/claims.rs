//! Validation of the directories of a TIFF file before anything else is read.

use crate::error::{IoError, Result};
use crate::source::{SeekRead, Source};
use std::io::{Read, Seek, SeekFrom};

/// Directories that are looked at: more than any image has pages.
const PAGES: usize = 1 << 16;
/// The type of texts.
const ASCII: u16 = 2;
/// Tags from here on are those of programs, and are not read.
const PRIVATE: u16 = 32_768;

/// Numbers of a file, of either order of bytes.
struct Numbers<'a> {
    reader: Box<dyn SeekRead + 'a>,
    big: bool,
}

impl Numbers<'_> {
    /// A number of so many bytes; nothing at the end of the file.
    fn next(&mut self, bytes: usize) -> Option<u64> {
        let mut all = [0; 8];
        self.reader.read_exact(&mut all[..bytes]).ok()?;
        if self.big {
            all[..bytes].reverse();
        }
        Some(u64::from_le_bytes(all))
    }
}

/// Refuses a text that is longer than the file: its reader prints a line about it that nobody can make use of. Whatever
/// else is wrong is found where it is read.
pub(crate) fn check(source: &Source<'_>) -> Result<()> {
    let mut numbers = Numbers { reader: source.seekable()?, big: false };
    let wrong = |tag: u64, count: u64| {
        IoError::malformed(
            source.path(),
            format!(
                "the tag {tag} claims a text of {count} bytes, which the {} bytes of the file cannot hold",
                source.length()
            ),
            "the file is damaged: copy or download it again",
        )
    };
    match directories(&mut numbers, source.length()) {
        Some((tag, count)) => Err(wrong(tag, count)),
        None => Ok(()),
    }
}

/// The first text that is longer than the file: its tag and its length.
fn directories(numbers: &mut Numbers<'_>, length: u64) -> Option<(u64, u64)> {
    numbers.big = numbers.next(2)? == u64::from(u16::from_le_bytes(*b"MM"));
    // BigTIFF has longer numbers.
    let long = match numbers.next(2)? {
        42 => false,
        43 => {
            numbers.next(4)?;
            true
        }
        _ => return None,
    };
    let (count_bytes, offset_bytes) = if long { (8, 8) } else { (2, 4) };
    let mut left = PAGES;
    loop {
        let at = numbers.next(offset_bytes)?;
        left = left.checked_sub(1)?;
        if at == 0 || at >= length {
            return None;
        }
        numbers.reader.seek(SeekFrom::Start(at)).ok()?;
        let mut entries = numbers.next(count_bytes)?;
        while entries > 0 {
            entries -= 1;
            let (tag, kind) = (numbers.next(2)?, numbers.next(2)?);
            let count = numbers.next(offset_bytes)?;
            numbers.next(offset_bytes)?;
            if kind == u64::from(ASCII) && count > length && tag < u64::from(PRIVATE) {
                return Some((tag, count));
            }
        }
    }
}
