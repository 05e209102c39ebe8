//! Geometry of views: tables of views, and calibrations of other programs.
//!
//! A table of views is a TOML file with a `[[view]]` for each:
//!
//! ```toml
//! [[view]]
//! name = "front"
//! image = "front.png"               # relative to this file
//! size = [1024, 768]                # columns and rows; those of the image where it is missing
//! source_to_isocentre = 785.0       # mm
//! source_to_detector = 1200.0
//! isocentre = [12.0, -30.5, 101.0]
//! primary = 30.0                    # degrees: to the patient's left (LAO)
//! secondary = -10.0                 # degrees: to the head (cranial)
//! pixel = 0.4                       # mm; or of columns and rows: [0.4, 0.4]
//! region = [0, 0, 1024, 700]        # column, row, columns, rows: what of the image counts
//! ```
//!
//! What says where source and detector are is one of:
//!
//! | keys | meaning |
//! |---|---|
//! | `source`, `origin`, `column`, `row` | the source, the centre of the first pixel, the steps to the next column and row, mm |
//! | `source_to_isocentre`, `source_to_detector`, `isocentre`, `primary`, `secondary`, `pixel`, and possibly `centre` | a [`CArm`](voxalign_image::CArm) |
//! | the same with `gantry` instead of the two angles | a treatment machine ([`Gantry`](voxalign_image::Gantry)), degrees |
//! | `K` (3 x 3), `R` (3 x 3), `t` (3), and possibly `source_to_detector` or `pixel` | a camera as OpenCV has it: a point X is seen at the pixel `K (R X + t)`, y down and z to the front |
//! | `projection` (3 x 4), and possibly `source_to_detector` | homogeneous points to homogeneous pixels, whose third number is above 0 in front of the source |
//!
//! `centre` is the column and row that the ray through the isocentre meets, the middle of the detector without it. A
//! matrix says which ray a pixel has, and not how far away the detector is, at which rays end: what lies behind it is not seen.
//! Where nothing says it, the detector is assumed 1.5 times as far from the source as the world's origin is, and 1000 mm at
//! least ([`View::assumes_distance`]). Pixels are counted from 0 at the centre of the first one. `world = "lps"` gives places and matrices in the world of DICOM and ITK; they are RAS otherwise. A
//! view of an image may leave all of it out where the image's own header says it.
//!
//! Read as well, and told by their content: MayaCam 2 files (XMALab, Autoscoper), whose world is that of the calibration and
//! which do not say the distance of the detector; plastimatch's projection matrices, which are LPS and do not say the size of the image; and
//! cameras of OpenCV, YAML or XML of `cv::FileStorage`: an intrinsic matrix (`camera_matrix`, `cameraMatrix`, `K`), the rotation and
//! translation from the world of the calibration to the camera, mm (`R` and `T`, or `rvec` and `tvec`), and the size of the image (`image_width` and
//! `image_height`, or `image_size`). `M1` and `M2` with `R` and `T` are a stereo pair, whose world is that of the first camera. Lenses
//! that distort are refused.

mod form;
mod keys;
mod opencv;
mod storage;
mod table;
mod text;
mod write;

use crate::atomic;
use crate::error::{IoError, Result};
use crate::source::{Source, regular};
use crate::text::{SAVE_AS, utf8};
use form::Form;
use std::io::Read;
use std::path::{Path, PathBuf};
use voxalign_image::{ImageError, Vector3, XrayGeometry};

/// Largest size of a file, bytes.
const LARGEST: u64 = 1 << 24;

/// A view: where it was taken from, and its image.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct View {
    /// What it is called.
    pub name: Option<String>,
    /// Its image. A relative path in a file is one from the folder of the file, which was put before it.
    pub image: Option<PathBuf>,
    /// What of the image counts: the first column and row, and the numbers of columns and rows.
    pub region: Option<[usize; 4]>,
    form: Option<Form>,
    size: Option<[usize; 2]>,
    label: Label,
}

/// What messages call a view. All are the same to a comparison.
#[derive(Debug, Clone, Default)]
struct Label {
    file: PathBuf,
    view: String,
}

impl PartialEq for Label {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Label {
    fn error(&self, problem: impl std::fmt::Display, remedy: impl Into<String>) -> IoError {
        IoError::malformed(&self.file, format!("{}{problem}", self.view), remedy)
    }
}

impl View {
    /// A view of a geometry that is known, without name and image.
    #[must_use]
    pub fn new(geometry: XrayGeometry) -> Self {
        let mut view = Self::empty(Label::default());
        view.form = Some(Form::of(&geometry));
        view.size = Some(geometry.dims());
        view
    }

    fn empty(label: Label) -> Self {
        Self { name: None, image: None, region: None, form: None, size: None, label }
    }

    /// Columns and rows, where the file says them.
    #[must_use]
    pub fn size(&self) -> Option<[usize; 2]> {
        self.size
    }

    /// The view of an image of so many columns and rows.
    ///
    /// # Errors
    /// As of [`geometry`](Self::geometry).
    pub fn sized(mut self, image: [usize; 2]) -> Result<Self> {
        self.geometry(Some(image))?;
        self.size = Some(image);
        Ok(self)
    }

    /// Whether it says where source and detector are; otherwise the header of its image has to.
    #[must_use]
    pub fn has_geometry(&self) -> bool {
        self.form.is_some()
    }

    /// Whether nothing says how far the detector is from the source, so that a distance is assumed: of a projection matrix or a
    /// camera (`K`, `R`, `t`) without `source_to_detector` and `pixel`, and of a MayaCam 2 file. The rays of
    /// [`geometry`](Self::geometry) are right then, and end at an assumed place: who knows where the object is moves the
    /// detector behind it by [`with_source_to_detector`](XrayGeometry::with_source_to_detector).
    #[must_use]
    pub fn assumes_distance(&self) -> bool {
        matches!(self.form, Some(Form::Projection { far: None, .. }))
    }

    /// The point about which its machine turns, mm, where the view says one.
    #[must_use]
    pub fn isocentre(&self) -> Option<Vector3<f64>> {
        match &self.form {
            Some(Form::Arm(arm) | Form::Machine(voxalign_image::Gantry { arm, .. })) => {
                Some(arm.isocentre)
            }
            _ => None,
        }
    }

    /// The geometry of the whole detector, of which [`region`](Self::region) may be a
    /// [part](XrayGeometry::part); `image` are columns and rows of its image, where that was read.
    ///
    /// # Errors
    /// A view that says no geometry, or no size where `image` is none; another size than that of the image; a region
    /// that is not within it; as [`XrayGeometry::new`].
    pub fn geometry(&self, image: Option<[usize; 2]>) -> Result<XrayGeometry> {
        let Some(form) = &self.form else {
            let remedy =
                "give 'source', 'primary', 'gantry', 'K' or 'projection' and what belongs to it";
            return Err(self
                .label
                .error("the positions of source and detector are missing", remedy));
        };
        let dims = match (self.size, image) {
            (Some([c, r]), Some([columns, rows])) if [c, r] != [columns, rows] => {
                let problem =
                    format!("the size is {c} x {r} pixels, and the image has {columns} x {rows}");
                return Err(self.label.error(problem, "give the geometry of this image"));
            }
            (Some(dims), _) | (None, Some(dims)) => dims,
            (None, None) => {
                let remedy = "give 'size = [columns, rows]', or name an image";
                return Err(self.label.error("the size of the image is not known", remedy));
            }
        };
        let view = form.geometry(dims).map_err(|e| self.wrong(e))?;
        if let Some([column, row, columns, rows]) = self.region {
            view.part([column, row], [columns, rows]).map_err(|e| self.wrong(e))?;
        }
        Ok(view)
    }

    fn wrong(&self, error: ImageError) -> IoError {
        match error {
            ImageError::Xray { what, remedy } => {
                self.label.error(format!("the geometry has {what}"), remedy)
            }
            other => self.label.error(other, "correct the geometry"),
        }
    }

    /// An error where the geometry cannot be, whatever the size of the image.
    fn check(&self) -> Result<()> {
        match (&self.form, self.size) {
            (Some(_), Some(size)) => self.geometry(Some(size)).map(drop),
            (Some(form), None) => form.geometry([1, 1]).map(drop).map_err(|e| self.wrong(e)),
            (None, _) => Ok(()),
        }
    }
}

/// How much of a file tells what it is, bytes.
const HEAD: u64 = 4096;

/// Whether a file holds views: by its name (`.toml`, `.yml`, `.yaml`), or by its beginning.
#[must_use]
pub fn is_views(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if ["toml", "yml", "yaml"].contains(&extension.as_str()) {
        return true;
    }
    let mut head = Vec::new();
    let opened = regular(path).ok().and_then(|_| std::fs::File::open(path).ok());
    if opened.is_none_or(|file| file.take(HEAD).read_to_end(&mut head).is_err()) {
        return false;
    }
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_start_matches('\u{feff}');
    text::is_mayacam(text) || text::is_matrix(text) || storage::says_so(text)
}

/// Reads the views of a file; at least one.
///
/// # Errors
/// A missing file; a text that is not UTF-8, or of none of the kinds above; keys that are unknown, missing, or of two
/// kinds; values of another type or length, or not finite; a geometry that cannot be.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<View>> {
    let source = Source::open(path.as_ref())?;
    let bytes = source.read_all(LARGEST)?;
    read_from_bytes(path, &bytes)
}

/// As [`read`], from the bytes of a file; `name` appears in messages, and images are looked for beside it.
///
/// # Errors
/// As [`read`].
pub fn read_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Vec<View>> {
    let path = name.as_ref();
    let text = utf8(bytes).map_err(|problem| IoError::malformed(path, problem, SAVE_AS))?;
    let views = if text::is_mayacam(text) {
        vec![text::mayacam(path, text)?]
    } else if text::is_plastimatch(text) {
        vec![text::plastimatch(path, text)?]
    } else if storage::is_storage(text) {
        opencv::views(path, text)?
    } else {
        table::views(path, text)?
    };
    views.iter().try_for_each(View::check)?;
    Ok(views)
}

/// Writes a table of views. Images beside the file or below its folder get relative paths.
///
/// # Errors
/// No views; a path that is not UTF-8; a folder that cannot be written; a full disk.
pub fn write(path: impl AsRef<Path>, views: &[View]) -> Result<()> {
    let path = path.as_ref();
    let text = write::table(path, views)?;
    atomic::write_file(path, |sink| sink.write_all(text.as_bytes()))
}

#[cfg(test)]
mod opencv_tests;
#[cfg(test)]
mod tests;
