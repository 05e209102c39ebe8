//! The errors of this crate.

use thiserror::Error;
use voxalign_image::memory::OutOfMemory;

/// Errors of making a report.
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
        /// A description of its grid.
        found: String,
        /// The image with the common grid: `fixed image` or `atlas`.
        of: &'static str,
        /// A description of that grid.
        grid: String,
    },
    /// A picture whose number of values does not match its size.
    #[error(
        "a picture of the report has {found} values instead of {width} x {height}, which must be above 0; give \
         one value for each pixel, row by row"
    )]
    Pixels {
        /// Its columns.
        width: usize,
        /// Its rows.
        height: usize,
        /// The number of values.
        found: usize,
    },
    /// The values of a mesh do not fit it.
    #[error(
        "the mesh \"{name}\" of the report has {found} values for {vertices} vertices; give one for each vertex"
    )]
    MeshValues {
        /// The name of its layer.
        name: String,
        /// The number of values.
        found: usize,
        /// The number of vertices.
        vertices: usize,
    },
    /// A mesh or an image for the report cannot be made.
    #[error("the report cannot be made: {0}")]
    Mesh(#[from] voxalign_image::ImageError),
    /// Not enough memory for pictures.
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
        /// The encoder's message.
        source: png::EncodingError,
    },
    /// A frame of an animation has another size than the animation.
    #[error(
        "frame {number} of the animation has {found} bytes instead of {expected}; give frames of one size"
    )]
    Frame {
        /// Its number, from 0.
        number: usize,
        /// The bytes of a frame.
        expected: usize,
        /// Those that were given.
        found: usize,
    },
    /// An animation has other frames than were said.
    #[error(
        "the animation has {found} frames instead of {expected}; give as many as were said, and one at least"
    )]
    Frames {
        /// How many were said.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A frame is shown for too long.
    #[error("a frame of the animation cannot be shown for {ms} ms; give 65535 ms at most")]
    FrameTime {
        /// Milliseconds.
        ms: u32,
    },
    /// A palette without colours or with too many, or a pixel with the number of none of them.
    #[error(
        "the palette of the animation has {colours} colours{}; give 1 to 256, and numbers from 0 below theirs",
        .number.map_or_else(String::new, |n| format!(", and a pixel has the number {n}"))
    )]
    Palette {
        /// How many colours there are.
        colours: usize,
        /// The number of a pixel.
        number: Option<u8>,
    },
    /// What takes a picture takes no more.
    #[error("the picture cannot be written: {0}")]
    Sink(#[source] std::io::Error),
}

/// Result with [`ReportError`].
pub type Result<T> = std::result::Result<T, ReportError>;
