//! Images of [`crate::image`] as pyramids of one level.

use super::grey::Grey;
use super::level::{Level, PyramidFormat, PyramidInfo};
use super::options::{Missing, PyramidOptions};
use super::pixel::{Pixel, PixelsMut, with_pixels};
use super::{PyramidSource, byte_count};
use crate::error::{IoError, Result};
use crate::image::{self, DataType, GridSource, ImageSource, ReadOptions, Region};
use std::path::Path;
use voxalign_image::memory;

/// Pixels that are read at a time.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
struct Flat {
    info: PyramidInfo,
    image: Box<dyn ImageSource>,
    grey: Grey,
    /// The volume of the first channel that is needed.
    first: usize,
}

pub(super) fn open(path: &Path, options: &PyramidOptions) -> Result<Box<dyn PyramidSource>> {
    if options.missing != Missing::Error {
        return Err(only_zarr(path));
    }
    let image = image::open(path, &ReadOptions::default())?;
    let info = image.info();
    let (volumes, components) = (info.volumes(), info.components.max(1));
    // Of NRRD and MetaImage the components are the volumes.
    let images = if components > 1 && volumes == components { 1 } else { volumes };
    let channels = if images == 1 { components } else { 1 };
    let chosen = match options.volume {
        Some(number) if number < images => number,
        Some(number) => return Err(no_volume(path, number, images)),
        None if images == 1 => 0,
        None => {
            let (path, dims) = (path.to_owned(), info.dims.clone());
            return Err(IoError::SeveralVolumes { path, dims, volumes });
        }
    };
    let grey = Grey::new(path, info.unscaled_type().unwrap_or(DataType::F32), channels, options)?;
    let [nx, ny, _] = info.grid.dims();
    let unpacked = info.compression == image::Compression::None;
    let level = Level::new(info.grid.clone(), [nx, if unpacked { 1 } else { ny }, 1]);
    let info = PyramidInfo {
        path: path.to_owned(),
        files: info.files.clone(),
        options: options.clone(),
        format: PyramidFormat::Image,
        levels: vec![level.slow(!unpacked)],
        data_type: info.data_type,
        channels,
        pixel_type: grey.pixel_type(),
        offset: grey.offset(),
        pixel_size_known: info.grid_source != GridSource::Assumed
            || info.grid.spacing()[..2] != [1.0; 2],
        oddities: info.oddities.iter().cloned().chain(grey.oddities()).collect(),
    };
    let first = chosen + if images == 1 { grey.needed().start } else { 0 };
    Ok(Box::new(Flat { info, image, grey, first }))
}

/// An error about a choice that is for Zarr.
pub(super) fn only_zarr(path: &Path) -> IoError {
    IoError::malformed(
        path,
        "it is said what missing chunks are, but only Zarr arrays have chunks",
        "leave `missing` out",
    )
}

pub(super) fn no_volume(path: &Path, number: usize, all: usize) -> IoError {
    IoError::malformed(
        path,
        format!("there is no image {number}: the file has {all}"),
        format!("choose one of 0 to {} as `volume`", all.saturating_sub(1)),
    )
}

impl Flat {
    fn fill<P: Pixel>(&self, region: &Region, out: &mut [P]) -> Result<()> {
        let [nx, ny, nz] = region.size;
        let channels = self.grey.needed().len();
        let rows = (PIECE / nx).clamp(1, ny);
        let length = byte_count(self.path(), &[nx, rows, channels])?;
        let mut values: Vec<f32> =
            memory::zeroed(length).map_err(|refused| IoError::memory(self.path(), refused))?;
        let mut left = out;
        for z in 0..nz {
            for y in (0..ny).step_by(rows) {
                let [x0, y0, z0] = region.start;
                let piece = Region { start: [x0, y0 + y, z0 + z], size: [nx, rows.min(ny - y), 1] };
                let n = piece.len();
                for (c, values) in values.chunks_exact_mut(nx * rows).enumerate() {
                    self.image.read(&piece, self.first + c, &mut values[..n])?;
                }
                let (now, later) = left.split_at_mut(n);
                self.grey.fill_floats(&values, nx * rows, now);
                left = later;
            }
        }
        Ok(())
    }
}

impl PyramidSource for Flat {
    fn info(&self) -> &PyramidInfo {
        &self.info
    }

    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> Result<()> {
        self.info.check(level, region, &out)?;
        with_pixels!(out, out => self.fill(region, out))
    }
}
