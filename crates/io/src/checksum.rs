//! Checksums of input files, for the record of a result, and of the program's own files.

use crate::error::{IoError, Result};
use crate::source::regular;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The SHA-256 of a file as 64 lower-case hexadecimal digits; read in pieces of constant size.
///
/// # Errors
/// [`IoError::System`] where the file cannot be read.
pub fn sha256_file(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let fail = |e| IoError::reading(path, e);
    regular(path)?;
    let mut file = File::open(path).map_err(fail)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match file.read(&mut buffer).map_err(fail)? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    Ok(digits(hasher))
}

/// One SHA-256 for several files, such as the slices of an image: that of their names and checksums, a line
/// each, as `sha256sum FILES | sha256sum` has it in their folder.
///
/// # Errors
/// As [`sha256_file`].
pub fn sha256_files(paths: &[PathBuf]) -> Result<String> {
    let mut lines = String::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{}  {name}", sha256_file(path)?);
    }
    Ok(sha256(lines.as_bytes()))
}

/// The bytes of each end of a file that [`sha256_of_ends`] looks at.
const END: u64 = 64 << 10;

/// The SHA-256 of a list of files, a line each: the SHA-256 of its first and its last 64 KiB, its size and its name. Of large images, of
/// which the whole takes too long.
///
/// # Errors
/// As of [`sha256_file`].
pub fn sha256_of_ends(paths: &[PathBuf]) -> Result<String> {
    let mut lines = String::new();
    for path in paths {
        let fail = |e| IoError::reading(path, e);
        regular(path)?;
        let mut file = File::open(path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        let mut ends = Vec::new();
        Read::by_ref(&mut file).take(END).read_to_end(&mut ends).map_err(fail)?;
        file.seek(SeekFrom::Start(size.saturating_sub(END).max(END))).map_err(fail)?;
        Read::by_ref(&mut file).take(END).read_to_end(&mut ends).map_err(fail)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(lines, "{}  {size}  {name}", sha256(&ends));
    }
    Ok(sha256(lines.as_bytes()))
}

/// The SHA-256 of bytes as 64 lower-case hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    digits(Sha256::new_with_prefix(bytes))
}

/// A reader or writer that takes the SHA-256 of all that goes through it.
#[derive(Debug)]
pub struct Hashed<T> {
    inner: T,
    hasher: Sha256,
}

impl<T> Hashed<T> {
    /// One through which nothing has gone yet.
    pub fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new() }
    }

    /// The reader or writer, and the SHA-256 of what went through.
    pub fn finish(self) -> (T, [u8; 32]) {
        (self.inner, self.hasher.finalize().into())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(PIECE);
        let n = self.inner.read(&mut out[..most])?;
        self.hasher.update(&out[..n]);
        Ok(n)
    }
}

impl<W: io::Write> io::Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(&bytes[..bytes.len().min(PIECE)])?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// What was hashed, as hexadecimal digits.
fn digits(hasher: Sha256) -> String {
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Bytes that are hashed at a time, while they are in the processor's cache.
const PIECE: usize = 1 << 18;

/// A file that is hashed as it is read, from its begin. Clones go on where the others are.
#[derive(Debug, Clone)]
pub(crate) struct HashedFile(Arc<Mutex<(File, Sha256)>>);

impl HashedFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| IoError::reading(path, e))?;
        Ok(Self(Arc::new(Mutex::new((file, Sha256::new())))))
    }

    /// Reads what is left and gives the SHA-256 of the whole.
    pub(crate) fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        let hasher = std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1);
        Ok(digits(hasher))
    }
}

impl Read for HashedFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (file, hasher) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = out.len().min(PIECE);
        let n = file.read(&mut out[..most])?;
        hasher.update(&out[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, b"abc").unwrap();
        assert_eq!(
            sha256_file(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(sha256_file(folder.path().join("none")).is_err());
        assert_eq!(sha256(b"abc"), sha256_file(&path).unwrap());
    }

    #[test]
    fn what_goes_through_is_hashed() {
        let bytes: Vec<u8> = (0..3 * PIECE + 5).map(|i| (i * 7) as u8).collect();
        let mut writer = Hashed::new(Vec::new());
        io::Write::write_all(&mut writer, &bytes).unwrap();
        let (written, of_written) = writer.finish();
        assert_eq!(written, bytes);
        let mut reader = Hashed::new(&bytes[..]);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        assert_eq!(reader.finish().1, of_written);
        assert_eq!(sha256(&bytes)[..2], format!("{:02x}", of_written[0]));
    }
}
