//! How a pose is searched.

use super::geometry::Refinement;
use super::metal::Metal;
use super::relation::Response;
use crate::choice::choices;
use crate::error::{RegisterError, Result};
use crate::projection::similarity::XraySimilarity;
use crate::search::OptimiserKind;
use serde::{Deserialize, Serialize};
use voxalign_image::Vector3;

/// How far from its world's origin a point of a CT is at most, mm.
const FARTHEST: f64 = 1e5;

/// How far from the start the poses are that a search begins with: along and about each axis of the room.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Translation, mm.
    pub translation: f64,
    /// Rotation, radians.
    pub rotation: f64,
}

impl Default for Range {
    /// 20 mm and 15 degrees.
    fn default() -> Self {
        Self { translation: 20.0, rotation: 15f64.to_radians() }
    }
}

/// How far a search looks for a pose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoseSearch {
    /// Within a range around the start.
    #[default]
    Local,
    /// All rotations, and translations within the range.
    Full,
}

choices! { PoseSearch:
    Local "local" "Within the range around the start",
    Full "full" "All rotations, with the CT in the middle of what the views show",
}

/// Options of [`register_pose`](super::register_pose).
#[derive(Debug, Clone, PartialEq)]
pub struct PoseOptions {
    /// What is compared.
    pub similarity: XraySimilarity,
    /// How the minimum is found.
    pub optimiser: OptimiserKind,
    /// The part of the pixels that is compared at each scale, above 0 to 1, but 1024 of them at least; without, as many as are worth
    /// it. [Stages](crate::search::StageRecord::samples) say how many were.
    pub sampling: Option<f64>,
    /// Whether each evaluation of costs draws other pixels; without, those of a scale stay.
    pub redraw: bool,
    /// What draws of pixels and of starts begin with.
    pub seed: u64,
    /// Whether it looks at all rotations.
    pub search: PoseSearch,
    /// How far away the search begins to look.
    pub range: Range,
    /// How many poses within the range are looked at, the start among them; 1 for a local search from it. A full search looks at
    /// thousands of them.
    pub starts: usize,
    /// Sizes of pixels at the place of the CT, mm, coarse to fine; chosen by the images where there are none.
    pub levels: Vec<f64>,
    /// How often the result is found again, from places near it and with other pixels, at most half of them.
    pub restarts: usize,
    /// The point of the CT, in its own world, about which rotations are counted in the result, mm; the middle of its grid where there
    /// is none. The search does not depend on it.
    pub centre: Option<Vector3<f64>>,
    /// What of the geometry of the views is refined together with the pose; of two views or more. A [`Tracker`](super::Tracker) refines
    /// nothing.
    pub refine: Option<Refinement>,
    /// What becomes of pixels that show what the CT does not. A [`Tracker`](super::Tracker) looks for them in frames that would be lost.
    pub metal: Metal,
    /// What becomes of values that are no attenuations. A [`Tracker`](super::Tracker) straightens those of frames that would be lost.
    pub response: Response,
    /// Whether the cost along each parameter is wanted.
    pub landscape: bool,
}

impl Default for PoseOptions {
    fn default() -> Self {
        Self {
            similarity: XraySimilarity::default(),
            optimiser: OptimiserKind::default(),
            sampling: None,
            redraw: false,
            seed: 0,
            search: PoseSearch::default(),
            range: Range::default(),
            starts: 256,
            levels: Vec::new(),
            restarts: 4,
            centre: None,
            refine: None,
            metal: Metal::default(),
            response: Response::default(),
            landscape: true,
        }
    }
}

impl PoseOptions {
    /// Whether views are compared other than as they are, where that helps.
    pub(super) fn adapts(&self) -> bool {
        self.metal == Metal::Mask || self.response == Response::Straighten
    }

    /// Checks the values.
    ///
    /// # Errors
    /// What is out of range, and what would do.
    pub fn check(&self) -> Result<()> {
        let wrong = |option, value: String, remedy: &str| {
            Err(RegisterError::Option { option, value, remedy: remedy.to_owned() })
        };
        if self.sampling.is_some_and(|s| !(s > 0.0 && s <= 1.0)) {
            let value = self.sampling.unwrap_or(0.0).to_string();
            return wrong("sampling", value, "give a part of the pixels, above 0 and at most 1");
        }
        let Range { translation, rotation } = self.range;
        if !(0.0..=1000.0).contains(&translation) || !(0.0..=3.2).contains(&rotation) {
            let value = format!("{translation} mm and {:.1} degrees", rotation.to_degrees());
            return wrong("range of the search", value, "give at most 1000 mm and 180 degrees");
        }
        if self.starts == 0 || self.starts > 100_000 {
            return wrong("number of starts", self.starts.to_string(), "give 1 to 100000");
        }
        if self.restarts > 1000 {
            return wrong("number of restarts", self.restarts.to_string(), "give at most 1000");
        }
        if let Some(centre) = self.centre.filter(|c| !c.iter().all(|v| v.abs() <= FARTHEST)) {
            let value = format!("{:.1e} mm away", centre.norm());
            return wrong("centre of rotations", value, "give a point of the CT, mm");
        }
        if let Some(level) = self.levels.iter().find(|l| !(**l > 0.0 && l.is_finite())) {
            return wrong(
                "level",
                format!("{level} mm"),
                "give sizes of pixels above 0, coarse to fine",
            );
        }
        if self.levels.windows(2).any(|pair| pair[1] >= pair[0]) {
            return wrong(
                "levels",
                format!("{:?} mm", self.levels),
                "give them from coarse to fine",
            );
        }
        Ok(())
    }
}
