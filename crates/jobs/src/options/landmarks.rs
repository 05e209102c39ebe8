//! Options for corresponding points.

use super::values::PointConvention;
#[cfg(feature = "clap")]
use super::values::positive;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_options::text;

/// Corresponding points that pull in a deformation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Landmarks"))]
#[serde(default)]
pub struct LandmarkOptions {
    /// Corresponding points of the fixed and of the moving image that drive the deformation together with the images:
    /// CSV with columns x,y,z (world coordinates, mm), or a list of 3D Slicer, elastix, ANTs or MNI, the same number
    /// of points in the same order. A column `weight` in the first CSV gives the weight of each pair (0: measured only)
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            num_args = 2,
            value_names = ["FIXED", "MOVING"],
            action = clap::ArgAction::Set
        )
    )]
    #[serde(with = "two")]
    pub landmarks: Vec<PathBuf>,
    /// How strongly they pull, 1/mm²: the energy beside that of the images is this times the mean squared
    /// distance. More brings them nearer to each other; the images then decide less around them
    /// [default: cr, ncc, lncc: 0.0003; mi, nmi: 0.001; ssd: 0.000003]
    #[cfg_attr(feature = "clap", arg(long, value_name = "W", value_parser = positive, allow_hyphen_values = true))]
    pub landmark_weight: Option<f64>,
    /// World coordinates of points whose file does not state them [default: ras; of ANTs' CSV lps]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub point_convention: Option<PointConvention>,
}

impl LandmarkOptions {
    /// The files of the fixed and of the moving points.
    #[must_use]
    pub fn files(&self) -> Option<[&Path; 2]> {
        match self.landmarks.as_slice() {
            [fixed, moving] => Some([fixed, moving]),
            _ => None,
        }
    }

    /// Refuses what would be ignored; `elsewhere` says whether there are other points that have a convention.
    ///
    /// # Errors
    /// Names an option.
    pub fn check(&self, elsewhere: bool) -> Result<()> {
        if !self.landmarks.is_empty() && self.files().is_none() {
            return Err(Error::input(text!(
                "`landmarks` takes two files, points of the fixed and of the moving image"
            )));
        }
        if self.landmarks.is_empty() && self.landmark_weight.is_some() {
            return Err(Error::input(text!(
                "`landmark_weight` is for `landmarks`; give these, too"
            )));
        }
        if let Some(weight) = self.landmark_weight.filter(|w| !(*w > 0.0 && w.is_finite())) {
            return Err(Error::input(text!(
                "`landmark_weight` is {weight}; give a number above 0"
            )));
        }
        if self.landmarks.is_empty() && !elsewhere && self.point_convention.is_some() {
            return Err(Error::input(text!(
                "`point_convention` is for points, which `landmarks` and `init` have; leave it out"
            )));
        }
        Ok(())
    }
}

/// Two files, or none.
mod two {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::path::PathBuf;

    pub(super) fn serialize<S: Serializer>(files: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        files.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let files = Vec::<PathBuf>::deserialize(from);
        let fit = files.ok().filter(|files| matches!(files.len(), 0 | 2));
        fit.ok_or_else(|| {
            D::Error::custom(
                "give a list of two files, of points of the fixed and of the moving image",
            )
        })
    }
}
