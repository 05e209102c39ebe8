//! X-ray images: pictures, DICOM and images of two dimensions, with what their headers say of source and
//! detector.
//!
//! - [`read`] reads an image, or several frames of the same size, from PNG, TIFF, DICOM (XA, RF, CR, DX, RTIMAGE,
//!   secondary capture) and the formats of [`image`](crate::image); [`write()`] writes PNG, TIFF, DICOM secondary
//!   captures, NIfTI, NRRD and MetaImage.
//! - [`geometry`] reads and writes where views were taken from: tables of views, calibrations of other programs.
//! - [`frames`] reads raw frames one after the other, as cameras and grabbers send them.
//!
//! Values are 32-bit floats, x (the column) fastest, and row 0 is the top of the picture. Large values are bright as
//! the file is shown: what is stored the other way round is inverted, which is said. Nothing is assumed of what a
//! value means.
//!
//! ```
//! use voxalign_io::xray::{self, XrayToWrite};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("view.png");
//! let values = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0];
//! let image = XrayToWrite { window: Some([0.0, 4.0]), ..XrayToWrite::new(&values, [3, 2]) };
//! xray::write(&path, &image)?;
//! let read = xray::read(&path)?;
//! assert_eq!((read.dims, read.frames), ([3, 2], 1));
//! // 16 bits, scaled by the window that the file says.
//! assert!(read.values.iter().zip(&values).all(|(a, b)| (a - b).abs() < 4.0 / 65535.0));
//! # Ok(())
//! # }
//! ```

mod dicom;
pub mod frames;
pub mod geometry;
mod grey;
mod plane;
mod png;
mod tiff;
mod window;
mod write;

pub use dicom::{Series, Signal, Study};
pub use frames::{FrameType, Frames};
pub use geometry::View;
pub(crate) use tiff::claims::check as check_tiff_claims;
pub use write::{Written, XrayToWrite, write};

use crate::error::{IoError, Result};
use crate::image::{Format, KNOWN, Oddity, is_dicom_name};
use crate::source::Source;
use std::io::Read;
use std::path::Path;
use voxalign_image::{XrayGeometry, memory};
use window::Note;

/// The X-ray images of a file: one, or several frames of the same size.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Xray {
    /// The values of all frames, one frame after the other: `columns x rows x frames`, columns fastest, row 0 the top.
    pub values: Vec<f32>,
    /// Number of frames, at least 1.
    pub frames: usize,
    /// Columns and rows.
    pub dims: [usize; 2],
    /// Sizes of a pixel along columns and rows, mm, where the file says them: on the detector for X-ray DICOM.
    pub pixel_size: Option<[f64; 2]>,
    /// How values follow from the intensity of the X-rays, where the header says it.
    pub signal: Option<Signal>,
    /// Source and detector of the picture as it is stored, where the header says all that is needed; of the first frame. The
    /// world is RAS mm: for C-arms with the origin at the isocentre, unless the place of that in the patient is said, and that
    /// of the patient for treatment machines.
    pub geometry: Option<XrayGeometry>,
    /// When each frame was taken, seconds after the first, where the file says it.
    pub times: Option<Vec<f64>>,
    /// Everything unusual, a sentence each.
    pub oddities: Vec<Oddity>,
    missing: Option<&'static str>,
}

impl Xray {
    fn new(dims: [usize; 2]) -> Self {
        Self {
            values: Vec::new(),
            frames: 0,
            dims,
            pixel_size: None,
            signal: None,
            geometry: None,
            times: None,
            oddities: Vec::new(),
            missing: None,
        }
    }

    /// The values of a frame, columns fastest; nothing where there is no such frame.
    #[must_use]
    pub fn frame(&self, number: usize) -> Option<&[f32]> {
        self.values.chunks_exact((self.dims[0] * self.dims[1]).max(1)).nth(number)
    }

    /// The first attribute of a DICOM header that is missing for a [`geometry`](Self::geometry), such as
    /// `DistanceSourceToDetector (0018,1110)`; nothing where there is a geometry, where the attributes are there and
    /// contradict themselves (which is among the oddities), and for other formats.
    #[must_use]
    pub fn missing_attribute(&self) -> Option<&str> {
        self.missing
    }

    fn say(&mut self, oddity: impl Into<Oddity>) {
        let oddity = oddity.into();
        if !self.oddities.contains(&oddity) {
            self.oddities.push(oddity);
        }
    }

    /// Does what a note of this library says; values are scaled back where they are `words` of 16 bits.
    fn apply(&mut self, note: std::result::Result<Note, String>, words: bool) {
        match note {
            Ok(note) => {
                self.pixel_size = note.pixel_size.or(self.pixel_size);
                if let Some(window) = note.window.filter(|_| words) {
                    self.values.iter_mut().for_each(|v| *v = window.value(f64::from(*v)));
                }
            }
            Err(said) => self.say(Oddity::Other(said)),
        }
    }

    /// Room for another frame, of `expected` in all as far as that is known; its values are 0.
    fn add_frame(&mut self, path: &Path, expected: usize) -> Result<&mut [f32]> {
        self.frames += 1;
        let one = self.dims[0].saturating_mul(self.dims[1]);
        self.grow(path, one, one.saturating_mul(expected))
    }

    /// Room for more values, of `expected` in all as far as that is known; they are 0.
    fn grow(&mut self, path: &Path, more: usize, expected: usize) -> Result<&mut [f32]> {
        let start = self.values.len();
        let total = start.saturating_add(more);
        if total > self.values.capacity() {
            // Twice what is there, and no more than all.
            let target = total.max(start.saturating_mul(2).min(expected));
            let values = &mut self.values;
            memory::ask::<f32, ()>(target, || values.try_reserve_exact(target - start).ok())
                .map_err(|refused| IoError::memory(path, refused))?;
        }
        self.values.resize(total, 0.0);
        Ok(&mut self.values[start..])
    }
}

/// The kind of a file.
enum Kind {
    Png,
    Tiff,
    Dicom,
    /// What [`crate::image`] reads.
    Plane,
}

/// Extensions of pictures, for messages.
const PICTURES: &str = ".png, .tif, .tiff, .dcm, .dicom, .ima";

impl Kind {
    /// What the name says; where it says nothing, the beginning of the file.
    fn of(source: &Source<'_>) -> Result<Kind> {
        let path = source.path();
        if let Some(kind) = Self::of_name(path) {
            return Ok(kind);
        }
        let mut head = Vec::new();
        let fail = |e| IoError::reading(path, e);
        source.raw_with(0, 256)?.take(4).read_to_end(&mut head).map_err(fail)?;
        match head[..] {
            [0x89, b'P', b'N', b'G'] => Ok(Kind::Png),
            [b'I', b'I', 42 | 43, 0] | [b'M', b'M', 0, 42 | 43] => Ok(Kind::Tiff),
            _ if crate::image::dicom::is_dicom(source)? => Ok(Kind::Dicom),
            _ => Err(unknown(path)),
        }
    }

    fn of_name(path: &Path) -> Option<Kind> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match extension.as_str() {
            "png" => Some(Kind::Png),
            "tif" | "tiff" => Some(Kind::Tiff),
            _ if is_dicom_name(path) => Some(Kind::Dicom),
            _ => Format::from_path(path).is_ok().then_some(Kind::Plane),
        }
    }
}

/// An error about a name that says no format.
fn unknown(path: &Path) -> IoError {
    let hint = "other pictures, such as JPEG, are to be converted to PNG or TIFF first".to_owned();
    IoError::malformed(
        path,
        "the extension is not known for an X-ray image, and the file does not begin as one",
        format!("use one of {PICTURES}, {KNOWN}; {hint}"),
    )
}

/// Reads an X-ray image, or all frames of it.
///
/// - PNG: 8 and 16 bits, and fewer; of an animation its still image.
/// - TIFF: 8, 16 and 32 bits and floats, without compression or with LZW, deflate or PackBits; several pages are
///   frames.
/// - DICOM: one file with all its frames, rescaled; MONOCHROME1 is inverted.
/// - NIfTI, NRRD, MetaImage: one slice; the order of the values is taken for that of the picture, volumes are frames.
///
/// PNG and TIFF files that [`write()`] scaled are scaled back. Colours become luminance (ITU-R BT.601), opacity is
/// ignored.
///
/// # Errors
/// A missing, cut or malformed file; an unknown format; pages of different sizes; an image of several slices; too
/// little memory.
pub fn read(path: impl AsRef<Path>) -> Result<Xray> {
    let path = path.as_ref();
    if path.is_dir() {
        let remedy = "name one of its files: each is an X-ray image";
        return Err(IoError::malformed(path, "this is a folder", remedy));
    }
    of(Source::open(path)?)
}

/// As [`read`], from the bytes of a file; `name` says the format and appears in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<Xray> {
    of(Source::memory(name.as_ref(), bytes))
}

fn of(source: Source<'_>) -> Result<Xray> {
    match Kind::of(&source)? {
        Kind::Png => png::read(&source),
        Kind::Tiff => tiff::read(&source),
        Kind::Dicom => dicom::read(source),
        Kind::Plane => plane::read(source),
    }
}

/// Values that each byte of a packed picture may stand for, and some for small files: no memory is asked for by what
/// a header claims alone. LZW packs up to 2700, deflate 1032 into a byte.
const VALUES_OF_A_BYTE: u64 = 1 << 12;
const SMALL: u64 = 1 << 22;

/// An error where a header claims more bytes than a file of this length can hold.
fn check_claim(path: &Path, bytes: u64, length: u64) -> Result<()> {
    if bytes <= length.saturating_mul(VALUES_OF_A_BYTE).saturating_add(SMALL) {
        return Ok(());
    }
    Err(IoError::malformed(
        path,
        format!("the header claims {bytes} bytes of values, which {length} bytes cannot hold"),
        "the file is damaged: copy or download it again",
    ))
}
