//! Options for corresponding points.

use super::values::PointConvention;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_options::{Choice, Given, Parameters, by_value, text};
use voxalign_register::similarity::Similarity;

/// Default weight of landmarks beside images that are compared by a similarity, 1/mm²: brings them within a voxel or less,
/// while the images still decide elsewhere (docs/accuracy.md says how it was found).
#[must_use]
pub fn usual_landmark_weight(similarity: &Similarity) -> f64 {
    match similarity {
        Similarity::Ssd(_) => 3e-6,
        Similarity::Mi(_) | Similarity::Nmi(_) => 1e-3,
        _ => 3e-4,
    }
}

/// The default of each similarity, in words.
fn usual_weights() -> String {
    let all = Similarity::ALL.iter().filter(|kind| kind.has_energy());
    by_value(all.map(|kind| (kind.name(), usual_landmark_weight(kind).to_string())))
}

/// Weight of corresponding points.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct LandmarkWeight {
    /// Weight of the landmarks, 1/mm²: the mean squared distance times this is added to the energy of the images. A larger
    /// weight brings them closer together, and the images count less around them
    #[parameter(above = 0.0, unit = "W", says = usual_weights())]
    pub landmark_weight: Option<f64>,
}

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
    /// Weight of the landmarks.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub weight: Given<LandmarkWeight>,
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
        if self.landmarks.is_empty() && self.weight.has("landmark_weight") {
            return Err(Error::input(text!(
                "`landmark_weight` is for `landmarks`; give these, too"
            )));
        }
        self.weight.over(LandmarkWeight::USUAL)?.check()?;
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
