//! What a stack computes, and its options.

use crate::options::{as_text, texts};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_io::image::DataType;
use voxalign_options::Choice;

/// What to compute from the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum Operation {
    /// The (weighted) mean: one image.
    #[default]
    Mean,
    /// The largest value of each voxel: one image.
    Max,
    /// The smallest value of each voxel: one image.
    Min,
    /// The sample variance of each voxel (over n - 1): one image.
    Variance,
    /// The product of each voxel over all images, such as the intersection of masks: one image.
    Product,
    /// The sum of squares of each image, or of its differences to --reference: a table (.csv).
    Energy,
    /// Each image scaled to common intensities: a folder of images.
    Normalise,
    /// Each image smoothed by a Gaussian of --sigma: a folder of images.
    Smooth,
    /// The mean of each image and its neighbours in the series: a folder of images.
    WindowMean,
}

impl Operation {
    /// What the output is.
    pub(super) fn output(self) -> Kind {
        match self {
            Self::Mean | Self::Max | Self::Min | Self::Variance | Self::Product => Kind::Image,
            Self::Energy => Kind::Table,
            Self::Normalise | Self::Smooth | Self::WindowMean => Kind::Folder,
        }
    }
}

/// What a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Image,
    Table,
    Folder,
}

/// The options of a stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Options {
    /// Weights of the images, for mean; they are divided by their sum
    #[cfg_attr(feature = "clap", arg(long, value_name = "W,W,...", value_delimiter = ',', value_parser = crate::options::number,
          conflicts_with = "list", allow_hyphen_values = true))]
    #[serde(with = "texts")]
    pub weights: Vec<f64>,
    /// Standard deviation of the Gaussian, mm, for smooth
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM", value_parser = crate::options::number, allow_hyphen_values = true))]
    pub sigma: Option<f64>,
    /// Number of images in a window, odd, for window-mean [default: 3]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub window: Option<usize>,
    /// Intensity range that each image is scaled to, for normalise [default: zero mean and unit
    /// variance]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOW,HIGH", value_delimiter = ',', num_args = 1,
          value_parser = crate::options::number, allow_hyphen_values = true))]
    #[serde(with = "texts")]
    pub range: Vec<f64>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for energy
    /// [default: f32; for max and min that of the images, if all have the same one of at most 16
    /// bits and none is scaled]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    #[serde(with = "as_text")]
    pub data_type: Option<DataType>,
    /// Image that is subtracted first, for energy
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub reference: Option<PathBuf>,
}

impl Options {
    /// Images of a window.
    pub(super) fn window(&self) -> usize {
        self.window.unwrap_or(3)
    }
}
