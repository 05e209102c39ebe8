//! The errors of this crate.

use crate::image::SeriesInfo;
use crate::labels::LabelError;
use crate::text::{listed, printable};
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;
use voxalign_image::memory::amount;

/// What can go wrong with a file. Every message names the file, the cause and the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IoError {
    /// The operating system refused.
    #[error("'{}': cannot {action}: {source}; {remedy}", .path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What helps.
        remedy: String,
        /// The cause.
        source: io::Error,
    },
    /// The content breaks the rules of its format.
    #[error("'{}': {problem}; {remedy}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the value.
        problem: String,
        /// What helps.
        remedy: String,
    },
    /// The content is valid but not read or written here.
    #[error("'{}': {what}; {remedy}", .path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported.
        what: String,
        /// What helps.
        remedy: String,
    },
    /// The name's extension says nothing about the format.
    #[error(
        "'{}': the extension is not known for {purpose}; use one of {known}{}",
        .path.display(),
        .hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"))
    )]
    UnknownExtension {
        /// The file.
        path: PathBuf,
        /// What the file is for.
        purpose: &'static str,
        /// The known ones.
        known: &'static str,
        /// What the file is, and what makes one that is known of it, where its name says so.
        hint: Option<String>,
    },
    /// The file ends before its data do.
    #[error(
        "'{}': the file ends early: {expected} bytes are expected, but it has {found}; copy or \
         download it again", .path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// The image has more than three axes where one volume is needed.
    #[error(
        "'{}': one 3D volume is needed, the file has sizes {dims:?} ({volumes} volumes); choose \
         one as `volume`, or take it out first, for example with `voxalign convert IN OUT --volume 0` or \
         `fslroi in.nii.gz out.nii.gz 0 1`", .path.display()
    )]
    SeveralVolumes {
        /// The file.
        path: PathBuf,
        /// Sizes of all axes.
        dims: Vec<usize>,
        /// Number of volumes.
        volumes: usize,
    },
    /// There are several series of DICOM images where one is needed.
    #[error(
        "'{}': {problem}; choose one as `series`, by its number or UID:\n  {}", .path.display(),
        listed(.series.iter().map(SeriesInfo::to_string), "\n  ")
    )]
    SeveralSeries {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What there is to choose from.
        series: Vec<SeriesInfo>,
    },
    /// A value of a label image is not a label.
    #[error(
        "'{}': voxel {index:?} has the value {value}, which is not a whole number within 32 bits; \
         a label map is needed here, not an intensity image", .path.display()
    )]
    NotALabel {
        /// The file.
        path: PathBuf,
        /// The voxel.
        index: [usize; 3],
        /// Its value.
        value: f64,
    },
    /// A table of labels, or an image that should have its labels, is not valid.
    #[error("'{}': {}", .path.display(), said(.source.to_string()))]
    Labels {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<LabelError>,
    },
    /// A transform file is relative to images that were not given.
    #[error(
        "'{}': {format} transforms are relative to their images: the {missing} image is needed too",
        .path.display()
    )]
    GeometryNeeded {
        /// The file.
        path: PathBuf,
        /// The format.
        format: &'static str,
        /// Which image is missing.
        missing: &'static str,
    },
    /// Files of a result cannot be where they should.
    #[error("{what} '{}': {problem}; {remedy}", .path.display())]
    Results {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What helps, and where the files are.
        remedy: String,
    },
    /// Another process writes its results to the same place.
    #[error("another run of voxalign is writing to the {what} '{}'; wait until it has ended, or name another {what}", .path.display())]
    Busy {
        /// `file` or `folder`.
        what: &'static str,
        /// Which.
        path: PathBuf,
    },
    /// Geometry, sizes or the transform are not valid.
    #[error("'{}': {source}", .path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<ImageError>,
    },
    /// The data do not fit into memory.
    #[error(
        "'{}': {} of memory are needed and could not be had; use a machine with more memory or a downsampled image",
        .path.display(), amount(*bytes)
    )]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// Bytes asked for.
        bytes: u64,
    },
}

/// What helps where a file may not become as long as it has to.
pub const LIMITED: &str = "raise the limit on the size of files (`ulimit -f` shows it), or write to a file system that \
                           takes files of this size";

/// Result with [`IoError`].
pub type Result<T> = std::result::Result<T, IoError>;

impl IoError {
    /// What would help, where that is at the end of the message: words of this crate, in which what others call an option
    /// stands in backticks by its name, such as `` `volume` ``.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::System { remedy, .. }
            | Self::Malformed { remedy, .. }
            | Self::Unsupported { remedy, .. }
            | Self::Results { remedy, .. } => Some(remedy),
            _ => None,
        }
    }

    pub(crate) fn malformed(
        path: &Path,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let problem = said(problem.into());
        IoError::Malformed { path: path.into(), problem, remedy: remedy.into() }
    }

    pub(crate) fn unsupported(
        path: &Path,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        IoError::Unsupported { path: path.into(), what: said(what.into()), remedy: remedy.into() }
    }

    /// A folder that takes no results.
    pub(crate) fn unwritable(path: &Path, problem: impl ToString, remedy: &str) -> Self {
        let what = "cannot write to the folder";
        let (path, problem) = (path.to_owned(), problem.to_string());
        IoError::Results { what, path, problem, remedy: remedy.to_owned() }
    }

    /// A folder where a file is needed.
    pub(crate) fn folder(path: &Path) -> Self {
        let remedy = "name a file in it, or a folder that directly contains a DICOM series";
        Self::malformed(path, "this is a folder", remedy)
    }

    /// Memory for what a file holds.
    pub(crate) fn memory(path: &Path, refused: OutOfMemory) -> Self {
        IoError::OutOfMemory { path: path.into(), bytes: refused.bytes }
    }

    pub(crate) fn image(path: &Path, source: ImageError) -> Self {
        IoError::Image { path: path.into(), source: Box::new(source) }
    }

    pub(crate) fn labels(path: &Path, source: LabelError) -> Self {
        IoError::Labels { path: path.into(), source: Box::new(source) }
    }

    /// A failed system call while reading.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::PermissionDenied => "check the permissions of the file and its folder",
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                "the compressed data are damaged: copy or download the file again"
            }
            io::ErrorKind::UnexpectedEof => "the file is cut short: copy or download it again",
            io::ErrorKind::OutOfMemory => "use a smaller image, fewer threads, or more memory",
            _ => "check that the file can be read",
        };
        IoError::System { action: "read", path: path.into(), remedy: remedy.into(), source }
    }

    /// A failed system call while writing.
    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::NotFound => "create the folder first",
            io::ErrorKind::PermissionDenied => "check the permissions of the folder",
            io::ErrorKind::StorageFull => "free some space",
            io::ErrorKind::OutOfMemory => "use smaller images, fewer threads, or more memory",
            io::ErrorKind::FileTooLarge => LIMITED,
            io::ErrorKind::IsADirectory => "remove the folder of this name, or write elsewhere",
            _ => "check that the folder can be written",
        };
        IoError::System { action: "write", path: path.into(), remedy: remedy.into(), source }
    }

    /// The same about another file: the one that a temporary one stands for.
    #[must_use]
    pub fn instead_at(mut self, file: &Path) -> Self {
        if let IoError::System { path, .. } = &mut self {
            *path = file.into();
        }
        self
    }

    /// Of a full disk, with how many bytes the whole file may take.
    pub(crate) fn needing(mut self, bytes: u64) -> Self {
        if let IoError::System { remedy, source, .. } = &mut self
            && source.kind() == io::ErrorKind::StorageFull
        {
            let mib = bytes.div_ceil(1 << 20);
            *remedy = format!("free some space: this file takes up to {mib} MiB");
        }
        self
    }
}

/// The longest part of a message that is taken from a file, letters.
const LONGEST: usize = 600;
/// What is said of a file, which may quote it at any length.
fn said(text: String) -> String {
    printable(&beginning(&text, LONGEST), &['\n']).into_owned()
}

fn beginning(text: &str, letters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// The beginning of a text, for messages.
pub(crate) fn shorten(text: &str) -> String {
    printable(&beginning(text, 40), &[]).into_owned()
}

/// The beginning of a UID, which has at most 64 letters by the standard.
pub(crate) fn shorten_uid(text: &str) -> String {
    printable(&beginning(text, 64), &[]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_of_the_file_that_was_asked_for() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = IoError::writing(Path::new("out/.voxalign-a/warp.nii.gz"), full);
        let said = error.needing(27_000_000).instead_at(Path::new("out/warp.nii.gz")).to_string();
        assert!(said.starts_with("'out/warp.nii.gz': cannot write: "), "{said}");
        assert!(said.ends_with("; free some space: this file takes up to 26 MiB"), "{said}");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = IoError::writing(Path::new("a"), denied).needing(5).to_string();
        assert!(said.ends_with("check the permissions of the folder"), "{said}");
    }

    #[test]
    fn what_is_quoted_of_a_file_is_short_and_printable() {
        assert_eq!(shorten(&"\u{7}".repeat(50)), format!("{}…", "\\u{7}".repeat(40)));
        let error = IoError::malformed(Path::new("a"), "x\u{7f}".repeat(5000), "y");
        let said = error.to_string();
        assert!(said.len() < 3000 && said.ends_with("…; y") && !said.contains('\u{7f}'), "{said}");
    }
}
