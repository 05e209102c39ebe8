//! The operation of a stack, and its options.

use crate::options::as_text;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_io::image::DataType;
use voxalign_options::{Choice, Given, Parameters};

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

/// What single operations can be told.
#[derive(Debug, Clone, PartialEq, Parameters)]
pub struct Operands {
    /// Weights of the images, for mean; they are divided by their sum
    #[parameter(default = Vec::new(), unit = "W,W,...")]
    pub weights: Vec<f64>,
    /// Standard deviation of the Gaussian, mm, for smooth
    #[parameter(unit = "MM")]
    pub sigma: Option<f64>,
    /// Number of images in a window, odd, for window-mean
    #[parameter(default = 3)]
    pub window: usize,
    /// Intensity range that each image is scaled to, for normalise
    #[parameter(default = Vec::new(), unit = "LOW,HIGH", says = "zero mean and unit variance")]
    pub range: Vec<f64>,
}

/// The options of a stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Options {
    /// What the operation is told.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub operands: Given<Operands>,
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
