//! The errors of this crate.

use thiserror::Error;
use voxalign_image::memory::OutOfMemory;

/// What can go wrong while a report is made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// An image of the report is not on the grid of the others.
    #[error(
        "the report shows images voxel by voxel, but the {role} image is on a different grid from the {of} \
         ({found} against {grid}); resample it onto that grid first"
    )]
    OtherGrid {
        /// Which image, such as `moving (after)` or `variance`.
        role: &'static str,
        /// Its grid, in words.
        found: String,
        /// What has the grid that all should be on: `fixed image` or `atlas`.
        of: &'static str,
        /// That grid, in words.
        grid: String,
    },
    /// A picture has other pixels than it says.
    #[error(
        "a picture of the report has {found} values instead of {width} x {height}, which must be above 0; give \
         one value for each pixel, row by row"
    )]
    Pixels {
        /// Its columns.
        width: usize,
        /// Its rows.
        height: usize,
        /// How many values there are.
        found: usize,
    },
    /// The values of a mesh do not fit it.
    #[error(
        "the mesh \"{name}\" of the report has {found} values for {vertices} vertices; give one for each vertex"
    )]
    MeshValues {
        /// The name of its layer.
        name: String,
        /// How many values there are.
        found: usize,
        /// How many vertices it has.
        vertices: usize,
    },
    /// A mesh or an image for the report cannot be made.
    #[error("the report cannot be made: {0}")]
    Mesh(#[from] voxalign_image::ImageError),
    /// The memory for pictures could not be had.
    #[error(
        "the report cannot be made: {0}; use smaller images or more memory, or do without the report"
    )]
    OutOfMemory(#[from] OutOfMemory),
    /// A picture could not be compressed.
    #[error("a picture of {width}x{height} pixels could not be written as PNG")]
    Png {
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// What the encoder said.
        source: png::EncodingError,
    },
}

/// Result with [`ReportError`].
pub type Result<T> = std::result::Result<T, ReportError>;
