//! The files that poses leave, for pipelines.

use super::track::TRACK;
use super::{CT_TO_ROOM, drr};
use crate::projection::VIEWS;
use crate::results::ResultFile;
use crate::run::TRANSFORM;

/// Those of single images and of sequences.
pub(crate) fn results() -> Vec<ResultFile> {
    vec![
        ResultFile::of("pose", TRANSFORM, "The pose: from the room to the world of the CT"),
        ResultFile::of(
            "inverse_pose",
            CT_TO_ROOM,
            "Its inverse: from the world of the CT to the room",
        ),
        ResultFile::of("views", VIEWS, "The refined views"),
        ResultFile::of("simulated", &drr("*"), "The simulated image of each view at the pose"),
        ResultFile::of("poses", TRACK, "The pose of each frame of a sequence"),
        ResultFile::record(),
        ResultFile::report(),
    ]
}
