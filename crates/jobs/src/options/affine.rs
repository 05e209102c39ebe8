//! Options of affine registration.

use super::as_text;
use super::refuse;
use super::values::{InitChoice, PointConvention};
use crate::error::{Error, Result};
use crate::listener::Listener;
use serde::{Deserialize, Serialize};
use voxalign_image::Grid;
use voxalign_io::transform::Geometry;
use voxalign_options::{Choice, Chosen, Given, Parameters, UseOf, text};
use voxalign_register::linear::{AffineOptions, Search};
use voxalign_register::search::OptimiserKind;
use voxalign_register::similarity::Similarity;

/// Whether a similarity can drive an affine registration.
#[must_use]
pub fn of_maps(similarity: &Similarity) -> bool {
    similarity.of_sums().is_some()
}

/// Refuses degrees of freedom that images of two dimensions, or three, do not have.
///
/// # Errors
/// Names those that they have.
pub(crate) fn check_dof(dof: usize, flat: bool) -> Result<()> {
    let known: &[usize] = if flat { &[3, 4, 6] } else { &[6, 7, 9, 12] };
    if known.contains(&dof) {
        return Ok(());
    }
    let (kind, list) = if flat { ("2D", "3, 4 or 6") } else { ("3D", "6, 7, 9 or 12") };
    Err(Error::input(text!("`dof` is {dof}; for {kind} images give {list}")))
}

/// The similarity of affine maps.
#[derive(Debug)]
pub struct Cost;

impl UseOf<Similarity> for Cost {
    const OPTION: &'static str = "cost";
    const ALIAS: &'static str = "similarity";
    const HEADING: &'static str = "Method";

    fn serves(kind: &Similarity) -> bool {
        of_maps(kind)
    }

    fn default_in_words() -> Option<String> {
        let words =
            "nmi; ncc in the finest stages if the intensities turn out to be linearly related";
        Some(words.to_owned())
    }

    fn help(parameter: &str) -> Option<&'static str> {
        let bins = "Histogram bins at the finest level; without --cost, implies nmi in all stages";
        (parameter == "bins").then_some(bins)
    }
}

/// The parameters of an affine registration.
#[derive(Debug)]
pub struct Alone;

impl UseOf<AffineOptions> for Alone {
    const HEADING: &'static str = "Method";
}

/// How far an affine registration searches.
#[derive(Debug)]
pub struct Searches;

impl UseOf<Search> for Searches {
    fn usual() -> Option<Search> {
        Some(Search::default())
    }
}

/// How an affine registration finds the minimum of its cost.
#[derive(Debug)]
pub struct Minimum;

impl UseOf<OptimiserKind> for Minimum {
    const HEADING: &'static str = "Method";
    const HELP: &'static str = "How the minimum of the cost is found from each candidate";

    fn usual() -> Option<OptimiserKind> {
        Some(OptimiserKind::default())
    }
}

/// The method of an affine registration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
#[cfg_attr(feature = "clap", command(next_help_heading = "Method"))]
pub struct AffineMethod {
    /// The similarity.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub cost: Chosen<Similarity, Cost>,
    /// Start: `header` uses the headers as they are, `centre` aligns the image centres, `moments`
    /// aligns the centres of mass, `identity` ignores the headers (first voxel on first voxel, axis
    /// on axis), FILE is a transform file, fixed to moving, and `landmarks:FIXED.csv,MOVING.csv` the
    /// least-squares map with these degrees of freedom, from at least three point pairs
    /// (2D: two): CSV with columns x,y,z (mm), or a list of 3D Slicer, elastix, ANTs or MNI, the same number of
    /// points in the same order [default: moments]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "header|centre|moments|identity|FILE|landmarks:F,M")
    )]
    #[serde(with = "as_text")]
    pub init: Option<InitChoice>,
    /// World coordinates of the points of --init, if their file does not state them [default: ras; of ANTs'
    /// CSV lps]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub point_convention: Option<PointConvention>,
    /// How far it searches.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub search: Chosen<Search, Searches>,
    /// How the minimum of the cost is found.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub optimiser: Chosen<OptimiserKind, Minimum>,
    /// All else.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub given: Given<AffineOptions, Alone>,
}

/// The affine registration that comes before a deformation.
#[derive(Debug)]
pub struct First;

impl UseOf<AffineOptions> for First {
    const HEADING: &'static str = "Affine part";

    fn takes(parameter: &str) -> bool {
        ["dof", "rescue"].contains(&parameter)
    }

    fn help(parameter: &str) -> Option<&'static str> {
        match parameter {
            "dof" => {
                Some("Degrees of freedom of the affine registration, as for `voxalign affine`")
            }
            _ => Some(
                "Whether to respond to a bad affine result by trying other settings, as for `voxalign affine`",
            ),
        }
    }
}

impl UseOf<Similarity> for First {
    const OPTION: &'static str = "cost";
    const HEADING: &'static str = "Affine part";
    const HELP: &'static str = "Similarity measure of the affine registration";

    fn serves(kind: &Similarity) -> bool {
        of_maps(kind)
    }

    fn default_in_words() -> Option<String> {
        Cost::default_in_words()
    }

    fn takes(_: &str) -> bool {
        false
    }
}

impl UseOf<Search> for First {
    const HEADING: &'static str = "Affine part";
    const HELP: &'static str =
        "Search range of the affine registration; none uses the start of --init unchanged";

    fn takes(_: &str) -> bool {
        false
    }

    fn usual() -> Option<Search> {
        Some(Search::default())
    }
}

/// How the affine registration that comes before a deformation is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct AffineWay {
    /// Its similarity.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub cost: Chosen<Similarity, First>,
    /// How far it searches.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub search: Chosen<Search, First>,
    /// All else.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub given: Given<AffineOptions, First>,
}

impl AffineWay {
    /// The name of an option that is given.
    #[must_use]
    pub fn given(&self) -> Option<&'static str> {
        self.given.first().or(self.cost.first()).or(self.search.first())
    }

    /// What the registration takes.
    ///
    /// # Errors
    /// Options that others make meaningless.
    pub fn usual(&self, flat: bool) -> Result<AffineOptions> {
        options(&self.cost, &self.search, &Chosen::<OptimiserKind>::default(), &self.given, flat)
    }
}

/// What is usual for images of two dimensions, or three.
#[must_use]
pub fn usual_affine(flat: bool) -> AffineOptions {
    let usual = AffineOptions::default();
    AffineOptions { dof: if flat { 6 } else { usual.dof }, ..usual }
}

/// What a registration takes of what was given, for images of two dimensions, or three.
fn options<C, S, M, G>(
    cost: &Chosen<Similarity, C>,
    search: &Chosen<Search, S>,
    optimiser: &Chosen<OptimiserKind, M>,
    given: &Given<AffineOptions, G>,
    flat: bool,
) -> Result<AffineOptions>
where
    C: UseOf<Similarity>,
    S: UseOf<Search>,
    M: UseOf<OptimiserKind>,
    G: UseOf<AffineOptions>,
{
    let usual = usual_affine(flat);
    let similarity = cost.over(usual.first_similarity())?;
    let similarity = cost.first().map(|_| similarity);
    let search = search.over(usual.search)?;
    let used = optimiser.over(usual.optimiser)?;
    let options = given.over(AffineOptions { similarity, search, optimiser: used, ..usual })?;
    options.check()?;
    options.search.check()?;
    options.optimiser.check()?;
    options.first_similarity().check()?;
    let of_search = ["dof", "rescue"].into_iter().find(|name| given.has(name));
    if let (false, Some(option)) = (search.moves(), of_search.or(optimiser.first())) {
        return Err(Error::Ignored(
            option,
            text!("`search = full` and local; with `search = none` the start is scored as it is"),
        ));
    }
    let cost = options.first_similarity();
    if given.has("scheme") && !cost.takes_scheme() {
        return Err(Error::input(text!(
            "`scheme` is for cr, ncc and ssd; {} has a joint histogram",
            cost.name()
        )));
    }
    Ok(options)
}

impl AffineMethod {
    /// What a registration takes; a start from a file is read with the grids of the two images.
    ///
    /// # Errors
    /// Options that others make meaningless, a file that is not a start.
    pub fn options(
        &self,
        geometry: &Geometry<'_>,
        listener: &dyn Listener,
    ) -> Result<AffineOptions> {
        let flat = geometry.fixed.is_some_and(Grid::is_2d);
        let mut options = self.usual(flat)?;
        check_dof(options.dof, flat)?;
        if let Some(choice) = &self.init {
            options.init = choice
                .load(geometry, self.point_convention, listener)
                .map_err(|e| e.at(text!("`init`")))?;
        }
        Ok(options)
    }

    /// The same without a look at files.
    ///
    /// # Errors
    /// Options that others make meaningless.
    pub fn usual(&self, flat: bool) -> Result<AffineOptions> {
        let has_points = self.init.as_ref().is_some_and(InitChoice::has_points);
        refuse(
            self.point_convention.is_some() && !has_points,
            "point_convention",
            text!("the points of `init = landmarks:FIXED.csv,MOVING.csv`"),
        )?;
        options(&self.cost, &self.search, &self.optimiser, &self.given, flat)
    }
}
