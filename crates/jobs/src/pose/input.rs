//! The X-ray images of a pose, with their geometry.

use super::options::Pixels;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, reading};
use std::path::{Path, PathBuf};
use voxalign_image::{XrayGeometry, memory};
use voxalign_io::xray::{self, geometry};

/// An X-ray image that was read.
#[derive(Debug)]
pub(super) struct XrayInput {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) geometry: XrayGeometry,
    /// Attenuations.
    pub(super) values: Vec<f32>,
    pub(super) region: Option<[usize; 4]>,
}

/// The files of the X-ray images: those that are named, else those that the views name.
pub(super) fn paths(xrays: &[PathBuf], views: &[geometry::View]) -> Result<Vec<PathBuf>> {
    if !xrays.is_empty() {
        return Ok(xrays.to_vec());
    }
    let named: Vec<_> = views.iter().filter_map(|v| v.image.clone()).collect();
    if named.is_empty() || named.len() < views.len() {
        return Err(Error::input(
            "there are no X-ray images: name them after the CT, or give each view of `geometry` an 'image'",
        ));
    }
    Ok(named)
}

/// Reads the views of files: several tables are one after the other.
pub(super) fn views(files: &[PathBuf], listener: &dyn Listener) -> Result<Vec<geometry::View>> {
    let mut all = Vec::new();
    for path in files {
        all.extend(reading(listener, || geometry::read(path))?);
    }
    Ok(all)
}

/// Reads an X-ray image; `view` says where it was taken from, or else its header.
pub(super) fn read(
    path: &Path,
    view: Option<&geometry::View>,
    pixels: Pixels,
    listener: &dyn Listener,
) -> Result<XrayInput> {
    let image = reading(listener, || xray::read(path))?;
    let at = |what: String| Error::input(format!("'{}': {what}", path.display()));
    for oddity in &image.oddities {
        listener.say(Level::Warning, &format!("'{}': {oddity}", path.display()));
    }
    if image.frames > 1 {
        return Err(at(format!(
            "it has {} frames, and one is needed; take one out first",
            image.frames
        )));
    }
    let geometry = match view.filter(|v| v.has_geometry()) {
        Some(view) => view.geometry(Some(image.dims))?,
        None => image.geometry.ok_or_else(|| {
            let missing = image.missing_attribute();
            let why = missing.map_or_else(String::new, |m| format!(" (its header lacks {m})"));
            at(format!("nothing says where it was taken from{why}; give `geometry`"))
        })?,
    };
    let values = attenuations(&image.values, pixels)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(XrayInput {
        name: view.and_then(|v| v.name.clone()).unwrap_or(stem),
        path: path.to_owned(),
        geometry,
        values,
        region: view.and_then(|v| v.region),
    })
}

/// Attenuations of pixels: of intensities `ln(most / value)`.
pub(super) fn attenuations(values: &[f32], pixels: Pixels) -> Result<Vec<f32>> {
    let mut out = memory::copied(values)?;
    if pixels == Pixels::Intensity {
        let most = values.iter().copied().fold(0.0f32, f32::max);
        // A pixel without a count is as dark as one of a thousandth of the scale of 16 bits.
        let least = (most / 65535.0).max(f32::MIN_POSITIVE);
        out.iter_mut().for_each(|v| *v = (most / v.max(least)).ln());
    }
    Ok(out)
}
