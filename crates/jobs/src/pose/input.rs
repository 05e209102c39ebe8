//! The X-ray images of a pose, with their geometry.

use super::options::Pixels;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, reading};
use crate::projection::{stem, unique};
use std::path::PathBuf;
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

/// An X-ray image as it is named, with its view where there are views.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) view: Option<geometry::View>,
    /// Of the view, else of the file; no other has it, and a file can have it.
    pub(super) name: String,
}

/// The X-ray images: those that are named, else those that the views of the files of `geometry` name. Several such
/// files are one after the other.
pub(super) fn sources(
    xrays: &[PathBuf],
    files: &[PathBuf],
    listener: &dyn Listener,
) -> Result<Vec<Source>> {
    let mut views = Vec::new();
    for path in files {
        views.extend(reading(listener, || geometry::read(path))?);
    }
    let paths = paths(xrays, &views)?;
    if !views.is_empty() && views.len() != paths.len() {
        return Err(Error::input(format!(
            "there are {} X-ray images, and `geometry` has {} views; give a view for each, in the same \
             order",
            paths.len(),
            views.len()
        )));
    }
    let views = views.into_iter().map(Some).chain(std::iter::repeat(None));
    let all: Vec<_> = paths.into_iter().zip(views).collect();
    let names: Vec<String> = all
        .iter()
        .map(|(path, view)| {
            view.as_ref().and_then(|v| v.name.clone()).unwrap_or_else(|| stem(path))
        })
        .collect();
    let names = unique(names.iter().map(String::as_str));
    let named = all.into_iter().zip(names);
    Ok(named.map(|((path, view), name)| Source { path, view, name }).collect())
}

/// The files of the X-ray images: those that are named, else those that the views name.
fn paths(xrays: &[PathBuf], views: &[geometry::View]) -> Result<Vec<PathBuf>> {
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

/// Reads an X-ray image; its view says where it was taken from, or else its header.
pub(super) fn read(
    Source { path, view, name }: Source,
    pixels: Pixels,
    listener: &dyn Listener,
) -> Result<XrayInput> {
    let image = reading(listener, || xray::read(&path))?;
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
    let geometry = match view.as_ref().filter(|v| v.has_geometry()) {
        Some(view) => view.geometry(Some(image.dims))?,
        None => image.geometry.ok_or_else(|| {
            let missing = image.missing_attribute();
            let why = missing.map_or_else(String::new, |m| format!(" (its header lacks {m})"));
            at(format!("nothing says where it was taken from{why}; give `geometry`"))
        })?,
    };
    let values = attenuations(&image.values, pixels)?;
    let region = view.and_then(|v| v.region);
    Ok(XrayInput { name, path, geometry, values, region })
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
