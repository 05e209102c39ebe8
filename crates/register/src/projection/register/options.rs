//! The options of a pose search.

use super::relation::Response;
use crate::error::{RegisterError, Result};
use crate::numbers::Levels;
use crate::projection::similarity::XraySimilarity;
use crate::search::OptimiserKind;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_image::Vector3;
use voxalign_options::{Choice, Parameters, Value, text_value};

/// How far from its world's origin a point of a CT is at most, mm.
const FARTHEST: f64 = 1e5;

/// What becomes of pixels that show what the CT does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum Metal {
    /// What an X-ray image shows and the CT does not, such as metal or text, is found and left out.
    #[default]
    Mask,
    /// All pixels count.
    Keep,
}

/// Numbers of a view: the logarithm of its distance, and shifts along columns and rows. A unit of each moves the image of the body by
/// about a millimetre at the place of the CT.
pub(super) const NUMBERS: usize = 3;

/// What of the geometry of each view is refined together with a pose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Choice)]
pub enum Refinement {
    /// How far the detector is from the source, by which all is seen larger or smaller.
    Distance,
    /// Where the detector is in its plane: shifts along its columns and rows.
    PrincipalPoint,
}

impl Refinement {
    /// Its numbers among those of a view.
    pub(super) fn numbers(self) -> &'static [usize] {
        match self {
            Self::Distance => &[0],
            Self::PrincipalPoint => &[1, 2],
        }
    }
}

/// How far from the start the poses are that a search begins with: along and about each axis of the room.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Translation, mm.
    pub translation: f64,
    /// Rotation, radians.
    pub rotation: f64,
}

/// The range of a search as it is typed: mm along, and degrees about, each axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoseRange(pub [f64; 2]);

impl PoseRange {
    /// The same in radians.
    #[must_use]
    pub fn radians(self) -> Range {
        Range { translation: self.0[0], rotation: self.0[1].to_radians() }
    }
}

impl Default for PoseRange {
    fn default() -> Self {
        Self([20.0, 15.0])
    }
}

impl FromStr for PoseRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split(',').map(f64::parse).collect::<Result<Vec<_>, _>>()?;
        match numbers[..] {
            [mm, degrees] if (0.0..=1000.0).contains(&mm) && (0.0..=180.0).contains(&degrees) => {
                Ok(Self([mm, degrees]))
            }
            _ => Err("give at most 1000 mm and 180 degrees, with a comma between them".into()),
        }
    }
}

impl Display for PoseRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.0[0], self.0[1])
    }
}

text_value!(PoseRange, "MM,DEGREES");

/// Search strategy: within the search range around the start, or over all rotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
#[choice(option = "search")]
pub enum PoseSearch {
    /// Within the range around the start.
    #[default]
    Local,
    /// All rotations, with the CT in the middle of what the views show.
    Full,
}

/// Options of [`register_pose`](super::register_pose).
#[derive(Debug, Clone, PartialEq, Parameters)]
#[parameters(made_at_run_time)]
pub struct PoseOptions {
    /// Similarity measure.
    #[parameter(skip)]
    pub similarity: XraySimilarity,
    /// How the minimum of the cost is found.
    #[parameter(skip)]
    pub optimiser: OptimiserKind,
    /// Fraction of the pixels to compare, drawn at random, such as 0.05
    ///
    /// At least 1024 pixels at each scale. [Stages](crate::search::StageRecord::samples) say how many were.
    #[parameter(
        unit = "PART",
        above = 0.0,
        most = 1.0,
        remedy = "give a part of the pixels, above 0 and at most 1",
        says = "up to 16384 pixels of each view"
    )]
    pub sampling: Option<f64>,
    /// Draw new pixels for each evaluation of the cost
    #[parameter(default = false)]
    pub redraw: bool,
    /// Search range around the start, along and about each axis, mm and degrees; also the range around the result that
    /// is searched for competing poses
    pub range: PoseRange,
    /// Number of starting poses within the search range; 1 for a local search from the start
    ///
    /// A full search looks at thousands of them.
    #[parameter(
        default = 256,
        unit = "COUNT",
        least = 1,
        most = 100_000,
        remedy = "give 1 to 100000"
    )]
    pub starts: usize,
    /// Pixel size of each level, at the CT, coarse to fine, mm
    #[parameter(says = "down to the voxel size of the CT, halving at each level")]
    pub levels: Option<Levels>,
    /// Geometry of each view to refine together with the pose; needs at least two views
    ///
    /// A [`Tracker`](super::Tracker) refines nothing.
    #[parameter(unit = "WHAT", says = "nothing")]
    pub refine: Option<Refinement>,
    /// Treatment of pixels that show what the CT lacks: metal, markers, text
    ///
    /// A [`Tracker`](super::Tracker) looks for them in frames that would be lost.
    #[parameter(unit = "WHAT")]
    pub metal: Metal,
    /// Treatment of values that are not attenuations but a monotonic function of them
    ///
    /// A [`Tracker`](super::Tracker) straightens those of frames that would be lost.
    #[parameter(unit = "WHAT")]
    pub response: Response,
    /// Number of repeated searches from nearby poses, for the uncertainty of the result
    ///
    /// With other pixels, at most half of them.
    #[parameter(default = 4, unit = "COUNT", most = 1000, remedy = "give at most 1000")]
    pub restarts: usize,
    /// Random seed
    #[parameter(default = 0, unit = "NUMBER")]
    pub seed: u64,
    /// Whether it looks at all rotations.
    #[parameter(skip)]
    pub search: PoseSearch,
    /// The point of the CT, in its own world, about which rotations are counted in the result, mm; the middle of its
    /// grid where there is none. The search does not depend on it.
    #[parameter(skip)]
    pub centre: Option<Vector3<f64>>,
    /// Whether the cost along each parameter is wanted.
    #[parameter(skip, default = true)]
    pub landscape: bool,
}

impl PoseOptions {
    /// Whether views are compared other than as they are, where that helps.
    #[must_use]
    pub fn adapts(&self) -> bool {
        self.metal == Metal::Mask || self.response == Response::Straighten
    }

    /// Checks the values.
    ///
    /// # Errors
    /// What is out of range, and what would do.
    pub fn check_all(&self) -> Result<()> {
        self.check()?;
        self.similarity.check()?;
        self.optimiser.check()?;
        if self.centre.is_some_and(|c| !c.iter().all(|v| v.abs() <= FARTHEST)) {
            let far = self.centre.map_or(0.0, |c| c.norm());
            let remedy = "give a point of the CT, mm";
            return Err(RegisterError::option("centre", format!("{far:.1e} mm away"), remedy));
        }
        Ok(())
    }
}
