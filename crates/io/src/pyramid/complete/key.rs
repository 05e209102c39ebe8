//! The name of the folder for a file, which no other file has, nor the same one once it has changed.

use super::super::PyramidInfo;
use super::super::level::Level;
use super::CompleteOptions;
use crate::error::{IoError, Result};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Letters of the file's name, and digits of the checksum.
const SHOWN: usize = 40;
const DIGITS: usize = 24;
/// Changes where the same words come to mean another content.
const VERSION: u32 = 1;

pub(super) fn folder(
    info: &PyramidInfo,
    levels: &[Level],
    options: &CompleteOptions,
) -> Result<String> {
    let mut hasher = Sha256::new();
    let mut add = |text: String| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    let read = &info.options;
    add(format!("levels, version {VERSION}"));
    add(format!("{:?} {:?} {:?}", read.channel, read.missing, read.volume));
    add(format!("{:?}", read.window.map(|window| window.map(f64::to_bits))));
    add(format!("{} {:?} {}", info.pixel_type, info.data_type, options.compression_level));
    for level in levels {
        add(format!("{:?} {:?} {:?}", level.dims(), level.tile, level.grid.spacing()));
    }
    let whole = fs::canonicalize(&info.path).map_err(|e| IoError::reading(&info.path, e))?;
    add(whole.to_string_lossy().into_owned());
    let mut next: Vec<PathBuf> = info.files.clone();
    // In the order of names, and folders one after the other.
    while let Some(path) = next.pop() {
        let fail = |e| IoError::reading(&path, e);
        let meta = fs::metadata(&path).map_err(fail)?;
        add(format!("{} {}", path.file_name().unwrap_or_default().to_string_lossy(), time(&meta)));
        if meta.is_dir() {
            let mut inside = Vec::new();
            for entry in fs::read_dir(&path).map_err(fail)? {
                inside.push(entry.map_err(fail)?.path());
            }
            inside.sort();
            next.extend(inside);
        }
    }
    let digest = hasher.finalize();
    let mut name = shown(&info.path);
    digest.iter().take(DIGITS / 2).for_each(|byte| {
        // Writing to a string does not fail.
        let _ = write!(name, "{byte:02x}");
    });
    name.push_str(".ome.zarr");
    Ok(name)
}

/// The kind, the length of a file, and when it was changed.
fn time(meta: &Metadata) -> String {
    let length = if meta.is_dir() { 0 } else { meta.len() };
    let at = match meta.modified().map(|at| at.duration_since(SystemTime::UNIX_EPOCH)) {
        Ok(Ok(after)) => format!("{}", after.as_nanos()),
        Ok(Err(before)) => format!("-{}", before.duration().as_nanos()),
        Err(_) => "unknown".to_owned(),
    };
    format!("{} {length} {at}", meta.is_dir())
}

/// The beginning of the file's name, of letters that any file system takes.
fn shown(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or("image");
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    stem.chars().take(SHOWN).map(plain).chain(['-']).collect()
}
