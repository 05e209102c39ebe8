//! The frames of one file as 2D images, for files that are not slices of a volume: X-ray images.

use super::dataset::{self, DataSet};
use super::header::{DARK, Header, Layout};
use super::pixels;
use super::tags::{self, Tag, written};
use crate::error::{IoError, Result};
use crate::source::Source;
use std::path::Path;

/// One file of which any frame can be read.
#[derive(Debug)]
pub(crate) struct Pictures<'a> {
    source: Source<'a>,
    header: Header,
    set: DataSet,
    layout: Layout,
    dark: bool,
}

impl<'a> Pictures<'a> {
    /// Reads the header.
    pub(crate) fn open(source: Source<'a>) -> Result<Self> {
        let parsed = dataset::parse(&source)?;
        let series = parsed.set.text(tags::SERIES_UID).unwrap_or_default();
        let (mut header, set) = Header::of(parsed, series, &source);
        if let Some(problem) = header.problem.take() {
            return Err(problem);
        }
        let Some(layout) = header.layout.clone() else {
            let modality = &header.modality;
            let problem = format!("this DICOM file holds no image (its modality is '{modality}')");
            return Err(IoError::malformed(source.path(), problem, "name a file with an image"));
        };
        let dark = header.oddities.iter().any(|said| said == DARK);
        header.oddities.retain(|said| said != DARK);
        Ok(Self { source, header, set, layout, dark })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        self.source.path()
    }

    /// Columns and rows.
    pub(crate) fn dims(&self) -> [usize; 2] {
        [self.layout.columns, self.layout.rows]
    }

    /// Number of frames.
    pub(crate) fn count(&self) -> usize {
        self.header.frames.len()
    }

    /// How many bits values have, where they are whole numbers.
    pub(crate) fn bits(&self) -> Option<usize> {
        (!self.layout.float).then_some(self.layout.stored)
    }

    /// Whether large values are dark (MONOCHROME1): [`read`](Self::read) inverts them.
    pub(crate) fn is_inverted(&self) -> bool {
        self.dark
    }

    /// Whether larger stored values are smaller true ones, by a scale below 0.
    pub(crate) fn falls(&self) -> bool {
        self.header.frames.first().is_some_and(|frame| frame.slope < 0.0)
    }

    /// The largest true value that the bits of values can say; floats have none.
    pub(crate) fn largest(&self) -> Option<f64> {
        let (frame, ends) = (self.header.frames.first()?, self.ends()?);
        let of = |stored: f64| stored * frame.slope + frame.intercept;
        Some(of(ends[0]).max(of(ends[1])))
    }

    /// The least and the largest value that can be stored; floats have none.
    fn ends(&self) -> Option<[f64; 2]> {
        let half = 2f64.powi(self.layout.stored as i32 - 1);
        let whole = if self.layout.signed { [-half, half - 1.0] } else { [0.0, 2.0 * half - 1.0] };
        (!self.layout.float).then_some(whole)
    }

    /// What else is unusual.
    pub(crate) fn oddities(&self) -> &[String] {
        &self.header.oddities
    }

    /// True values of a frame, x fastest, large ones bright, into an array of their number.
    pub(crate) fn read(&self, frame: usize, out: &mut [f32]) -> Result<()> {
        let Some(of) = self.header.frames.get(frame) else { return Ok(()) };
        let (layout, mut values) = (&self.layout, Vec::new());
        pixels::rows(&self.header, layout, &self.source, of.number, 0..layout.rows, &mut values)?;
        let ends = self.ends().map_or(0.0, |[least, most]| least + most);
        for (to, &stored) in out.iter_mut().zip(&values) {
            let bright = if self.dark { ends - stored } else { stored };
            *to = (bright * of.slope + of.intercept) as f32;
        }
        Ok(())
    }

    /// The numbers of an attribute; none where it is missing or empty.
    pub(crate) fn numbers(&self, tag: Tag) -> Result<Vec<f64>> {
        self.set.numbers(tag).map_err(|problem| {
            let remedy = "the header is probably damaged; export the image again";
            IoError::malformed(self.path(), problem, remedy)
        })
    }

    /// So many numbers of an attribute; nothing where it is missing or empty.
    pub(crate) fn exactly<const N: usize>(&self, tag: Tag) -> Result<Option<[f64; N]>> {
        let numbers = self.numbers(tag)?;
        if numbers.is_empty() {
            return Ok(None);
        }
        let count = numbers.len();
        numbers.try_into().map(Some).map_err(|_| {
            let problem = format!("{} has {count} numbers instead of {N}", written(tag));
            let remedy = "the header is probably damaged; export the image again";
            IoError::malformed(self.path(), problem, remedy)
        })
    }

    /// The text of an attribute; nothing where it is missing or empty.
    pub(crate) fn text(&self, tag: Tag) -> Option<String> {
        self.set.text(tag)
    }

    /// The bytes of an attribute as they are stored; nothing where it is missing.
    pub(crate) fn bytes(&self, tag: Tag) -> Option<&[u8]> {
        self.set.bytes(tag)
    }
}
