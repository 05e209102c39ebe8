//! The bounds of all verdicts, in one place, with the data that they were calibrated on. The record of a run
//! includes them, so that a verdict can be read without the program that gave it.

use serde::{Deserialize, Serialize};

/// Declares bounds with their values; records of earlier programs, which lack some, are read with these.
macro_rules! limits {
    ($(
        $(#[$about:meta])*
        $kind:ident, $all:ident { $($(#[$doc:meta])* $name:ident: $type:ty = $value:expr,)* }
    )*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $kind { $($(#[$doc])* pub $name: $type,)* }

        $(#[$about])*
        pub const $all: $kind = $kind { $($name: $value,)* };

        impl Default for $kind {
            fn default() -> Self {
                $all
            }
        }
    )*};
}

limits! {
    /// Bounds on an affine registration.
    AffineLimits, AFFINE {
        /// The least fraction of the smaller field of view that overlaps the other.
        overlap: f64 = 0.3,
        /// The least agreement of the whole images where masks exclude most of them: at most -3.4 for 32 wrong
        /// results that nothing else reveals, at least -0.9 for 86 right ones except four that are right inside the
        /// mask only.
        unmasked: f64 = -2.0,
        /// The range of length scale factors.
        lengths: (f64, f64) = (0.5, 2.0),
        /// The range of volume scale factors.
        volumes: (f64, f64) = (0.5, 1.8),
        /// The least [agreement](crate::evidence::Evidence::agreement) of the images.
        agreement: f64 = 0.0,
        /// The least lead in information within tissue over other alignments, the logarithm of the ratio: an
        /// outline that fits proves nothing about the inside. It lies between images with the same outline and
        /// unrelated insides (at most 0.03) and right results (at least 0.10).
        tissue: f64 = 0.05,
        /// The same of slices: of stained sections that are right it is 0.037 and more, of mirrored ones that agree -0.07 and less
        /// (docs/accuracy.md).
        tissue_of_slices: f64 = 0.0,
        /// The least Dice overlap of the foregrounds where the images share nothing inside them: 0.94 for a brain
        /// and its mask, next to nothing for noise and one bright voxel.
        foreground: f64 = 0.7,
        /// The lead over the result that a mirrored alignment may have: edges, as a fraction of what is missing to
        /// 1, and the logarithm of the ratio of information. Where both exceed the first pair (the second one in
        /// 2D) a remark says so; where they exceed the last pair as well the result is bad: both exceed 0.005 of no right result in 3D,
        /// of the same head, chest or breast with left and right exchanged mostly 0.49 and 0.19 or more.
        mirrored: [[f64; 2]; 3] = [[0.015, 0.01], [0.15, 0.05], [0.35, 0.12]],
        /// The largest inverse-consistency error, mm.
        inverse_error: f64 = 1e-3,
    }

    /// Bounds on a deformation.
    DeformationLimits, DEFORMATION {
        /// By how much the energy may rise over all scales: energies are of the order of a hundredth and more, and those of
        /// a pair that is exact already change by less where they are least from the beginning.
        energy_rise: f64 = 1e-6,
        /// The least fraction of the smaller field of view that overlaps the other under the affine part.
        overlap: f64 = 0.3,
        /// The largest mean inverse-consistency error over the grid, smallest voxels.
        mean_inverse_error: f64 = 0.05,
        /// The largest inverse-consistency error, smallest voxels.
        largest_inverse_error: f64 = 0.5,
        /// The least information that images share within their tissue, nats: noise or a plain shape can be
        /// deformed to any outline, not to what is within it.
        information: f64 = 0.17,
        /// The same where the transform is next to an affine map under which the images agree (0 or more): [how far from it](crate::diffeo::DeformationEvidence::bent) at
        /// most, and the information. What hardly bends proves its inside as an affine map does.
        unbent: (f64, f64) = (0.03, 0.1),
        /// The most harmonic energy for each nat of it.
        energy_per_information: f64 = 2.0,
        /// The same where the images agree (0 or more) under the affine map that the deformation starts from: a right pair of lungs has 2.4,
        /// and no wrong result that passes all other checks has more than 2 (docs/accuracy.md).
        energy_where_aligned: f64 = 3.0,
        /// The least fraction of the information under the best affine transform that a deformation keeps.
        worth: f64 = 0.7,
        /// The least [agreement](crate::evidence::Evidence::agreement) of the images after the deformation.
        agreement: f64 = 0.0,
        /// The same of a deformation that confirms an affine part under which the images agree too little, as images of two kinds do where
        /// bodies are bent much: of heads of two kinds that end where they belong 11 and more, of images that do not belong together 5.9 and
        /// less where nothing else tells them, of a phantom that is turned 5.7 (docs/accuracy.md).
        confirms: f64 = 6.0,
        /// The least agreement under the affine map nearest to the whole transform, without any bending. At least
        /// -0.8 for 300 right results except three whose wrong start was partly undone, and one under a mask of a half; at most -1.9 for
        /// those of 299 wrong ones that no other check reveals, except two (docs/accuracy.md).
        straight: f64 = -1.0,
        /// The least agreement of the whole images under that map where masks keep a small part of them.
        unmasked: f64 = -2.0,
        /// The least information within the tissue under that map, nats: of right results 0.052 and more, of the outline of a brain
        /// with another inside 0.049 and less.
        tissue: f64 = 0.05,
    }

    /// Bounds on corresponding points that pull.
    LandmarkLimits, LANDMARKS {
        /// The remaining fraction of their mean distance.
        nearer: f64 = 0.5,
        /// The distance in smallest voxels that is always allowed where they are no farther apart than before.
        voxels: f64 = 2.0,
        /// Their largest mean distance as a part of that to the partners of others: of 28 right lists it is 0.07 and less,
        /// of 62 exchanged, reversed, shuffled or mirrored ones 0.27 and more but for one (0.08).
        of_others: f64 = 0.15,
        /// As a part of the same what they may always be apart.
        near_others: f64 = 0.075,
        /// The least information within the tissue where they pull, as a part of that under the affine transform alone.
        pays: f64 = 0.9,
        /// The part of them that may be nearer to each other's partners before the deformation: of 28 right lists none is, of reversed and
        /// shuffled ones 0.27 and more.
        exchanged: f64 = 0.1,
        /// The part of the distances of two landmarks that is left with their partners exchanged where they are in the wrong order. What
        /// moves neighbours alike never makes them so: the sum of distances of exchanged partners is at least twice a common displacement.
        exchanged_shorter: f64 = 0.5,
        /// The least decrease then, in smallest voxels.
        exchanged_voxels: f64 = 4.0,
    }

    /// Bounds on anatomies: how classes, shapes and labels fare. The calibration of docs/accuracy.md (45 right and 84 wrong
    /// registrations, and as many set aside) was made with them; nothing was chosen on it.
    AnatomyLimits, ANATOMY {
        /// The largest decrease of the overlap of a class.
        overlap_loss: f64 = 0.01,
        /// The largest decrease of the mean Dice of labels that took no part.
        dice_loss: f64 = 0.01,
        /// The mean distance that shapes may keep, in widths of their kernels: what is nearer hardly pulls.
        widths: f64 = 0.5,
        /// The voxels that it may always be.
        voxels: f64 = 1.5,
        /// The centres of two shapes are swapped if they are nearer to each other's partner than this fraction of
        /// the distance to their own.
        exchanged: f64 = 0.5,
    }

    /// Bounds on an elastic body.
    ElasticLimits, ELASTIC {
        /// The least volume of a tetrahedron over that at rest: steps are cut before it is a twentieth.
        volume: f64 = 0.25,
        /// The largest norm of strain without a remark: linear elasticity is for small strains.
        strain: f64 = 0.5,
        /// By how much a volume that was brought to slices agrees with each of them more than with other places of it, at least: see
        /// [`SliceEvidence::margin`](crate::diffeo::SliceEvidence::margin).
        slice: f64 = 0.42,
        /// The same by information, of images of other contrasts.
        slice_by_information: f64 = 0.15,
    }

    /// Bounds on an atlas.
    AtlasLimits, ATLAS {
        /// The least information that subjects have of each other within the tissue, as a part of that after affine alignment, where their
        /// correlation did not gain: of 148 atlases it is 1.2 and more.
        gain: f64 = 0.97,
        /// The least gain of the mean correlation with the others: what interpolation may take.
        gain_of_correlation: f64 = -0.005,
        /// The information below which images have none of each other within the tissue, nats: masks have nothing there.
        tells: f64 = 0.05,
        /// The largest root mean square of the mean logarithm of volume changes.
        bias: f64 = 0.1,
        /// The fewest subjects of which one can be unlike the others.
        fewest: usize = 4,
        /// How many times the median distance from the median a correlation with the others must be below it to be
        /// unlike the others (six are about four standard deviations), and by how much at least.
        unlike: f64 = 6.0,
        /// See there.
        unlike_least: f64 = 0.02,
        /// The fraction of the median correlation below which a subject is not aligned with the template.
        lost: f64 = 0.5,
        /// The part of the median information that others have of each other within the tissue which a subject has at least. By
        /// `tools/calibrate_atlas.py`, 290 atlases of brains, hippocampi and slices: 0.58 and less of most that do not belong there (outlines of
        /// brains without their tissue 0.61), 0.615 and more of all that do.
        informed: f64 = 0.6,
        /// The same where its correlation with them is this many times as far from 1 as theirs: slices and brains of which a half is right
        /// or whose values are upside down have 0.68 to 0.72, and are 5 times as far; slices that are cut off 0.83, and 5 times as far.
        informed_apart: f64 = 0.75,
        /// See there.
        apart: f64 = 4.5,
        /// The effective number of subjects below which an atlas of a regression shows some of them more than a population.
        effective_number: f64 = 3.0,
        /// The fraction of the atlases of a permutation test that may be bad.
        unusable: f64 = 0.05,
    }

    /// Bounds on a pose of a CT. They were chosen on two seeds of the kinds of `tools/calibrate_poses.py` and on a wrist; what of right and
    /// wrong poses they call good is in docs/accuracy.md. Pixels are those at the place of the CT.
    PoseLimits, POSE {
        /// The correlation of gradients within blocks that a view has at least: the median. Right poses of a wrist have 0.74 and more in the
        /// worse view, wrong ones 0.50 and less.
        alike: f64 = 0.7,
        /// The largest rise in cost from the start.
        cost_rise: f64 = 1e-3,
        /// The fraction of the pixels that see the CT.
        seen: f64 = 0.1,
        /// The largest median distance of restarts from the result in the images, pixels.
        restarts: f64 = 1.5,
        /// The least margin in cost over the best pose elsewhere, as a fraction of its cost. One vertebra away it
        /// is at most 0.004 for wrong poses of a chest, and at least 0.37 for right ones.
        lead: f64 = 0.05,
        /// The largest distance of outlines from those of the result, in pixels: the first number is the sampling
        /// error; blocks of lower correlation `ρ` are localised less well, by the second number times `√(1/ρ² −
        /// 1)`.
        outlines: [f64; 2] = [0.15, 0.4],
        /// The largest distance of the pose of a single view from that of all views, in its image, in pixels.
        alone: f64 = 0.12,
        /// The same in standard deviations of the pose, which count up to a pixel; both are added as sides of a right angle.
        alone_deviations: f64 = 2.0,
        /// The largest shift of a pose with the geometry of the views free: in pixels, and in standard deviations.
        moves: [f64; 2] = [1.0, 3.0],
        /// The standard deviation that a pose may have where a geometry was refined, in pixels.
        refined: f64 = 1.0 / 3.0,
        /// The largest gain in cost of mirrored or swapped images, as a fraction of the cost.
        suspect: f64 = 0.05,
        /// The largest distance of a result from the start, as a fraction of the search range, unless it has the
        /// second lead over all other rotations.
        beyond: f64 = 1.5,
        /// See there.
        beyond_lead: f64 = 0.1,
    }

    /// Bounds on a frame of a sequence that is followed; what they call right and wrong ones is in docs/accuracy.md.
    TrackLimits, TRACK {
        /// The least gradient correlation of a frame, as a fraction of the usual one, and that of a frame at which
        /// a lost track is found again, as a fraction of [`PoseLimits::alike`].
        share: f64 = 0.6,
        /// The largest distance of the pose of a single view from that of all views, in its image, in pixels at the
        /// place of the CT. By `tools/calibrate_track.py`: at most 0.16 in 1042 of 1049 right frames without a
        /// border, at least 0.19 in 272 wrong ones whose views contradict each other.
        alone: f64 = 0.18,
        /// The same in standard deviations of the pose that was searched last, as [`PoseLimits::alone_deviations`].
        alone_deviations: f64 = 2.0,
    }

    /// Bounds on a surface of voxels, from 277 labels of two brains at 1 mm (docs/surface.md).
    SurfaceLimits, SURFACE {
        /// The largest deviation, per cent, of the volume within the surface, or the area within outlines, from
        /// that of the voxels: 15 labels exceed it, all of them too small or thin for their voxels.
        volume: f64 = 10.0,
        /// The largest 95th percentile of distances from the isosurface, in largest voxel sides, and in addition in
        /// standard deviations of the Gaussian.
        most_of_it: [f64; 2] = [0.5, 0.25],
        /// The largest distance of all, in voxel diagonals, and in addition in standard deviations of the Gaussian,
        /// which takes tips off.
        all_of_it: [f64; 2] = [1.0, 2.0],
    }

    /// Bounds on a segmentation; `docs/segment.md` counts the right and wrong results that they are from.
    SegmentLimits, SEGMENT {
        /// The range of the part of the image that is inside, where a dense start can find anything.
        part: (f64, f64) = (1e-4, 0.9),
        /// The least Dice of the result and that of a start which is moved by half the distance of its shapes: of 47 right results 0.946 and more, of
        /// white noise mostly 0.85 and less.
        agreement: f64 = 0.93,
        /// The least contrast at voxels that the front has not seen, in standard deviations: white noise has next to none.
        held_out: f64 = 0.9,
        /// The least part of the step between both sides that lies next to the front: ramps and smooth fields have 0.36 and less, edges of right
        /// results 0.39 and more.
        share: f64 = 0.4,
        /// The part of the variance between both sides from which on the second is enough for that, as of blurred images.
        blurred: (f64, f64) = (0.78, 0.25),
        /// From which part of what ranges of intensities explain of an image on regions of one intensity each are no more than such ranges: of blurred noise 0.96 and more. They
        /// then have to explain more than those of a bell curve would.
        ranges: f64 = 0.9,
        /// White matter: the least distance of its mean from that of grey matter, in standard deviations within tissues: 2.7 to 3.3 of people, 1.5 of an average of many.
        gap: f64 = 1.4,
        /// The range of the same distance from cerebrospinal fluid: 7.7 to 9.1 of people, 5.6 with 10 % of noise.
        span: (f64, f64) = (5.2, 12.0),
        /// The range of the volume that is taken for the brain, ml: of adults 1000 to 1900, of whole heads 2500 and more.
        brain: (f64, f64) = (300.0, 2300.0),
        /// The range of the part of the brain that is white matter: 0.28 to 0.36 of people, 0.2 to 0.5 of other T1-weighted images.
        white: (f64, f64) = (0.15, 0.55),
        /// The greatest part of the brain's rim that is, in proportion to that of the whole: 0.09 and less, as grey matter lies there.
        rim: f64 = 0.2,
        /// The least part of white matter that is connected: 0.97 and more.
        largest: f64 = 0.9,
        /// The range of the part of a head that is white matter.
        white_of_head: (f64, f64) = (0.04, 0.3),
        /// The range of its volume, ml: 480 and 495 of two people, and much more with scalp and neck.
        white_ml: (f64, f64) = (150.0, 900.0),
        /// Bone: the intensity that a hundredth of an image in Hounsfield units is below, where there is air in it.
        air: f64 = -500.0,
        /// The range of the median of what is above -500 HU there: tissue.
        tissue: (f64, f64) = (-200.0, 250.0),
        /// The range of the part of such an image that is bone.
        bone: (f64, f64) = (0.001, 0.3),
        /// Bones that have been cut out: the range of the intensity that a hundredth is below, HU, as fat of marrow: -310 to -260; of MR 70 and more.
        marrow: (f64, f64) = (-500.0, 0.0),
        /// The least intensity that a hundredth of them is above, HU.
        compact: f64 = 1500.0,
        /// The range of the part of them that is bone: 0.69 to 0.75; of brains 0.96 and more.
        bone_of_cut_out: (f64, f64) = (0.2, 0.9),
    }
}

/// How the leads of an alignment make one number, its agreement: [`Evidence::leads`](crate::evidence::Evidence::leads)
/// times these, and the last. A logistic regression of 574 right and 633 wrong affine maps of brains, heads, kinds of MR
/// and CT, lungs in CT and MR, hearts, hippocampi, histology, slices, tumours, phantoms, and images that do not belong
/// together; with any one of these kinds left out, of the others at most 2 of 8 wrong ones of a kind, and none of the right ones,
/// are on the wrong side (`tools/calibrate_affine.py`).
pub const AGREEMENT: ([f64; 6], f64) = ([2.912, 3.597, 2.315, 1.705, 4.492, 10.405], -5.270);

/// The fraction of an image's foreground that a mask must include for the rest to be ignored in the evidence.
pub const KEPT: f64 = 0.5;

/// The data that the bounds were calibrated on.
const CHOSEN_ON: &str = "affine maps: 574 right and 633 wrong ones of brains, heads, kinds of MR and CT, lungs in CT \
                         and MR, hearts, hippocampi, histology, slices, tumours and phantoms; deformations: \
                         279 right and 277 wrong ones of the same, 358 of bodies that are bent much, and those of earlier tables (hippocampi, slices of \
                         brains, brains at 2 mm, T1 with T2, CT, EPI and grey matter); 28 right and 62 wrong lists of \
                         landmarks; atlases: 19 of right subjects, 7 with a wrong one; poses: two of each kind of a head and a chest, \
                         and a wrist; surfaces: 277 labels of brains; segmentations: none yet; docs/accuracy.md and docs/surface.md have the values";

/// All bounds, as records have them; those that a record of an earlier program lacks are the present ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Of affine registrations.
    pub affine: AffineLimits,
    /// How the leads of an affine registration make its agreement.
    pub agreement: ([f64; 6], f64),
    /// Of deformations.
    pub deformation: DeformationLimits,
    /// Of corresponding points that pull.
    pub landmarks: LandmarkLimits,
    /// Of anatomies.
    pub anatomy: AnatomyLimits,
    /// Of elastic bodies.
    pub elastic: ElasticLimits,
    /// Of atlases.
    pub atlas: AtlasLimits,
    /// Of poses.
    pub pose: PoseLimits,
    /// Of sequences.
    pub track: TrackLimits,
    /// Of surfaces.
    pub surface: SurfaceLimits,
    /// Of segmentations.
    pub segment: SegmentLimits,
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
            anatomy: ANATOMY,
            elastic: ELASTIC,
            atlas: ATLAS,
            pose: POSE,
            track: TRACK,
            surface: SURFACE,
            segment: SEGMENT,
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
