//! The bounds that verdicts ask for, in one place, and the data that they were chosen on. A record of a run
//! has them, so that a verdict can be read without the program that gave it.

use serde::{Deserialize, Serialize};

/// Bounds on an affine registration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AffineLimits {
    /// The least part of the smaller field of view that overlaps the other.
    pub overlap: f64,
    /// The least agreement of the whole images where masks keep a small part of them: of 32 wrong results it is -3.4 and
    /// less where nothing else tells, of 86 right ones -0.9 and more but for four that are right in the mask alone.
    pub unmasked: f64,
    /// The factors by which lengths may change.
    pub lengths: (f64, f64),
    /// The factors by which volumes may change.
    pub volumes: (f64, f64),
    /// The least [agreement](crate::evidence::Evidence::agreement) of the images.
    pub agreement: f64,
    /// The least lead of the information within tissue over other alignments, the logarithm of the ratio: an outline
    /// that fits says nothing of what is within it. It lies between those of images with one outline and unrelated
    /// insides (at most 0.03) and right ones (at least 0.10).
    pub tissue: f64,
    /// The least overlap (Dice) of what is foreground where the images share nothing within it: of a brain and its
    /// mask it is 0.94, of noise and one bright voxel next to nothing.
    pub foreground: f64,
    /// By how much more than the result an alignment that is mirrored may have: edges, as a part of what is
    /// missing of 1, and the logarithm of information. Where both are above the first pair (the second one in 2D) it is
    /// said; where they are above the last pair as well the result is bad.
    pub mirrored: [[f64; 2]; 3],
    /// The largest inverse-consistency error, mm.
    pub inverse_error: f64,
}

/// Records of earlier programs lack some.
impl Default for AffineLimits {
    fn default() -> Self {
        AFFINE
    }
}

/// Bounds on a deformation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    /// The least [agreement](crate::evidence::Evidence::agreement) of the images as they lie after it.
    pub agreement: f64,
    /// The least agreement under the affine map that is nearest to the whole, in which no bending helps. Of 279 right
    /// results it is -0.7 and more but for three whose wrong start was taken back in part; of 277 wrong ones that no
    /// other check tells it is -1.9 and less but for three (docs/accuracy.md).
    pub straight: f64,
    /// The least agreement of the whole images under that map where masks keep a small part of them.
    pub unmasked: f64,
    /// The least information within the tissue under that map, nats: of right results 0.059 and more, of the outline of a brain
    /// with another inside 0.015 and less.
    pub tissue: f64,
}

/// Records of earlier programs lack some.
impl Default for DeformationLimits {
    fn default() -> Self {
        DEFORMATION
    }
}

/// Bounds on corresponding points that pull.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LandmarkLimits {
    /// What is left of their mean distance.
    pub nearer: f64,
    /// The smallest voxels that they may always be apart where they are no farther apart than before.
    pub voxels: f64,
    /// Their largest mean distance as a part of that to the partners of others: of 28 right lists it is 0.07 and less,
    /// of 62 exchanged, reversed, shuffled or mirrored ones 0.27 and more but for one (0.08).
    pub of_others: f64,
    /// As a part of the same what they may always be apart.
    pub near_others: f64,
    /// The least information within the tissue where they pull, as a part of that under the affine transform alone.
    pub pays: f64,
    /// The part of them that may be nearer to each other's partners before the deformation.
    pub exchanged: f64,
}

/// Records of earlier programs lack them.
impl Default for LandmarkLimits {
    fn default() -> Self {
        LANDMARKS
    }
}

/// The bounds on corresponding points.
pub const LANDMARKS: LandmarkLimits = LandmarkLimits {
    nearer: 0.5,
    voxels: 2.0,
    of_others: 0.15,
    near_others: 0.075,
    pays: 0.9,
    exchanged: 0.1,
};

/// Bounds on an atlas.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AtlasLimits {
    /// The least information that subjects have of each other within the tissue, as a part of that after affine alignment, where their
    /// correlation did not gain: of 148 atlases it is 1.2 and more.
    pub gain: f64,
    /// The least gain of the mean correlation with the others: what interpolation may take.
    pub gain_of_correlation: f64,
    /// The largest root mean square of the mean logarithm of volume changes.
    pub bias: f64,
    /// How many times the median distance from the median a correlation with the others must be below it to be
    /// unlike the others (six are about four standard deviations), and by how much at least.
    pub unlike: f64,
    /// See there.
    pub unlike_least: f64,
    /// The part of the median correlation below which a subject lies elsewhere.
    pub lost: f64,
    /// The part of the median information that others have of each other within the tissue which a subject has at least. By
    /// `tools/calibrate_atlas.py`, 290 atlases of brains, hippocampi and slices: 0.58 and less of most that do not belong there (outlines of
    /// brains without their tissue 0.61), 0.615 and more of all that do.
    pub informed: f64,
    /// The same where its correlation with them is this many times as far from 1 as theirs: slices and brains of which a half is right
    /// or whose values are upside down have 0.68 to 0.72, and are 5 times as far; slices that are cut off 0.83, and 5 times as far.
    pub informed_apart: f64,
    /// See there.
    pub apart: f64,
}

/// Records of earlier programs lack them.
impl Default for AtlasLimits {
    fn default() -> Self {
        ATLAS
    }
}

/// The bounds on atlases.
pub const ATLAS: AtlasLimits = AtlasLimits {
    gain: 0.97,
    gain_of_correlation: -0.005,
    bias: 0.1,
    unlike: 6.0,
    unlike_least: 0.02,
    lost: 0.5,
    informed: 0.6,
    informed_apart: 0.75,
    apart: 4.5,
};

/// The bounds on affine registrations.
pub const AFFINE: AffineLimits = AffineLimits {
    overlap: 0.3,
    unmasked: -2.0,
    lengths: (0.5, 2.0),
    volumes: (0.5, 1.8),
    agreement: 0.0,
    tissue: 0.05,
    foreground: 0.7,
    mirrored: [[0.015, 0.01], [0.15, 0.05], [0.2, 0.2]],
    inverse_error: 1e-3,
};

/// The bounds on deformations.
pub const DEFORMATION: DeformationLimits = DeformationLimits {
    overlap: 0.3,
    mean_inverse_error: 0.05,
    largest_inverse_error: 0.5,
    information: 0.17,
    energy_per_information: 2.0,
    worth: 0.7,
    agreement: 0.0,
    straight: -1.0,
    unmasked: -2.0,
    tissue: 0.03,
};

/// How the leads of an alignment make one number, its agreement: [`Evidence::leads`](crate::evidence::Evidence::leads)
/// times these, and the last. A logistic regression of 574 right and 633 wrong affine maps of brains, heads, kinds of MR
/// and CT, lungs in CT and MR, hearts, hippocampi, histology, slices, tumours, phantoms, and images that do not belong
/// together; with any one of these kinds left out, of the others at most 2 of 8 wrong ones of a kind, and none of the right ones,
/// are on the wrong side (`tools/calibrate_affine.py`).
pub const AGREEMENT: ([f64; 6], f64) = ([2.912, 3.597, 2.315, 1.705, 4.492, 10.405], -5.270);

/// The part of an image's foreground that a mask has to keep for the rest to say nothing of an alignment.
pub const KEPT: f64 = 0.5;

/// What the bounds lie between right and wrong results of.
const CHOSEN_ON: &str = "affine maps: 574 right and 633 wrong ones of brains, heads, kinds of MR and CT, lungs in CT \
                         and MR, hearts, hippocampi, histology, slices, tumours and phantoms; deformations: \
                         279 right and 277 wrong ones of the same, and those of earlier tables (hippocampi, slices of \
                         brains, brains at 2 mm, T1 with T2, CT, EPI and grey matter); 28 right and 62 wrong lists of \
                         landmarks; atlases: 19 of right subjects, 7 with a wrong one; docs/accuracy.md has the values";

/// All bounds, as records have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Of affine registrations.
    pub affine: AffineLimits,
    /// How the leads of an affine registration make its agreement.
    #[serde(default)]
    pub agreement: ([f64; 6], f64),
    /// Of deformations.
    pub deformation: DeformationLimits,
    /// Of corresponding points that pull.
    #[serde(default)]
    pub landmarks: LandmarkLimits,
    /// Of atlases.
    #[serde(default)]
    pub atlas: AtlasLimits,
    /// The data that they were chosen on.
    pub chosen_on: String,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            affine: AFFINE,
            agreement: AGREEMENT,
            deformation: DEFORMATION,
            landmarks: LANDMARKS,
            atlas: ATLAS,
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
        for expected in ["\"agreement\":0.0", "\"agreement\":[[2.912", "\"information\":0.17"] {
            assert!(text.contains(expected), "{expected} {text}");
        }
    }
}
