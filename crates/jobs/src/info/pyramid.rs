//! Contents of images that are read in blocks.

use super::{Facts, of_grid};
use crate::blocks::is_zarr;
use crate::error::{Error, Result};
use crate::files::WhichImage;
use serde_json::json;
use std::path::Path;
use voxalign_image::Grid;
use voxalign_io::IoError;
use voxalign_io::pyramid::{PyramidFormat, PyramidInfo, PyramidOptions, open};
use voxalign_options::text;

/// The facts of an OME-Zarr, and of a TIFF, PNG or JPEG with levels, tiles or channels; none of other files.
pub(super) fn about(file: &Path, which: &WhichImage) -> Result<Option<Facts>> {
    if file.is_dir() && is_zarr(file) {
        if which.series.is_some() {
            return Err(Error::input(text!(
                "`series` is for DICOM, but '{}' is an OME-Zarr; leave it out",
                file.display()
            )));
        }
        return Ok(Some(facts(file, &info(file, which.volume)?)));
    }
    if which.is_given() {
        return Ok(None);
    }
    // What is wrong with other files their own readers say.
    let found = info(file, None).ok();
    Ok(found.filter(is_more_than_grey).map(|found| facts(file, &found)))
}

/// The size of a pixel, mm, where a file says one.
pub(super) fn pixel_size(file: &Path) -> Option<[f64; 2]> {
    let info = info(file, None).ok().filter(|info| info.pixel_size_known)?;
    let [x, y, _] = finest(&info)?.spacing();
    Some([x, y])
}

fn finest(info: &PyramidInfo) -> Option<&Grid> {
    info.levels.first().map(|level| &level.grid)
}

/// Whether it has levels, tiles or channels, unlike X-ray images.
fn is_more_than_grey(info: &PyramidInfo) -> bool {
    let tiled = info.levels.first().is_some_and(|level| level.tile[0] < level.dims()[0]);
    info.format != PyramidFormat::Image && (info.levels.len() > 1 || info.channels > 1 || tiled)
}

/// What a file says of itself, whatever would have to be chosen of it.
fn info(file: &Path, volume: Option<usize>) -> std::result::Result<PyramidInfo, IoError> {
    let read = |options: &PyramidOptions| open(file, options).map(|source| source.info().clone());
    let usual = PyramidOptions { volume, ..PyramidOptions::default() };
    let first = Some(0);
    let window = Some([0.0, 1.0]);
    let others = [
        PyramidOptions { channel: first, ..usual.clone() },
        PyramidOptions { window, ..usual.clone() },
        PyramidOptions { channel: first, window, ..usual.clone() },
    ];
    read(&usual).or_else(|error| others.iter().find_map(|how| read(how).ok()).ok_or(error))
}

fn facts(file: &Path, info: &PyramidInfo) -> Facts {
    let mut facts = Facts::of_file(file, "image in blocks");
    facts.put("format", info.format.to_string());
    let dims = |dims: [usize; 3], flat: bool| dims[..if flat { 2 } else { 3 }].to_vec();
    let flat = finest(info).is_some_and(Grid::is_2d);
    let levels = info.levels.iter().map(|level| dims(level.dims(), flat)).collect::<Vec<_>>();
    facts.put("dims", json!(levels.first()));
    facts.put("levels", json!(levels));
    facts.put("tile", json!(info.levels.first().map(|level| dims(level.tile, flat))));
    facts.put("channels", info.channels);
    facts.put("data_type", info.data_type.to_string());
    facts.put("pixel_size_known", info.pixel_size_known);
    if let Some(grid) = finest(info) {
        facts.add(of_grid(grid));
    }
    facts.flat = flat;
    facts.strange(info.oddities.iter().filter(|odd| !odd.is_normal_geometry()));
    facts
}
