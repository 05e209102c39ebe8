//! Options for the output of a registration.

use super::text::{as_text, negated};
use super::values::{Interpolation, Outside};
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// Whether there is a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Output"))]
#[serde(default)]
pub struct ReportOption {
    /// Write report.html (the default)
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "no_report"))]
    #[doc(hidden)]
    #[serde(skip)]
    pub report: bool,
    /// Do not write report.html
    #[cfg_attr(feature = "clap", arg(long, conflicts_with = "report"))]
    #[serde(rename = "report", with = "negated")]
    pub no_report: bool,
}

impl ReportOption {
    /// Whether one is written.
    #[must_use]
    pub fn wanted(self) -> bool {
        !self.no_report
    }

    /// No report.
    #[must_use]
    pub fn none() -> Self {
        Self { no_report: true, ..Self::default() }
    }
}

/// How results are written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Output"))]
#[serde(default)]
pub struct OutputOptions {
    /// Interpolation of warped.nii.gz [default: linear]
    #[cfg_attr(feature = "clap", arg(long))]
    pub interpolation: Option<Interpolation>,
    /// Value of warped.nii.gz outside the moving image, or `nan` [default: 0; for images with a
    /// background below 0, such as CT, their smallest value]
    #[cfg_attr(feature = "clap", arg(long, value_name = "VALUE", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub outside: Option<Outside>,
    /// Whether there is a report.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub report: ReportOption,
}

impl OutputOptions {
    /// Whether a report is written.
    #[must_use]
    pub fn wants_report(&self) -> bool {
        self.report.wanted()
    }

    /// Interpolation of the resampled image.
    #[must_use]
    pub fn interpolation(&self) -> Interpolation {
        self.interpolation.unwrap_or_default()
    }

    /// Value outside the moving image, where it was given.
    #[must_use]
    pub fn outside(&self) -> Option<f32> {
        self.outside.map(|Outside(v)| v)
    }

    /// Refuses what is not for images.
    ///
    /// # Errors
    /// Interpolation of labels.
    pub fn check(&self) -> Result<()> {
        self.interpolation().of_image().map(|_| ())
    }
}
