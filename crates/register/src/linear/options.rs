//! The options of an affine registration.

use crate::choice::choices;
use crate::fit::PointPairs;
use crate::search::OptimiserKind;
use crate::similarity::{Nmi, Similarity};
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::histogram::{JointScheme, Scheme};
use voxalign_image::{Affine, ImageView};

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

/// How far the search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// All rotations in the range of angles, then refinement.
    #[default]
    Full,
    /// Only refinement from the start, over all scales.
    Local,
    /// No search: the start is scored and reported as it is.
    None,
}

choices! { Search:
    Full "full" "Try all rotations in the range, then refine the best",
    Local "local" "Refine the start",
    None "none" "Score the start as it is",
}

/// What follows a bad result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Rescue {
    /// Other ways are tried (another cost, the headers as a start, fewer degrees of freedom), and the result under
    /// which the images agree most is taken.
    #[default]
    On,
    /// Nothing: it is the result.
    Off,
}

choices! { Rescue:
    On "on" "Try another cost, the headers as a start and fewer degrees of freedom; keep the best",
    Off "off" "Keep the result as it is",
}

/// The rotations that a full search looks at, radians about the x, y and z axes of the world. By
/// default all of them, in steps of 60 and of 18 degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
        Self {
            angles: [[-std::f64::consts::PI, std::f64::consts::PI]; 3],
            coarse: 60f64.to_radians(),
            fine: 18f64.to_radians(),
        }
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
#[derive(Debug, Clone, PartialEq)]
pub struct AffineOptions {
    /// Degrees of freedom: 6, 7, 9 or 12; for 2D images 3, 4 or 6. (For 2D images 7 is taken
    /// as 4, 9 and 12 as 6.) By default 12.
    pub dof: usize,
    /// The similarity, one that is a [function of sums](Similarity::of_sums). Its bins are those at full resolution,
    /// coarser stages have half and a quarter, and 32 at least where there are so many. By default normalised
    /// mutual information, which takes any relation of intensities, and normalised cross-correlation in the
    /// finest stages where the intensities turn out to lie on a line: where both hold, cross-correlation is the
    /// more exact.
    pub similarity: Option<Similarity>,
    /// Where the search starts.
    pub init: Init,
    /// How far it looks.
    pub search: Search,
    /// The rotations it looks at.
    pub range: SearchRange,
    /// Width of the border of the moving image, mm, over which voxels count less (0: no border
    /// weighting), section 5.3 of Li et al. (2015); `None` for a fortieth of the middle one of its extents, 5 mm of a
    /// head. Narrower borders let alignments gain by what they push over the edge.
    pub apodise: Option<f64>,
    /// The stages' sample spacing in mm, coarse to fine; `None` for 8, 4, 2, 1 (adapted to the
    /// field of view for images much smaller or larger than a head).
    pub levels: Option<Vec<f64>>,
    /// How the sums of the correlation ratio, and of the costs without histograms, are made; `None`
    /// for the [default](Scheme::default), the same on every device.
    pub scheme: Option<Scheme>,
    /// How joint histograms are made.
    pub joint: JointScheme,
    /// How minima are found.
    pub optimiser: OptimiserKind,
    /// What follows a bad result.
    pub rescue: Rescue,
}

impl AffineOptions {
    /// The similarity that the search begins with.
    #[must_use]
    pub fn first_similarity(&self) -> Similarity {
        self.similarity.unwrap_or_else(|| Nmi::default().into())
    }
}

impl Default for AffineOptions {
    fn default() -> Self {
        Self {
            dof: 12,
            similarity: None,
            init: Init::default(),
            search: Search::default(),
            range: SearchRange::default(),
            apodise: None,
            levels: None,
            scheme: None,
            joint: JointScheme::Default,
            optimiser: OptimiserKind::default(),
            rescue: Rescue::default(),
        }
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
