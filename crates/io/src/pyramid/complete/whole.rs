//! The levels of a file, and those that were made for it.

use super::super::pixel::PixelsMut;
use super::super::{PyramidInfo, PyramidSource};
use crate::error::Result;
use crate::image::Region;
use std::sync::Arc;

/// Where a level is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// A level of the file.
    File(usize),
    /// A level in the folder of work.
    Work(usize),
}

/// The pyramid of both.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) info: PyramidInfo,
    pub(super) at: Vec<At>,
    pub(super) file: Arc<dyn PyramidSource>,
    pub(super) work: Option<Box<dyn PyramidSource>>,
}

impl PyramidSource for Whole {
    fn info(&self) -> &PyramidInfo {
        &self.info
    }

    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> Result<()> {
        self.info.check(level, region, &out)?;
        match (self.at[level], &self.work) {
            (At::Work(level), Some(work)) => work.read(level, region, out),
            (At::Work(level) | At::File(level), _) => self.file.read(level, region, out),
        }
    }
}
