//! What a pyramid says of itself.

use super::options::PyramidOptions;
use super::pixel::{PixelType, PixelsMut};
use crate::error::{IoError, Result};
use crate::image::{DataType, Oddity, Region};
use std::fmt;
use std::path::PathBuf;
use voxalign_image::Grid;

/// The format of a pyramid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PyramidFormat {
    /// OME-Zarr 0.4 and older, in the second version of Zarr.
    OmeZarr2,
    /// OME-Zarr 0.5, in the third version of Zarr.
    OmeZarr3,
    /// TIFF with offsets of 32 bits.
    Tiff,
    /// TIFF with offsets of 64 bits.
    BigTiff,
    /// A picture that is held whole, as PNG and JPEG are.
    Picture,
    /// What [`image`](crate::image) reads.
    Image,
}

impl fmt::Display for PyramidFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OmeZarr2 => "OME-Zarr (Zarr 2)",
            Self::OmeZarr3 => "OME-Zarr (Zarr 3)",
            Self::Tiff => "TIFF",
            Self::BigTiff => "BigTIFF",
            Self::Picture => "picture",
            Self::Image => "image",
        })
    }
}

/// One level of a pyramid: the same image with pixels of one size.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Level {
    /// Sizes and geometry, RAS mm; an image of two dimensions has depth 1.
    pub grid: Grid,
    /// Sizes along x, y, z of what is read or unpacked at once: who reads whole ones of them reads nothing twice.
    pub tile: [usize; 3],
    /// Whether a small region takes as long as a far larger one: of packed files what is before it is unpacked, too, or
    /// all rows that it meets. [`completed`](super::completed) copies such levels.
    pub slow: bool,
}

impl Level {
    pub(super) fn new(grid: Grid, tile: [usize; 3]) -> Self {
        Self { grid, tile, slow: false }
    }

    /// The same, where small regions are slow to read.
    pub(super) fn slow(self, slow: bool) -> Self {
        Self { slow, ..self }
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.grid.dims()
    }
}

/// What a pyramid says of itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PyramidInfo {
    /// The file, or the folder.
    pub path: PathBuf,
    /// All files that it is in; of OME-Zarr the folder.
    pub files: Vec<PathBuf>,
    /// What it was opened with.
    pub options: PyramidOptions,
    /// Its format.
    pub format: PyramidFormat,
    /// From the finest to the coarsest, at least one.
    pub levels: Vec<Level>,
    /// The stored type.
    pub data_type: DataType,
    /// Stored channels: samples of a pixel.
    pub channels: usize,
    /// The type of the pixels that are given.
    pub pixel_type: PixelType,
    /// What is subtracted from a pixel to have the stored value, where that is a signed integer of 8 or 16 bits: 128 or
    /// 32768; otherwise 0.
    pub offset: i32,
    /// Whether the file says how large a pixel is; otherwise 1 mm is assumed.
    pub pixel_size_known: bool,
    /// Everything unusual, a sentence each.
    pub oddities: Vec<Oddity>,
}

impl PyramidInfo {
    /// The level of a number.
    ///
    /// # Errors
    /// A level that the pyramid does not have.
    pub fn level(&self, number: usize) -> Result<&Level> {
        self.levels.get(number).ok_or_else(|| {
            let last = self.levels.len().saturating_sub(1);
            IoError::malformed(
                &self.path,
                format!("there is no level {number}: the pyramid has {}", self.levels.len()),
                format!("choose one of 0 to {last}"),
            )
        })
    }

    /// All files that it is in, those of folders too, in the order of their paths.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn all_files(&self) -> Result<Vec<PathBuf>> {
        let (mut next, mut files) = (self.files.clone(), Vec::new());
        while let Some(path) = next.pop() {
            if !path.is_dir() {
                files.push(path);
                continue;
            }
            let fail = |e| IoError::reading(&path, e);
            for entry in std::fs::read_dir(&path).map_err(fail)? {
                next.push(entry.map_err(fail)?.path());
            }
        }
        files.sort();
        Ok(files)
    }

    /// The level, and an error where a region is empty or not within it, or is not of the size or type of `out`.
    pub(super) fn check(
        &self,
        number: usize,
        region: &Region,
        out: &PixelsMut<'_>,
    ) -> Result<&Level> {
        let level = self.level(number)?;
        let dims = level.dims();
        let wrong = |problem: String, remedy: &str| {
            Err(IoError::malformed(&self.path, problem, remedy.to_owned()))
        };
        let inside = |a: usize| {
            region.start[a].checked_add(region.size[a]).is_some_and(|end| end <= dims[a])
        };
        if region.is_empty() || !(0..3).all(inside) {
            let problem = format!(
                "the region from pixel {:?} of the sizes {:?} is not within level {number}, which has the sizes {dims:?}",
                region.start, region.size
            );
            return wrong(problem, "ask for pixels of the level");
        }
        if out.len() != region.len() {
            let problem =
                format!("the region has {} pixels, but {} are expected", region.len(), out.len());
            return wrong(problem, "ask for as many pixels as the region has");
        }
        if out.pixel_type() != self.pixel_type {
            let problem = format!(
                "the pixels are {}, but {} are expected",
                self.pixel_type,
                out.pixel_type()
            );
            return wrong(problem, "ask for the type that the pyramid gives");
        }
        Ok(level)
    }
}
