//! The options that say how an affine registration is made.

#[cfg(feature = "clap")]
use super::choice::{choice, choice_of};
use super::landmarks::PointConvention;
use super::text::{as_text, by_name};
#[cfg(feature = "clap")]
use super::values::not_negative;
use super::values::{Angles, InitChoice, Levels, Steps};
use crate::error::{Error, Result};
use crate::listener::Listener;
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::histogram::{JointScheme, Scheme};
use voxalign_image::Grid;
use voxalign_io::transform::Geometry;
use voxalign_register::Choice;
use voxalign_register::linear::{AffineOptions, Rescue, Search, SearchRange};
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
    Err(Error::input(format!("`dof` is {dof}; for {kind} images give {list}")))
}

/// The method of an affine registration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
#[cfg_attr(feature = "clap", command(next_help_heading = "Method"))]
pub struct AffineMethod {
    /// Degrees of freedom: 6 rigid, 7 with one scale, 9 with three, 12 affine; for 2D images 3
    /// rigid, 4 with one scale, 6 affine [default: 12, and 6 for 2D images]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub dof: Option<usize>,
    /// Similarity measure [default: nmi, and ncc in the finest stages where intensities turn out to lie on a line]
    #[cfg_attr(feature = "clap", arg(long, visible_alias = "similarity", value_parser = choice_of(of_maps)))]
    #[serde(with = "by_name")]
    pub cost: Option<Similarity>,
    /// Histogram bins at the finest level, for cr, mi and nmi [default: depends on the cost; given without --cost, that is nmi in all stages]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub bins: Option<usize>,
    /// Start: `header` uses the headers as they are, `centre` aligns the image centres, `moments`
    /// aligns the centres of mass, `identity` ignores the headers (first voxel on first voxel, axis
    /// on axis), FILE is a transform file, fixed to moving, and `landmarks:FIXED.csv,MOVING.csv` the map
    /// of least squares of these degrees of freedom between corresponding points, three at least
    /// (2D: two): CSV with columns x,y,z (mm), or a list of 3D Slicer, elastix, ANTs or MNI, the same number of
    /// points in the same order [default: moments]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "header|centre|moments|identity|FILE|landmarks:F,M")
    )]
    #[serde(with = "as_text")]
    pub init: Option<InitChoice>,
    /// World coordinates of the points of --init, where their file does not say them [default: ras; of ANTs'
    /// CSV lps]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    #[serde(with = "by_name")]
    pub point_convention: Option<PointConvention>,
    /// `full` tries all rotations in the range of --search-angles, `local` refines the start,
    /// `none` only scores the start [default: full]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<Search>()))]
    #[serde(with = "by_name")]
    pub search: Option<Search>,
    /// Rotations about x, y and z that a full search tries, degrees: one number A for -A:A about
    /// every axis, or three, each a number A or a range MIN:MAX, such as `30,30,-180:180` [default:
    /// 180]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DEGREES", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub search_angles: Option<Angles>,
    /// Steps of the coarse and of the fine rotation search, degrees [default: 60,18]
    #[cfg_attr(feature = "clap", arg(long, value_name = "COARSE,FINE"))]
    #[serde(with = "as_text")]
    pub search_steps: Option<Steps>,
    /// Sample spacing of each resolution level, coarse to fine, mm [default: 8,4,2,1, adapted to
    /// images much smaller or larger than a head]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM,MM,..."))]
    #[serde(with = "as_text")]
    pub levels: Option<Levels>,
    /// Width of the border of the moving image within which voxels count less, mm; 0 for none [default: a fortieth
    /// of the middle one of its extents, 5 for a head]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM", value_parser = not_negative, allow_hyphen_values = true))]
    pub apodise: Option<f64>,
    /// Whether a bad result makes it try another cost, a local search from the headers, and fewer degrees of
    /// freedom, and take the result under which the images agree most; the record says what was tried [default: on]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<Rescue>()))]
    #[serde(with = "by_name")]
    pub rescue: Option<Rescue>,
    /// How the minimum of the cost is found from each candidate [default: bfgs]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<OptimiserKind>()))]
    #[serde(with = "by_name")]
    pub optimiser: Option<OptimiserKind>,
    /// How the sums of cr, ncc and ssd are made: conflict_free, direct, and on a GPU also
    /// fixed_point, warp_aggregated, global_merge, and, for comparison only as their last digits
    /// differ from run to run, global_atomic, shared_atomic, shared_merge, shared_warp [default:
    /// conflict_free]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    #[serde(with = "as_text")]
    pub scheme: Option<Scheme>,
}

/// How the affine registration that comes before a deformation is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
#[cfg_attr(feature = "clap", command(next_help_heading = "Affine part"))]
pub struct AffineWay {
    /// Degrees of freedom of the affine registration that comes first, as of `voxalign affine` [default: 12, and
    /// 6 for 2D images]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub dof: Option<usize>,
    /// Its similarity measure [default: nmi, and ncc in the finest stages where intensities turn out to lie on a line]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice_of(of_maps)))]
    #[serde(with = "by_name")]
    pub cost: Option<Similarity>,
    /// How far it searches: `full` tries all rotations, `local` refines the start of --init, `none` takes that as it
    /// is [default: full]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<Search>()))]
    #[serde(with = "by_name")]
    pub search: Option<Search>,
    /// Whether it tries other ways where its result is bad [default: on]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<Rescue>()))]
    #[serde(with = "by_name")]
    pub rescue: Option<Rescue>,
}

impl AffineWay {
    /// The name of an option that is given.
    #[must_use]
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("dof", self.dof.is_some()),
            ("cost", self.cost.is_some()),
            ("search", self.search.is_some()),
            ("rescue", self.rescue.is_some()),
        ];
        all.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The method that it is a part of.
    #[must_use]
    pub fn method(&self) -> AffineMethod {
        let Self { dof, cost, search, rescue } = *self;
        AffineMethod { dof, cost, search, rescue, ..AffineMethod::default() }
    }
}

impl AffineMethod {
    /// What a registration takes; a start from a file is read with the grids of the two images.
    ///
    /// # Errors
    /// Options that others make meaningless, a file that is no start.
    pub fn options(
        &self,
        geometry: &Geometry<'_>,
        listener: &dyn Listener,
    ) -> Result<AffineOptions> {
        let flat = geometry.fixed.is_some_and(Grid::is_2d);
        let mut options = self.usual(flat);
        check_dof(options.dof, flat)?;
        self.check()?;
        if let Some(choice) = &self.init {
            options.init = choice
                .load(geometry, self.point_convention, listener)
                .map_err(|e| e.at("`init`"))?;
        }
        Ok(options)
    }

    /// The same for images of two dimensions, or three, without a look at files.
    #[must_use]
    pub fn usual(&self, flat: bool) -> AffineOptions {
        let (default, range) = (AffineOptions::default(), SearchRange::default());
        let mut similarity = self.cost;
        if let Some(bins) = self.bins {
            similarity.get_or_insert_with(|| default.first_similarity()).set("bins", bins);
        }
        let steps = self.search_steps.map_or([range.coarse, range.fine], Steps::radians);
        AffineOptions {
            dof: self.dof.unwrap_or(if flat { 6 } else { default.dof }),
            similarity,
            init: default.init,
            search: self.search.unwrap_or(default.search),
            range: SearchRange {
                angles: self.search_angles.map_or(range.angles, Angles::radians),
                coarse: steps[0],
                fine: steps[1],
            },
            apodise: self.apodise,
            levels: self.levels.as_ref().map(|l| l.0.clone()),
            scheme: self.scheme,
            joint: JointScheme::Default,
            optimiser: self.optimiser.unwrap_or_default(),
            rescue: self.rescue.unwrap_or_default(),
        }
    }

    /// Refuses options that others make meaningless.
    ///
    /// # Errors
    /// Names one.
    pub fn check(&self) -> Result<()> {
        let default = AffineOptions::default();
        let search = self.search.unwrap_or(default.search);
        let cost = self.cost.unwrap_or_else(|| default.first_similarity());
        check_cost(Some(&cost))?;
        if self.point_convention.is_some()
            && !self.init.as_ref().is_some_and(InitChoice::has_points)
        {
            return Err(Error::input(
                "`point_convention` is for the points of `init = landmarks:FIXED.csv,MOVING.csv`; leave it out",
            ));
        }
        if search != Search::Full && (self.search_angles.is_some() || self.search_steps.is_some()) {
            return Err(Error::input(
                "`search_angles` and `search_steps` are for `search` full; leave them out",
            ));
        }
        if search == Search::None && self.dof.is_some() {
            return Err(Error::input(
                "`dof` is for `search` full or local; with `search` none the start is scored as it \
                 is",
            ));
        }
        if search == Search::None && self.optimiser.is_some() {
            return Err(Error::input(
                "`optimiser` is for `search` full or local; leave it out where nothing is searched",
            ));
        }
        if search == Search::None && self.rescue.is_some() {
            return Err(Error::input(
                "`rescue` is for `search` full or local; leave it out where nothing is searched",
            ));
        }
        if self.bins.is_some() && cost.get("bins").is_none() {
            return Err(Error::input(format!(
                "`bins` is for cr, mi and nmi; {} has no histogram",
                cost.name()
            )));
        }
        if self.scheme.is_some() && !cost.takes_scheme() {
            return Err(Error::input(format!(
                "`scheme` is for cr, ncc and ssd; {} has a joint histogram",
                cost.name()
            )));
        }
        Ok(())
    }
}

/// Refuses a similarity that cannot drive an affine registration.
pub(crate) fn check_cost(cost: Option<&Similarity>) -> Result<()> {
    let Some(cost) = cost.filter(|cost| !of_maps(cost)) else { return Ok(()) };
    let known = Similarity::ALL.iter().filter(|s| of_maps(s));
    let known: Vec<_> = known.map(|s| s.name()).collect();
    Err(Error::input(format!(
        "`cost` is {}, which is no function of an affine map; give one of {}",
        cost.name(),
        known.join(", ")
    )))
}
