//! Sources and sinks of images.

use crate::error::{PopulationError, Result};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use voxalign_compute::HostBuffer;
use voxalign_image::{Grid, Volume, memory};
use voxalign_io::image::{self, DataType, WriteOptions};

/// Images of one grid, to be read one at a time.
pub trait Source: Sync {
    /// The number of images; at least one.
    fn count(&self) -> usize;

    /// The grid of all of them.
    fn grid(&self) -> &Grid;

    /// Puts the values of an image into `out`, of the grid's length. All are finite.
    ///
    /// # Errors
    /// A file that cannot be read, is on another grid or has values that are not finite; the error
    /// names it.
    fn read(&self, item: usize, out: &mut [f32]) -> Result<()>;

    /// An image that is in memory of the host for good, from which the device can take it: it is not read
    /// then. All images of a source are, or none.
    fn resident(&self, item: usize) -> Option<&HostBuffer<f32>> {
        let _ = item;
        None
    }

    /// A bound on the absolute value of all voxels of all images, where it is known without reading
    /// them.
    fn bound(&self) -> Option<f64> {
        None
    }
}

/// A sink for the images of a result.
pub trait Sink: Sync {
    /// Takes an image, on the grid of the source.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn write(&self, item: usize, values: &[f32]) -> Result<()>;

    /// Host memory to which the device can download an image directly, without writing a file. All images of a sink
    /// have it, or none.
    fn resident(&self, item: usize) -> Option<&Mutex<HostBuffer<f32>>> {
        let _ = item;
        None
    }
}

/// The largest distance between corners of grids that count as equal, as a fraction of the smallest spacing.
const SAME_GRID: f64 = 0.01;

/// Image files of one grid.
#[derive(Debug, Clone)]
pub struct Files {
    paths: Vec<PathBuf>,
    grid: Grid,
    dimensions: usize,
    bound: Option<f64>,
    data_type: Option<DataType>,
    checksums: Option<Arc<Mutex<Checksums>>>,
}

/// The files of each image with their SHA-256: the image and, where its values are in a file of their own,
/// that; none for images that were not read.
pub type Checksums = Vec<Vec<(PathBuf, String)>>;

fn input(file: &std::path::Path, what: impl Into<String>) -> PopulationError {
    PopulationError::Input { file: file.into(), what: what.into() }
}

impl Files {
    /// Looks at the headers of all files.
    ///
    /// # Errors
    /// No file; one that cannot be read, has several volumes, or is on another grid than the first.
    pub fn open(paths: Vec<PathBuf>) -> Result<Self> {
        let Some(first) = paths.first() else {
            return Err(PopulationError::Images {
                found: "no image is given".into(),
                remedy: "give at least one".into(),
            });
        };
        let header = image::read_info(first)?;
        let (grid, dimensions) = (header.grid, header.dimensions);
        let mut bound = Some(0.0f64);
        let mut data_type = Some(header.data_type);
        for path in &paths {
            let info = image::read_info(path)?;
            if info.volumes() != 1 {
                let what = format!(
                    "it has {} volumes, but one is needed; extract it first, for example with \
                     `voxalign convert IN OUT --volume 0`",
                    info.volumes()
                );
                return Err(input(path, what));
            }
            check_grid(path, &info.grid, first, &grid)?;
            let ends = info.data_type.range().map(|(low, high)| {
                let scaled = |v: f64| (v * info.slope + info.intercept).abs();
                scaled(low).max(scaled(high))
            });
            let plain = info.slope == 1.0 && info.intercept == 0.0;
            data_type = data_type.filter(|t| *t == info.data_type && plain);
            bound = bound.zip(ends).map(|(a, b)| a.max(b));
        }
        // Rounded to 32-bit floats, a value may be a little larger.
        let bound = bound.map(|b| b * (1.0 + f64::from(f32::EPSILON)));
        Ok(Self { paths, grid, dimensions, bound, data_type, checksums: None })
    }

    /// The same, hashed as they are read for the first time.
    #[must_use]
    pub fn with_checksums(self) -> Self {
        let none = vec![Vec::new(); self.paths.len()];
        Self { checksums: Some(Arc::new(Mutex::new(none))), ..self }
    }

    /// The checksums so far by [`with_checksums`](Self::with_checksums), in the order of the files.
    #[must_use]
    pub fn checksums(&self) -> Checksums {
        let sums = self.checksums.as_ref();
        sums.map(|s| s.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// The type of the stored values, where all files have the same and none scales it.
    #[must_use]
    pub fn data_type(&self) -> Option<DataType> {
        self.data_type
    }

    /// The files.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The number of dimensions of the first file.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }
}

fn check_grid(
    path: &std::path::Path,
    found: &Grid,
    first: &std::path::Path,
    grid: &Grid,
) -> Result<()> {
    let spacing = grid.spacing().into_iter().fold(f64::INFINITY, f64::min);
    if found.approx_eq(grid, SAME_GRID * spacing) {
        return Ok(());
    }
    Err(PopulationError::OtherGrid {
        file: path.into(),
        what: "the image",
        found: found.to_string(),
        other: first.into(),
        expected: grid.to_string(),
    })
}

/// Whether all values are finite. Without a way out in between, so that it is done on many values at once:
/// every image that is read goes through this.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    values.chunks(1 << 14).all(|piece| {
        piece.iter().fold(0, |bad, v| bad | u32::from(v.to_bits() & EXPONENT == EXPONENT)) == 0
    })
}

/// Refuses values that are not finite.
fn check_finite(path: &std::path::Path, values: &[f32], dims: [usize; 3]) -> Result<()> {
    if all_finite(values) {
        return Ok(());
    }
    let Some(at) = values.iter().position(|v| !v.is_finite()) else { return Ok(()) };
    let count = values.iter().filter(|v| !v.is_finite()).count();
    let place = [at % dims[0], at / dims[0] % dims[1], at / dims[0] / dims[1]];
    Err(PopulationError::NotFinite { file: path.into(), count, first: Some(place) })
}

impl Source for Files {
    fn count(&self) -> usize {
        self.paths.len()
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn read(&self, item: usize, out: &mut [f32]) -> Result<()> {
        let path = &self.paths[item];
        let sums = self.checksums.as_ref();
        let unknown = |sums: &&Arc<Mutex<Checksums>>| {
            sums.lock().unwrap_or_else(PoisonError::into_inner)[item].is_empty()
        };
        let info = match sums.filter(unknown) {
            Some(sums) => {
                let (info, found) = image::read_volume_into_hashing(path, out)?;
                sums.lock().unwrap_or_else(PoisonError::into_inner)[item] = found;
                info
            }
            None => image::read_volume_into(path, out)?,
        };
        // The file may have changed since.
        check_grid(path, &info.grid, &self.paths[0], &self.grid)?;
        check_finite(path, out, self.grid.dims())
    }

    fn bound(&self) -> Option<f64> {
        self.bound
    }
}

/// Images in memory.
#[derive(Debug, Clone)]
pub struct Loaded<'a> {
    images: &'a [Volume<f32>],
}

impl<'a> Loaded<'a> {
    /// Images of one grid.
    ///
    /// # Errors
    /// No image, or one on another grid than the first.
    pub fn new(images: &'a [Volume<f32>]) -> Result<Self> {
        let Some(first) = images.first() else {
            return Err(PopulationError::Images {
                found: "no image is given".into(),
                remedy: "give at least one".into(),
            });
        };
        for (i, image) in images.iter().enumerate() {
            check_grid(&name(i), image.grid(), &name(0), first.grid())?;
        }
        Ok(Self { images })
    }
}

/// The name of an image in memory.
fn name(item: usize) -> PathBuf {
    format!("image {item}").into()
}

impl Source for Loaded<'_> {
    fn count(&self) -> usize {
        self.images.len()
    }

    fn grid(&self) -> &Grid {
        self.images[0].grid()
    }

    fn read(&self, item: usize, out: &mut [f32]) -> Result<()> {
        out.copy_from_slice(self.images[item].data());
        check_finite(&name(item), out, self.grid().dims())
    }
}

/// Files to be written, an image each.
#[derive(Debug, Clone)]
pub struct OutputFiles {
    /// Their names.
    pub paths: Vec<PathBuf>,
    /// Their grid.
    pub grid: Grid,
    /// How they are written.
    pub options: WriteOptions,
}

impl Sink for OutputFiles {
    fn write(&self, item: usize, values: &[f32]) -> Result<()> {
        Ok(image::write_values(&self.paths[item], &self.grid, values, &self.options)?)
    }
}

/// A result that is kept in memory.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<Vec<f32>>>);

impl Kept {
    /// The images, in the order of the items.
    #[must_use]
    pub fn into_images(self) -> Vec<Vec<f32>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Kept {
    fn write(&self, item: usize, values: &[f32]) -> Result<()> {
        let mut images = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if images.len() <= item {
            images.resize(item + 1, Vec::new());
        }
        images[item] = memory::copied(values)?;
        Ok(())
    }
}

/// Images in memory from and to which the device copies directly; a few of them may represent many.
#[derive(Debug)]
pub struct Resident {
    images: Vec<HostBuffer<f32>>,
    grid: Grid,
    count: usize,
    bound: f64,
}

impl Resident {
    /// `count` images, of which number `k` has the values of `images[k mod n]`; all within ± `bound`.
    ///
    /// # Errors
    /// No image, or one of another length than the grid.
    pub fn new(images: Vec<HostBuffer<f32>>, grid: Grid, count: usize, bound: f64) -> Result<Self> {
        let bad = images.iter().map(|i| i.len()).find(|len| *len != grid.len());
        if images.is_empty() || bad.is_some() {
            return Err(PopulationError::Images {
                found: bad
                    .map_or("no image is given".into(), |len| format!("an image has {len} values")),
                remedy: format!("give images of {} values", grid.len()),
            });
        }
        Ok(Self { images, grid, count, bound })
    }
}

impl Source for Resident {
    fn count(&self) -> usize {
        self.count
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn read(&self, item: usize, out: &mut [f32]) -> Result<()> {
        out.copy_from_slice(&self.images[item % self.images.len()]);
        Ok(())
    }

    fn resident(&self, item: usize) -> Option<&HostBuffer<f32>> {
        self.images.get(item % self.images.len())
    }

    fn bound(&self) -> Option<f64> {
        Some(self.bound)
    }
}

/// Memory that takes the images of a result, a few pieces for many: the last ones stay.
#[derive(Debug)]
pub struct ResidentSink(Vec<Mutex<HostBuffer<f32>>>);

impl ResidentSink {
    /// Image `k` goes to piece `k mod n`; there is at least one.
    #[must_use]
    pub fn new(pieces: Vec<HostBuffer<f32>>) -> Self {
        Self(pieces.into_iter().map(Mutex::new).collect())
    }

    /// The pieces.
    #[must_use]
    pub fn into_pieces(self) -> Vec<HostBuffer<f32>> {
        self.0.into_iter().map(|m| m.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

impl Sink for ResidentSink {
    fn write(&self, item: usize, values: &[f32]) -> Result<()> {
        let place = item % self.0.len().max(1);
        if let Some(piece) = self.0.get(place) {
            piece.lock().unwrap_or_else(PoisonError::into_inner).copy_from_slice(values);
        }
        Ok(())
    }

    fn resident(&self, item: usize) -> Option<&Mutex<HostBuffer<f32>>> {
        self.0.get(item % self.0.len().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_finite_are_found_anywhere() {
        let mut values = vec![f32::MAX; 40_000];
        values[7] = -f32::MIN_POSITIVE / 8.0;
        assert!(all_finite(&values) && all_finite(&[]));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0xffc0_0001)] {
            for at in [0, 1, 16_383, 16_384, 39_999] {
                let good = std::mem::replace(&mut values[at], bad);
                assert!(!all_finite(&values), "{bad} at {at}");
                values[at] = good;
            }
        }
    }
}
