//! OME-Zarr 0.4 and 0.5: folders of arrays whose chunks are files.

mod array;
mod blosc;
mod chain;
mod chunk;
mod metadata;
mod ome;
mod packing;
mod places;

use super::flat::no_volume;
use super::grey::Grey;
use super::level::{Level, PyramidFormat, PyramidInfo};
use super::options::PyramidOptions;
use super::pixel::{Pixel, PixelsMut, with_pixels};
use super::{PyramidSource, byte_count, lps_grid};
use crate::error::{IoError, Result};
use crate::image::{Oddity, Region};
use array::Array;
use chunk::Wanted;
use ome::{Image, Place};
use std::path::Path;
use voxalign_image::memory;

/// An image of several arrays.
#[derive(Debug)]
struct Zarr {
    info: PyramidInfo,
    arrays: Vec<Array>,
    axes: ome::Axes,
    grey: Grey,
    time: usize,
}

/// Whether a folder is a group of Zarr.
pub(super) fn is_group(path: &Path) -> bool {
    [".zgroup", ".zattrs", "zarr.json"].iter().any(|name| path.join(name).is_file())
}

pub(super) fn open(path: &Path, options: &PyramidOptions) -> Result<Box<dyn PyramidSource>> {
    let image = Image::read(path)?;
    let mut arrays = Vec::new();
    for dataset in &image.datasets {
        let folder = ome::folder(path, &dataset.path)?;
        let array = Array::read(&folder, image.version, options.missing)?;
        image.axes.check(&array)?;
        arrays.push(array);
    }
    let Some(first) = arrays.first() else {
        return Err(IoError::malformed(path, "the image has no levels", "write it again"));
    };
    for array in &arrays[1..] {
        check_alike(first, array, &image)?;
    }
    let channels = image.axes.size(first, image.axes.channel);
    let times = image.axes.size(first, image.axes.time);
    let time = match options.volume {
        Some(number) if number < times => number,
        Some(number) => return Err(no_volume(path, number, times)),
        None if times == 1 => 0,
        None => {
            let problem = format!("the image has {times} time points, of which none is chosen");
            let remedy = format!("choose one of 0 to {} as `volume`", times - 1);
            return Err(IoError::malformed(path, problem, remedy));
        }
    };
    let grey = Grey::new(path, first.data_type, channels, options)?;
    let (levels, known, mut oddities) = levels(path, &image, &arrays)?;
    oddities.extend(grey.oddities());
    oddities.extend(image.oddities.iter().cloned().map(Oddity::Other));
    let info = PyramidInfo {
        path: path.to_owned(),
        files: vec![path.to_owned()],
        options: options.clone(),
        format: match image.version {
            2 => PyramidFormat::OmeZarr2,
            _ => PyramidFormat::OmeZarr3,
        },
        levels,
        data_type: first.data_type,
        channels,
        pixel_type: grey.pixel_type(),
        offset: grey.offset(),
        pixel_size_known: known,
        oddities,
    };
    Ok(Box::new(Zarr { info, arrays, axes: image.axes, grey, time }))
}

fn check_alike(first: &Array, array: &Array, image: &Image) -> Result<()> {
    let axes = &image.axes;
    let same = |axis| axes.size(first, axis) == axes.size(array, axis);
    if first.data_type == array.data_type && same(axes.channel) && same(axes.time) {
        return Ok(());
    }
    Err(IoError::malformed(
        &array.folder,
        format!(
            "its values are {} of the sizes {:?}, but the first level has {} of {:?}",
            array.data_type, array.shape, first.data_type, first.shape
        ),
        "all levels are of one type, with as many channels and time points",
    ))
}

/// The levels with their grids, and whether it is known how large pixels are.
fn levels(path: &Path, image: &Image, arrays: &[Array]) -> Result<(Vec<Level>, bool, Vec<Oddity>)> {
    let axes = &image.axes;
    let mut levels: Vec<Level> = Vec::new();
    let (mut said, mut known) = (Vec::new(), false);
    let mut finest: Option<Place> = None;
    for (number, (array, dataset)) in arrays.iter().zip(&image.datasets).enumerate() {
        let dims = axes.space.map(|axis| axes.size(array, axis));
        let place = image.place(path, dataset)?;
        let first = finest.get_or_insert(place);
        known |= place.known;
        let mut spacing = place.spacing;
        if axes.space[2].is_none() {
            spacing[2] = first.spacing[0];
        }
        if let Some(before) = levels.last() {
            check_order(path, number, before.dims(), dims)?;
            check_extent(path, number, (levels[0].dims(), first.spacing), (dims, spacing), axes)?;
            if !dataset.translated && first.spacing != place.spacing && said.is_empty() {
                let words = "coarser levels have no translation: their first pixels are taken to be where that of \
                             the finest one is";
                said.push(Oddity::Other(words.to_owned()));
            }
        }
        let grid = lps_grid(dims, spacing, place.origin).map_err(|e| IoError::image(path, e))?;
        let tile = axes.space.map(|axis| axis.map_or(1, |a| array.unit()[a].min(array.shape[a])));
        levels.push(Level::new(grid, tile));
    }
    if !known {
        let words =
            "the file does not say in which unit pixels are measured; millimetres are assumed";
        said.push(Oddity::Other(words.to_owned()));
    }
    Ok((levels, known, said))
}

/// An error where a level is not smaller than the one before.
fn check_order(path: &Path, number: usize, before: [usize; 3], dims: [usize; 3]) -> Result<()> {
    if dims != before && (0..3).all(|a| dims[a] <= before[a]) {
        return Ok(());
    }
    Err(IoError::malformed(
        path,
        format!("level {number} has the sizes {dims:?}, and the one before it {before:?}"),
        "levels go from the finest to the coarsest: put `datasets` in that order",
    ))
}

/// An error where a level covers another part of the world than the first one, by more than a pixel and a half.
fn check_extent(
    path: &Path,
    number: usize,
    finest: ([usize; 3], [f64; 3]),
    level: ([usize; 3], [f64; 3]),
    axes: &ome::Axes,
) -> Result<()> {
    for a in (0..3).filter(|&a| axes.space[a].is_some()) {
        let [whole, own] = [finest, level].map(|(dims, spacing)| dims[a] as f64 * spacing[a]);
        if (whole - own).abs() > 1.5 * level.1[a] {
            return Err(IoError::malformed(
                path,
                format!(
                    "level {number} is {own} mm wide along {}, but the first one {whole} mm",
                    ["x", "y", "z"][a]
                ),
                "correct its `scale`",
            ));
        }
    }
    Ok(())
}

impl Zarr {
    fn fill<P: Pixel>(&self, level: usize, region: &Region, out: &mut [P]) -> Result<()> {
        let Some(array) = self.arrays.get(level) else { return Ok(()) };
        let channels = self.grey.needed();
        if let (1, Some(highest_bit)) = (channels.len(), self.grey.same_bits()) {
            let wanted = Wanted::new(array, &self.axes, self.time, channels, region);
            wanted.read(bytemuck::cast_slice_mut(out))?;
            if highest_bit {
                let flip = 1 << (8 * size_of::<P>() - 1);
                out.iter_mut().for_each(|p| *p = P::from_low_bits((*p).into() ^ flip));
            }
            return Ok(());
        }
        let mut left = out;
        for slab in slabs(region, self.info.levels[level].tile) {
            let n = slab.len();
            let bytes = byte_count(&array.folder, &[n, channels.len(), array.data_type.size()])?;
            let mut raw: Vec<u8> =
                memory::zeroed(bytes).map_err(|refused| IoError::memory(&array.folder, refused))?;
            Wanted::new(array, &self.axes, self.time, channels.clone(), &slab).read(&mut raw)?;
            let (now, later) = left.split_at_mut(n);
            self.grey.fill(&raw, |pixel, c| c * n + pixel, now);
            left = later;
        }
        Ok(())
    }
}

/// Parts of a region, one after the other in its order of pixels, as thick as a tile.
fn slabs(region: &Region, tile: [usize; 3]) -> Vec<Region> {
    let axis = if region.size[2] > 1 { 2 } else { 1 };
    let (mut at, end) = (region.start[axis], region.start[axis] + region.size[axis]);
    let mut all = Vec::new();
    while at < end {
        let next = ((at / tile[axis] + 1) * tile[axis]).min(end);
        let mut slab = *region;
        (slab.start[axis], slab.size[axis]) = (at, next - at);
        all.push(slab);
        at = next;
    }
    all
}

impl PyramidSource for Zarr {
    fn info(&self) -> &PyramidInfo {
        &self.info
    }

    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> Result<()> {
        self.info.check(level, region, &out)?;
        with_pixels!(out, out => self.fill(level, region, out))
    }
}
