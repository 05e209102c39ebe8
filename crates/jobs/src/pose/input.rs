//! The X-ray images of a pose, with their geometry.

use super::options::Pixels;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, reading};
use crate::projection::{VIEWS, Whole, counted, stem, unique};
use std::path::PathBuf;
use voxalign_image::{XrayGeometry, memory};
use voxalign_io::xray::{self, geometry};

/// An X-ray image that was read.
#[derive(Debug)]
pub(super) struct XrayInput {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) geometry: XrayGeometry,
    /// Whether nothing says how far away the detector is.
    pub(super) assumed: bool,
    /// Attenuations.
    pub(super) values: Vec<f32>,
    /// Values of the file, of all frames.
    pub(super) stored: usize,
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

/// The table of views of a folder that `drr` wrote, where there is one.
pub(super) fn table_of(paths: &[PathBuf]) -> Option<PathBuf> {
    let [folder] = paths else { return None };
    Some(folder.join(VIEWS)).filter(|table| folder.is_dir() && table.is_file())
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
    let named = if table_of(xrays).is_some() { &[][..] } else { xrays };
    let paths = paths(named, &views)?;
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

/// How X-ray images are read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) pixels: Pixels,
    /// The number of one of several frames.
    pub(super) frame: Option<usize>,
    /// The part that counts, instead of that of a view.
    pub(super) region: Option<Whole<4>>,
    pub(super) listener: &'a dyn Listener,
}

/// Reads an X-ray image; its view says where it was taken from, or else its header.
pub(super) fn read(
    Source { path, view, name }: Source,
    Reading { pixels, frame, region, listener }: Reading<'_>,
) -> Result<XrayInput> {
    let image = reading(listener, || xray::read(&path))?;
    let of = format!("'{}'", path.display());
    let at = |what: String| Error::input(format!("{of}: {what}"));
    for oddity in &image.oddities {
        listener.say(Level::Warning, &format!("{of}: {oddity}"));
    }
    let last = image.frames.saturating_sub(1);
    let taken = match frame {
        None if image.frames > 1 => {
            return Err(at(format!(
                "it has {} frames, and one is needed; choose one by `frame`, from 0 to {last}",
                image.frames
            )));
        }
        frame => frame.unwrap_or(0),
    };
    let values = image.frame(taken).ok_or_else(|| {
        let remedy = match last {
            0 => "frame 0 is its only one".to_owned(),
            last => format!("give `frame` from 0 to {last}"),
        };
        at(format!("there is no frame {taken}; {remedy}"))
    })?;
    let assumed = view.as_ref().is_some_and(|v| v.assumes_distance());
    let geometry = match view.as_ref().filter(|v| v.has_geometry()) {
        Some(view) => view.geometry(Some(image.dims))?,
        None => image.geometry.ok_or_else(|| {
            let missing = image.missing_attribute();
            let why = missing.map_or_else(String::new, |m| format!(" (its header lacks {m})"));
            at(format!("nothing says where it was taken from{why}; give `geometry`"))
        })?,
    };
    let region = counted(&geometry, region, view.and_then(|v| v.region), &of)?;
    check(values, image.dims, region).map_err(at)?;
    let (stored, values) = (image.values.len(), attenuations(values, pixels, &of)?);
    Ok(XrayInput { name, path, geometry, assumed, values, stored, region })
}

/// Refuses an image by which nothing can be found: what is wrong with what counts of it, and what helps.
fn check(
    values: &[f32],
    [columns, rows]: [usize; 2],
    region: Option<[usize; 4]>,
) -> Result<(), String> {
    let [x, y, width, height] = region.unwrap_or([0, 0, columns, rows]);
    let lines = values.chunks_exact(columns.max(1)).skip(y).take(height);
    let counted = || lines.clone().flat_map(|line| line.iter().skip(x).take(width)).copied();
    let within = if region.is_some() { " within the region" } else { "" };
    let odd = counted().filter(|v| !v.is_finite()).count();
    if odd > 0 {
        let pixels = if odd == 1 { "pixel is" } else { "pixels are" };
        return Err(format!(
            "{odd} {pixels} NaN or infinite{within}; write numbers there, or choose a part without them by \
             `region`"
        ));
    }
    let first = counted().next().unwrap_or(0.0);
    if counted().all(|v| v == first) {
        return Err(format!("all pixels are {first}{within}; give an image with contrast"));
    }
    Ok(())
}

/// Attenuations of pixels: of intensities `ln(most / value)`. What is no number stays none.
fn attenuations(values: &[f32], pixels: Pixels, of: &str) -> Result<Vec<f32>> {
    let mut out = memory::copied(values)?;
    if pixels == Pixels::Intensity {
        of_intensities(&mut out, largest(values, of)?);
    }
    Ok(out)
}

/// The largest of intensities, which is above 0.
pub(super) fn largest(values: &[f32], of: &str) -> Result<f32> {
    let finite = values.iter().copied().filter(|v| v.is_finite());
    let most = finite.fold(f32::NEG_INFINITY, f32::max);
    if most <= 0.0 {
        return Err(Error::input(format!(
            "{of}: its largest value is {}, and intensities are above 0; leave \
             `pixels = intensity` out where values are attenuations",
            // No -0.
            most + 0.0
        )));
    }
    Ok(most)
}

/// Makes attenuations of intensities where the largest is one without anything in between.
pub(super) fn of_intensities(values: &mut [f32], most: f32) {
    // A pixel without a count is as dark as one of the least step of 16 bits.
    let least = (most / 65535.0).max(f32::MIN_POSITIVE);
    values.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = (most / v.max(least)).ln());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_has_numbers_and_contrast() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let image = [nan, 1.0, 2.0, 3.0, 3.0, inf];
        let said = |region| check(&image, [3, 2], region).unwrap_err();
        assert!(said(None).starts_with("2 pixels are NaN or infinite;"), "{}", said(None));
        assert!(said(Some([1, 0, 2, 2])).contains("1 pixel is NaN or infinite within the region"));
        assert!(said(Some([0, 1, 2, 1])).contains("all pixels are 3 within the region"));
        assert!(said(Some([1, 0, 1, 1])).contains("all pixels are 1"));
        assert_eq!(check(&image, [3, 2], Some([1, 0, 1, 2])), Ok(()));
    }

    #[test]
    fn intensities_become_attenuations() {
        let of = |values: &[f32]| attenuations(values, Pixels::Intensity, "'a.png'");
        let found = of(&[65535.0, 0.0, -3.0, f32::NAN, 65535.0 * (-1.5f32).exp()]).unwrap();
        assert_eq!((found[0], found[1]), (0.0, found[2]));
        assert!((found[1] - 65535f32.ln()).abs() < 1e-5 && (found[4] - 1.5).abs() < 1e-5);
        assert!(found[3].is_nan());
        for (bad, value) in [([-2.0, -1.0], "-1"), ([0.0, f32::NAN], "0")] {
            let said = of(&bad).unwrap_err().to_string();
            let value = format!("'a.png': its largest value is {value},");
            assert!(said.starts_with(&value) && said.contains("`pixels = intensity`"), "{said}");
        }
        let same = attenuations(&[-1.0, 2.0], Pixels::Attenuation, "").unwrap();
        assert_eq!(same, [-1.0, 2.0]);
    }
}
