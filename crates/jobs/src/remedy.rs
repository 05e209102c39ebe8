//! Remedies for failed checks, with the names of options.

use voxalign_options::{Choice, Text, text};
use voxalign_register::Remedy;

/// The job that words a verdict: each has options of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    Affine,
    /// Of images of two dimensions.
    AffineOfSlices,
    Deform,
    Elastic,
    Atlas,
    Pose,
    Surface,
    Segment,
}

impl Speaker {
    /// Of an affine map of images of two dimensions, or of three.
    pub(crate) fn affine(flat: bool) -> Self {
        if flat { Self::AffineOfSlices } else { Self::Affine }
    }
}

/// What helps, as a job says it.
pub(crate) fn words(remedy: Remedy, speaker: Speaker) -> Text {
    use Speaker::{Affine, AffineOfSlices, Atlas, Deform, Elastic, Pose, Segment, Surface};
    match (remedy, speaker) {
        (Remedy::FewerFreedoms, AffineOfSlices) => {
            text!(
                "sizes change more than they do between slices of one object: check the pixel size of both images (`voxalign info`), \
             use fewer degrees of freedom (`dof = 3` rigid, `dof = 4` with one scale), or start from the headers by `init = header` \
             `search = local`"
            )
        }
        (remedy, AffineOfSlices) => words(remedy, Affine),
        (Remedy::OtherSimilarity, Affine) => {
            text!(
                "the images have little in common where they were laid on each other: look at the pictures, leave \
             `rescue = off` out, which tries other costs and starts, or give a mask where one image shows what the other \
             does not, such as a skull"
            )
        }
        (Remedy::BelongTogether, Affine) => {
            text!(
                "the images have little in common where they were laid on each other, and other costs, starts and fewer \
             degrees of freedom found nothing better (the record has them): look at the pictures, check that they show \
             the same part of the body, start from points by `init = landmarks:FIXED.csv,MOVING.csv`, or give a mask \
             where one image shows what the other does not, such as a skull"
            )
        }
        (Remedy::Handedness, Affine) => {
            text!(
                "one of the images seems to be mirrored: check left and right in its header (`voxalign info`), and how it was \
             converted"
            )
        }
        (Remedy::WiderMask, Affine | Deform | Elastic) => {
            text!(
                "what the masks keep fits, but the images as a whole do not: look at the pictures, and give a mask that keeps \
             more of the object, or a start near the right alignment by `init`"
            )
        }
        (Remedy::SmallerSearch, Affine) => {
            text!(
                "the search ended at a higher cost than it started from: start nearer by `init`, or search less far by \
             `search_angles`"
            )
        }
        (Remedy::NearerStart, Affine) => {
            text!(
                "the images hardly show the same place: check that they belong together, or start nearer by \
             `init` FILE and `search = local`"
            )
        }
        (Remedy::FewerFreedoms, Affine) => {
            text!(
                "sizes change more than they differ between people: use fewer degrees of freedom (`dof = 6` for \
             one person), or start from the headers by `init = header` `search = local`"
            )
        }
        (Remedy::SingleOut, Affine) => {
            text!(
                "another alignment, far from this one, matches nearly as well: narrow `search_angles`, start \
             nearer by `init`, or give a mask where one image shows what the other does not, such as a \
             skull; if the mask cuts close to what it keeps, dilate it"
            )
        }
        (Remedy::Smoother, Deform | Atlas) => {
            text!("use a smaller `step`, or more smoothing (`sigma`, `total_sigma`, or `alpha`)")
        }
        (Remedy::Smoother, Elastic) => {
            text!(
                "use a smaller `force_scale`, a stiffer body (`young`, `materials`), or a coarser mesh (`mesh_spacing`)"
            )
        }
        (Remedy::OtherAffinePart, Deform | Elastic) => {
            text!(
                "the affine part decides: run `voxalign affine` with other options, look at its report, and \
             give its transform by `affine` FILE; `affine = none` where the headers agree to some voxels"
            )
        }
        (Remedy::BetterStart, Deform | Elastic) => {
            text!(
                "start nearer: leave `affine` out, or give a transform that `voxalign affine` found"
            )
        }
        (Remedy::SameTissue, Deform | Elastic) => {
            text!(
                "the images have little in common where both show tissue: check that they show the same part \
             of the body, and that they lie on each other at the start; between kinds of image try \
             `similarity = mi`"
            )
        }
        (Remedy::Landmarks, Deform) => {
            text!(
                "check that the points of both lists of `landmarks` are in the same order and in the world of \
             `point_convention`; give a larger `landmark_weight`, or start nearer by `init` and the same landmarks"
            )
        }
        (Remedy::Shapes, Deform) => {
            text!(
                "check that what has one name in both anatomies is one structure, on one side, in the world of its image (space \
             in the file); start nearer by `init` or `affine` FILE, or give it a larger weight or width in the fixed anatomy"
            )
        }
        (Remedy::MoreAlike, Atlas) => {
            text!(
                "the deformations did not make the subjects more alike: look at them, try `similarity = lncc` or \
             more iterations"
            )
        }
        (Remedy::Centred, Atlas) => text!("leave `centre = false` out; use more smoothing"),
        (Remedy::OtherSimilarity, Pose) => {
            text!(
                "the X-ray images and the simulated ones have little in common: look at the pictures, check \
             `geometry` and `pixels`, and try another `similarity`, or a `region` without what the CT does not show"
            )
        }
        (Remedy::SmallerSearch, Pose) => {
            text!(
                "the search ended at a higher cost than it started from: start nearer by `init`, or search less far by `range`"
            )
        }
        (Remedy::NearerStart, Pose) => {
            text!(
                "the CT projects almost entirely outside the views: check `geometry`, start nearer by `init` or `init_translation`, or give `search = full`"
            )
        }
        (Remedy::SingleOut, Pose) => {
            text!(
                "the pose is not certain: another matches nearly as well; give another view, a `region` around what \
             is rigid, or a start near it by `init` (a file, or `points:CT.csv,XRAY.csv`), `init_rotation` and \
             `init_translation`"
            )
        }
        (Remedy::Measured, Pose) => {
            text!(
                "the verdict needs what was not measured: give `restarts` of 1 or more, and leave `levels` out or give finer ones"
            )
        }
        (Remedy::Geometry, Pose) => {
            text!(
                "the views do not agree with each other or with the CT: check the distances, the size of pixels and the angles \
             in `geometry`, that the images are in the order of its views, and that CT and images are of the same size; try \
             each view alone"
            )
        }
        (Remedy::OtherRotation, Pose) => {
            text!(
                "a pose of another rotation, such as a half turn, fits better: give `search = full`, or a start near it by `init` or \
             `init_rotation`"
            )
        }
        (Remedy::OtherImages, Pose) => {
            text!(
                "the images fit better otherwise: check that each is that of its view in `geometry`, and that none is mirrored"
            )
        }
        (Remedy::CloserSurface, Surface) => {
            text!(
                "the surface is not where the voxels have it: give less `smoothing` or `sigma`, more `triangles`; where \
             neither is given, the object is too thin for its voxels: resample it onto finer ones"
            )
        }
        (Remedy::SmootherSurface, Surface) => {
            text!(
                "parts of the surface lie on each other: give another `smoothing`, a `sigma` of about a voxel, or more \
             `triangles`"
            )
        }
        (Remedy::OtherFront, Segment) => {
            text!(
                "the front vanished or took in the whole image: check which side is the object (`object`, `object_classes`, the signs of `speed` \
             and `pressure`), give a smaller `curvature` or `smooth`, or another `init`"
            )
        }
        (Remedy::MoreIterations, Segment) => {
            text!(
                "the front had not come to rest: give more `iterations`, leave `iterations` out, or give smaller shapes by `init_size`"
            )
        }
        (Remedy::OtherForce, Segment) => {
            text!(
                "the front is not where the image has an edge, or the regions hardly differ: look at the pictures, try another `force`, more `regions` or `classes`, or a \
             `prior_mask` around what matters"
            )
        }
        (Remedy::IterationsOfPreset, Segment) => {
            text!("the front had not come to rest: give more `iterations` (100 without)")
        }
        (Remedy::OtherPreset, Segment) => {
            text!(
                "the image is not as the `preset` expects (white matter: T1-weighted, without skull for white-matter, the whole head for white-matter-head; bone: CT in Hounsfield \
                 units with some air): look at the pictures, choose another `preset`, or give a `force`"
            )
        }
        (Remedy::StartDecides, Segment) => {
            text!(
                "another start led to another result: say which region is the object by `object` or `object_classes`, or start from a mask near it by \
             `init = mask`"
            )
        }
        (remedy, _) => remedy.summary().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Caller;
    use voxalign_register::{Check, Verdict};

    #[test]
    fn remedies_are_said_with_the_options_of_the_job() {
        let bad = Check::none("folded voxels", 3).or(Remedy::Smoother);
        let verdict =
            Caller::default().worded(Verdict::new(vec![bad], Vec::new()), Speaker::Deform);
        assert!(verdict.remedies()[0].contains("`sigma`"), "{verdict:?}");
        assert_eq!(verdict.checks[0].remedy_code, Some(Remedy::Smoother));
        for &remedy in Remedy::ALL {
            for speaker in [Speaker::Affine, Speaker::Deform, Speaker::Elastic, Speaker::Atlas] {
                assert!(words(remedy, speaker).to_string().len() > 20);
            }
        }
        for (flat, dof) in [(true, "`dof = 3` rigid"), (false, "`dof = 6`")] {
            let said = words(Remedy::FewerFreedoms, Speaker::affine(flat)).to_string();
            assert!(said.contains(dof), "{said}");
        }
        let slices = words(Remedy::Handedness, Speaker::AffineOfSlices).to_string();
        assert_eq!(slices, words(Remedy::Handedness, Speaker::Affine).to_string());
    }
}
