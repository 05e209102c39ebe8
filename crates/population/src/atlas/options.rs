//! The options of an atlas.

use crate::error::{PopulationError, Result};
use serde::{Deserialize, Serialize};
use voxalign_register::diffeo::{DeformModel, Matching, Multiscale, check_similarity};
use voxalign_register::multiscale::Schedule;
use voxalign_register::numbers::null_is_nan;
use voxalign_register::similarity::Similarity;

/// How a channel is compared with that of the template.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtlasChannel {
    /// By what.
    pub similarity: Similarity,
    /// The factor of its energy; 0 for a channel that is carried along, and pulls nothing.
    pub weight: f64,
}

/// What the construction of an atlas can be told.
#[derive(Debug, Clone, PartialEq)]
pub struct AtlasOptions {
    /// How each image is matched to the template.
    pub matching: Matching,
    /// How each channel of an image is compared with that of the template.
    pub similarity: Similarity,
    /// What each channel counts, and how it is compared, where that is not the same for all: one for each, or none.
    pub channels: Vec<AtlasChannel>,
    /// Whether the mean displacement is taken back at the end of each scale, so that the template has
    /// the mean shape of its images.
    pub centre: bool,
}

impl AtlasOptions {
    /// What is usual for a model.
    #[must_use]
    pub fn of(model: DeformModel) -> Self {
        let matching = Matching {
            // Section 2.4 of Ha (2011): 25 coarse and 50 fine iterations; one scale more in front.
            multiscale: Multiscale {
                schedule: Schedule::of(&[(4, 50), (2, 50), (1, 25)]),
                convergence: 0.0,
                ..Multiscale::default()
            },
            ..Matching::of(model)
        };
        let (similarity, channels) = (Similarity::LNCC, Vec::new());
        Self { matching, similarity, channels, centre: true }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// A value that cannot be used, with what can.
    pub fn check(&self) -> Result<()> {
        self.matching.check()?;
        self.matching.model.check_cohort()?;
        check_similarity(&self.similarity)?;
        for channel in &self.channels {
            check_similarity(&channel.similarity)?;
            if !(channel.weight >= 0.0 && channel.weight.is_finite()) {
                return Err(PopulationError::option(
                    "channel weight",
                    channel.weight,
                    "give a number of 0 or more",
                ));
            }
        }
        Ok(())
    }
}

impl Default for AtlasOptions {
    fn default() -> Self {
        Self::of(DeformModel::default())
    }
}

/// What happened at an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sharpness {
    /// How many times longer voxels were than those of the finest grid.
    pub factor: usize,
    /// The number of the iteration at its scale, from 0; that of the template before it.
    pub iteration: usize,
    /// The entropy of the template's intensities over all voxels, bits: 64 bins from 0 to 1. It falls while
    /// the template sharpens.
    #[serde(deserialize_with = "null_is_nan")]
    pub entropy: f64,
    /// The mean square of the template's gradient, 1/mm². It rises while the template sharpens.
    #[serde(deserialize_with = "null_is_nan")]
    pub gradient_energy: f64,
}
