//! Levels that are kept beside a file which lacks them, and may be made in several goes.

use super::super::level::Level;
use super::super::options::PyramidOptions;
use super::super::pixel::{PixelType, Pixels, PixelsRef};
use super::super::{PyramidSource, zarr as reading};
use super::plan::Plan;
use super::{tiles, zarr};
use crate::abandoned::remove_abandoned;
use crate::atomic::write_file;
use crate::error::{IoError, Result};
use crate::image::Region;
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// The file that is there once all tiles are.
const COMPLETE: &str = "complete.txt";

/// A folder of levels whose tiles are made in any order, by several processes, in several goes: a tile has its name only
/// once it is whole.
#[derive(Debug)]
pub(in crate::pyramid) struct Kept {
    folder: PathBuf,
    plan: Plan,
    sink: zarr::Sink,
    complete: bool,
}

impl Kept {
    /// Makes the folder, or goes on with the one that is there.
    pub(in crate::pyramid) fn new(
        folder: &Path,
        levels: Vec<Level>,
        pixel_type: PixelType,
        compression: u32,
    ) -> Result<Self> {
        let plan = Plan::of_levels(folder, levels, pixel_type, compression);
        let sink = zarr::Sink::kept(folder, &plan)?;
        let complete = folder.join(COMPLETE).is_file();
        Ok(Self { folder: folder.to_owned(), plan, sink, complete })
    }

    pub(in crate::pyramid) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(in crate::pyramid) fn levels(&self) -> &[Level] {
        &self.plan.levels
    }

    /// Whether all was made before.
    pub(in crate::pyramid) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The tiles within a region of a level, x fastest.
    pub(in crate::pyramid) fn within(&self, level: usize, region: &Region) -> Vec<[usize; 3]> {
        tiles::within(region, self.plan.levels[level].tile)
    }

    /// Whether a tile is there.
    pub(in crate::pyramid) fn has(&self, level: usize, tile: [usize; 3]) -> bool {
        self.sink.file(&self.plan, level, 0, tile).is_file()
    }

    /// The pixels of a tile, within the image.
    pub(in crate::pyramid) fn region(&self, level: usize, tile: [usize; 3]) -> Region {
        let of = &self.plan.levels[level];
        let start: [usize; 3] = std::array::from_fn(|a| tile[a] * of.tile[a]);
        let size = std::array::from_fn(|a| of.tile[a].min(of.dims()[a] - start[a]));
        Region { start, size }
    }

    /// Puts tiles of a block of pixels that begins at `start`: as many at once as there are threads.
    pub(in crate::pyramid) fn put(
        &self,
        level: usize,
        numbers: &[[usize; 3]],
        block: (&Region, PixelsRef<'_>),
    ) -> Result<()> {
        let (region, pixels) = block;
        let tile = self.plan.levels[level].tile;
        let cut: Result<super::Tiles> = numbers
            .par_iter()
            .map(|&number| {
                let of = |a: usize| number[a] * tile[a] - region.start[a];
                tiles::cut(pixels, region.size, [0, 1, 2].map(of), tile)
                    .map(|pixels| (number, pixels))
                    .map_err(|refused| IoError::memory(&self.folder, refused))
            })
            .collect();
        self.sink.put(&self.plan, level, cut?)
    }

    /// Puts a tile that has the pixels of its region.
    pub(in crate::pyramid) fn put_one(
        &self,
        level: usize,
        number: [usize; 3],
        pixels: &Pixels,
    ) -> Result<()> {
        self.put(level, &[number], (&self.region(level, number), pixels.view()))
    }

    /// What is there.
    pub(in crate::pyramid) fn source(&self) -> Result<Box<dyn PyramidSource>> {
        reading::open(&self.folder, &PyramidOptions::default())
    }

    /// An error where a tile is missing; all comes to the disk, and it is said that it is whole.
    pub(in crate::pyramid) fn finish(&self) -> Result<()> {
        if self.complete {
            return Ok(());
        }
        self.sink.close(&self.plan)?;
        self.sink.folders()?.iter().for_each(|folder| remove_abandoned(folder));
        write_file(&self.folder.join(COMPLETE), |w| w.write_all(b"all levels are complete\n"))
    }
}
