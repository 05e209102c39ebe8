//! Images of any size, read and written block by block: sections of whole slides, volumes of light-sheet microscopes.
//!
//! An image is a *pyramid*: levels from the finest to the coarsest, of which an image that is no pyramid has one.
//! [`open`] gives a [`PyramidSource`], of which any region of any level can be read, in 8 or 16 bits of one channel; no
//! more is held in memory than the region and the tiles that it meets, but for PNG and JPEG, which are held whole.
//!
//! | what | how it is told | read |
//! |---|---|---|
//! | TIFF, BigTIFF | `.tif`, `.tiff`, `.svs`, `.btf`, `.tf8` | tiles or strips; without compression, LZW, deflate, PackBits, JPEG; levels as further directories or SubIFDs |
//! | OME-Zarr 0.4 and 0.5 | a folder with `.zattrs` or `zarr.json` | chunks and parts of shards; without compression, blosc (BloscLZ, LZ4, zlib, zstd), gzip, LZ4, zlib, zstd |
//! | PNG, JPEG | `.png`, `.jpg`, `.jpeg` | held whole, one level |
//! | all of [`image`](crate::image) | its extensions | one level; only uncompressed files are quick to read in parts |
//!
//! # Values
//!
//! Integers of 8 and 16 bits are exact: unsigned ones as they are, signed ones with 128 or 32768 added
//! ([`PyramidInfo::offset`]). Other types, and values with a scale, need a [window](PyramidOptions::window) from `lo` to
//! `hi`: a value `v` becomes `floor(65535 (v - lo) / (hi - lo) + 1/2)` in double precision, held between 0 and 65535;
//! what is not a number becomes 0. A TIFF image in which 0 is white is inverted.
//!
//! # Channels
//!
//! Three or four channels become the luminance `(77 R + 150 G + 29 B + 128) >> 8` of the first three, in integers (the
//! weights of ITU-R BT.601 in 256ths); of a windowed image after the window. [`PyramidOptions::channel`] takes one
//! channel instead, and has to where there are two or more than four.
//!
//! # Geometry
//!
//! The world is RAS mm. Where a format has no directions (TIFF, pictures), the axes x and y of the image go to the left and
//! to the back, and the centre of the first pixel is the origin: the identity in the LPS world of ITK, which reads them
//! so. A level that is reduced by `f` has the centre of its first pixel at `(f - 1) / 2` pixels of the finest. Where the
//! size of a pixel is not known it is 1 mm ([`PyramidInfo::pixel_size_known`]); the only slice of an image of two
//! dimensions is as thick as a pixel is wide.
//!
//! # Writing
//!
//! [`PyramidWriter`] writes the finest level tile by tile, by one process or several, and makes the others by
//! [`reduced`]: exact integer means.
//!
//! ```
//! use voxalign_image::{Affine, Grid, Matrix3, Vector3};
//! use voxalign_io::image::{DataType, Region};
//! use voxalign_io::pyramid::{Pixels, PyramidOptions, PyramidToWrite, PyramidWriter, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("section.ome.zarr");
//! // 600 x 500 pixels of half a micrometre, to the left and to the back.
//! let axes = Matrix3::from_diagonal(&Vector3::new(-0.0005, -0.0005, 0.0005));
//! let grid = Grid::new([600, 500, 1], Affine::new(axes, Vector3::zeros()))?;
//! let what = PyramidToWrite::new(grid.clone(), DataType::U8);
//! let writer = PyramidWriter::create(&path, &what)?;
//! for x in [0, 512] {
//!     let region = Region { start: [x, 0, 0], size: [(600 - x).min(512), 500, 1] };
//!     writer.write(&region, Pixels::zeroed(writer.pixel_type(), region.len())?.view())?;
//! }
//! writer.finish()?;
//!
//! let section = open(&path, &PyramidOptions::default())?;
//! assert_eq!(section.levels().len(), 3);
//! assert_eq!(section.levels()[2].dims(), [150, 125, 1]);
//! assert_eq!(section.levels()[0].grid, grid);
//! let block = section.block(1, &Region { start: [100, 50, 0], size: [64, 32, 1] })?;
//! assert_eq!(block, Pixels::U8(vec![0; 64 * 32]));
//! # Ok(())
//! # }
//! ```

mod complete;
mod flat;
mod grey;
mod level;
mod options;
mod picture;
mod pixel;
mod reduce;
mod tiff;
mod write;
mod zarr;

pub use complete::{CompleteOptions, Completion, all_levels, completed};
pub use level::{Level, PyramidFormat, PyramidInfo};
pub use options::{Missing, PyramidOptions};
pub use pixel::{Pixel, PixelType, Pixels, PixelsMut, PixelsRef};
pub use reduce::{finer_region, halved_axes, reduced, reduced_grid, reduced_size};
pub use write::{OmeVersion, PyramidToWrite, PyramidWriter};

use crate::error::{IoError, Result};
use crate::image::{Format, Region, is_dicom_name};
use crate::source::Source;
use std::path::Path;
use voxalign_image::{Affine, Grid, ImageError, Matrix3, Vector3, memory};

/// A pyramid of which any region of any level can be read, by any number of threads at once.
pub trait PyramidSource: Send + Sync + std::fmt::Debug {
    /// What it says of itself.
    fn info(&self) -> &PyramidInfo;

    /// The pixels of a region of a level, x fastest, into memory of their number and [type](PyramidInfo::pixel_type).
    ///
    /// # Errors
    /// A level or region that the pyramid does not have, an empty region; memory of another length or type; what is
    /// missing or damaged of the file, by the name of the file and the tile.
    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> Result<()>;

    /// The file, or the folder.
    fn path(&self) -> &Path {
        &self.info().path
    }

    /// From the finest to the coarsest, at least one.
    fn levels(&self) -> &[Level] {
        &self.info().levels
    }

    /// As [`read`](Self::read), into new memory.
    ///
    /// # Errors
    /// As [`read`](Self::read); too little memory.
    fn block(&self, level: usize, region: &Region) -> Result<Pixels> {
        let kind = self.info().pixel_type;
        // What the region claims is held against the image before memory is asked for.
        let dims = self.info().level(level)?.dims();
        let mut pixels = Pixels::zeroed(kind, if fits(region, dims) { region.len() } else { 0 })
            .map_err(|refused| IoError::memory(self.path(), refused))?;
        self.read(level, region, pixels.lend())?;
        Ok(pixels)
    }
}

/// Whether a folder is a Zarr.
pub(crate) fn is_zarr(path: &Path) -> bool {
    zarr::is_group(path)
}

fn fits(region: &Region, dims: [usize; 3]) -> bool {
    (0..3).all(|a| region.start[a].checked_add(region.size[a]).is_some_and(|end| end <= dims[a]))
}

/// Extensions of TIFF files.
const TIFF: [&str; 5] = ["tif", "tiff", "svs", "btf", "tf8"];

/// Opens a pyramid; no pixel is read yet, but for PNG and JPEG, which are held whole.
///
/// # Errors
/// A missing, cut or malformed file; an unknown format; options that the file does not need or does not fulfil.
pub fn open(path: impl AsRef<Path>, options: &PyramidOptions) -> Result<Box<dyn PyramidSource>> {
    let path = path.as_ref();
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match extension.as_str() {
        name if TIFF.contains(&name) => tiff::open(Source::open(path)?, options),
        "png" => picture::png(&Source::open(path)?, options),
        _ if path.is_dir() && (extension == "zarr" || zarr::is_group(path)) => {
            zarr::open(path, options)
        }
        "jpg" | "jpeg" => picture::jpeg(&Source::open(path)?, options),
        _ if path.is_dir() || is_dicom_name(path) || Format::from_path(path).is_ok() => {
            flat::open(path, options)
        }
        _ => Err(IoError::UnknownExtension {
            path: path.into(),
            purpose: "an image that is read in blocks",
            known: ALL_KNOWN,
            hint: None,
        }),
    }
}

/// As [`open`], of a TIFF file in memory; `name` appears in messages.
///
/// # Errors
/// As [`open`].
pub fn open_tiff_bytes<'a>(
    name: impl AsRef<Path>,
    bytes: &'a [u8],
    options: &PyramidOptions,
) -> Result<Box<dyn PyramidSource + 'a>> {
    tiff::open(Source::memory(name.as_ref(), bytes), options)
}

const ALL_KNOWN: &str = ".zarr, .tif, .tiff, .svs, .btf, .tf8, .png, .jpg, .jpeg, .nii, .nii.gz, .hdr, .img, .mha, .mhd, .nrrd, .nhdr";

/// The grid of an image without directions: x to the left, y to the back, z up, the first centre at `origin` (LPS mm).
fn lps_grid(
    dims: [usize; 3],
    spacing: [f64; 3],
    origin: [f64; 3],
) -> std::result::Result<Grid, ImageError> {
    let signs = Vector3::new(-1.0, -1.0, 1.0);
    let matrix = Matrix3::from_diagonal(&Vector3::from(spacing).component_mul(&signs));
    Grid::new(dims, Affine::new(matrix, Vector3::from(origin).component_mul(&signs)))
}

/// Sizes of a pixel that programs write that know none, mm: those of 1 dot per inch or centimetre, and of 72 dots per inch, also as a whole
/// number per centimetre.
const NO_SIZES: [f64; 4] = [25.4, 10.0, 25.4 / 72.0, 10.0 / 28.0];

/// The sizes of a pixel that a resolution says, mm, unless both are what programs write that know none. These are rounded, as in 2835 dots per metre.
fn of_resolution(sizes: [f64; 2]) -> Option<[f64; 2]> {
    let told = |size: &f64| NO_SIZES.iter().all(|none| (size / none - 1.0).abs() > 1e-3);
    (sizes.iter().all(|s| s.is_finite() && *s > 0.0) && sizes.iter().any(told)).then_some(sizes)
}

/// The number of bytes of a buffer, where that can be counted.
fn byte_count(path: &Path, factors: &[usize]) -> Result<usize> {
    let n = factors.iter().try_fold(1usize, |n, &f| n.checked_mul(f));
    n.ok_or_else(|| IoError::memory(path, memory::OutOfMemory { bytes: u64::MAX, free: None }))
}

#[cfg(test)]
mod tests {
    use super::of_resolution;

    #[test]
    fn resolutions_that_stand_for_none_are_not_taken() {
        let both = |per_mm: f64| of_resolution([1.0 / per_mm; 2]);
        // Per inch, centimetre and metre.
        for none in [1.0 / 25.4, 72.0 / 25.4, 0.1, 2.8, 2.835, 2.8346, 2.834, 0.0, f64::NAN] {
            assert_eq!(both(none), None, "{none}");
        }
        for told in [2.0 / 25.4, 71.0 / 25.4, 73.0 / 25.4, 96.0 / 25.4, 3.0, 254.0, 2000.0] {
            assert_eq!(both(told), Some([1.0 / told; 2]), "{told}");
        }
        assert!(of_resolution([25.4 / 72.0, 25.4 / 300.0]).is_some());
    }
}
