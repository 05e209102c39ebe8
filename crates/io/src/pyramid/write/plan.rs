//! What is written.

use super::super::level::Level;
use super::super::pixel::{PixelType, PixelsRef};
use super::super::reduce::{halved_axes, reduced_grid};
use crate::error::{IoError, Result};
use crate::image::{DataType, Region};
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, Vector3};

/// The version of OME-Zarr that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OmeVersion {
    /// 0.4, in the second version of Zarr: what most viewers read.
    #[default]
    V04,
    /// 0.5, in the third version of Zarr.
    V05,
}

/// What is written.
#[derive(Debug, Clone, PartialEq)]
pub struct PyramidToWrite {
    /// Sizes and geometry of the finest level. Neither format holds other axes than to the left, to the back and up; TIFF
    /// holds one slice whose first pixel is at the origin.
    pub grid: Grid,
    /// The stored type: of 8 or 16 bits, without or with a sign. Pixels of signed ones are handed over with 128 or 32768
    /// added, as they are [read](super::super::PyramidInfo::offset).
    pub data_type: DataType,
    /// Channels: any number of OME-Zarr, 1 or 3 (red, green and blue) of TIFF.
    pub channels: usize,
    /// Sizes of a tile along x, y and z; by default 512 x 512, and 64 x 64 x 64 in three dimensions. Those of TIFF are
    /// multiples of 16.
    pub tile: Option<[usize; 3]>,
    /// From 1 (fast) to 9 (small), of deflate; 0 does not compress.
    pub compression_level: u32,
    /// Of OME-Zarr.
    pub ome_version: OmeVersion,
    /// The last level is the first one whose longest side is no longer.
    pub smallest: usize,
}

impl PyramidToWrite {
    /// One channel on a grid.
    #[must_use]
    pub fn new(grid: Grid, data_type: DataType) -> Self {
        Self {
            grid,
            data_type,
            channels: 1,
            tile: None,
            compression_level: 2,
            ome_version: OmeVersion::default(),
            smallest: 256,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Zarr,
    Tiff,
}

/// What is written, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) levels: Vec<Level>,
    pub(super) data_type: DataType,
    pub(super) pixel_type: PixelType,
    pub(super) channels: usize,
    pub(super) compression: u32,
    pub(super) ome_version: OmeVersion,
    /// Whether there is an axis z: of all but single slices at 0 that are as thick as a pixel is wide.
    pub(super) deep: bool,
}

impl Plan {
    pub(super) fn new(path: &Path, what: &PyramidToWrite) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let kind = match extension.as_str() {
            "zarr" => Kind::Zarr,
            "tif" | "tiff" | "btf" => Kind::Tiff,
            _ => {
                return Err(IoError::UnknownExtension {
                    path: path.into(),
                    purpose: "an image that is written in tiles",
                    known: ".zarr, .tif, .tiff, .btf",
                    hint: None,
                });
            }
        };
        let unsupported =
            |what: String, remedy: &str| Err(IoError::unsupported(path, what, remedy));
        let pixel_type = match what.data_type {
            DataType::U8 | DataType::I8 => PixelType::U8,
            DataType::U16 | DataType::I16 => PixelType::U16,
            other => return unsupported(format!("values are {other}"), "write 8 or 16 bits"),
        };
        let grid = &what.grid;
        check_axes(path, grid)?;
        let [_, _, nz] = grid.dims();
        let tile = what.tile.unwrap_or(if nz > 1 { [64; 3] } else { [512, 512, 1] });
        if tile.contains(&0)
            || what.channels == 0
            || what.compression_level > 9
            || what.smallest == 0
        {
            let problem = format!(
                "tiles of {tile:?}, {} channels, a compression level of {} and a smallest level of {} are asked for",
                what.channels, what.compression_level, what.smallest
            );
            let remedy = "give sizes and numbers above 0, and a level of at most 9";
            return Err(IoError::malformed(path, problem, remedy));
        }
        if kind == Kind::Tiff {
            check_tiff(path, what, tile)?;
        }
        let mut levels = vec![Level::new(grid.clone(), tile)];
        while let Some(last) = levels.last()
            && last.dims().iter().any(|&n| n > what.smallest)
        {
            let next = reduced_grid(&last.grid, halved_axes(last.dims()));
            levels.push(Level::new(next.map_err(|e| IoError::image(path, e))?, tile));
        }
        let [sx, _, sz] = grid.spacing();
        let tolerance = 1e-9 * sx;
        Ok(Self {
            path: path.to_owned(),
            kind,
            levels,
            data_type: what.data_type,
            pixel_type,
            channels: what.channels,
            compression: what.compression_level,
            ome_version: what.ome_version,
            deep: nz > 1 || (sz - sx).abs() > tolerance || grid.origin()[2].abs() > tolerance,
        })
    }

    /// Of these levels, one channel without a sign: what is kept beside a file that lacks them. Their directions are not.
    pub(super) fn of_levels(
        path: &Path,
        levels: Vec<Level>,
        pixel_type: PixelType,
        compression: u32,
    ) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Zarr,
            data_type: match pixel_type {
                PixelType::U8 => DataType::U8,
                PixelType::U16 => DataType::U16,
            },
            pixel_type,
            channels: 1,
            compression,
            ome_version: OmeVersion::V04,
            deep: levels.iter().any(|level| level.dims()[2] > 1),
            levels,
        }
    }

    /// What pixels of a signed type differ by from what is stored: in the highest bit.
    pub(super) fn is_signed(&self) -> bool {
        matches!(self.data_type, DataType::I8 | DataType::I16)
    }

    /// An error where a region of the finest level is not of whole tiles, or has other pixels.
    pub(super) fn check(&self, region: &Region, pixels: PixelsRef<'_>) -> Result<()> {
        let level = &self.levels[0];
        let dims = level.dims();
        let wrong = |problem: String, remedy: &str| {
            Err(IoError::malformed(&self.path, problem, remedy.to_owned()))
        };
        let fits = |a: usize| {
            region.start[a].is_multiple_of(level.tile[a])
                && region.start[a].checked_add(region.size[a]).is_some_and(|end| {
                    end == dims[a] || end < dims[a] && end.is_multiple_of(level.tile[a])
                })
        };
        if region.is_empty() || !(0..3).all(fits) {
            let problem = format!(
                "the region from pixel {:?} of the sizes {:?} is not of whole tiles of {:?} of the image of the sizes {dims:?}",
                region.start, region.size, level.tile
            );
            return wrong(problem, "write whole tiles");
        }
        if region.len().checked_mul(self.channels) != Some(pixels.len()) {
            let problem = format!(
                "{} pixels are given for a region of {} in {} channels",
                pixels.len(),
                region.len(),
                self.channels
            );
            return wrong(problem, "give all channels, one after the other");
        }
        if pixels.pixel_type() != self.pixel_type {
            let problem =
                format!("pixels are {}, and not {}", pixels.pixel_type(), self.pixel_type);
            return wrong(problem, "give the type that was asked for");
        }
        Ok(())
    }
}

/// An error where axes are others than those of the formats.
fn check_axes(path: &Path, grid: &Grid) -> Result<()> {
    let direction = grid.direction();
    let own = Vector3::new(-1.0, -1.0, 1.0);
    let off = (0..3).map(|a| (direction[(a, a)] - own[a]).abs()).fold(0.0, f64::max);
    if off < 1e-9 {
        return Ok(());
    }
    Err(IoError::unsupported(
        path,
        format!(
            "the axes of the image are {}, {:.3} degrees off the world axes, which this format does not hold",
            grid.orientation(),
            grid.obliqueness().to_degrees()
        ),
        "write on a grid whose axes are LPS, or in another format",
    ))
}

fn check_tiff(path: &Path, what: &PyramidToWrite, tile: [usize; 3]) -> Result<()> {
    let remedy = "write OME-Zarr (.zarr)";
    let dims = what.grid.dims();
    let unsupported = |what: String| Err(IoError::unsupported(path, what, remedy));
    if dims[2] != 1 || tile[2] != 1 {
        return unsupported(format!("{} slices in tiles of {tile:?} are no TIFF image", dims[2]));
    }
    if dims[..2].iter().any(|&n| u32::try_from(n).is_err()) {
        return unsupported(format!("{} x {} pixels are too many for TIFF", dims[0], dims[1]));
    }
    let sixteenths = |n: usize| n.is_multiple_of(16) && n <= 1 << 16;
    if !tile[..2].iter().all(|&n| sixteenths(n)) {
        let problem = format!("tiles of {tile:?} are asked for");
        let remedy = "tiles of TIFF are multiples of 16, up to 65536";
        return Err(IoError::malformed(path, problem, remedy));
    }
    if what.ome_version == OmeVersion::V05 {
        let what = "a version of OME-Zarr is chosen for a TIFF image".to_owned();
        return unsupported(what);
    }
    let [sx, _, sz] = what.grid.spacing();
    if (sz - sx).abs() > 1e-3 * sx {
        return unsupported(format!(
            "TIFF holds no thickness of a slice, and it is {sz} mm, where a pixel is {sx} mm wide"
        ));
    }
    if !matches!(what.channels, 1 | 3) {
        return unsupported(format!("{} channels are no TIFF image", what.channels));
    }
    if what.grid.origin().norm() > 1e-3 * what.grid.spacing()[0] {
        let [x, y, z] = what.grid.origin().into();
        return unsupported(format!("TIFF holds no origin, and it is ({x}, {y}, {z})"));
    }
    Ok(())
}
