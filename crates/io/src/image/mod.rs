//! Images: NIfTI-1 and -2, ANALYZE 7.5, NRRD, MetaImage and (read only) DICOM.
//!
//! The headers are parsed here because no crate covers what is needed: both byte orders, header
//! and data in separate files, several candidate geometries, and memory bounded by the file's size.
//!
//! Values are scaled (`slope * stored + intercept`) and read as 32-bit floats, x fastest; values that
//! are not numbers stay. The geometry that the file gives is taken as it is, oblique or flipped, in
//! RAS+ mm; everything unusual about it is put in words in [`ImageInfo::oddities`]. A name's extension
//! says the format ([`Format`]), of reading and of writing.
//!
//! DICOM is a folder with the files of a series, or one of these files: headers of all of them are read,
//! slices are sorted by their positions, and what is no even stack of slices is refused. Of several series
//! or volumes one is chosen by [`ReadOptions`].
//!
//! [`open`] gives an [`ImageSource`], of which any box of voxels can be read.
//! [`read_info`] looks at the header alone; [`read_volume`] and [`read_labels`] read one 3D or 2D
//! image; [`write_volume`] and [`write_labels`] write one. An example is on the [front page](crate) of
//! this crate.

mod access;
mod convert;
mod decode;
pub(crate) mod dicom;
mod info;
mod metaimage;
mod nifti;
mod nrrd;
mod oddity;
mod opening;
mod options;
mod region;
mod text;
mod write;

pub use access::{ImageSource, Sidecar};
pub use info::{Extension, GridSource, ImageInfo, SeriesInfo};
pub use oddity::Oddity;
pub use opening::{
    list_series, open, read_info_of, read_labels_of, read_volume_into_hashing_of,
    read_volume_into_of, read_volume_of,
};
pub use options::{ByteOrder, Compression, DataType, Format, ReadOptions, WriteOptions};
pub use region::Region;

pub(crate) use decode::{Plan, floats as decode_floats};
pub(crate) use nifti::{VectorHeader, with_header as nifti_with_header, write_vectors};
pub(crate) use nrrd::pairs as nrrd_pairs;
pub(crate) use options::{KNOWN, foreign, is_dicom_name};
pub(crate) use write::{label_nifti as write_label_nifti, label_nrrd as write_label_nrrd};

use crate::error::{IoError, Result};
use crate::source::Source;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, ImageError, LabelMap, Volume, memory};

/// What the header says; no voxel is read.
///
/// # Errors
/// A missing, empty, cut or malformed file; an unknown format; a geometry that is not one.
pub fn read_info(path: impl AsRef<Path>) -> Result<ImageInfo> {
    read_info_of(path, &ReadOptions::default())
}

/// A volume with scaled values.
///
/// A 2D image gets depth 1; further axes must have size 1. Integers beyond 2^24 and 64-bit floats
/// are rounded to 32-bit floats.
///
/// # Errors
/// As [`read_info`]; several volumes; a file shorter than its header says; too little memory.
pub fn read_volume(path: impl AsRef<Path>) -> Result<Volume<f32>> {
    Ok(read_volume_with_info(path)?.0)
}

/// As [`read_volume`], into values that the caller has, and what the header says: for many images through
/// one piece of memory.
///
/// # Errors
/// As [`read_volume`]; another number of voxels than that of `out`.
pub fn read_volume_into(path: impl AsRef<Path>, out: &mut [f32]) -> Result<ImageInfo> {
    read_volume_into_of(path, &ReadOptions::default(), out)
}

/// As [`read_volume_into`], with the SHA-256 of the files that were read: that of the image and, where its
/// values are in a file of their own, that of those. They are hashed while they are read.
///
/// # Errors
/// As [`read_volume_into`].
pub fn read_volume_into_hashing(
    path: impl AsRef<Path>,
    out: &mut [f32],
) -> Result<(ImageInfo, Vec<(PathBuf, String)>)> {
    read_volume_into_hashing_of(path, &ReadOptions::default(), out)
}

/// A volume and what the header says.
///
/// # Errors
/// As [`read_volume`].
pub fn read_volume_with_info(path: impl AsRef<Path>) -> Result<(Volume<f32>, ImageInfo)> {
    read_volume_of(path, &ReadOptions::default())
}

/// A label map.
///
/// # Errors
/// As [`read_volume`]; a value that is not a whole number within 32 bits.
pub fn read_labels(path: impl AsRef<Path>) -> Result<LabelMap> {
    read_labels_of(path, &ReadOptions::default())
}

/// As [`read_info`], from the bytes of a file; `name` gives the format and appears in messages.
///
/// # Errors
/// As [`read_info`].
pub fn read_info_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<ImageInfo> {
    Ok(in_memory(name.as_ref(), bytes)?.into_info())
}

/// As [`read_volume_with_info`], from the bytes of a file; the data must be in the same file.
///
/// # Errors
/// As [`read_volume`].
pub fn read_volume_from_bytes(
    name: impl AsRef<Path>,
    bytes: &[u8],
) -> Result<(Volume<f32>, ImageInfo)> {
    opening::volume(in_memory(name.as_ref(), bytes)?, &ReadOptions::default())
}

/// As [`read_labels`], from the bytes of a file; the data must be in the same file.
///
/// # Errors
/// As [`read_labels`].
pub fn read_labels_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<LabelMap> {
    opening::labels(in_memory(name.as_ref(), bytes)?, &ReadOptions::default())
}

/// Writes a volume in the format that the extension names: `.nii`, `.nii.gz`, `.hdr`/`.img`
/// (and `.hdr.gz`/`.img.gz`) for NIfTI, `.mha`, `.mhd`, `.nrrd`, `.nhdr`.
///
/// NIfTI files are version 1 unless an axis has more than 32767 voxels. Integer types get rounded
/// and clamped values.
///
/// # Errors
/// An unknown extension; a folder that cannot be written; a full disk.
pub fn write_volume(
    path: impl AsRef<Path>,
    volume: &Volume<f32>,
    options: &WriteOptions,
) -> Result<()> {
    write::volume(path.as_ref(), volume, options)
}

/// As [`write_volume`], from values that are in other memory than a volume's; their number is that of the
/// grid.
///
/// # Errors
/// As [`write_volume`]; another number of values.
pub fn write_values(
    path: impl AsRef<Path>,
    grid: &Grid,
    values: &[f32],
    options: &WriteOptions,
) -> Result<()> {
    if grid.len() != values.len() {
        let error = ImageError::LengthMismatch { expected: grid.len(), found: values.len() };
        return Err(IoError::image(path.as_ref(), error));
    }
    write::values(path.as_ref(), grid, values, options)
}

/// Writes several volumes of one grid as one NIfTI file, whose fourth axis they follow each other along; `read`
/// gives the values of each, in their order. `time_step_s` is what the header says from one to the next.
///
/// # Errors
/// As [`write_volume`]; another format than NIfTI; the errors of `read`.
pub fn write_volumes(
    path: impl AsRef<Path>,
    grid: &Grid,
    volumes: usize,
    time_step_s: Option<f64>,
    options: &WriteOptions,
    read: &mut dyn FnMut(usize, &mut [f32]) -> Result<()>,
) -> Result<()> {
    write::volumes(path.as_ref(), grid, (volumes, time_step_s), options, read)
}

/// Writes a label map with the smallest type that holds its labels, of unsigned 8 bits, signed 16
/// bits, unsigned 16 bits and signed 32 bits; `options.data_type` is not used.
///
/// # Errors
/// As [`write_volume`].
pub fn write_labels(
    path: impl AsRef<Path>,
    labels: &LabelMap,
    options: &WriteOptions,
) -> Result<()> {
    write::labels(path.as_ref(), labels, options)
}

fn in_memory<'a>(name: &Path, bytes: &'a [u8]) -> Result<opening::Opened<'a>> {
    opening::of_source(Source::memory(name, bytes), Some(bytes), &ReadOptions::default())
}

/// The image of a source, of which any part can be read.
pub(crate) fn open_source<'a>(source: Source<'a>) -> Result<Box<dyn ImageSource + 'a>> {
    let bytes = source.in_memory();
    Ok(opening::of_source(source, bytes, &ReadOptions::default())?.into_source())
}

/// The values of a NRRD or MetaImage file of vectors, all of the first component, then the next.
///
/// # Errors
/// As [`read_volume`]; an image that holds no vectors.
pub(crate) fn vectors(source: &Source<'_>) -> Result<(Vec<f32>, ImageInfo)> {
    let plan = plan(source)?;
    let components = plan.info.components;
    if components < 2 || plan.info.volumes() != components {
        return Err(IoError::malformed(
            source.path(),
            format!(
                "the image has the sizes {:?} and {components} values per voxel, so it is not a \
                 vector field",
                plan.info.dims
            ),
            "a vector field has 3 components per voxel, or 2 per pixel in 2D",
        ));
    }
    let beside = decode::floats(&plan, source)?;
    let n = beside.len() / components;
    let mut apart: Vec<f32> =
        memory::zeroed(beside.len()).map_err(|refused| IoError::memory(source.path(), refused))?;
    apart.par_chunks_mut(n).enumerate().for_each(|(c, component)| {
        let values = beside.iter().skip(c).step_by(components);
        component.iter_mut().zip(values).for_each(|(to, &from)| *to = from);
    });
    Ok((apart, plan.info))
}

/// Parses the header, by the file's extension and its first bytes.
pub(crate) fn plan(source: &Source<'_>) -> Result<Plan> {
    let plan = match Format::from_path(source.path())? {
        Format::Nifti | Format::NiftiPair => nifti::plan(source),
        Format::MetaImage | Format::MetaImageHeader => metaimage::plan(source),
        Format::Nrrd | Format::NrrdHeader => nrrd::plan(source),
        Format::Dicom => Err(IoError::unsupported(
            source.path(),
            "DICOM files hold no transforms",
            "name an image of another format",
        )),
    }?;
    // Sizes that no memory could hold are damage, also where the values are not asked for.
    plan.size()?;
    Ok(plan)
}
