//! Shared parts of the text headers of NRRD and MetaImage.

use super::options::DataType;
use crate::error::{IoError, shorten};
use nalgebra::{Matrix3, Vector3};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Index, World};

/// Largest header in bytes.
pub(crate) const LARGEST_HEADER: usize = 1 << 20;
/// Largest number of axes.
pub(crate) const LARGEST_AXES: usize = 16;

/// An error about the `name` of a type of values that is not known; `what` is how the format calls it.
pub(crate) fn unread_type(path: &Path, what: &str, name: &str) -> IoError {
    let what = format!("{what} '{}' is not supported", shorten(name));
    IoError::unsupported(path, what, "convert the image to floats or integers")
}

/// Blank-separated finite numbers; otherwise the word that is none.
pub(crate) fn numbers(text: &str) -> Result<Vec<f64>, String> {
    text.split_whitespace()
        .map(|w| match w.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(v),
            _ => Err(format!("'{}' is not a number", shorten(w))),
        })
        .collect()
}

/// Blank-separated sizes of at least 1; otherwise the word that is none.
pub(crate) fn sizes(text: &str) -> Result<Vec<usize>, String> {
    text.split_whitespace()
        .map(|w| match w.parse::<usize>() {
            Ok(v) if v > 0 => Ok(v),
            _ => Err(format!("'{}' is not a size", shorten(w))),
        })
        .collect()
}

/// The index-to-world map of a grid in LPS as one in RAS, or the other way round.
pub(crate) fn flip_lps(affine: &Affine<Index, World>) -> Affine<Index, World> {
    let flip = Matrix3::from_diagonal(&Vector3::new(-1.0, -1.0, 1.0));
    // Adding zero makes a negative zero positive.
    Affine::new((flip * affine.matrix).add_scalar(0.0), (flip * affine.offset).add_scalar(0.0))
}

/// A grid of up to three axes from their world vectors; a missing third axis is put at a right
/// angle with 1 mm.
pub(crate) fn grid(
    sizes: &[usize],
    axes: &[Vector3<f64>],
    origin: Vector3<f64>,
) -> Result<Grid, String> {
    let dims = std::array::from_fn(|a| sizes.get(a).copied().unwrap_or(1));
    let mut matrix = Matrix3::identity();
    for (a, axis) in axes.iter().take(3).enumerate() {
        if axis.norm() == 0.0 {
            return Err(format!("the spacing along axis {a} is 0"));
        }
        matrix.set_column(a, axis);
    }
    if axes.len() == 1 {
        return Err("the image has only one axis, but 2 or 3 are needed".into());
    }
    if axes.len() == 2 {
        let normal = axes[0].cross(&axes[1]);
        if normal.norm() > 0.0 {
            matrix.set_column(2, &normal.normalize());
        }
    }
    // Adding zero makes a negative zero positive.
    Grid::new(dims, Affine::new(matrix.add_scalar(0.0), origin.add_scalar(0.0)))
        .map_err(|e| e.to_string())
}

/// A type by its name in C or NRRD.
pub(crate) fn type_of(name: &str) -> Option<DataType> {
    Some(match name {
        "signed char" | "int8" | "int8_t" => DataType::I8,
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => DataType::U8,
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => {
            DataType::I16
        }
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => DataType::U16,
        "int" | "signed int" | "int32" | "int32_t" => DataType::I32,
        "uint" | "unsigned int" | "uint32" | "uint32_t" => DataType::U32,
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64"
        | "int64_t" => DataType::I64,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => {
            DataType::U64
        }
        "float" => DataType::F32,
        "double" => DataType::F64,
        _ => return None,
    })
}

/// The path of a data file named in a header: relative to the header's folder.
pub(crate) fn beside(header: &Path, name: &str) -> PathBuf {
    match header.parent() {
        Some(folder) => folder.join(name),
        None => PathBuf::from(name),
    }
}

/// The files of an image: its header and, where it is another, that of its values.
pub(crate) fn files(header: &Path, data: &Path) -> Vec<PathBuf> {
    if header == data { vec![data.into()] } else { vec![header.into(), data.into()] }
}

/// The world vectors of the voxel axes and the origin of a grid, in LPS mm.
pub(crate) fn lps_axes(grid: &Grid) -> ([Vector3<f64>; 3], Vector3<f64>) {
    let lps = flip_lps(grid.to_world());
    (std::array::from_fn(|a| lps.matrix.column(a).into_owned()), lps.offset)
}

/// Sizes of at least three axes: a 2D image has depth 1.
pub(crate) fn with_depth(mut dims: Vec<usize>) -> Vec<usize> {
    dims.resize(dims.len().max(3), 1);
    dims
}
