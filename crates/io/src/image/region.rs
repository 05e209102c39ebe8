//! Boxes of voxels.

use super::info::ImageInfo;
use crate::error::{IoError, Result};

/// A box of voxels of one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The index of its first voxel.
    pub start: [usize; 3],
    /// Its sizes along x, y and z.
    pub size: [usize; 3],
}

impl Region {
    /// All voxels of a volume of these sizes.
    #[must_use]
    pub fn whole(dims: [usize; 3]) -> Region {
        Region { start: [0; 3], size: dims }
    }

    /// Number of voxels; at most `usize::MAX`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.size.iter().fold(1, |n, &d| n.saturating_mul(d))
    }

    /// Whether there is no voxel in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size.contains(&0)
    }

    /// An error where the region or the volume is not within the image, or is not as large as `out`.
    pub(crate) fn check(&self, info: &ImageInfo, volume: usize, out: usize) -> Result<()> {
        let wrong = |problem: String, remedy: &str| {
            Err(IoError::malformed(&info.path, problem, remedy.to_string()))
        };
        let dims = info.grid.dims();
        let ends: [_; 3] = std::array::from_fn(|a| self.start[a].checked_add(self.size[a]));
        if (0..3).any(|a| ends[a].is_none_or(|end| end > dims[a])) {
            let problem = format!(
                "the region from voxel {:?} of the sizes {:?} is not within the image of the sizes {dims:?}",
                self.start, self.size
            );
            return wrong(problem, "ask for voxels of the image");
        }
        check_volume(info, volume)?;
        if out != self.len() {
            let problem = format!("the region has {} voxels, but {out} are expected", self.len());
            return wrong(problem, "bring all images onto one grid first");
        }
        Ok(())
    }
}

/// An error where an image has no volume of this number.
pub(crate) fn check_volume(info: &ImageInfo, volume: usize) -> Result<()> {
    let volumes = info.volumes();
    if volume < volumes {
        return Ok(());
    }
    let problem = format!(
        "there is no volume {volume}: the image has the sizes {:?} ({volumes} volumes)",
        info.dims
    );
    let remedy = match volumes {
        1 => "volume 0 is its only one".to_string(),
        n => format!("choose one of 0 to {}", n - 1),
    };
    Err(IoError::malformed(&info.path, problem, remedy))
}
