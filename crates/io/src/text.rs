//! Text files, which must be UTF-8.

use crate::error::{IoError, Result};
use crate::source::{Source, regular};
use std::borrow::Cow;
use std::path::Path;

/// Largest size of a file, bytes.
const LARGEST: u64 = 1 << 26;

/// The text of a file, without a byte-order mark.
///
/// # Errors
/// A missing file; a folder, a pipe or a device; more than 64 MiB; another encoding than UTF-8.
pub fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    if regular(path)?.len() == 0 {
        return Ok(String::new());
    }
    let bytes = Source::open(path)?.read_all(LARGEST)?;
    utf8(&bytes).map(str::to_owned).map_err(|e| IoError::malformed(path, e, SAVE_AS))
}

/// A text of a file as it is shown: what a terminal would obey rather than show is written out, but for the letters in `kept`, such as
/// ends of lines.
#[must_use]
pub fn printable<'t>(text: &'t str, kept: &[char]) -> Cow<'t, str> {
    // Controls, ends of lines, and what turns the direction of letters.
    let hidden = |c: char| {
        let turns = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (turns || c.is_control()) && !kept.contains(&c)
    };
    if !text.contains(hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown.into()
}

/// How many of a list are told.
const MOST: usize = 20;

/// A list for messages: the first 20 of its items, and how many more there are.
#[must_use]
pub fn listed(items: impl ExactSizeIterator<Item = String>, between: &str) -> String {
    let more = items.len().saturating_sub(MOST);
    let mut text = items.take(MOST).collect::<Vec<_>>().join(between);
    if more > 0 {
        text.push_str(&format!("{between}and {more} more"));
    }
    text
}

/// What helps where a file is in another encoding.
pub const SAVE_AS: &str = "save it as UTF-8 text";

/// The text of a file's bytes, without a byte-order mark.
///
/// # Errors
/// What the bytes are instead, in words; [`SAVE_AS`] is the remedy.
pub fn utf8(bytes: &[u8]) -> std::result::Result<&str, String> {
    let wide = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    // Text of 16 bits a letter without its mark: every other byte of plain letters is 0.
    if wide || bytes.iter().take(256).any(|&b| b == 0) {
        return Err("it is UTF-16 text, or no text at all".to_owned());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let line = |at: usize| 1 + bytes[..at].iter().filter(|&&b| b == b'\n').count();
    if let Some(at) = bytes.iter().position(|&b| b == 0) {
        return Err(format!("line {} has a byte 0, which no text has", line(at)));
    }
    std::str::from_utf8(bytes).map_err(|e| {
        format!("line {} has letters in another encoding than UTF-8", line(e.valid_up_to()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let shown = "a\\u{1b}[1m\\u{0}\\u{9b}\\u{202e}ü\\u{a}";
        assert_eq!(printable("a\u{1b}[1m\0\u{9b}\u{202e}ü\n", &[]), shown);
        assert_eq!(printable("a\tb\r\nü", &['\n', '\t']), "a\tb\\u{d}\nü");
    }

    #[test]
    fn lists_end_where_nobody_reads_on() {
        let some = |n: usize| listed((0..n).map(|i| i.to_string()), ", ");
        assert_eq!(some(3), "0, 1, 2");
        assert_eq!(some(MOST), (0..MOST).map(|i| i.to_string()).collect::<Vec<_>>().join(", "));
        assert!(some(300).ends_with(", 19, and 280 more"), "{}", some(300));
        assert_eq!(some(0), "");
    }

    #[test]
    fn other_encodings_are_told() {
        assert_eq!(utf8(b"a,b\n"), Ok("a,b\n"));
        assert_eq!(utf8(b"\xef\xbb\xbfa"), Ok("a"));
        for wide in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"a\0b\0", b"\0a\0b"] {
            assert!(utf8(wide).unwrap_err().contains("UTF-16"));
        }
        let late = [&b"a\n".repeat(300)[..], b"b\0c"].concat();
        assert!(utf8(&late).unwrap_err().starts_with("line 301 has a byte 0"));
        let latin = b"name\nM\xfcller\n";
        assert!(utf8(latin).unwrap_err().starts_with("line 2 has letters in another encoding"));
    }
}
