//! Writing images of any format.

use super::convert;
use super::options::{DataType, Format, WriteOptions};
use super::{metaimage, nifti, nrrd};
use crate::error::Result;
use std::io::{self, Write};
use std::path::Path;
use voxalign_image::{Grid, LabelMap, Volume};

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
        pieces(values, w, |v, out| convert::from_f32(v, options.data_type, out))
    };
    dispatch(path, grid, options.data_type, options, &values)
}

pub(crate) fn labels(path: &Path, labels: &LabelMap, options: &WriteOptions) -> Result<()> {
    let data_type = convert::smallest_type(labels.data());
    let values =
        |w: &mut dyn Write| pieces(labels.data(), w, |v, out| convert::from_i32(v, data_type, out));
    dispatch(path, labels.grid(), data_type, options, &values)
}

fn dispatch(
    path: &Path,
    grid: &Grid,
    data_type: DataType,
    options: &WriteOptions,
    values: Values<'_>,
) -> Result<()> {
    match Format::from_path(path)? {
        Format::Nifti | Format::NiftiPair => {
            nifti::write_volume(path, grid, data_type, options, values)
        }
        Format::MetaImage | Format::MetaImageHeader => {
            metaimage::write(path, grid, data_type, options, values)
        }
        Format::Nrrd | Format::NrrdHeader => nrrd::write(path, grid, data_type, options, values),
    }
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
