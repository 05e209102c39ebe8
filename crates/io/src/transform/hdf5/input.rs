//! The bytes of an HDF5 file: metadata in small pieces from anywhere, values as streams.

use super::checksum::lookup3;
use crate::error::IoError;
use crate::source::Source;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use voxalign_image::memory::{self, OutOfMemory};

/// What is wrong with a file; the file's name is added at the border of the module.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The content breaks the rules of the format.
    Damaged(String),
    /// The content is valid but not read here.
    Unsupported(String),
    /// The file ends before what it refers to.
    Short { expected: u64, found: u64 },
    /// The operating system refused, or packed data are damaged.
    Reading(io::Error),
    /// There is too little memory.
    Memory(OutOfMemory),
}

pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub(crate) fn at(self, path: &Path) -> IoError {
        match self {
            Fault::Damaged(problem) => IoError::malformed(
                path,
                problem,
                "copy or download the file again, or write it again",
            ),
            Fault::Unsupported(what) => IoError::unsupported(
                path,
                what,
                "write it again with SimpleITK, `WriteTransform(ReadTransform(OLD), NEW)`, or take it \
                 apart with ANTs, `CompositeTransformUtil --disassemble FILE.h5 NAME`",
            ),
            Fault::Short { expected, found } => {
                IoError::Truncated { path: path.into(), expected, found }
            }
            Fault::Reading(error) => IoError::reading(path, error),
            Fault::Memory(refused) => IoError::memory(path, refused),
        }
    }
}

impl From<OutOfMemory> for Fault {
    fn from(refused: OutOfMemory) -> Self {
        Fault::Memory(refused)
    }
}

pub(super) fn damaged<T>(problem: impl Into<String>) -> Outcome<T> {
    Err(Fault::Damaged(problem.into()))
}

pub(super) fn unsupported<T>(what: impl Into<String>) -> Outcome<T> {
    Err(Fault::Unsupported(what.into()))
}

/// An address that is not set.
pub(super) const UNDEFINED: u64 = u64::MAX;

/// Largest piece of metadata, bytes.
const LARGEST_PIECE: u64 = 1 << 24;

/// Bytes of metadata that are read of the largest files.
const LARGEST_BUDGET: u64 = 1 << 28;

enum Store<'a> {
    File(File),
    Memory(&'a [u8]),
}

/// A file of which any piece can be read.
pub(super) struct Input<'a> {
    store: Store<'a>,
    length: u64,
    /// Bytes of metadata that may still be read: circles of references come to an end.
    budget: Cell<u64>,
    /// Stored bytes of values that may still be read: many links may lead to one dataset.
    values: Cell<u64>,
}

impl<'a> Input<'a> {
    pub(super) fn new(source: &Source<'a>) -> Outcome<Self> {
        let store = match source.in_memory() {
            Some(bytes) => Store::Memory(bytes),
            None => Store::File(File::open(source.path()).map_err(Fault::Reading)?),
        };
        let length = source.length();
        let budget = Cell::new((length.min(LARGEST_BUDGET / 16) * 16) + (1 << 20));
        // Some datasets may well be shared, as the same centre of several transforms is.
        let values = Cell::new(length.saturating_mul(2).saturating_add(1 << 16));
        Ok(Self { store, length, budget, values })
    }

    /// Length of the file, bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The file has to go on to the end of a piece.
    pub(super) fn holds(&self, address: u64, len: u64) -> Outcome<()> {
        let expected = address.saturating_add(len);
        if expected <= self.length {
            return Ok(());
        }
        Err(Fault::Short { expected, found: self.length })
    }

    /// A piece of metadata.
    pub(super) fn piece(&self, address: u64, len: u64) -> Outcome<Vec<u8>> {
        if address == UNDEFINED {
            return damaged("a part that is needed has no address");
        }
        self.holds(address, len)?;
        if len > LARGEST_PIECE {
            return damaged(format!("a header of {len} bytes is too large"));
        }
        match self.budget.get().checked_sub(len + 64) {
            Some(left) => self.budget.set(left),
            None => return damaged("its parts refer to each other in circles"),
        }
        let mut bytes = memory::zeroed(len as usize)?;
        self.stream(address, len)?.read_exact(&mut bytes).map_err(Fault::Reading)?;
        Ok(bytes)
    }

    /// Counts the stored bytes of a dataset whose values are read.
    pub(super) fn count_values(&self, stored: u64) -> Outcome<()> {
        match self.values.get().checked_sub(stored) {
            Some(left) => self.values.set(left),
            None => {
                return damaged(
                    "many of its transforms are the same values, more than the file has bytes",
                );
            }
        }
        Ok(())
    }

    /// A piece of metadata that ends with its checksum and begins with a signature; without both.
    pub(super) fn checked(&self, address: u64, len: u64, signature: &[u8; 4]) -> Outcome<Vec<u8>> {
        let mut bytes = self.piece(address, len)?;
        check(&bytes, signature, address)?;
        bytes.truncate(bytes.len() - 4);
        bytes.drain(..4);
        Ok(bytes)
    }

    /// The bytes from an address on.
    pub(super) fn stream(&self, address: u64, len: u64) -> Outcome<Box<dyn Read + '_>> {
        self.holds(address, len)?;
        match &self.store {
            // The piece is within the length, which is that of the slice.
            Store::Memory(bytes) => {
                let from = usize::try_from(address).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Box::new(bytes[from..].take(len)))
            }
            Store::File(file) => {
                let mut file: &File = file;
                file.seek(SeekFrom::Start(address)).map_err(Fault::Reading)?;
                let buffer = len.clamp(1, 1 << 18) as usize;
                Ok(Box::new(BufReader::with_capacity(buffer, file).take(len)))
            }
        }
    }
}

/// Signature and checksum of a piece of metadata.
pub(super) fn check(bytes: &[u8], signature: &[u8; 4], address: u64) -> Outcome<()> {
    let name = || String::from_utf8_lossy(signature).into_owned();
    if bytes.len() < 8 || !bytes.starts_with(signature) {
        return damaged(format!("there is no {} at byte {address}", name()));
    }
    let (body, sum) = bytes.split_at(bytes.len() - 4);
    if lookup3(body).to_le_bytes() != sum {
        return damaged(format!("the checksum of the {} at byte {address} is wrong", name()));
    }
    Ok(())
}

/// Reads little-endian numbers one after the other.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Outcome<&'b [u8]> {
        match self.bytes.split_at_checked(len) {
            Some((taken, rest)) => {
                self.bytes = rest;
                Ok(taken)
            }
            None => damaged("a header ends early"),
        }
    }

    pub(super) fn skip(&mut self, len: usize) -> Outcome<()> {
        self.take(len).map(drop)
    }

    /// A number of 0 to 8 bytes.
    pub(super) fn number(&mut self, len: usize) -> Outcome<u64> {
        if len > 8 {
            return damaged(format!("a number of {len} bytes"));
        }
        let bytes = self.take(len)?;
        Ok(bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
    }

    pub(super) fn byte(&mut self) -> Outcome<u8> {
        Ok(self.number(1)? as u8)
    }

    pub(super) fn two(&mut self) -> Outcome<u16> {
        Ok(self.number(2)? as u16)
    }

    pub(super) fn four(&mut self) -> Outcome<u32> {
        Ok(self.number(4)? as u32)
    }

    pub(super) fn eight(&mut self) -> Outcome<u64> {
        self.number(8)
    }

    /// What has to be there, such as a signature.
    pub(super) fn expect(&mut self, bytes: &[u8], what: &str) -> Outcome<()> {
        if self.take(bytes.len())? == bytes {
            return Ok(());
        }
        damaged(format!("there is no {what} where one is needed"))
    }
}
