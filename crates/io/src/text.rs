//! Files of text that people write: they are UTF-8.

use crate::error::{IoError, Result};
use crate::source::{Source, regular};
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
