//! The record of tracking a CT over a sequence of X-ray images.

use super::pose::PoseViewRecord;
use super::{GridRecord, Provenance, RunRecord, ViewRecord};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use voxalign_image::{Affine, Vector3};
use voxalign_register::Verdict;
use voxalign_register::numbers::null_is_nan;
use voxalign_register::projection::motion_of;
use voxalign_register::projection::register::{TrackStatus, Tracked};

record! {
    /// All that is worth keeping of a sequence: what its `result.json` holds. Numbers that are not finite are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    TrackRecord {
        /// The grid of the CT.
        pub grid: GridRecord,
        /// The views, with what came of the last frame that has a pose.
        pub views: Vec<PoseViewRecord>,
        /// Where the first search began: rows of the 3x4 matrix from the room to the world of the CT, mm.
        pub start: [[f64; 4]; 3],
        /// The pose of the last frame that has one, alike.
        pub pose: [[f64; 4]; 3],
        /// The point of the CT about which rotations are counted, in its own world, mm.
        pub centre_mm: [f64; 3],
        /// The frames.
        pub frames: Vec<FrameRecord>,
        /// Frames without a pose.
        pub lost: usize,
        /// Frames in a second, of those that were followed, without the time that they were waited for.
        #[serde(deserialize_with = "null_is_nan")]
        pub frames_per_second: f64,
        /// Why the sequence ended before its end; none where it did not.
        pub ended: Option<String>,
    }
}

/// The pose of a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// Its number, from 0.
    pub frame: usize,
    /// `found` after a search far around, `followed` from the frame before, or `lost`.
    pub status: String,
    /// Why it is lost; none where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pose, of a lost frame the last one before: rows of the 3x4 matrix from the room to the world of the CT, mm.
    pub pose: [[f64; 4]; 3],
    /// The translation of the CT in the room relative to its own world along x, y and z, after its rotation, mm.
    pub translation_mm: [f64; 3],
    /// Its rotation in the room, about axes through the centre along x, y and z, applied in this order, degrees.
    pub rotation_degrees: [f64; 3],
    /// The cost.
    #[serde(deserialize_with = "null_is_nan")]
    pub cost: f64,
    /// The correlation of the gradients of each view with those of the simulated image.
    #[serde(deserialize_with = "null_is_nan")]
    pub correlations: Vec<f64>,
    /// The distance of the pose that each view alone leads to from that of all views, in its image, mm at the place
    /// of the CT; none for a single view.
    #[serde(default, deserialize_with = "null_is_nan")]
    pub alone_mm: Vec<f64>,
    /// The fraction of the pixels of each view that were left out as not in the CT; none where the frame was
    /// compared as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<f64>,
    /// The time that it took, ms.
    pub milliseconds: f64,
    /// Frames in a second so far, with the time that they were waited for, from the end of the first frame on; none for that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames_per_second: Option<f64>,
}

impl FrameRecord {
    /// Of what was found in a frame, with rotations about `centre`, a point of the CT in its own world, mm.
    #[must_use]
    pub fn new(found: &Tracked, centre: Vector3<f64>) -> Self {
        let moved = motion_of(&found.transform, centre);
        let (status, reason) = match found.status {
            TrackStatus::Found => ("found", None),
            TrackStatus::Followed => ("followed", None),
            TrackStatus::Lost(loss) => ("lost", Some(loss.to_string())),
        };
        Self {
            frame: found.frame,
            status: status.to_owned(),
            reason,
            pose: found.transform.rows(),
            translation_mm: moved.translation.into(),
            rotation_degrees: moved.rotation.map(f64::to_degrees).into(),
            cost: found.cost,
            correlations: found.correlations.clone(),
            alone_mm: found.alone.clone(),
            left_out: found.left_out.clone(),
            milliseconds: 1e3 * found.seconds,
            frames_per_second: None,
        }
    }

    /// Whether it has a pose of its own.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.status != "lost"
    }

    /// The names of the columns of [`csv`](Self::csv).
    pub const COLUMNS: &'static str = "frame,status,translation_x,translation_y,translation_z,rotation_x,rotation_y,rotation_z,\
        centre_x,centre_y,centre_z,cost,correlation_least,milliseconds,m11,m12,m13,m14,m21,m22,m23,m24,m31,m32,m33,m34,reason";

    /// The least correlation of all views.
    #[must_use]
    pub fn least_correlation(&self) -> f64 {
        let all = self.correlations.iter().copied();
        all.fold(f64::NAN, |least, v| if least.is_nan() || v < least { v } else { least })
    }

    /// The frame as a line of a table, with the numbers of the pose, mm and degrees, the centre of rotation, and
    /// the matrix of the pose row by row; unknown cells are empty. `drr` takes the poses of such a table.
    #[must_use]
    pub fn csv(&self, centre: [f64; 3]) -> String {
        let mut line = format!("{},{}", self.frame, self.status);
        for value in self.translation_mm.iter().chain(&self.rotation_degrees).chain(&centre) {
            // No -0.
            let _ = write!(line, ",{}", (value * 1e7).round() / 1e7 + 0.0);
        }
        for value in [self.cost, self.least_correlation(), self.milliseconds] {
            match value.is_finite() {
                true => _ = write!(line, ",{value:.5}"),
                false => line.push(','),
            }
        }
        for value in self.pose.iter().flatten() {
            let _ = write!(line, ",{value}");
        }
        let _ = write!(line, ",{}", self.reason.as_deref().unwrap_or_default());
        line
    }
}

/// The properties of a sequence.
#[derive(Debug)]
pub struct Sequence {
    /// The grid of the CT.
    pub grid: GridRecord,
    /// The views, each with the region that counted.
    pub views: Vec<(ViewRecord, Option<[usize; 4]>)>,
    /// Where the first search began.
    pub start: Affine,
    /// The point of the CT about which rotations are counted, in its own world.
    pub centre: Vector3<f64>,
    /// The frames.
    pub frames: Vec<FrameRecord>,
    /// Why it ended before its end.
    pub ended: Option<String>,
}

impl TrackRecord {
    /// The record of a sequence that begins with program, machine, inputs and parameters of `run`.
    #[must_use]
    pub fn new(mut run: RunRecord, sequence: Sequence, verdict: Verdict) -> Self {
        let parameters = std::mem::take(&mut run.parameters);
        let Sequence { grid, views, start, centre, frames, ended } = sequence;
        let last = frames.iter().rev().find(|f| f.is_good());
        let views = views.into_iter().enumerate().map(|(i, of)| {
            let found = last.and_then(|f| f.correlations.get(i).copied());
            let correlation_of_gradients = found.unwrap_or(f64::NAN);
            PoseViewRecord { correlation_of_gradients, ..PoseViewRecord::new(of) }
        });
        let views = views.collect();
        let followed = || frames.iter().filter(|f| f.status == "followed");
        let seconds: f64 = followed().map(|f| f.milliseconds / 1e3).sum();
        let frames_per_second = followed().count() as f64 / seconds;
        Self {
            provenance: Provenance::from(run),
            parameters,
            grid,
            views,
            start: start.rows(),
            pose: last.map_or(start.rows(), |f| f.pose),
            centre_mm: centre.into(),
            lost: frames.iter().filter(|f| !f.is_good()).count(),
            frames,
            frames_per_second,
            ended,
            verdict,
            ..Self::default()
        }
    }
}
