//! How a pyramid is read.

/// What is done where the file of a chunk of a Zarr array is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Missing {
    /// It is an error, which names the file: a copy that was cut short has such holes.
    #[default]
    Error,
    /// The chunk has the fill value of the array, as the standard says; writers leave chunks of nothing but background
    /// out.
    Background,
}

/// How a pyramid is read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PyramidOptions {
    /// Of several channels the one that is read, from 0. Without it three or four channels become their
    /// [luminance](super#channels).
    pub channel: Option<usize>,
    /// Which values become 0 and 65535: needed where values are neither 8 nor 16 bits, and an error elsewhere.
    pub window: Option<[f64; 2]>,
    /// What is done where chunks are missing.
    pub missing: Missing,
    /// Of several images, time points or pages of the same size the one that is read, from 0.
    pub volume: Option<usize>,
}
