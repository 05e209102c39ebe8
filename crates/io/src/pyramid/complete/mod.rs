//! The coarser levels of files that lack them, and copies of what is slow to read in parts.
//!
//! A [`Completion`] says what a file lacks, makes it step by step in a folder of work, and gives the whole pyramid. Of
//! several processes each takes its share of each step; between steps they wait for each other. What one go has made the
//! next one finds: after a kill, and when the same file is opened again.

mod key;
mod whole;

use super::level::Level;
use super::pixel::Pixels;
use super::reduce::{finer_region, halved_axes, reduced, reduced_grid, reduced_size};
use super::write::Kept;
use super::{PyramidFormat, PyramidInfo, PyramidSource};
use crate::error::{IoError, Result};
use crate::image::Region;
use rayon::prelude::*;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use voxalign_image::memory;
use whole::{At, Whole};

/// Pixels that are copied at once.
const BAND: usize = 1 << 26;

/// How missing levels are made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CompleteOptions {
    /// Levels are added until the last one has no more pixels; by default a million (2^20), of volumes two.
    pub most_pixels: Option<usize>,
    /// Sizes of the tiles in which they are kept; by default some 2^18 pixels.
    pub tile: Option<[usize; 3]>,
    /// From 1 (fast) to 9 (small), of deflate; 0 does not compress.
    pub compression_level: u32,
}

impl Default for CompleteOptions {
    fn default() -> Self {
        Self { most_pixels: None, tile: None, compression_level: 1 }
    }
}

/// A file, and the levels that are made for it.
///
/// # Several processes
///
/// Each makes one of the same file, folder and options, and calls [`build`](Self::build) for every step with its rank.
/// When all are done with a step, each goes on with the next; when all are done with all, each calls
/// [`finish`](Self::finish), and may read once the first one's has returned. What is made does not depend on how many
/// they are.
///
/// # What is kept
///
/// An OME-Zarr in the folder of work, named after the file and a checksum of its path, sizes, times of change, the options
/// that it was opened with, and the levels. It has pixels as the file [gives](PyramidInfo::pixel_type) them. Tiles get their
/// names when they are whole, and those that are there are not made again. Of OME-Zarr and DICOM the times of all files
/// count. Nothing is ever removed, but for temporary files that killed processes left; a folder of a file that has changed
/// since stays, and can be removed by hand.
#[derive(Debug)]
pub struct Completion {
    source: Arc<dyn PyramidSource>,
    info: PyramidInfo,
    at: Vec<At>,
    work: Option<Kept>,
    /// The level that each step makes.
    steps: Vec<usize>,
}

impl Completion {
    /// Looks up what is missing, and makes the folder for it. Nothing is missing where there are no [steps](Self::steps).
    ///
    /// # Errors
    /// A file whose times cannot be read; a folder that cannot be written; a tile or a level of compression that there is
    /// not.
    pub fn new(
        source: impl Into<Arc<dyn PyramidSource>>,
        work: &Path,
        options: &CompleteOptions,
    ) -> Result<Self> {
        let source = source.into();
        let mut info = source.info().clone();
        check(&info, options)?;
        check_apart(&info, work)?;
        let given = info.levels.len();
        add_levels(&mut info, options)?;
        let (mut at, mut steps) = (Vec::new(), Vec::new());
        for (number, level) in info.levels.iter_mut().enumerate() {
            if number < given && !level.slow {
                at.push(At::File(number));
                continue;
            }
            level.tile = options.tile.unwrap_or_else(|| tile_of(level.dims(), level.slow));
            level.slow = false;
            at.push(At::Work(steps.len()));
            steps.push(number);
        }
        let mut this = Self { source, info, at, work: None, steps };
        if !this.steps.is_empty() {
            let levels: Vec<_> = this.steps.iter().map(|&l| this.info.levels[l].clone()).collect();
            let folder = work.join(key::folder(&this.info, &levels, options)?);
            let kept = Kept::new(&folder, levels, this.info.pixel_type, options.compression_level);
            this.work = Some(kept.map_err(|e| this.told(e, work))?);
        }
        Ok(this)
    }

    /// How many levels are kept: steps to make them.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The folder in which they are kept, where there are any.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.work.as_ref().map(Kept::folder)
    }

    /// What the whole pyramid says of itself: the file, with all levels.
    #[must_use]
    pub fn info(&self) -> &PyramidInfo {
        &self.info
    }

    /// The bytes that the tiles take at most: of whole ones that are not packed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let size = self.info.pixel_type.size() as u64;
        let padded = |level: &Level| {
            let along = |a: usize| level.dims()[a].next_multiple_of(level.tile[a]) as u64;
            (0..3).map(along).fold(size, u64::saturating_mul)
        };
        self.steps.iter().map(|&level| padded(&self.info.levels[level])).sum()
    }

    /// Makes the share of one of `ranks` processes of a step, what is missing of it; all steps before it have to be done.
    /// `stop` is asked between tiles. Says whether it was done.
    ///
    /// # Errors
    /// A step that there is not; what is wrong with the file; a folder that cannot be written or is full.
    pub fn build(
        &self,
        step: usize,
        rank: usize,
        ranks: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let (Some(work), Some(&level)) = (&self.work, self.steps.get(step)) else {
            let problem = format!("there is no step {step}: {} levels are made", self.steps());
            return Err(IoError::malformed(self.source.path(), problem, "count from 0"));
        };
        if work.is_complete() {
            return Ok(!stop());
        }
        let share = (rank, ranks.max(1));
        let done = if level < self.source.levels().len() {
            self.copy(work, step, share, stop)
        } else {
            self.reduce(work, step, share, stop)
        };
        done.map_err(|e| self.told(e, work.folder()))
    }

    /// Tiles of a level of the file, in the order in which it is unpacked.
    fn copy(
        &self,
        work: &Kept,
        step: usize,
        (rank, ranks): (usize, usize),
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        // A stream has one reader.
        let alone = self.info.format == PyramidFormat::Image;
        if alone && rank > 0 {
            return Ok(!stop());
        }
        let bands = bands(&work.levels()[step]);
        let own = bands.iter().skip(rank).step_by(if alone { 1 } else { ranks });
        for band in own {
            let mut tiles = work.within(step, band);
            tiles.retain(|&tile| !work.has(step, tile));
            if tiles.is_empty() {
                continue;
            }
            if stop() {
                return Ok(false);
            }
            let block = self.source.block(self.steps[step], band)?;
            for some in tiles.chunks(rayon::current_num_threads().max(1)) {
                if stop() {
                    return Ok(false);
                }
                work.put(step, some, (band, block.view()))?;
            }
        }
        Ok(!stop())
    }

    /// Tiles of a level, from the one before.
    fn reduce(
        &self,
        work: &Kept,
        step: usize,
        (rank, ranks): (usize, usize),
        stop: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let before = self.steps[step] - 1;
        let whole = self.whole(work)?;
        let all = work.within(step, &Region::whole(work.levels()[step].dims()));
        let own: Vec<_> = all.into_iter().skip(rank).step_by(ranks).collect();
        let missing: Vec<_> = own.into_iter().filter(|&tile| !work.has(step, tile)).collect();
        for some in missing.chunks(rayon::current_num_threads().max(1)) {
            if stop() {
                return Ok(false);
            }
            some.par_iter().try_for_each(|&tile| {
                let region = work.region(step, tile);
                let made = halved(&whole, before, &region)?;
                work.put_one(step, tile, &made)
            })?;
        }
        Ok(!stop())
    }

    fn whole(&self, work: &Kept) -> Result<Whole> {
        Ok(Whole {
            info: self.info.clone(),
            at: self.at.clone(),
            file: self.source.clone(),
            work: Some(work.source()?),
        })
    }

    /// The whole pyramid; the process of rank 0 makes sure that all is there, and says so in the folder.
    ///
    /// # Errors
    /// Tiles that were not made; a folder that cannot be written.
    pub fn finish(self, rank: usize) -> Result<Box<dyn PyramidSource>> {
        let Some(work) = &self.work else {
            let Self { source, info, at, .. } = self;
            return Ok(Box::new(Whole { info, at, file: source, work: None }));
        };
        if rank == 0 {
            work.finish().map_err(|e| self.told(e, work.folder()))?;
        }
        Ok(Box::new(self.whole(work)?))
    }

    /// What is said of a full disk: where, and how much is needed.
    fn told(&self, error: IoError, folder: &Path) -> IoError {
        full(error, folder, self.source.path(), self.bytes())
    }
}

/// The file with all levels down to the smallest one, by this process alone; none where it was stopped.
///
/// ```
/// use voxalign_image::{Grid, Volume};
/// use voxalign_io::image::{DataType, WriteOptions, write_volume};
/// use voxalign_io::pyramid::{CompleteOptions, PyramidOptions, completed, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("section.nii.gz");
/// let image = Volume::filled(Grid::axis_aligned([100, 60, 1], [0.01; 3])?, 7.0);
/// let options = WriteOptions { data_type: DataType::U8, ..Default::default() };
/// write_volume(&path, &image, &options)?;
///
/// let section = open(&path, &PyramidOptions::default())?;
/// assert_eq!(section.levels().len(), 1);
/// let options = CompleteOptions { most_pixels: Some(400), ..Default::default() };
/// let whole = completed(section, folder.path(), &options, &|| false)?.expect("nobody stopped it");
/// assert_eq!(whole.levels().len(), 3);
/// assert_eq!(whole.levels()[2].dims(), [25, 15, 1]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`Completion`].
pub fn completed(
    source: impl Into<Arc<dyn PyramidSource>>,
    work: &Path,
    options: &CompleteOptions,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Box<dyn PyramidSource>>> {
    let completion = Completion::new(source, work, options)?;
    for step in 0..completion.steps() {
        if !completion.build(step, 0, 1, stop)? {
            return Ok(None);
        }
    }
    completion.finish(0).map(Some)
}

fn check(info: &PyramidInfo, options: &CompleteOptions) -> Result<()> {
    let tile = options.tile.unwrap_or([1; 3]);
    // A tile and what it is made of are in memory.
    let fits = tile.iter().try_fold(1usize, |n, &t| n.checked_mul(t)).is_some_and(|n| n <= BAND);
    if !tile.contains(&0)
        && fits
        && options.compression_level <= 9
        && options.most_pixels != Some(0)
    {
        return Ok(());
    }
    let problem = format!(
        "tiles of {tile:?}, a compression level of {} and a level of at most {:?} pixels are asked for",
        options.compression_level, options.most_pixels
    );
    let remedy = "give sizes above 0, tiles of at most 2^26 pixels, and a level of at most 9";
    Err(IoError::malformed(&info.path, problem, remedy))
}

/// An error about a folder of work within an image that is a folder itself: it would change by what is made.
fn check_apart(info: &PyramidInfo, work: &Path) -> Result<()> {
    let zarr = matches!(info.format, PyramidFormat::OmeZarr2 | PyramidFormat::OmeZarr3);
    if !zarr || !work.ancestors().any(|folder| folder == info.path) {
        return Ok(());
    }
    let problem = format!("the folder of work '{}' is within the image", work.display());
    Err(IoError::malformed(&info.path, problem, "name a folder elsewhere"))
}

/// The levels that a [`Completion`] of a file has, without making any.
///
/// # Errors
/// A level whose grid cannot be.
pub fn all_levels(info: &PyramidInfo, options: &CompleteOptions) -> Result<Vec<Level>> {
    let mut all = info.clone();
    add_levels(&mut all, options)?;
    Ok(all.levels)
}

/// Adds levels to the last one until it is small.
fn add_levels(info: &mut PyramidInfo, options: &CompleteOptions) -> Result<()> {
    let deep = info.levels.first().is_some_and(|level| level.dims()[2] > 1);
    let most = options.most_pixels.unwrap_or(if deep { 1 << 21 } else { 1 << 20 });
    while let Some(last) = info.levels.last()
        && last.grid.len() > most.max(1)
    {
        let next = reduced_grid(&last.grid, halved_axes(last.dims()));
        let next = next.map_err(|e| IoError::image(&info.path, e))?;
        info.levels.push(Level::new(next, [1; 3]));
    }
    Ok(())
}

/// Some 2^18 pixels, along z as few as there are; of what is copied in whole slices no more than fit.
fn tile_of(dims: [usize; 3], copied: bool) -> [usize; 3] {
    let slice = dims[0].saturating_mul(dims[1]);
    let most = if copied { (BAND / slice.max(1)).max(1) } else { usize::MAX };
    match dims[2].min(most) {
        1 => [512, 512, 1],
        z @ 2..=4 => [256, 256, z],
        z @ 5..=16 => [128, 128, z],
        z => [64, 64, z.min(64)],
    }
}

/// A level in whole tiles, from the first row of the first slice: at most [`BAND`] pixels each, but for a row of tiles.
fn bands(level: &Level) -> Vec<Region> {
    let ([nx, ny, nz], [_, ty, tz]) = (level.dims(), level.tile);
    let row = nx.saturating_mul(ty).saturating_mul(tz.min(nz));
    let rows = ty.saturating_mul((BAND / row.max(1)).max(1)).min(ny);
    let mut all = Vec::new();
    for z in (0..nz).step_by(tz) {
        for y in (0..ny).step_by(rows) {
            let size = [nx, rows.min(ny - y), tz.min(nz - z)];
            all.push(Region { start: [0, y, z], size });
        }
    }
    all
}

/// A region of a level, made of the one `before` it.
fn halved(source: &dyn PyramidSource, before: usize, region: &Region) -> Result<Pixels> {
    let from = source.levels()[before].dims();
    let axes = halved_axes(from);
    let finer = finer_region(region, from, axes);
    debug_assert_eq!(reduced_size(finer.size, axes), region.size);
    let no_memory = |refused| IoError::memory(source.path(), refused);
    let block = source.block(before, &finer)?;
    let mut out = Pixels::zeroed(block.pixel_type(), region.len()).map_err(no_memory)?;
    let done = match (&block, &mut out) {
        (Pixels::U8(from), Pixels::U8(to)) => reduced(from, finer.size, axes, to),
        (Pixels::U16(from), Pixels::U16(to)) => reduced(from, finer.size, axes, to),
        _ => false,
    };
    match done {
        true => Ok(out),
        false => Err(no_memory(memory::OutOfMemory { bytes: u64::MAX, free: None })),
    }
}

/// An error, or of a full disk what is needed.
fn full(error: IoError, folder: &Path, file: &Path, bytes: u64) -> IoError {
    let IoError::System { source, .. } = &error else { return error };
    if !matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return error;
    }
    IoError::Results {
        what: "cannot keep levels in the folder",
        path: folder.to_owned(),
        problem: format!("the disk is full ({source})"),
        remedy: format!(
            "free space for those of '{}', which take up to {} ({bytes} bytes), or name a folder on another disk; what was \
             made is found again",
            file.display(),
            memory::amount(bytes)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_what_is_needed() {
        let kinds = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::PermissionDenied];
        let [storage, quota, denied] = kinds.map(|kind| {
            let error = IoError::writing(Path::new("work/a.ome.zarr/0/1/2"), kind.into());
            full(error, Path::new("work/a.ome.zarr"), Path::new("a.tif"), 3 << 20).to_string()
        });
        for said in [storage, quota] {
            assert!(
                said.starts_with("cannot keep levels in the folder 'work/a.ome.zarr': "),
                "{said}"
            );
            assert!(said.contains("'a.tif', which take up to 3.0 MiB (3145728 bytes)"), "{said}");
        }
        assert!(denied.starts_with("'work/a.ome.zarr/0/1/2'"), "{denied}");
    }

    #[test]
    fn bands_cover_a_level_once_and_are_small() {
        for (dims, copied) in [
            ([100_000, 80_000, 1], [512, 512, 1]),
            ([3_000, 2_000, 700], [128, 128, 11]),
            ([300_000, 20_000, 9], [512, 512, 1]),
            ([100, 70, 60], [64, 64, 60]),
            ([900, 700, 3], [256, 256, 3]),
        ] {
            let tile = tile_of(dims, true);
            assert_eq!(tile, copied);
            let grid = voxalign_image::Grid::axis_aligned(dims, [1.0; 3]).unwrap();
            let bands = bands(&Level::new(grid, tile));
            let row = dims[0] * tile[1] * tile[2];
            assert!(bands.iter().all(|band| band.len() <= BAND.max(row)));
            assert!(bands.iter().all(|band| (0..3).all(|a| band.start[a].is_multiple_of(tile[a]))));
            assert_eq!(
                bands.iter().map(Region::len).sum::<usize>(),
                dims.iter().product::<usize>()
            );
            // Nothing is gone back to.
            let at = |band: &Region| (band.start[2], band.start[1]);
            assert!(bands.windows(2).all(|pair| at(&pair[0]) < at(&pair[1])));
        }
    }
}
