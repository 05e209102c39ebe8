//! Measures of alignment for images, label maps, landmarks, meshes and transforms.
//!
//! All scores are plain sums in `f64` in the order of the voxels, so that they are the same on
//! every machine and can serve as the reference for faster ones. Images and label maps are compared
//! voxel by voxel and must lie on one grid, to a hundredth of a voxel; distances are in mm.
//!
//! ```
//! use voxalign_image::{Affine, Grid, Transform, Vector3, Volume};
//! use voxalign_register::compare::{OverlapRule, compare_labels, compare_transforms};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let grid = Grid::axis_aligned([10, 10, 1], [2.0; 3])?;
//! let square = |from: usize| {
//!     Volume::from_fn(grid.clone(), move |x, y, _| {
//!         i32::from((from..from + 4).contains(&x) && (3..7).contains(&y))
//!     })
//! };
//! let scores = compare_labels(&square(3), &square(4), None, &OverlapRule::default())?;
//! assert_eq!(scores.mean_dice, Some(0.75));
//!
//! let shift = Transform::Affine(Affine::translation(Vector3::new(3.0, 4.0, 0.0)));
//! let apart = compare_transforms(&shift, &Transform::identity(), &grid, None)?;
//! assert!((apart.max - 5.0).abs() < 1e-12);
//! # Ok(())
//! # }
//! ```

mod intensity;
mod landmarks;
pub(crate) mod meshes;
mod overlap;
mod transforms;
mod view;

pub use intensity::{ImageScores, compare_images};
pub(crate) use intensity::{both_finite, compare_images_on, entropies};
pub use landmarks::{LandmarkScores, compare_landmarks};
pub use meshes::{MeshScores, compare_meshes, distances_to};
pub use overlap::{LabelScore, OverlapRule, OverlapScores, compare_labels, labels_of};
pub use transforms::{TransformScores, compare_transforms};
pub use view::field_overlap;

use thiserror::Error;
use voxalign_image::memory::OutOfMemory;
use voxalign_image::{Grid, ImageError};

/// Why two things cannot be compared.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Two images that must be on one grid are not.
    #[error("{0}; resample one onto the other first, for instance by `voxalign apply`")]
    Grids(ImageError),
    /// Not enough memory for the comparison.
    #[error(transparent)]
    Memory(ImageError),
    /// No voxel is left to compare.
    #[error("there is no voxel to compare: {why}")]
    Nothing {
        /// The reason.
        why: &'static str,
    },
    /// Two point sets of different sizes.
    #[error(
        "one list has {first} points and the other {second}; point lists are compared point by \
             point and need the same number"
    )]
    PointCounts {
        /// Points of the first set.
        first: usize,
        /// Points of the second set.
        second: usize,
    },
    /// A point set without points, or with one that is not a number.
    #[error("the points cannot be compared: {why}")]
    Points {
        /// The problem.
        why: String,
    },
    /// Too few histogram bins.
    #[error("{bins} histogram bins are too few; at least 2 are needed")]
    Bins {
        /// The requested number.
        bins: usize,
    },
}

impl From<OutOfMemory> for CompareError {
    fn from(refused: OutOfMemory) -> Self {
        Self::Memory(refused.into())
    }
}

/// Two grids count as equal if all corners agree to this fraction of the smallest spacing.
const GRID_TOLERANCE: f64 = 0.01;

/// Checks that two grids are the same, to a hundredth of a voxel.
///
/// # Errors
/// [`CompareError::Grids`], with both grids in words.
pub fn same_grid(first: &Grid, second: &Grid) -> Result<(), CompareError> {
    let spacing = first.spacing();
    let smallest = spacing.iter().fold(f64::MAX, |a, &b| a.min(b));
    if first.approx_eq(second, GRID_TOLERANCE * smallest) {
        return Ok(());
    }
    Err(CompareError::Grids(ImageError::GridMismatch {
        first: first.to_string(),
        second: second.to_string(),
    }))
}
