//! Checkpoint files with a header and a checksum.
//!
//! A file has, all numbers as little-endian 64-bit ones, the [magic number](MAGIC), the length of the head, the number
//! of buffers and their lengths; then the head (a [`Stamp`], the name of the file and a value, [packed](crate::exchange)), the values of
//! the buffers, and the SHA-256 of all that.

use crate::atlas::subjects::away::failed;
use crate::error::{PopulationError, Result};
use crate::exchange::{pack, unpack};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use voxalign_image::memory::{self, OutOfMemory};
use voxalign_io::checksum::Hashed;

/// The magic number of these files.
const MAGIC: &[u8; 8] = b"VXSTATE2";
/// Bytes of a checksum.
const SUM: u64 = 32;

/// The stamp of a file. Files of one stamp have the same bytes, whoever wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// The checksum of the run's identity.
    pub(super) key: String,
    /// The kind of device, such as `cpu`.
    pub(super) device: String,
    /// The progress of the run: completed scales, iterations, energies of the scale.
    pub(super) at: [u64; 3],
}

/// The content of a file.
#[derive(Debug)]
pub(super) struct Content<T> {
    pub(super) stamp: Stamp,
    pub(super) value: T,
    pub(super) buffers: Vec<Vec<f32>>,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is none.
    Missing,
    /// It is damaged, with a description.
    Damaged(String),
    /// There is not enough memory to read it: no fault of the file.
    Memory(OutOfMemory),
}

impl Fault {
    /// A description of the same.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Missing => "it is missing".to_owned(),
            Self::Damaged(what) => what.clone(),
            Self::Memory(refused) => refused.to_string(),
        }
    }
}

impl From<OutOfMemory> for Fault {
    fn from(refused: OutOfMemory) -> Self {
        Self::Memory(refused)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::UnexpectedEof => Self::Damaged("it is truncated".to_owned()),
            kind => Self::Damaged(format!("it cannot be read: {kind}")),
        }
    }
}

/// Writes a file, so that it survives a loss of power once this returns.
pub(super) fn write<T: Serialize>(
    path: &Path,
    stamp: &Stamp,
    value: &T,
    buffers: &[Vec<f32>],
) -> Result<()> {
    write_as(path, &name_of(path), stamp, value, buffers)
}

/// The name stored in a file, so that a file put in place of another is noticed.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn write_as<T: Serialize>(
    path: &Path,
    name: &str,
    stamp: &Stamp,
    value: &T,
    buffers: &[Vec<f32>],
) -> Result<()> {
    let head = pack(&(stamp, name, value))?;
    let write = || -> io::Result<()> {
        let mut file = Hashed::new(BufWriter::new(File::create(path)?));
        file.write_all(MAGIC)?;
        let lens = buffers.iter().map(Vec::len);
        for number in [head.len(), buffers.len()].into_iter().chain(lens) {
            file.write_all(&(number as u64).to_le_bytes())?;
        }
        file.write_all(&head)?;
        for buffer in buffers {
            file.write_all(bytemuck::cast_slice(buffer))?;
        }
        let (mut file, sum) = file.finish();
        file.write_all(&sum)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    };
    write().map_err(|e| failed(path, "write", &e))
}

/// As [`write`], where the file is there as a whole or as it was at any moment.
pub(super) fn replace<T: Serialize>(path: &Path, stamp: &Stamp, value: &T) -> Result<()> {
    let new = path.with_extension("new");
    write_as(&new, &name_of(path), stamp, value, &[])?;
    let rename = || -> io::Result<()> {
        fs::rename(&new, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    rename().map_err(|e| failed(path, "write", &e))
}

/// Reads a file whose checksum is right; where buffers are not wanted they are checked alone.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    with_buffers: bool,
) -> std::result::Result<Content<T>, Fault> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut file = Hashed::new(file);
    let damaged = |what: &str| Fault::Damaged(what.to_owned());
    let number = |file: &mut Hashed<File>| -> std::result::Result<u64, Fault> {
        let mut word = [0; 8];
        file.read_exact(&mut word)?;
        Ok(u64::from_le_bytes(word))
    };
    if number(&mut file)? != u64::from_le_bytes(*MAGIC) {
        return Err(damaged("it is not a checkpoint file of this version"));
    }
    // What the numbers say has to be the size of the file before room is made for it.
    let (head, count) = (number(&mut file)?, number(&mut file)?);
    let sizes = || damaged("its size does not match its header");
    if count > size / 8 {
        return Err(sizes());
    }
    let lens = (0..count).map(|_| number(&mut file)).collect::<std::result::Result<Vec<_>, _>>()?;
    let values = lens.iter().try_fold(0u64, |sum, len| sum.checked_add(*len));
    let bytes = values
        .and_then(|v| v.checked_mul(4)?.checked_add(8 * (3 + count) + SUM)?.checked_add(head));
    if bytes != Some(size) {
        return Err(sizes());
    }
    let mut text = memory::zeroed::<u8>(head as usize)?;
    file.read_exact(&mut text)?;
    let mut buffers = Vec::new();
    if with_buffers {
        for len in lens {
            let mut buffer = memory::zeroed::<f32>(len as usize)?;
            file.read_exact(bytemuck::cast_slice_mut(&mut buffer))?;
            buffers.push(buffer);
        }
    } else {
        let rest = 4 * values.unwrap_or(0);
        if io::copy(&mut (&mut file).take(rest), &mut io::sink())? != rest {
            return Err(damaged("it is truncated"));
        }
    }
    let (mut file, sum) = file.finish();
    let mut kept = [0; SUM as usize];
    file.read_exact(&mut kept)?;
    if kept != sum {
        return Err(damaged("its content does not match its checksum"));
    }
    match unpack::<(Stamp, String, T)>(&text) {
        Ok((_, name, _)) if name != name_of(path) => {
            Err(Fault::Damaged(format!("it was written as '{name}'")))
        }
        Ok((stamp, _, value)) => Ok(Content { stamp, value, buffers }),
        Err(_) => Err(damaged("it is from another version")),
    }
}

/// The error of a file that cannot be used, and that nothing can stand in for.
pub(super) fn refused(path: &Path, fault: &Fault) -> PopulationError {
    match fault {
        Fault::Memory(refused) => (*refused).into(),
        fault => PopulationError::Damaged {
            path: path.to_owned(),
            what: format!("this checkpoint is damaged: {}", fault.words()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp { key: "k".to_owned(), device: "cpu".to_owned(), at: [1, 7, 7] }
    }

    #[test]
    fn too_little_memory_is_no_damage() {
        let fault = Fault::from(OutOfMemory { bytes: 5 << 20, free: Some(1 << 20) });
        let said = refused(Path::new("a"), &fault).to_string();
        assert!(said.contains("memory") && !said.contains("damaged"), "{said}");
    }

    #[test]
    fn files_are_read_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let numbers = vec![f64::NAN, f64::INFINITY, -0.1, f64::MIN_POSITIVE];
        let buffers = [vec![1.5, -0.0, 3e-40, f32::NAN], vec![], vec![f32::MAX]];
        write(&path, &stamp(), &numbers, &buffers).unwrap();
        let back = read::<Vec<f64>>(&path, true).unwrap();
        assert_eq!(back.stamp, stamp());
        assert!(back.value.iter().zip(&numbers).all(|(a, b)| a.to_bits() == b.to_bits()));
        let lens = |b: &[Vec<f32>]| b.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lens(&back.buffers), lens(&buffers));
        for (a, b) in back.buffers.iter().flatten().zip(buffers.iter().flatten()) {
            assert_eq!(a.to_bits(), b.to_bits());
        }
        assert!(read::<Vec<f64>>(&path, false).unwrap().buffers.is_empty());
        assert_eq!(read::<Vec<f64>>(&folder.path().join("b"), true).unwrap_err(), Fault::Missing);
        replace(&path, &stamp(), &"text").unwrap();
        assert_eq!(read::<String>(&path, true).unwrap().value, "text");
        fs::copy(&path, folder.path().join("b")).unwrap();
        let other = read::<String>(&folder.path().join("b"), true).unwrap_err();
        assert!(other.words().contains("written as 'a'"), "{other:?}");
        fs::remove_file(folder.path().join("b")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Every bit, and every length.
    #[test]
    fn damage_of_any_kind_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, &stamp(), &vec![0.5], &[vec![1.5, 2.5], vec![3.5]]).unwrap();
        let whole = fs::read(&path).unwrap();
        let is_seen = |bytes: &[u8], what: &str| {
            fs::write(&path, bytes).unwrap();
            for with_buffers in [true, false] {
                let fault = read::<Vec<f64>>(&path, with_buffers).unwrap_err();
                assert!(matches!(fault, Fault::Damaged(_)), "{what}: {fault:?}");
            }
        };
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            is_seen(&bytes, &format!("bit {bit}"));
        }
        for len in 0..whole.len() {
            is_seen(&whole[..len], &format!("{len} bytes"));
        }
        is_seen(&[&whole[..], &[0]].concat(), "one byte more");
    }
}
