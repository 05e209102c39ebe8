//! Images that are larger than memory, block by block.

pub(crate) mod source;
pub(crate) mod warp;

use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use std::path::Path;
use voxalign_io::checksum::{sha256_file, sha256_files, sha256_of_ends};
use voxalign_io::pyramid::{PyramidInfo, PyramidOptions, PyramidSource, open};
use voxalign_options::text;
use voxalign_report::{GridRecord, InputRecord};

/// Extensions of files that are read in blocks.
const READ: [&str; 9] = ["zarr", "tif", "tiff", "svs", "btf", "tf8", "png", "jpg", "jpeg"];

/// Whether a file has one of these extensions.
pub(crate) fn has(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    extensions.contains(&&*extension)
}

/// Whether a folder is an OME-Zarr.
pub(crate) fn is_zarr(path: &Path) -> bool {
    let group = |name: &str| path.join(name).is_file();
    has(path, &["zarr"]) || [".zgroup", ".zattrs", "zarr.json"].into_iter().any(group)
}

/// Whether a file is read in blocks.
pub(crate) fn is_pyramid(path: &Path) -> bool {
    has(path, &READ) || is_zarr(path)
}

/// Opens an image that is read in blocks.
///
/// # Errors
/// One that is not there, and what is wrong with it.
pub(crate) fn opened(
    path: &Path,
    options: &PyramidOptions,
    listener: &dyn Listener,
) -> Result<Box<dyn PyramidSource>> {
    there(path)?;
    reading(listener, || open(path, options))
}

/// That there is a file or folder.
pub(crate) fn there(path: &Path) -> Result<()> {
    match path.exists() {
        true => Ok(()),
        false => {
            Err(Error::input(text!("'{}': no such file or folder; check the path", path.display())))
        }
    }
}

/// Bytes of an image of which all are looked at for its checksum.
const WHOLE: u64 = 4 << 30;

/// An image as an input of a run. The checksum of one of several files is that of a list of their own; of many gigabytes it is that of
/// names, sizes, and both ends of each file.
///
/// # Errors
/// What cannot be read.
pub(crate) fn record(
    role: &str,
    info: &PyramidInfo,
    listener: &dyn Listener,
) -> Result<InputRecord> {
    let files = reading(listener, || info.all_files())?;
    let bytes: u64 = files.iter().filter_map(|f| Some(f.metadata().ok()?.len())).sum();
    let whole = bytes <= WHOLE;
    let sha256 = reading(listener, || match (whole, &files[..]) {
        (true, [one]) => sha256_file(one),
        (true, _) => sha256_files(&files),
        (false, _) => sha256_of_ends(&files),
    })?;
    let sha256_of = match (whole, files.len()) {
        (true, 1) => None,
        (true, _) => Some("the list of the checksums of all files, by their paths".to_owned()),
        (false, _) => Some(
            "the list of names, sizes, and first and last 64 KiB of all files, by their paths"
                .to_owned(),
        ),
    };
    let path = info.path.display().to_string();
    let grid = info.levels.first().map(|level| GridRecord::from(&level.grid));
    Ok(InputRecord { role: role.to_owned(), path, sha256, sha256_of, grid })
}
