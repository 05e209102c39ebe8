//! Formats, data types and how to write.

use super::dicom;
use crate::error::{IoError, Result};
use crate::source::Source;
use std::fmt;
use std::path::Path;

/// Extensions of images, for messages.
pub(crate) const KNOWN: &str =
    ".nii, .nii.gz, .hdr, .img, .hdr.gz, .img.gz, .mha, .mhd, .nrrd, .nhdr";

/// Names of files of other programs: their ends, what they are, and what makes one that is read.
const FOREIGN: [(&[&str], &str, &str); 8] = [
    (
        &[".dcm", ".dicom", ".ima"],
        "DICOM images are read, but not written",
        "write .nii.gz; a series that is refused can be converted with dcm2niix",
    ),
    (
        &[".mgz", ".mgh"],
        "MGH images are not supported yet",
        "convert it with FreeSurfer's mri_convert",
    ),
    (&[".mnc"], "MINC images are not supported yet", "convert it with mnc2nii"),
    (
        &[".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp"],
        "pictures are not supported, as they do not store a pixel spacing",
        "convert it to NIfTI with the right spacing, for instance with ITK-SNAP or SimpleITK",
    ),
    (
        &[".mha.gz", ".mhd.gz", ".nrrd.gz", ".nhdr.gz"],
        "files of this format are not compressed as a whole",
        "unpack it with gunzip",
    ),
    (
        &[".1d"],
        "AFNI's transforms are not supported",
        "convert it with nitransforms in Python: `nitransforms.linear.load(FILE, fmt='afni', reference=FIXED, \
         moving=MOVING).to_filename('FILE.tfm', fmt='itk')`",
    ),
    (&[".head", ".brik"], "AFNI's images are not supported", "convert it with 3dAFNItoNIFTI"),
    (&[".xfm"], "MINC transforms are not supported", "convert it with ITK or ANTs to .txt or .mat"),
];

/// What a file of another program is and what to do with it, by its name; `None` for others.
pub(crate) fn foreign(path: &Path) -> Option<(&'static str, &'static str)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    FOREIGN.iter().find(|(ends, ..)| is(ends)).map(|&(_, what, remedy)| (what, remedy))
}

/// An image file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// NIfTI in one file: `.nii`, `.nii.gz`.
    Nifti,
    /// NIfTI or ANALYZE 7.5 as a pair: `.hdr` and `.img`, both possibly `.gz`.
    NiftiPair,
    /// MetaImage in one file: `.mha`.
    MetaImage,
    /// MetaImage with separate data: `.mhd`.
    MetaImageHeader,
    /// NRRD in one file: `.nrrd`.
    Nrrd,
    /// NRRD with separate data: `.nhdr`.
    NrrdHeader,
    /// DICOM: a folder with the files of a series, or one of them. It is read and not written, so that no
    /// name says it ([`Format::of_input`]).
    Dicom,
}

impl Format {
    /// The format that a file's name says; for files that are written, too.
    ///
    /// # Errors
    /// [`IoError::UnknownExtension`], naming the known ones and what converts those of other programs;
    /// [`IoError::Malformed`] for a folder.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Format> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").unwrap_or(&name);
        let format = match plain.rsplit_once('.').map(|(_, e)| e) {
            Some("nii") => Some(Format::Nifti),
            Some("hdr" | "img") => Some(Format::NiftiPair),
            Some("mha") => Some(Format::MetaImage),
            Some("mhd") => Some(Format::MetaImageHeader),
            Some("nrrd") => Some(Format::Nrrd),
            Some("nhdr") => Some(Format::NrrdHeader),
            _ => None,
        };
        let gz_is_usual = matches!(format, Some(Format::Nifti | Format::NiftiPair));
        match format {
            Some(f) if gz_is_usual || plain.len() == name.len() => Ok(f),
            _ if path.is_dir() => Err(IoError::folder(path)),
            _ => Err(IoError::UnknownExtension {
                path: path.into(),
                purpose: "an image",
                known: KNOWN,
                hint: foreign(path).map(|(what, remedy)| format!("{what}: {remedy}")),
            }),
        }
    }
}

impl Format {
    /// The format of a file or folder that is to be read: what its name says, or DICOM for a folder, for
    /// the extensions of DICOM, and for a file of another name that begins as DICOM files do.
    ///
    /// # Errors
    /// As [`Format::from_path`]; a file that cannot be read.
    pub fn of_input(path: impl AsRef<Path>) -> Result<Format> {
        let path = path.as_ref();
        if path.is_dir() {
            return Ok(Format::Dicom);
        }
        match Format::from_path(path) {
            Ok(format) => Ok(format),
            Err(error) => {
                let dicom = is_dicom_name(path) || dicom::is_dicom(&Source::open(path)?)?;
                if dicom { Ok(Format::Dicom) } else { Err(error) }
            }
        }
    }
}

/// Whether a name has an extension of DICOM files.
pub(crate) fn is_dicom_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    FOREIGN[0].0.iter().any(|end| name.ends_with(end))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Nifti => "NIfTI",
            Format::NiftiPair => "NIfTI or ANALYZE pair",
            Format::MetaImage | Format::MetaImageHeader => "MetaImage",
            Format::Nrrd | Format::NrrdHeader => "NRRD",
            Format::Dicom => "DICOM",
        })
    }
}

/// The type in which values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DataType {
    /// Unsigned 8-bit integers.
    U8,
    /// Signed 8-bit integers.
    I8,
    /// Unsigned 16-bit integers.
    U16,
    /// Signed 16-bit integers.
    I16,
    /// Unsigned 32-bit integers.
    U32,
    /// Signed 32-bit integers.
    I32,
    /// Unsigned 64-bit integers.
    U64,
    /// Signed 64-bit integers.
    I64,
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit floats.
    F64,
}

impl DataType {
    /// The smallest and the largest value of an integer type; `None` for floats.
    #[must_use]
    pub fn range(self) -> Option<(f64, f64)> {
        Some(match self {
            DataType::U8 => (0.0, f64::from(u8::MAX)),
            DataType::I8 => (f64::from(i8::MIN), f64::from(i8::MAX)),
            DataType::U16 => (0.0, f64::from(u16::MAX)),
            DataType::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
            DataType::U32 => (0.0, f64::from(u32::MAX)),
            DataType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
            DataType::U64 => (0.0, u64::MAX as f64),
            DataType::I64 => (i64::MIN as f64, i64::MAX as f64),
            DataType::F32 | DataType::F64 => return None,
        })
    }

    /// All types.
    pub const ALL: [DataType; 10] = [
        DataType::U8,
        DataType::I8,
        DataType::U16,
        DataType::I16,
        DataType::U32,
        DataType::I32,
        DataType::U64,
        DataType::I64,
        DataType::F32,
        DataType::F64,
    ];

    /// Bytes of one value.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            DataType::U8 | DataType::I8 => 1,
            DataType::U16 | DataType::I16 => 2,
            DataType::U32 | DataType::I32 | DataType::F32 => 4,
            DataType::U64 | DataType::I64 | DataType::F64 => 8,
        }
    }

    /// Whether values are whole numbers.
    #[must_use]
    pub fn is_integer(self) -> bool {
        !matches!(self, DataType::F32 | DataType::F64)
    }

    /// Short name: `u8`, `f32`, …
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DataType::U8 => "u8",
            DataType::I8 => "i8",
            DataType::U16 => "u16",
            DataType::I16 => "i16",
            DataType::U32 => "u32",
            DataType::I32 => "i32",
            DataType::U64 => "u64",
            DataType::I64 => "i64",
            DataType::F32 => "f32",
            DataType::F64 => "f64",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for DataType {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        DataType::ALL.into_iter().find(|t| t.name() == name).ok_or_else(|| {
            let known: Vec<_> = DataType::ALL.iter().map(|t| t.name()).collect();
            format!("unknown data type '{name}'; use one of {}", known.join(", "))
        })
    }
}

/// The order of the bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant first.
    Little,
    /// Most significant first.
    Big,
}

impl ByteOrder {
    /// The order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == ByteOrder::Little { "little-endian" } else { "big-endian" })
    }
}

/// How the values are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// As they are.
    None,
    /// gzip.
    Gzip,
    /// zlib (MetaImage).
    Zlib,
    /// Numbers as text (NRRD).
    Text,
    /// Deflate over the whole data set (DICOM).
    Deflate,
    /// Run lengths (DICOM).
    RunLengths,
    /// JPEG (DICOM).
    Jpeg,
    /// JPEG 2000 (DICOM).
    Jpeg2000,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zlib => "zlib",
            Compression::Text => "text",
            Compression::Deflate => "deflate",
            Compression::RunLengths => "run lengths",
            Compression::Jpeg => "JPEG",
            Compression::Jpeg2000 => "JPEG 2000",
        })
    }
}

/// How to write an image; by default as 32-bit floats in three dimensions, compressed at level 2.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// The stored type; integers get rounded and clamped values.
    pub data_type: DataType,
    /// Free text; NIfTI keeps the first 79 bytes.
    pub description: Option<String>,
    /// From 1 (fast) to 9 (small), for the formats and extensions that are compressed: `.gz`,
    /// `.nrrd`, `.nhdr`, `.mha` and `.mhd`; 0 leaves NRRD and MetaImage uncompressed.
    pub compression_level: u32,
    /// 2 writes a single slice as an image of two dimensions where the format is NIfTI; otherwise
    /// images have three.
    pub dimensions: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { data_type: DataType::F32, description: None, compression_level: 2, dimensions: 3 }
    }
}

/// What of a file is read, where it holds more than one image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// Of a folder of DICOM files with several series: the UID of one, or its number in the list that
    /// [`list_series`](super::list_series) gives and that the error about several series shows.
    pub series: Option<String>,
    /// Of an image of several volumes: one of them, from 0.
    pub volume: Option<usize>,
    /// Of a DICOM file: that file alone, without the other files of its series.
    pub alone: bool,
    /// Of DICOM slices at uneven distances: an even stack, linearly interpolated between them, instead of an
    /// error.
    pub even: bool,
}
