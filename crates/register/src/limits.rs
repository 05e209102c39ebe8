//! The bounds that verdicts ask for, in one place, and the data that they were chosen on. A record of a run
//! has them, so that a verdict can be read without the program that gave it.

use crate::choice::Choice;
use crate::similarity::{Limit, Similarity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bounds on an affine registration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AffineLimits {
    /// The least part of the smaller field of view that overlaps the other.
    pub overlap: f64,
    /// The factors by which lengths may change.
    pub lengths: (f64, f64),
    /// The factors by which volumes may change.
    pub volumes: (f64, f64),
    /// The least lead over the best alignment far from the result: below it, noise decides which of the two
    /// wins.
    pub lead: f64,
    /// The largest inverse-consistency error, mm.
    pub inverse_error: f64,
}

/// Bounds on a deformation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeformationLimits {
    /// The least part of the smaller field of view that overlaps the other under the affine part.
    pub overlap: f64,
    /// The largest mean inverse-consistency error over the grid, smallest voxels.
    pub mean_inverse_error: f64,
    /// The largest inverse-consistency error, smallest voxels.
    pub largest_inverse_error: f64,
    /// The least information that images share within their tissue, nats: noise or a plain shape can be
    /// deformed to any outline, not to what is within it.
    pub information: f64,
    /// The most harmonic energy for each nat of it.
    pub energy_per_information: f64,
    /// The least part of the information under the best affine transform that a deformation keeps.
    pub worth: f64,
}

/// The bounds on affine registrations.
pub const AFFINE: AffineLimits = AffineLimits {
    overlap: 0.3,
    lengths: (0.5, 2.0),
    volumes: (0.5, 1.8),
    lead: 0.05,
    inverse_error: 1e-3,
};

/// The bounds on deformations.
pub const DEFORMATION: DeformationLimits = DeformationLimits {
    overlap: 0.3,
    mean_inverse_error: 0.05,
    largest_inverse_error: 0.5,
    information: 0.17,
    energy_per_information: 2.0,
    worth: 0.8,
};

/// What the bounds lie between right and wrong results of.
const CHOSEN_ON: &str = "affine maps: heads, brains and lungs, with and without masks; deformations: hippocampi, \
                         slices of brains, brains at 2 mm, T1 with T2, CT, EPI and grey matter; docs/accuracy.md \
                         has the values, and what was held back";

/// All bounds, as records have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Of affine registrations.
    pub affine: AffineLimits,
    /// The costs above which images tell too little of each other, by similarity.
    pub costs: BTreeMap<String, Limit>,
    /// Of deformations.
    pub deformation: DeformationLimits,
    /// The data that they were chosen on.
    pub chosen_on: String,
}

impl Default for Limits {
    fn default() -> Self {
        let cost = |s: &Similarity| Some((s.name().to_owned(), s.of_sums()?.limit));
        Self {
            affine: AFFINE,
            costs: Similarity::ALL.iter().filter_map(cost).collect(),
            deformation: DEFORMATION,
            chosen_on: CHOSEN_ON.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_all_bounds() {
        let text = serde_json::to_string(&Limits::default()).unwrap();
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), Limits::default());
        for expected in ["\"lead\":0.05", "\"nmi\":{\"whole\":-1.09", "\"information\":0.17"] {
            assert!(text.contains(expected), "{expected} {text}");
        }
    }
}
