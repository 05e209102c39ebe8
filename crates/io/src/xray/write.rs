//! Writing X-ray images of any format.

use super::window::{Note, Window};
use super::{Series, Signal, dicom, plane, png, tiff};
use crate::atomic::{self, Pending};
use crate::error::{IoError, Result};
use crate::image::{Format, is_dicom_name};
use std::path::Path;
use voxalign_image::{Vector3, XrayGeometry};

/// Extensions of what is written, for messages.
const EXTENSIONS: &str = ".png, .tif, .tiff, .dcm, .nii, .nii.gz, .mha, .mhd, .nrrd, .nhdr";

/// An X-ray image that is to be written, or frames of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct XrayToWrite<'a> {
    /// The values of all frames, one frame after the other: `columns x rows x frames`, columns fastest, row 0 the top.
    pub values: &'a [f32],
    /// Columns and rows.
    pub dims: [usize; 2],
    /// Sizes of a pixel along columns and rows, mm, where there is no geometry that says them.
    pub pixel_size: Option<[f64; 2]>,
    /// Source and detector.
    pub geometry: Option<XrayGeometry>,
    /// The point about which the machine of the geometry turns, mm, where that is known: DICOM says how far the source is from
    /// it, and where it is.
    pub isocentre: Option<Vector3<f64>>,
    /// How values follow from the intensity of X-rays, but for [`Signal::FallingIntensity`]; for DICOM.
    pub signal: Option<Signal>,
    /// The images to which it belongs, and its number among them, from 1; for DICOM.
    pub series: Option<(&'a Series, u32)>,
    /// The values that the least and the largest of 16 bits stand for. Without it, formats that have floats have
    /// floats, and PNG and DICOM stretch from the least to the largest value.
    pub window: Option<[f64; 2]>,
}

impl<'a> XrayToWrite<'a> {
    /// Values of nothing else known.
    #[must_use]
    pub fn new(values: &'a [f32], dims: [usize; 2]) -> Self {
        Self {
            values,
            dims,
            pixel_size: None,
            geometry: None,
            isocentre: None,
            signal: None,
            series: None,
            window: None,
        }
    }

    /// Number of frames.
    pub(super) fn frames(&self) -> usize {
        self.values.len() / (self.dims[0] * self.dims[1]).max(1)
    }

    /// Sizes of a pixel, mm.
    pub(super) fn pixel_size(&self) -> Option<[f64; 2]> {
        self.geometry.map(|view| view.pixel_size()).or(self.pixel_size)
    }
}

/// What a written file says.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// The values that the least and the largest of 16 bits stand for; nothing for floats.
    pub window: Option<[f64; 2]>,
    /// How many values were outside of the window, or no numbers: they are written as one of its ends.
    pub outside: usize,
    /// Whether the file says where source and detector were, so that [`read`](super::read) gives the geometry. Other
    /// files need a table of views ([`geometry`](super::geometry)).
    pub geometry: bool,
}

/// Writes an X-ray image in the format that the extension names.
///
/// | extension | values | frames | beside the values |
/// |---|---|---|---|
/// | `.png` | 16 bits in a window | 1 | window and size of a pixel, as text (`Comment`) |
/// | `.tif`, `.tiff` | 32-bit floats, or 16 bits in a window | pages | the same, as `ImageDescription`, and the resolution |
/// | `.dcm`, `.dicom`, `.ima` | 16 bits in a window, rescaled | all | a secondary capture; size of a pixel, what values are, the series, and the geometry where DICOM can say it: that of a C-arm that turns about the world's origin or an isocentre that is given, or of a treatment machine |
/// | `.nii`, `.nii.gz`, ... | 32-bit floats | 1 | the place of the detector in the world |
///
/// The same image gives the same bytes, the UIDs of DICOM included, which are made of its content and its series.
///
/// # Errors
/// An unknown extension; values that are no whole frames; a window or a size of a pixel that is none; several frames, or
/// a window, where the format has none; a folder that cannot be written; a full disk.
pub fn write(path: impl AsRef<Path>, image: &XrayToWrite<'_>) -> Result<Written> {
    let path = path.as_ref();
    check(path, image)?;
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let one = |what: &str| match image.frames() {
        1 => Ok(()),
        n => Err(IoError::unsupported(
            path,
            format!("{what} holds one frame, and there are {n}"),
            "write TIFF or DICOM, or one file per frame",
        )),
    };
    let given = image.window.and_then(Window::new);
    let window = || given.unwrap_or_else(|| Window::of(image.values));
    let note = |window| Note { window, pixel_size: image.pixel_size() };
    let (mut used, mut geometry) = (given, false);
    match extension.as_str() {
        "png" => {
            one("a PNG file")?;
            let window = window();
            used = Some(window);
            atomic::write_file(path, |sink| {
                png::write(sink, image.values, image.dims, note(used), window)
            })?;
        }
        "tif" | "tiff" => {
            Pending::write(path, |w| tiff::write(w, image.values, image.dims, note(used)))?
                .commit()?;
        }
        _ if is_dicom_name(path) => {
            let window = window();
            used = Some(window);
            geometry = dicom::write(path, image, window)?;
        }
        _ if Format::from_path(path).is_ok() => {
            one("an image of this format")?;
            if given.is_some() {
                let what = "values of this format are written as floats, and a window is given";
                return Err(IoError::unsupported(path, what, "leave the window out"));
            }
            plane::write(path, image)?;
        }
        _ => {
            return Err(IoError::UnknownExtension {
                path: path.into(),
                purpose: "an X-ray image",
                known: EXTENSIONS,
                hint: None,
            });
        }
    }
    let outside = used.map_or(0, |w| image.values.iter().filter(|v| w.is_outside(**v)).count());
    Ok(Written { window: used.map(|w| [w.low, w.high]), outside, geometry })
}

/// An error where an image is none.
fn check(path: &Path, image: &XrayToWrite<'_>) -> Result<()> {
    let wrong =
        |problem: String, remedy: &str| Err(IoError::malformed(path, problem, remedy.to_owned()));
    let ([columns, rows], values) = (image.dims, image.values.len());
    let pixels = columns.checked_mul(rows).filter(|n| *n > 0 && u32::try_from(*n).is_ok());
    if pixels.is_none_or(|n| values == 0 || values % n != 0) {
        let problem = format!(
            "{values} values are not a whole number of frames of {columns} x {rows} pixels"
        );
        return wrong(problem, "give all values of each frame");
    }
    if let Some(window) = image.window.filter(|w| Window::new(*w).is_none()) {
        let problem = format!("the window {window:?} is none");
        return wrong(problem, "give two numbers, the second above the first");
    }
    if let Some(size) = image.pixel_size.filter(|s| s.iter().any(|v| !(v.is_finite() && *v > 0.0)))
    {
        return wrong(format!("the size of a pixel is {size:?} mm"), "give two numbers above 0");
    }
    let Some(view) = &image.geometry else { return Ok(()) };
    if view.dims() != image.dims {
        let [c, r] = view.dims();
        let problem = format!(
            "the image has {columns} x {rows} pixels, and the detector of its geometry {c} x {r}"
        );
        return wrong(problem, "give the geometry of this image");
    }
    let [a, b] = view.pixel_size();
    let differs = |[x, y]: [f64; 2]| (x - a).abs() > 1e-6 * a || (y - b).abs() > 1e-6 * b;
    if let Some(size) = image.pixel_size.filter(|size| differs(*size)) {
        let problem =
            format!("the size of a pixel is {size:?} mm, and that of the geometry [{a}, {b}] mm");
        return wrong(problem, "leave the size out: the geometry gives it");
    }
    Ok(())
}
