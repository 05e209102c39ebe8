//! TIFF and BigTIFF files of tiles or strips, with levels in further directories or in SubIFDs.

mod describe;
mod levels;
mod page;
mod unpack;

use super::grey::Grey;
use super::level::{Level, PyramidFormat, PyramidInfo};
use super::options::{Missing, PyramidOptions};
use super::pixel::{Pixel, PixelsMut, with_pixels};
use super::reduce::scaled_grid;
use super::{PyramidSource, flat, lps_grid, picture};
use crate::error::{IoError, Result};
use crate::image::Region;
use crate::source::Source;
use page::Page;
use rayon::prelude::*;

/// A file and the directories that are its levels.
#[derive(Debug)]
struct Tiff<'a> {
    info: PyramidInfo,
    source: Source<'a>,
    pages: Vec<Page>,
    grey: Grey,
}

pub(super) fn open<'a>(
    source: Source<'a>,
    options: &PyramidOptions,
) -> Result<Box<dyn PyramidSource + 'a>> {
    let path = source.path();
    if options.missing != Missing::Error {
        return Err(flat::only_zarr(path));
    }
    let found = levels::find(&source, options.volume)?;
    let Some(first) = found.pages.first() else {
        let problem = "the file has no image";
        return Err(IoError::malformed(path, problem, "export the image again"));
    };
    let mut grey = Grey::new(path, first.data_type, first.channels(), options)?;
    if first.white_is_zero {
        grey = grey.inverted();
    }
    let image = |e| IoError::image(path, e);
    let [x, y] = first.pixel_size.unwrap_or([1.0; 2]);
    let [nx, ny] = first.dims;
    let finest = lps_grid([nx, ny, 1], [x, y, x], [0.0; 3]).map_err(image)?;
    let mut levels = Vec::with_capacity(found.pages.len());
    for (page, factor) in found.pages.iter().zip(&found.factors) {
        let [nx, ny] = page.dims;
        let [tx, ty] = page.tile;
        let grid = scaled_grid(&finest, [nx, ny, 1], [*factor, *factor, 1.0]).map_err(image)?;
        levels.push(Level::new(grid, [tx, ty, 1]).slow(page.slow()));
    }
    let mut oddities = picture::unknown_size(first.pixel_size.is_some());
    oddities.extend(grey.oddities());
    oddities.extend(first.turned());
    oddities.extend(found.oddities);
    let info = PyramidInfo {
        path: path.to_owned(),
        files: vec![path.to_owned()],
        options: options.clone(),
        format: if found.big { PyramidFormat::BigTiff } else { PyramidFormat::Tiff },
        levels,
        data_type: first.data_type,
        channels: first.channels(),
        pixel_type: grey.pixel_type(),
        offset: grey.offset(),
        pixel_size_known: first.pixel_size.is_some(),
        oddities,
    };
    Ok(Box::new(Tiff { info, source, pages: found.pages, grey }))
}

/// A tile that meets a region: its number, and the rows and columns of it that are within.
struct Meeting {
    number: usize,
    /// The first column and row of the part, in the image.
    at: [usize; 2],
    /// The first column and row of the part, in the tile.
    from: [usize; 2],
    size: [usize; 2],
}

/// The tiles of a page that a region meets, row by row.
fn meetings(page: &Page, region: &Region) -> Vec<Meeting> {
    let begin = [region.start[0], region.start[1]];
    let end = [begin[0] + region.size[0], begin[1] + region.size[1]];
    let tiles = |a: usize| begin[a] / page.tile[a]..end[a].div_ceil(page.tile[a]);
    let mut all = Vec::new();
    for ty in tiles(1) {
        for tx in tiles(0) {
            let corner = [tx * page.tile[0], ty * page.tile[1]];
            let at: [usize; 2] = std::array::from_fn(|a| corner[a].max(begin[a]));
            let size = std::array::from_fn(|a| (corner[a] + page.tile[a]).min(end[a]) - at[a]);
            let from = std::array::from_fn(|a| at[a] - corner[a]);
            all.push(Meeting { number: ty * page.across[0] + tx, at, from, size });
        }
    }
    all
}

impl Tiff<'_> {
    fn fill<P: Pixel>(&self, page: &Page, region: &Region, out: &mut [P]) -> Result<()> {
        let columns = region.size[0];
        let all = meetings(page, region);
        // As many tiles at once as there are threads: memory is theirs.
        for some in all.chunks(rayon::current_num_threads().max(1)) {
            let parts: Vec<Result<Vec<P>>> =
                some.par_iter().map(|tile| self.part(page, tile)).collect();
            for (tile, part) in some.iter().zip(parts) {
                let part = part?;
                for (row, pixels) in part.chunks_exact(tile.size[0]).enumerate() {
                    let y = tile.at[1] + row - region.start[1];
                    let at = y * columns + tile.at[0] - region.start[0];
                    out[at..at + pixels.len()].copy_from_slice(pixels);
                }
            }
        }
        Ok(())
    }

    /// The pixels of a part of a tile.
    fn part<P: Pixel>(&self, page: &Page, tile: &Meeting) -> Result<Vec<P>> {
        let path = self.source.path();
        let no_memory = |refused| IoError::memory(path, refused);
        let rows = tile.from[1]..tile.from[1] + tile.size[1];
        let needed = self.grey.needed();
        let (mut bytes, mut plane) = (Vec::new(), 0);
        let planes = if page.planar { needed.clone() } else { 0..1 };
        for channel in planes {
            let number = tile.number + if page.planar { channel * page.tiles() } else { 0 };
            let mut one = unpack::rows(&self.source, page, number, rows.clone())?;
            if bytes.is_empty() {
                plane = one.len() / page.data_type.size();
                bytes = one;
            } else {
                bytes.append(&mut one);
            }
        }
        let mut out =
            voxalign_image::memory::zeroed(tile.size[0] * tile.size[1]).map_err(no_memory)?;
        let stored = if page.planar { 1 } else { page.samples };
        let first = if page.planar { 0 } else { needed.start };
        for (row, out) in out.chunks_exact_mut(tile.size[0]).enumerate() {
            let begin = (row * page.tile[0] + tile.from[0]) * stored + first;
            let at = |pixel: usize, c: usize| {
                begin + pixel * stored + if page.planar { c * plane } else { c }
            };
            self.grey.fill(&bytes, at, out);
        }
        Ok(out)
    }
}

impl PyramidSource for Tiff<'_> {
    fn info(&self) -> &PyramidInfo {
        &self.info
    }

    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> Result<()> {
        self.info.check(level, region, &out)?;
        match self.pages.get(level) {
            Some(page) => with_pixels!(out, out => self.fill(page, region, out)),
            None => Ok(()),
        }
    }
}
