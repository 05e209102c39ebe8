//! Input bytes from a file or memory, compressed or not.
//!
//! Files are read in pieces rather than mapped: values are converted while they are read, so a
//! mapping would save nothing, and a mapped file that another program cuts short kills the process.

use crate::checksum::HashedFile;
use crate::error::{IoError, Result};
use crate::gzip::GzipReader;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use voxalign_image::memory;

/// Size of read buffers, bytes.
const BUFFER: usize = 1 << 18;

/// Where bytes come from.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    path: PathBuf,
    length: u64,
    memory: Option<&'a [u8]>,
    hashed: Option<HashedFile>,
}

/// What the system says of a file; folders, and pipes and devices, whose reading may never end, are errors.
pub(crate) fn regular(path: &Path) -> Result<std::fs::Metadata> {
    let meta = std::fs::metadata(path).map_err(|e| IoError::reading(path, e))?;
    if meta.is_dir() {
        return Err(IoError::folder(path));
    }
    if !meta.is_file() {
        let remedy = "write what comes out of it to a file, and name that";
        return Err(IoError::malformed(path, "this is a pipe or a device, not a file", remedy));
    }
    Ok(meta)
}

/// Bytes of which any can be gone to.
pub(crate) trait SeekRead: BufRead + Seek {}

impl<T: BufRead + Seek> SeekRead for T {}

/// A stream of the bytes of a source, decompressed.
pub(crate) struct Stream<'a> {
    /// The bytes.
    pub(crate) reader: Box<dyn Read + 'a>,
    /// Whether they come out of gzip.
    pub(crate) gzip: bool,
}

impl<'a> Source<'a> {
    /// A file; missing, empty files and folders are errors.
    pub(crate) fn open(path: &Path) -> Result<Source<'static>> {
        let meta = regular(path)?;
        if meta.len() == 0 {
            return Err(IoError::malformed(path, "the file is empty", "copy or download it again"));
        }
        Ok(Source { path: path.into(), length: meta.len(), memory: None, hashed: None })
    }

    /// The file that a header names; an error is about the header, which may have the wrong name.
    pub(crate) fn named_by(header: &Path, path: &Path) -> Result<Source<'static>> {
        Self::open(path).map_err(|e| {
            let cause = match e {
                IoError::System { source, .. } => source.to_string(),
                IoError::Malformed { problem, .. } => problem,
                other => return other,
            };
            IoError::malformed(
                header,
                format!("its data file '{}': {cause}", path.display()),
                "put the data file where the header says",
            )
        })
    }

    /// Bytes in memory under a name.
    pub(crate) fn memory(name: &Path, bytes: &'a [u8]) -> Source<'a> {
        let length = bytes.len() as u64;
        Source { path: name.into(), length, memory: Some(bytes), hashed: None }
    }

    /// The same file, hashed while it is read; its bytes can be asked for once.
    pub(crate) fn hashing(self) -> Result<Self> {
        let hashed = HashedFile::open(&self.path)?;
        Ok(Self { hashed: Some(hashed), ..self })
    }

    /// The SHA-256 of a file that was hashed; what was not read is read now.
    pub(crate) fn checksum(self) -> Result<Option<String>> {
        let sum = self.hashed.map(HashedFile::finish).transpose();
        sum.map_err(|e| IoError::reading(&self.path, e))
    }

    /// The name of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Length as stored, bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether these bytes are in memory, where other files cannot be looked up.
    pub(crate) fn is_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// The bytes in memory, where they are there.
    pub(crate) fn in_memory(&self) -> Option<&'a [u8]> {
        self.memory
    }

    /// The bytes as stored from an offset.
    pub(crate) fn raw(&self, offset: u64) -> Result<Box<dyn BufRead + Send + 'a>> {
        self.raw_with(offset, BUFFER)
    }

    /// As [`raw`](Self::raw), read from the disk in pieces of `buffer` bytes.
    pub(crate) fn raw_with(
        &self,
        offset: u64,
        buffer: usize,
    ) -> Result<Box<dyn BufRead + Send + 'a>> {
        if let Some(bytes) = self.memory {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            return Ok(Box::new(&bytes[start..]));
        }
        let fail = |e| IoError::reading(&self.path, e);
        if let Some(hashed) = &self.hashed {
            let mut reader = BufReader::with_capacity(buffer, hashed.clone());
            // What is left out counts too.
            io::copy(&mut (&mut reader).take(offset), &mut io::sink()).map_err(fail)?;
            return Ok(Box::new(reader));
        }
        let mut file = File::open(&self.path).map_err(fail)?;
        if offset > 0 {
            file.seek(SeekFrom::Start(offset)).map_err(fail)?;
        }
        Ok(Box::new(BufReader::with_capacity(buffer, file)))
    }

    /// The bytes as stored, of which any can be gone to.
    pub(crate) fn seekable(&self) -> Result<Box<dyn SeekRead + 'a>> {
        if let Some(bytes) = self.memory {
            return Ok(Box::new(io::Cursor::new(bytes)));
        }
        let file = File::open(&self.path).map_err(|e| IoError::reading(&self.path, e))?;
        Ok(Box::new(BufReader::with_capacity(BUFFER, file)))
    }

    /// The bytes from the start, unpacked where they begin as gzip does.
    pub(crate) fn stream(&self) -> Result<Stream<'a>> {
        let mut raw = self.raw(0)?;
        let start = raw.fill_buf().map_err(|e| IoError::reading(&self.path, e))?;
        if start.starts_with(&[0x1f, 0x8b]) {
            Ok(Stream { reader: Box::new(GzipReader::new(raw)), gzip: true })
        } else {
            Ok(Stream { reader: Box::new(raw), gzip: false })
        }
    }

    /// At most `limit` unpacked bytes from the start.
    pub(crate) fn head(&self, limit: usize) -> Result<(Vec<u8>, bool)> {
        let stream = self.stream()?;
        Ok((self.to_end(stream.reader.take(limit as u64))?, stream.gzip))
    }

    /// All bytes of a small file.
    pub(crate) fn read_all(&self, limit: u64) -> Result<Vec<u8>> {
        if self.length > limit {
            return Err(IoError::malformed(
                &self.path,
                format!(
                    "the file has {} bytes, which is too many for a file of this kind",
                    self.length
                ),
                "check that it is the right file",
            ));
        }
        // A file may grow meanwhile.
        self.to_end(self.raw(0)?.take(limit))
    }

    /// All that a reader gives.
    fn to_end(&self, mut reader: impl Read) -> Result<Vec<u8>> {
        const FIRST: usize = 1 << 13;
        let mut bytes = Vec::new();
        loop {
            let start = bytes.len();
            let more = start.max(FIRST);
            memory::resize(&mut bytes, start + more, 0)
                .map_err(|refused| IoError::memory(&self.path, refused))?;
            let n = read_full(&mut reader, &mut bytes[start..])
                .map_err(|e| IoError::reading(&self.path, e))?;
            bytes.truncate(start + n);
            if n < more {
                return Ok(bytes);
            }
        }
    }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes read.
pub(crate) fn read_full(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match reader.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
