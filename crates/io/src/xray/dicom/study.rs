//! The patient and study of images.

use crate::error::Result;
use crate::image::dicom::{Pictures, tags};
use crate::source::Source;
use crate::text::printable;
use std::path::Path;

/// The longest value that is taken over, bytes: that of a name of three groups is 194.
const LONGEST: usize = 1024;
/// The longest UID (PS3.5, 9.1).
const LONGEST_UID: usize = 64;

/// The patient and the study of a DICOM file, which images that are made of it take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Study {
    uid: Option<String>,
    /// Attributes with their bytes, in the order of their tags.
    values: Vec<(u32, Vec<u8>)>,
}

impl Study {
    /// That of a file with an image, such as a slice of a CT.
    ///
    /// # Errors
    /// A missing or malformed file, or one that is no DICOM image.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let file = Pictures::open(Source::open(path.as_ref())?)?;
        let uid = file.text(tags::STUDY_UID).filter(|uid| {
            uid.len() <= LONGEST_UID && uid.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        });
        let values = tags::OF_STUDY.iter().filter_map(|&tag| {
            let bytes = file.bytes(tag)?.trim_ascii_end();
            let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
            (!bytes.is_empty() && bytes.len() <= LONGEST).then(|| (tag, bytes.to_vec()))
        });
        Ok(Self { uid, values: values.collect() })
    }

    /// The UID of the study, where the file says one.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// The bytes of an attribute, in the character set of the file.
    pub(super) fn value(&self, tag: u32) -> Option<&[u8]> {
        self.values.iter().find(|(t, _)| *t == tag).map(|(_, bytes)| bytes.as_slice())
    }
}

/// Images that belong together, as those of one run do: they share the UIDs of a study and of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    pub(super) key: Vec<u8>,
    pub(super) description: String,
    pub(super) study: Option<Study>,
}

impl Series {
    /// `key` is what the series is made of, such as checksums of inputs with all options: its UIDs are made of that, so that
    /// the same key gives the same UIDs. The description has up to 64 letters of ASCII; others are left out. The study is a new
    /// one where none is given.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>, description: &str, study: Option<Study>) -> Self {
        let letters = printable(description, &[]);
        let letters = letters.chars().filter(|c| c.is_ascii() && *c != '\\');
        Self { key: key.into(), description: letters.take(64).collect(), study }
    }
}
