//! Writing of pyramids tile by tile.

mod kept;
mod place;
mod plan;
mod tiff;
mod tiles;
mod zarr;

pub(super) use kept::Kept;
pub use plan::{OmeVersion, PyramidToWrite};

use super::level::Level;
use super::pixel::{Pixel, PixelType, Pixels, PixelsRef};
use super::reduce::{finer_region, halved_axes, reduced, reduced_size};
use crate::error::{IoError, Result};
use crate::image::Region;
use place::Place;
use plan::{Kind, Plan};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use voxalign_image::memory;

/// A pyramid that is being written: the finest level tile by tile, the others from it.
///
/// Nothing has the final name before [`finish`](Self::finish) has put it there; dropped before that, or killed, it
/// leaves nothing there, and what had the name before stays. Memory is that of the tiles of a call, and of one tile a
/// thread.
///
/// # Several processes
///
/// The tiles of an OME-Zarr are files of their own, so that processes that share a file system can write it together.
/// One [creates](Self::create) it and tells the others its [place](Self::place), where they [join](Self::join). Each
/// [writes](Self::write) tiles that no other one writes. When all have, each [reduces](Self::reduce) its share of level
/// 1; when all have, of level 2, and so on. Then the first one [finishes](Self::finish_reduced). Waiting for each other
/// is theirs. The result does not depend on how many they are.
#[derive(Debug)]
pub struct PyramidWriter {
    plan: Plan,
    place: Place,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Zarr(zarr::Sink),
    Tiff(tiff::Sink),
}

/// Tiles with their numbers along x, y and z and their pixels, channel by channel.
type Tiles = Vec<([usize; 3], Pixels)>;

impl PyramidWriter {
    /// Begins a pyramid: OME-Zarr where the name ends with `.zarr`, TIFF where it ends with `.tif`, `.tiff` or `.btf`.
    ///
    /// # Errors
    /// An unknown extension; what the format does not hold; a folder that cannot be written; another process that
    /// writes the same; a folder of this name that is no OME-Zarr.
    pub fn create(path: impl AsRef<Path>, what: &PyramidToWrite) -> Result<Self> {
        let path = path.as_ref();
        let plan = Plan::new(path, what)?;
        let place = Place::new(path, plan.kind == Kind::Zarr)?;
        let sink = match plan.kind {
            Kind::Zarr => Sink::Zarr(zarr::Sink::create(place.work(), &plan)?),
            Kind::Tiff => Sink::Tiff(tiff::Sink::create(place.work(), &plan)?),
        };
        Ok(Self { plan, place, sink })
    }

    /// Takes part in an OME-Zarr that another process has created at a [place](Self::place); `path` and `what` are those
    /// that it was created with.
    ///
    /// # Errors
    /// A place that this process does not see; a TIFF file, which one process writes.
    pub fn join(path: impl AsRef<Path>, place: &Path, what: &PyramidToWrite) -> Result<Self> {
        let path = path.as_ref();
        let plan = Plan::new(path, what)?;
        if plan.kind == Kind::Tiff {
            let what = "a TIFF file is written by one process";
            return Err(IoError::unsupported(path, what, "write OME-Zarr (.zarr)"));
        }
        let place = Place::joined(path, place)?;
        let sink = Sink::Zarr(zarr::Sink::joined(place.work(), &plan));
        Ok(Self { plan, place, sink })
    }

    /// Where it is while it is written, for others to [join](Self::join).
    #[must_use]
    pub fn place(&self) -> &Path {
        self.place.work()
    }

    /// The levels, from the finest, with the tiles in which they are written.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.plan.levels
    }

    /// The type of the pixels that are handed over.
    #[must_use]
    pub fn pixel_type(&self) -> PixelType {
        self.plan.pixel_type
    }

    /// The name that it will have.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.plan.path
    }

    /// Writes a region of the finest level: all channels, one after the other, x fastest. The region begins at tiles and
    /// ends at tiles or at the edge of the image. The order of regions changes no pixel, but the bytes of a TIFF file.
    ///
    /// # Errors
    /// A region that is empty, not within the image or not of whole tiles; pixels of another number or type; what the
    /// system says.
    pub fn write(&self, region: &Region, pixels: PixelsRef<'_>) -> Result<()> {
        self.plan.check(region, pixels)?;
        let tile = self.plan.levels[0].tile;
        let numbers = tiles::within(region, tile);
        for some in numbers.chunks(rayon::current_num_threads().max(1)) {
            let cut: Result<Tiles> = some
                .par_iter()
                .map(|&number| {
                    let of = |a: usize| number[a] * tile[a] - region.start[a];
                    let tile = tiles::cut(pixels, region.size, [0, 1, 2].map(of), tile);
                    tile.map(|t| (number, t)).map_err(|r| IoError::memory(self.path(), r))
                })
                .collect();
            self.put(0, cut?)?;
        }
        Ok(())
    }

    /// Makes every `count`-th tile of a level, beginning with the `share`-th, from the level before, of which all has to
    /// be written: [`reduced`].
    ///
    /// # Errors
    /// A level that there is not, or the finest; a share that there is not; tiles that were not written; what the system
    /// says.
    pub fn reduce(&self, level: usize, share: usize, count: usize) -> Result<()> {
        if level == 0 || level >= self.plan.levels.len() {
            let last = self.plan.levels.len() - 1;
            let problem = format!("there is no level {level} to be made of a finer one");
            return Err(IoError::malformed(self.path(), problem, format!("there are 1 to {last}")));
        }
        let coarse = &self.plan.levels[level];
        let whole = Region::whole(coarse.dims());
        let numbers = tiles::within(&whole, coarse.tile);
        if share >= count {
            let problem = format!("the share {share} of {count} is asked for");
            return Err(IoError::malformed(self.path(), problem, "shares are counted from 0"));
        }
        let own: Vec<_> = numbers.into_iter().skip(share).step_by(count).collect();
        let reader = self.reader()?;
        for some in own.chunks(rayon::current_num_threads().max(1)) {
            let made: Result<Tiles> = some
                .par_iter()
                .map(|&number| Ok((number, self.made(&reader, level, number)?)))
                .collect();
            self.put(level, made?)?;
        }
        Ok(())
    }

    /// A tile of a level, of the pixels of the finer one.
    fn made(&self, reader: &Reader<'_>, level: usize, number: [usize; 3]) -> Result<Pixels> {
        let (fine, coarse) = (&self.plan.levels[level - 1], &self.plan.levels[level]);
        let (from, to, tile) = (fine.dims(), coarse.dims(), coarse.tile);
        let start: [usize; 3] = std::array::from_fn(|a| number[a] * tile[a]);
        let size = std::array::from_fn(|a| tile[a].min(to[a] - start[a]));
        let region = Region { start, size };
        let halved = halved_axes(from);
        let finer = finer_region(&region, from, halved);
        let block = self.read(reader, level - 1, &finer)?;
        let no_memory = |refused| IoError::memory(self.path(), refused);
        let channels = self.plan.channels;
        let mut out =
            Pixels::zeroed(self.plan.pixel_type, channels * region.len()).map_err(no_memory)?;
        debug_assert_eq!(reduced_size(finer.size, halved), region.size);
        let done = match (&block, &mut out) {
            (Pixels::U8(from), Pixels::U8(to)) => halve(from, finer.size, halved, to, channels),
            (Pixels::U16(from), Pixels::U16(to)) => halve(from, finer.size, halved, to, channels),
            _ => false,
        };
        if !done {
            return Err(IoError::memory(
                self.path(),
                memory::OutOfMemory { bytes: u64::MAX, free: None },
            ));
        }
        tiles::cut(out.view(), region.size, [0; 3], tile).map_err(no_memory)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        Ok(match &self.sink {
            Sink::Zarr(sink) => Reader::Zarr(sink, sink.sources(&self.plan)?),
            Sink::Tiff(sink) => Reader::Tiff(sink),
        })
    }

    /// Pixels of all channels of a region that was written.
    fn read(&self, reader: &Reader<'_>, level: usize, region: &Region) -> Result<Pixels> {
        match reader {
            Reader::Zarr(sink, sources) => {
                sink.read(&self.plan, sources, level, region).map_err(|e| self.place.told(e))
            }
            Reader::Tiff(sink) => sink.read(&self.plan, level, region),
        }
    }

    fn put(&self, level: usize, tiles: Tiles) -> Result<()> {
        match &self.sink {
            Sink::Zarr(sink) => sink.put(&self.plan, level, tiles).map_err(|e| self.place.told(e)),
            Sink::Tiff(sink) => sink.put(&self.plan, level, tiles),
        }
    }

    /// Makes all other levels of the finest one, and gives the whole its name.
    ///
    /// # Errors
    /// Tiles that were not written; what the system says; a writer that [joined](Self::join).
    pub fn finish(self) -> Result<()> {
        for level in 1..self.plan.levels.len() {
            self.reduce(level, 0, 1)?;
        }
        self.finish_reduced()
    }

    /// As [`finish`](Self::finish), where all levels have been [made](Self::reduce).
    ///
    /// # Errors
    /// As of [`finish`](Self::finish).
    pub fn finish_reduced(self) -> Result<()> {
        let Self { plan, place, sink } = self;
        match &sink {
            Sink::Zarr(sink) => sink.close(&plan).map_err(|e| place.told(e))?,
            Sink::Tiff(sink) => sink.close(&plan)?,
        }
        place.commit()
    }

    /// Leaves it as a process leaves it that is killed here.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.place.abandon();
    }
}

enum Reader<'a> {
    Zarr(&'a zarr::Sink, Vec<Box<dyn super::PyramidSource>>),
    Tiff(&'a tiff::Sink),
}

fn halve<P: Pixel>(
    from: &[P],
    size: [usize; 3],
    halved: [bool; 3],
    to: &mut [P],
    channels: usize,
) -> bool {
    let (own, made) = (from.len() / channels, to.len() / channels);
    from.chunks_exact(own.max(1))
        .zip(to.chunks_exact_mut(made.max(1)))
        .all(|(from, to)| reduced(from, size, halved, to))
}

/// Brings a new file to the disk.
fn create(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |e| IoError::writing(path, e);
    let write = |path: &PathBuf| -> std::io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_data()
    };
    write(&path.to_owned()).map_err(fail)
}
