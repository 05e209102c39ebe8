//! Subjects aligned in a common space.

use voxalign_image::{Affine, Grid};
use voxalign_options::Parameters;
use voxalign_register::Verdict;
use voxalign_register::linear::AffineOptions;

/// Options of the alignment of subjects in a common space.
#[derive(Debug, Clone, PartialEq, Parameters)]
#[parameters(made_at_run_time)]
pub struct AlignOptions {
    /// The registration of each subject to the mean of all; `None` takes the maps of the source as
    /// they are.
    #[parameter(skip, default = Some(AffineOptions::default()))]
    pub affine: Option<AffineOptions>,
    /// How often the mean is made and the subjects registered to it.
    #[parameter(skip, default = 2)]
    pub rounds: usize,
    /// Spacing of the atlas, mm
    ///
    /// By default the median of the subjects' smallest spacings.
    #[parameter(unit = "MM", above = 0.0, says = "the median of the subjects")]
    pub spacing: Option<f64>,
    /// The grid of the atlas; by default that of the world's axes around the foregrounds of all
    /// subjects.
    #[parameter(skip)]
    pub grid: Option<Grid>,
    /// Whether subjects whose images are [unlike](crate::atlas::outlying) the mean are left out, and the others aligned
    /// anew without them.
    #[parameter(skip)]
    pub exclude_outlying: bool,
}

/// The common space.
#[derive(Debug, Clone, PartialEq)]
pub struct Aligned {
    /// The grid of the atlas.
    pub grid: Grid,
    /// The numbers of the subjects of the source that are not left out.
    pub kept: Vec<usize>,
    /// For each of them the map from the world of the atlas to that of its images.
    pub affines: Vec<Affine>,
    /// The verdict of each registration of the last round; empty without registrations.
    pub verdicts: Vec<Verdict>,
}
