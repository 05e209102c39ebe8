//! Writing images of any format.

use super::convert;
use super::options::{DataType, Format, WriteOptions};
use super::{metaimage, nifti, nrrd};
use crate::atomic::Pending;
use crate::error::{IoError, Result};
use crate::gzip::GzipWriter;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, LabelMap, Volume, memory};

/// Values converted at a time.
const PIECE: usize = 1 << 16;

/// Something that writes all values of an image.
pub(crate) type Values<'a> = &'a dyn Fn(&mut dyn Write) -> io::Result<()>;

pub(crate) fn volume(path: &Path, volume: &Volume<f32>, options: &WriteOptions) -> Result<()> {
    values(path, volume.grid(), volume.data(), options)
}

pub(crate) fn values(
    path: &Path,
    grid: &Grid,
    values: &[f32],
    options: &WriteOptions,
) -> Result<()> {
    let values = |w: &mut dyn Write| {
        if options.data_type == DataType::F32 && cfg!(target_endian = "little") {
            // They are stored as they are.
            return w.write_all(bytemuck::cast_slice(values));
        }
        pieces(values, w, |v, out| convert::from_f32(v, options.data_type, out))
    };
    dispatch(path, grid, options.data_type, options, &values)
}

pub(crate) fn volumes(
    path: &Path,
    grid: &Grid,
    (count, time_step_s): (usize, Option<f64>),
    options: &WriteOptions,
    read: &mut dyn FnMut(usize, &mut [f32]) -> Result<()>,
) -> Result<()> {
    if !matches!(Format::from_path(path)?, Format::Nifti | Format::NiftiPair) {
        return Err(IoError::unsupported(
            path,
            format!("{count} volumes in one file can be written as NIfTI only"),
            "write .nii.gz, or choose one as `volume`",
        ));
    }
    let mut room = memory::zeroed(grid.len()).map_err(|refused| IoError::memory(path, refused))?;
    let state = RefCell::new((read, &mut room, None));
    let all = |w: &mut dyn Write| {
        let (read, room, failed) = &mut *state.borrow_mut();
        for volume in 0..count {
            if let Err(error) = read(volume, room) {
                *failed = Some(error);
                return Err(io::Error::other("the input cannot be read"));
            }
            pieces(room, w, |v, out| convert::from_f32(v, options.data_type, out))?;
        }
        Ok(())
    };
    let done = nifti::write_volumes(path, grid, (count, time_step_s), options, &all);
    match state.into_inner().2 {
        Some(failed) => Err(failed),
        None => done.map_err(|e| e.needing((grid.len() * count * options.data_type.size()) as u64)),
    }
}

pub(crate) fn labels(path: &Path, labels: &LabelMap, options: &WriteOptions) -> Result<()> {
    let data_type = convert::smallest_type(labels.data());
    let values =
        |w: &mut dyn Write| pieces(labels.data(), w, |v, out| convert::from_i32(v, data_type, out));
    dispatch(path, labels.grid(), data_type, options, &values)
}

/// A label map as one NIfTI file with the intent of labels, complete under a temporary name.
pub(crate) fn label_nifti(
    path: &Path,
    labels: &LabelMap,
    data_type: DataType,
    options: &WriteOptions,
) -> Result<Pending> {
    let values =
        |w: &mut dyn Write| pieces(labels.data(), w, |v, out| convert::from_i32(v, data_type, out));
    nifti::write_labels(path, labels.grid(), data_type, options, &values)
        .map_err(|e| e.needing((labels.grid().len() * data_type.size()) as u64))
}

/// A label map as NRRD with pairs of keys and values in its header.
pub(crate) fn label_nrrd(
    path: &Path,
    labels: &LabelMap,
    data_type: DataType,
    options: &WriteOptions,
    pairs: &[(String, String)],
) -> Result<()> {
    let values =
        |w: &mut dyn Write| pieces(labels.data(), w, |v, out| convert::from_i32(v, data_type, out));
    nrrd::write(path, labels.grid(), (data_type, pairs), options, &values)
        .map_err(|e| e.needing((labels.grid().len() * data_type.size()) as u64))
}

fn dispatch(
    path: &Path,
    grid: &Grid,
    data_type: DataType,
    options: &WriteOptions,
    values: Values<'_>,
) -> Result<()> {
    let result = match Format::from_path(path)? {
        Format::Nifti | Format::NiftiPair => {
            nifti::write_volume(path, grid, data_type, options, values)
        }
        Format::MetaImage | Format::MetaImageHeader => {
            metaimage::write(path, grid, data_type, options, values)
        }
        Format::Nrrd | Format::NrrdHeader => {
            nrrd::write(path, grid, (data_type, &[]), options, values)
        }
        Format::Dicom => Err(IoError::unsupported(path, "DICOM is not written", "write .nii.gz")),
    };
    result.map_err(|e| e.needing((grid.len() * data_type.size()) as u64))
}

/// How values are packed within a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Container {
    Gzip,
    Zlib,
}

/// Writes values, packed where the level is above 0.
pub(crate) fn packed(
    values: Values<'_>,
    sink: &mut dyn Write,
    level: u32,
    container: Container,
) -> io::Result<()> {
    let mut writer = match (level, container) {
        (0, _) => return values(sink),
        (_, Container::Gzip) => GzipWriter::new(sink, level)?,
        (_, Container::Zlib) => GzipWriter::zlib(sink, level)?,
    };
    values(&mut writer)?;
    writer.finish().map(|_| ())
}

/// The file for the values of a header in a file of its own, and how the header names it.
pub(crate) fn data_file(header: &Path, extension: &str) -> (PathBuf, String) {
    let path = header.with_extension(extension);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (path, name)
}

/// Converts and writes values a piece at a time.
pub(crate) fn pieces<T>(
    values: &[T],
    sink: &mut dyn Write,
    convert: impl Fn(&[T], &mut Vec<u8>),
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for piece in values.chunks(PIECE) {
        bytes.clear();
        convert(piece, &mut bytes);
        sink.write_all(&bytes)?;
    }
    Ok(())
}
