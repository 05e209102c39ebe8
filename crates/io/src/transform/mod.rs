//! Transforms: ITK text, ANTs/ITK MATLAB and HDF5 files, FSL matrices, FreeSurfer's arrays (read), and displacement
//! fields, which are read from NIfTI, NRRD and MetaImage files and written as NIfTI.
//!
//! All are parsed here: their formats are a page each (HDF5 as far as ITK uses it), and the conventions at the border (LPS
//! world, centres, FSL's scaled voxels) are the point of this module.
//!
//! A [`Transform`] maps fixed world to moving world, as ITK transforms do; FSL matrices map moving
//! to fixed coordinates of their own kind and are inverted and converted with the two grids. ITK
//! applies the last part of a composite first; a [`Transform::Composite`] its first part first.
//!
//! | format | extensions | holds | world |
//! |---|---|---|---|
//! | ITK text | `.tfm`, `.txt` | an affine map | LPS mm |
//! | ITK/ANTs MATLAB | `.mat` | an affine map | LPS mm |
//! | ITK HDF5 | `.h5`, `.hdf5` | affine maps, fields, and composites of both | LPS mm |
//! | FSL | `.fsl`, `.fsl.mat`, `.fslmat`, `.flirt` | an affine map, from moving to fixed | scaled voxels of both images |
//! | FreeSurfer (read) | `.lta` | an affine map, from moving to fixed | RAS mm, or voxels of both images |
//! | NIfTI field | `.nii`, `.nii.gz` | displacements | LPS mm (intent 1007) or RAS mm (1006) |
//! | NRRD, MetaImage field (read) | `.nrrd`, `.nhdr`, `.mha`, `.mhd` | displacements | LPS mm |
//!
//! The repository's `docs/transforms.md` has the same in the words of the command line.

mod field;
mod fsl;
mod hdf5;
mod itk;
mod itk_text;
mod lta;
mod matlab;

use crate::atomic;
use crate::error::{IoError, Result};
use crate::source::Source;
use std::fmt;
use std::io::BufRead;
use std::path::Path;
use voxalign_image::{Grid, Transform};

/// The images that a transform is between, for formats that are relative to them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Geometry<'a> {
    /// The fixed (reference) image's grid: needed for FSL, and to write anything but a single
    /// displacement field as a field.
    pub fixed: Option<&'a Grid>,
    /// The moving (input) image's grid: needed for FSL.
    pub moving: Option<&'a Grid>,
}

/// A transform file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransformFormat {
    /// ITK's text format: `.tfm`, `.txt`.
    ItkText,
    /// ITK's MATLAB format, as ANTs writes: `.mat`.
    ItkMatlab,
    /// ITK's HDF5 format, in which ANTs and SimpleITK keep composites with their fields: `.h5`, `.hdf5`.
    ItkHdf5,
    /// FLIRT's 4x4 matrix: `.fsl`, `.fslmat`, `.flirt`; files called `.mat` are recognised when
    /// read.
    Fsl,
    /// NIfTI field of displacements in LPS mm, as ITK and ANTs write: `.nii`, `.nii.gz`.
    NiftiField,
}

/// Extensions of transforms, for messages.
const KNOWN: &str = ".tfm or .txt (ITK text), .mat (ITK/ANTs), .h5 (ITK, with fields), .fsl (FLIRT \
                     matrix), .nii or .nii.gz (displacement field)";

impl TransformFormat {
    /// The format in which a file of this name is written.
    ///
    /// # Errors
    /// [`IoError::UnknownExtension`], naming the known ones.
    pub fn from_path(path: impl AsRef<Path>) -> Result<TransformFormat> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let ends = |list: &[&str]| list.iter().any(|e| name.ends_with(e));
        if ends(&[".tfm", ".txt"]) {
            Ok(TransformFormat::ItkText)
        } else if ends(&[".fsl", ".fslmat", ".flirt", ".fsl.mat"]) {
            Ok(TransformFormat::Fsl)
        } else if ends(&[".mat"]) {
            Ok(TransformFormat::ItkMatlab)
        } else if ends(&[".h5", ".hdf5"]) {
            Ok(TransformFormat::ItkHdf5)
        } else if ends(&[".nii", ".nii.gz"]) {
            Ok(TransformFormat::NiftiField)
        } else {
            Err(IoError::UnknownExtension {
                path: path.into(),
                purpose: "a transform",
                known: KNOWN,
                hint: None,
            })
        }
    }
}

impl fmt::Display for TransformFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransformFormat::ItkText => "ITK text",
            TransformFormat::ItkMatlab => "ITK MATLAB",
            TransformFormat::ItkHdf5 => "ITK HDF5",
            TransformFormat::Fsl => "FSL matrix",
            TransformFormat::NiftiField => "NIfTI displacement field",
        })
    }
}

/// Reads a transform, fixed world to moving world; the format is seen from the content.
///
/// # Errors
/// A missing or malformed file; a kind of transform that is not read here; an FSL matrix without
/// both grids.
pub fn read(path: impl AsRef<Path>, geometry: &Geometry<'_>) -> Result<Transform> {
    Ok(read_source(&Source::open(path.as_ref())?, geometry)?.0)
}

/// As [`read`], with whether the file holds a transform of the plane: one of ITK for images of two
/// dimensions, or a field of depth 1. It does nothing along z, which is wrong for images with depth.
///
/// # Errors
/// As [`read`].
pub fn read_with_planar(
    path: impl AsRef<Path>,
    geometry: &Geometry<'_>,
) -> Result<(Transform, bool)> {
    read_source(&Source::open(path.as_ref())?, geometry)
}

/// As [`read`], from the bytes of a file; `name` appears in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from_bytes(
    name: impl AsRef<Path>,
    bytes: &[u8],
    geometry: &Geometry<'_>,
) -> Result<Transform> {
    Ok(read_source(&Source::memory(name.as_ref(), bytes), geometry)?.0)
}

/// Writes a transform in the format that the extension names: see [`TransformFormat`].
///
/// # Errors
/// An unknown extension; a transform that the format cannot hold; missing grids; a folder that
/// cannot be written.
pub fn write(path: impl AsRef<Path>, transform: &Transform, geometry: &Geometry<'_>) -> Result<()> {
    let format = TransformFormat::from_path(path.as_ref())?;
    write_as(path, transform, geometry, format)
}

/// Writes a transform in a given format, whatever the extension.
///
/// # Errors
/// As [`write()`].
pub fn write_as(
    path: impl AsRef<Path>,
    transform: &Transform,
    geometry: &Geometry<'_>,
    format: TransformFormat,
) -> Result<()> {
    let path = path.as_ref();
    let bytes = match format {
        TransformFormat::ItkText => itk_text::format(path, transform)?.into_bytes(),
        TransformFormat::ItkMatlab => matlab::format(path, transform)?,
        TransformFormat::ItkHdf5 => return hdf5::write(path, transform),
        TransformFormat::Fsl => fsl::format(path, transform, geometry)?.into_bytes(),
        TransformFormat::NiftiField => return field::write(path, transform, geometry),
    };
    atomic::write_file(path, |w| w.write_all(&bytes))
}

/// Writes a transform that keeps the x-y plane as one for images of two dimensions, which is what ITK
/// and ANTs need for such images: as HDF5 where the extension says so, else as ITK text. Gives whether it
/// is one, and writes nothing else.
///
/// Read again, the file gives the same map: the third axis is neither moved nor scaled (to 1e-6).
///
/// # Errors
/// A folder that cannot be written.
pub fn write_itk_2d(path: impl AsRef<Path>, transform: &Transform) -> Result<bool> {
    let path = path.as_ref();
    let affine = transform.to_affine().ok();
    let Some(record) = affine.as_ref().and_then(itk::record_2d) else { return Ok(false) };
    if TransformFormat::from_path(path).is_ok_and(|format| format == TransformFormat::ItkHdf5) {
        hdf5::write_records(path, vec![record])?;
        return Ok(true);
    }
    let text = itk_text::format_records(&[record]);
    atomic::write_file(path, |w| w.write_all(text.as_bytes()))?;
    Ok(true)
}

/// Largest size of a file of parameters, bytes.
const LARGEST_TEXT: u64 = 1 << 24;

/// The transform, and whether it is one of the plane.
fn read_source(source: &Source<'_>, geometry: &Geometry<'_>) -> Result<(Transform, bool)> {
    let field = |transform: Transform| {
        let planar = matches!(&transform, Transform::Displacement(d) if d.field().grid().is_2d());
        (transform, planar)
    };
    let path = source.path();
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if [".nii", ".nii.gz", ".hdr", ".img", ".hdr.gz", ".img.gz"].iter().any(|e| name.ends_with(e)) {
        return field::read_nifti(source).map(field);
    }
    if crate::image::Format::from_path(path).is_ok() {
        return field::read_itk(source).map(field);
    }
    if let Some((what, remedy)) = crate::image::foreign(path) {
        return Err(IoError::unsupported(path, what, remedy));
    }
    if source
        .raw(0)?
        .fill_buf()
        .map_err(|e| IoError::reading(path, e))?
        .starts_with(hdf5::BEGINNING)
    {
        let (transform, planar) = hdf5::read(source)?;
        let (transform, flat) = field(transform);
        return Ok((transform, planar || flat));
    }
    let bytes = source.read_all(LARGEST_TEXT)?;
    if bytes.starts_with(b"#Insight Transform File") {
        return itk_text::parse(path, &bytes);
    }
    if matlab::recognised(&bytes) {
        return matlab::parse(path, &bytes);
    }
    if lta::recognised(&bytes) {
        return Ok((lta::parse(path, &bytes)?, false));
    }
    Ok((fsl::parse(path, &bytes, geometry)?, false))
}
