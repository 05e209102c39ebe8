//! The options of an affine registration.

use crate::fit::PointPairs;
use crate::numbers::{Levels, lengths, listed};
use crate::search::OptimiserKind;
use crate::similarity::Similarity;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_compute::ops::histogram::{JointScheme, Scheme};
use voxalign_image::{Affine, ImageView};
use voxalign_options::{Choice, Parameters, Value, text_value};

/// Where the search starts.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Init {
    /// The headers are taken as they are: the identity in world space. (In 2D: within the plane.)
    Header,
    /// The centres of the two images meet.
    Centre,
    /// The centres of mass of the two images meet, and with [`Search::Local`] in 3D their principal
    /// axes too where that lowers the cost.
    #[default]
    Moments,
    /// The headers' orientations and origins are ignored: first voxel on first voxel and axis on
    /// axis, in mm. For images whose headers are wrong.
    Identity,
    /// A given transform, fixed world to moving world.
    Given(Affine),
    /// Corresponding points meet as nearly as a map of the freedom that is asked for can bring them: see
    /// [`fit_points`](crate::fit::fit_points).
    Landmarks(PointPairs),
}

/// Ranges of angles about the x, y and z axes of the world, degrees within -180 to 180.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Angles(pub [[f64; 2]; 3]);

impl FromStr for Angles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(',').map(str::trim).collect();
        let ranges = parts.iter().map(|p| angle_range(p)).collect::<Result<Vec<_>, _>>()?;
        match ranges[..] {
            [all] => Ok(Angles([all; 3])),
            [x, y, z] => Ok(Angles([x, y, z])),
            _ => Err(format!(
                "{} angles are given; give one for all axes, or three (x,y,z)",
                ranges.len()
            )),
        }
    }
}

fn angle_range(text: &str) -> Result<[f64; 2], String> {
    let range = match text.split_once(':') {
        Some((low, high)) => [f64::parse(low)?, f64::parse(high)?],
        None => {
            let a = f64::parse(text)?;
            [-a, a]
        }
    };
    if range[0] > range[1] || range.iter().any(|a| a.abs() > 180.0) {
        return Err(format!(
            "'{text}' is not a range of angles: use A from 0 to 180, or MIN:MAX from -180 to 180"
        ));
    }
    Ok(range)
}

impl Display for Angles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.0.map(|[low, high]| format!("{low}:{high}"));
        f.write_str(&all.join(","))
    }
}

/// The steps of the coarse and of the fine search for rotations, degrees: at least 5, at most 180, the fine one not longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AngleSteps(pub [f64; 2]);

impl FromStr for AngleSteps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match lengths(text)?[..] {
            [coarse, fine] if fine >= 5.0 && fine <= coarse && coarse <= 180.0 => {
                Ok(AngleSteps([coarse, fine]))
            }
            [_, _] => {
                Err("the fine step must be at least 5 degrees, and the coarse step between that \
                     and 180 degrees"
                    .into())
            }
            _ => Err("give two steps in degrees, coarse and fine, such as 60,18".into()),
        }
    }
}

impl Display for AngleSteps {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        listed(&self.0, f)
    }
}

text_value!(Angles, "DEGREES");
text_value!(AngleSteps, "COARSE,FINE");

/// The rotations that a full search tries.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct FullSearch {
    /// Rotations about x, y and z covered by a full search, degrees: one number A for -A:A about every axis, or three
    /// values, each a number A or a range MIN:MAX, such as `30,30,-180:180`
    #[parameter(default = Angles([[-180.0, 180.0]; 3]), says = "180")]
    pub search_angles: Angles,
    /// Steps of the coarse and the fine rotation search, degrees
    #[parameter(default = AngleSteps([60.0, 18.0]))]
    pub search_steps: AngleSteps,
}

impl FullSearch {
    /// The same in radians.
    #[must_use]
    pub fn range(&self) -> SearchRange {
        let angles = self.search_angles.0.map(|range| range.map(f64::to_radians));
        let [coarse, fine] = self.search_steps.0.map(f64::to_radians);
        SearchRange { angles, coarse, fine }
    }
}

/// How far the search looks.
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "search", heading = "Method")]
pub enum Search {
    /// Try all rotations in the range, then refine the best.
    Full(FullSearch),
    /// Refine the start.
    Local,
    /// Score the start as it is.
    None,
}

impl Default for Search {
    fn default() -> Self {
        Self::FULL
    }
}

impl Search {
    /// Whether anything is searched.
    #[must_use]
    pub fn moves(self) -> bool {
        self != Self::None
    }

    /// The rotations that are looked at, radians; all of them where it does not look at any.
    #[must_use]
    pub fn range(self) -> SearchRange {
        match self {
            Self::Full(full) => full.range(),
            Self::Local | Self::None => FullSearch::USUAL.range(),
        }
    }
}

/// What follows a bad result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum Rescue {
    /// Try another cost, the headers as a start and fewer degrees of freedom; keep the best.
    ///
    /// Other ways are tried (another cost, the headers as a start, fewer degrees of freedom), and the result under
    /// which the images agree most is taken.
    #[default]
    On,
    /// Keep the result as it is.
    Off,
}

/// The rotations that a full search looks at, radians about the x, y and z axes of the world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchRange {
    /// Smallest and largest angle about each axis, within -π to π.
    pub angles: [[f64; 2]; 3],
    /// Step of the coarse search, 5 degrees to π.
    pub coarse: f64,
    /// Step of the fine search, 5 degrees to π.
    pub fine: f64,
}

impl Default for SearchRange {
    fn default() -> Self {
        FullSearch::USUAL.range()
    }
}

impl SearchRange {
    /// Whether all rotations are looked at (in the plane for flat images).
    #[must_use]
    pub fn is_full(&self, flat: bool) -> bool {
        let all = 2.0 * std::f64::consts::PI - 1e-9;
        self.angles.iter().skip(if flat { 2 } else { 0 }).all(|[a, b]| b - a >= all)
    }
}

/// What an affine registration can be told.
#[derive(Debug, Clone, PartialEq, Parameters)]
#[parameters(made_at_run_time)]
pub struct AffineOptions {
    /// Degrees of freedom: 6 rigid, 7 with one scale, 9 with three, 12 affine; for 2D images 3 rigid, 4 with one scale, 6
    /// affine
    ///
    /// (For 2D images 7 is taken as 4, 9 and 12 as 6.)
    #[parameter(default = 12, says = "12, and 6 for 2D images")]
    pub dof: usize,
    /// The similarity, one that is a [function of sums](Similarity::of_sums). Its bins are those at full resolution,
    /// coarser stages have half and a quarter, and 32 at least where there are so many. By default normalised
    /// mutual information, which takes any relation of intensities, and normalised cross-correlation in the
    /// finest stages where the intensities turn out to lie on a line: where both hold, cross-correlation is the
    /// more exact.
    #[parameter(skip)]
    pub similarity: Option<Similarity>,
    /// Where the search starts.
    #[parameter(skip)]
    pub init: Init,
    /// How far it looks.
    #[parameter(skip)]
    pub search: Search,
    /// Sample spacing of each resolution level, coarse to fine, mm
    #[parameter(says = "8,4,2,1, adapted to images much smaller or larger than a head")]
    pub levels: Option<Levels>,
    /// Width of the border of the moving image in which voxels are down-weighted, mm; 0 for none
    ///
    /// Section 5.3 of Li et al. (2015). Narrower borders let alignments gain by what they push over the edge.
    #[parameter(
        unit = "MM",
        least = 0.0,
        remedy = "give a length in mm, 0 or more",
        says = "1/40 of the median of its extents; 5 for a head"
    )]
    pub apodise: Option<f64>,
    /// Whether to respond to a bad result by also trying another cost, a local search from the headers, and fewer
    /// degrees of freedom, and to keep the result with the best agreement of the images; the record lists what was
    /// tried
    pub rescue: Rescue,
    /// How the minimum of the cost is found from each candidate.
    #[parameter(skip)]
    pub optimiser: OptimiserKind,
    /// How the sums of cr, ncc and ssd are accumulated: conflict_free, direct, and on a GPU also fixed_point,
    /// warp_aggregated, global_merge, and, for comparison only, because their last digits differ between runs,
    /// global_atomic, shared_atomic, shared_merge, shared_warp
    #[parameter(says = "conflict_free")]
    pub scheme: Option<Scheme>,
    /// How joint histograms are made.
    #[parameter(skip)]
    pub joint: JointScheme,
}

impl AffineOptions {
    /// The similarity that the search begins with.
    #[must_use]
    pub fn first_similarity(&self) -> Similarity {
        self.similarity.unwrap_or(Similarity::NMI)
    }
}

/// The images of an affine registration.
#[derive(Debug, Clone, Copy)]
pub struct AffineInput<'a> {
    /// The image that stays.
    pub fixed: ImageView<'a>,
    /// The image that is to be moved onto it.
    pub moving: ImageView<'a>,
    /// Voxels of the fixed image that count (above 0), on its grid.
    pub fixed_mask: Option<ImageView<'a>>,
    /// Voxels of the moving image that count (above 0), on its grid.
    pub moving_mask: Option<ImageView<'a>>,
    /// How much each voxel of the fixed image counts (not negative), on its grid.
    pub fixed_weight: Option<ImageView<'a>>,
}

impl<'a> AffineInput<'a> {
    /// Two images of which all voxels count.
    #[must_use]
    pub fn new(fixed: impl Into<ImageView<'a>>, moving: impl Into<ImageView<'a>>) -> Self {
        let (fixed, moving) = (fixed.into(), moving.into());
        Self { fixed, moving, fixed_mask: None, moving_mask: None, fixed_weight: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles() {
        assert_eq!("30".parse(), Ok(Angles([[-30.0, 30.0]; 3])));
        let three = "10, -90:90,0:45.5".parse::<Angles>().unwrap();
        assert_eq!(three.0, [[-10.0, 10.0], [-90.0, 90.0], [0.0, 45.5]]);
        assert_eq!(three.to_string().parse(), Ok(three));
        for bad in ["", "1,2", "x", "-5", "20:10", "190", "1:2:3", "nan", "1,2,3,4"] {
            assert!(bad.parse::<Angles>().is_err(), "{bad}");
        }
    }

    #[test]
    fn steps() {
        assert_eq!("60,18".parse::<AngleSteps>().unwrap().to_string(), "60,18");
        for bad in ["60", "18,60", "60,4", "0,0", "a,b", "200,18"] {
            assert!(bad.parse::<AngleSteps>().is_err(), "{bad}");
        }
    }
}
