//! Options of a segmentation: the force, the start, the evolution, and what is done with the result.

use super::values::{Centre, Classes, Connectivity, Iterations, MOST_CLASSES};
use crate::error::{Error, Result};
use crate::options::{ReportOption, negated, refuse};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_image::Grid;
use voxalign_options::{Choice, Chosen, Given, Parameters, Text, UseOf, text};
use voxalign_segment::{Neighbourhood, Object};

/// Most regions.
const MOST_REGIONS: usize = 255;

/// Which of two regions is the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum ObjectKind {
    /// The one of higher intensity.
    Brighter,
    /// The one of lower intensity.
    Darker,
    /// Whichever is more like what is inside at the start.
    AsStarted,
}

impl From<ObjectKind> for Object {
    fn from(of: ObjectKind) -> Self {
        match of {
            ObjectKind::Brighter => Self::Brighter,
            ObjectKind::Darker => Self::Darker,
            ObjectKind::AsStarted => Self::AsStarted,
        }
    }
}

/// Of two regions of one intensity each.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct MeansOptions {
    /// Weight of the curvature, by which fronts become smooth: the variance of the image times mm with chan-vese, nats
    /// times mm with geodesic-regions; 0 for none
    #[parameter(least = 0.0, says = "the smallest spacing of the image, mm")]
    pub curvature: Option<f64>,
    /// How much differences from the mean inside weigh (lambda 1)
    #[parameter(default = 1.0, least = 0.0)]
    pub inside: f64,
    /// How much differences from the mean outside weigh (lambda 2)
    #[parameter(default = 1.0, least = 0.0)]
    pub outside: f64,
    /// Which of the two regions is the object
    #[parameter(default = ObjectKind::Brighter, unit = "WHICH")]
    pub object: ObjectKind,
}

/// How edges of an image are found.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct EdgeOptions {
    /// Standard deviation of the Gaussian that the image is smoothed by before its edges are found, mm
    #[parameter(unit = "MM", above = 0.0, says = "the smallest spacing of the image")]
    pub edge_sigma: Option<f64>,
    /// Gradient of the smoothed image that halves the speed of a front, intensity by mm
    #[parameter(above = 0.0, says = "the median of its gradients that are not 0")]
    pub contrast: Option<f64>,
}

/// Of regions whose intensities are mixtures.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct MixtureOptions {
    /// Weight of the curvature, by which fronts become smooth: the variance of the image times mm with chan-vese, nats
    /// times mm with geodesic-regions; 0 for none
    #[parameter(least = 0.0, says = "the smallest spacing of the image, mm")]
    pub curvature: Option<f64>,
    /// Gaussians of the mixture that is fitted to the intensities of the whole image
    #[parameter(least = 2, most = MOST_CLASSES, says = "as many as --regions")]
    pub classes: Option<usize>,
    /// Which of them are the object, numbered by rising mean from 1
    #[parameter(default = Classes::NONE, says = "the brightest")]
    pub object_classes: Classes,
    /// How edges are found.
    #[parameter(flatten)]
    pub edges: EdgeOptions,
}

/// Of fronts that edges hold.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct PressureOptions {
    /// Pressure on the front, by mm: above 0 it grows, below 0 it shrinks, until edges hold it
    #[parameter(default = 0.0)]
    pub pressure: f64,
    /// How edges are found.
    #[parameter(flatten)]
    pub edges: EdgeOptions,
}

/// Of bone.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct BoneOptions {
    /// Intensity between soft tissue and bone, HU; about 200 where spongy bone counts too
    #[parameter(default = 300.0, unit = "HU", above = 50.0)]
    pub bone_threshold: f64,
}

/// A force, a start and checks that belong together
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "preset", heading = "Preset")]
pub enum Preset {
    /// None: what the other options say.
    None,
    /// White matter of a brain in a T1-weighted image without skull: zeros around it, or --prior-mask around the brain.
    WhiteMatter,
    /// White matter of a whole head in a T1-weighted image, slice by slice, without skull, scalp and neck.
    WhiteMatterHead,
    /// Bone in computed tomography (HU).
    Bone(BoneOptions),
}

impl Preset {
    /// What the object is called.
    pub(super) fn object(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::WhiteMatter | Self::WhiteMatterHead => Some("white matter"),
            Self::Bone(_) => Some("bone"),
        }
    }
}

/// What moves the front
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "force", heading = "Force")]
pub enum Force {
    /// Two regions, or several, of one intensity each, without any edge between them (Chan and Vese).
    ChanVese(MeansOptions),
    /// Regions whose intensities are mixtures of Gaussians, with fronts that edges attract (Paragios and Deriche).
    GeodesicRegions(MixtureOptions),
    /// Curvature alone: fronts become shorter. For masks that are to be smoothed.
    MeanCurvature,
    /// Edges of the image, to which a pressure brings the front (Caselles, Kimmel and Sapiro).
    Edge(PressureOptions),
    /// A field of one's own, given by --speed.
    Speed,
}

/// The shapes of a dense start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum DenseShape {
    /// Squares (cubes) that alternate as on a chessboard. The bound is their size, as long as neighbours are those
    /// that share sides.
    Checkerboard,
    /// Circles (balls). What is between them is one part of the image, so that there is no useful bound.
    Ball,
    /// Squares (cubes) apart from each other.
    Box,
}

/// Of starts all over the image.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct DenseOptions {
    /// Shapes of a dense start
    #[parameter(default = DenseShape::Checkerboard, unit = "SHAPE")]
    pub init_shape: DenseShape,
    /// Diameter or side of the shapes: voxels with dense, mm with circle and box
    #[parameter(unit = "SIZE", above = 0.0, says = "8 in 2D, 4 in 3D")]
    pub init_size: Option<f64>,
    /// Distance between the centres of balls or boxes, voxels
    #[parameter(unit = "VOX", least = 1.0, says = "twice --init-size")]
    pub init_spacing: Option<f64>,
}

/// Of starts of one shape.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct ShapeOptions {
    /// Centre of the shape, world mm (RAS+)
    #[parameter(says = "the centre of the image")]
    pub init_centre: Option<Centre>,
    /// Diameter or side of the shapes: voxels with dense, mm with circle and box
    #[parameter(unit = "SIZE", above = 0.0, says = "half the shortest side of the image")]
    pub init_size: Option<f64>,
}

/// Where the front begins
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "init", heading = "Start")]
pub enum Init {
    /// Many small shapes all over the image: finds everything, in few iterations.
    Dense(DenseOptions),
    /// One circle (in 3D a ball): finds what is connected with it.
    Circle(ShapeOptions),
    /// One square (in 3D a cube) along the axes of the voxels.
    Box(ShapeOptions),
    /// A mask of one's own, given by --initial-mask.
    Mask,
}

/// How the front evolves.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct EvolutionOptions {
    /// Which voxels are neighbours
    #[parameter(says = "4 in 2D, 6 in 3D")]
    pub connectivity: Option<Connectivity>,
    /// Regions, the background among them, ordered by rising mean; more than 2 with chan-vese and geodesic-regions alone
    #[parameter(default = 2, least = 2, most = MOST_REGIONS)]
    pub regions: usize,
    /// Most iterations; auto: as many as the largest connected part of either side has voxels at the start, which are always
    /// enough for a force that does not change; of presets 100
    #[parameter(default = Iterations::Auto)]
    pub iterations: Iterations,
    /// Iterations by curvature alone after every few by the force
    #[parameter(default = 0)]
    pub smooth: usize,
    /// After how many iterations by the force these come
    #[parameter(default = 5, least = 1)]
    pub smooth_every: usize,
    /// Standard deviation of the Gaussian that curvatures and normals of the front are from, mm
    #[parameter(
        unit = "MM",
        above = 0.0,
        says = "3 times the smallest spacing of the image, of presets once"
    )]
    pub sigma: Option<f64>,
}

/// What is done with the regions in the end.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct TidyOptions {
    /// Remove connected parts that are smaller, mm³; of 2D images mm²
    #[parameter(default = 0.0, unit = "SIZE", least = 0.0)]
    pub smallest_island: f64,
    /// Keep only the largest connected component of each region
    #[parameter(default = false)]
    pub largest_component: bool,
    /// Fill enclosed cavities of each region
    #[parameter(default = false)]
    pub fill_holes: bool,
}

/// Of a job.
#[derive(Debug)]
pub struct OfJob;

impl UseOf<Preset> for OfJob {
    fn usual() -> Option<Preset> {
        Some(Preset::None)
    }
}

impl UseOf<Force> for OfJob {
    fn usual() -> Option<Force> {
        Some(Force::CHAN_VESE)
    }
}

impl UseOf<Init> for OfJob {
    fn usual() -> Option<Init> {
        Some(Init::DENSE)
    }
}

impl UseOf<EvolutionOptions> for OfJob {
    const HEADING: &'static str = "Evolution";
}

impl UseOf<TidyOptions> for OfJob {
    const HEADING: &'static str = "Tidying";
}

/// All options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Options {
    /// A force, a start and checks that belong together.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub preset: Chosen<Preset, OfJob>,
    /// What moves the front.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub force: Chosen<Force, OfJob>,
    /// Image of the speed with which the front moves outwards in each voxel (inwards below 0), on the grid of the image; for
    /// --force speed
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Force"))]
    pub speed: Option<PathBuf>,
    /// Where it begins.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub init: Chosen<Init, OfJob>,
    /// Mask that a dense start is kept to, or with --preset white-matter that of the brain, on the grid of the image; voxels above 0 count
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Start"))]
    pub prior_mask: Option<PathBuf>,
    /// Mask to start from, on the grid of the image, for --init mask; voxels above 0 are inside
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Start"))]
    pub initial_mask: Option<PathBuf>,
    /// How it evolves.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub evolution: Given<EvolutionOptions, OfJob>,
    /// What is done with the regions in the end.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub tidy: Given<TidyOptions, OfJob>,
    /// Names of the labels, for the record and the report: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or
    /// TSV with a number and a name in each line
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Output"))]
    pub label_names: Option<PathBuf>,
    /// Do not write surfaces
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    #[serde(rename = "surface", with = "negated")]
    pub no_surface: bool,
    /// Whether there is a report.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub report: ReportOption,
}

/// Options put together, each with its value or none where it follows from the image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) preset: Preset,
    pub(super) force: Force,
    pub(super) init: Init,
    pub(super) evolution: EvolutionOptions,
    pub(super) tidy: TidyOptions,
}

impl Options {
    /// What was given over what is usual, checked; what would be ignored is refused.
    pub(super) fn settings(&self) -> Result<Settings> {
        let settings = Settings {
            preset: self.preset.over(Preset::None)?,
            force: self.force.over(Force::CHAN_VESE)?,
            init: self.init.over(Init::DENSE)?,
            evolution: self.evolution.over(EvolutionOptions::USUAL)?,
            tidy: self.tidy.over(TidyOptions::USUAL)?,
        };
        settings.preset.check()?;
        settings.force.check()?;
        settings.init.check()?;
        settings.evolution.check()?;
        settings.tidy.check()?;
        if settings.preset != Preset::None {
            self.check_preset(settings.preset)?;
            self.check_used(&settings)?;
            return Ok(settings);
        }
        self.check_files(&settings)?;
        self.check_force(&settings)?;
        self.check_regions(&settings)?;
        self.check_used(&settings)?;
        Ok(settings)
    }

    /// What a preset has of itself.
    fn check_preset(&self, of: Preset) -> Result<()> {
        let names = [
            self.force.first(),
            self.init.first(),
            self.speed.as_ref().map(|_| "speed"),
            self.initial_mask.as_ref().map(|_| "initial_mask"),
            self.evolution.has("regions").then_some("regions"),
        ];
        if let Some(name) = names.into_iter().flatten().next() {
            return Err(Error::input(Text::option(name).and(text!(
                ": `preset = {}` has a force, a start and two regions of its own; leave one of them out",
                of.name()
            ))));
        }
        let masked = of == Preset::WhiteMatter;
        refuse(self.prior_mask.is_some() && !masked, "prior_mask", text!("`preset = white-matter`"))
    }

    /// Files that do not go with the kinds.
    fn check_files(&self, of: &Settings) -> Result<()> {
        refuse(
            self.speed.is_some() && of.force != Force::Speed,
            "speed",
            text!("`force = speed`"),
        )?;
        let dense = matches!(of.init, Init::Dense(_));
        refuse(self.prior_mask.is_some() && !dense, "prior_mask", text!("`init = dense`"))?;
        let mask = of.init == Init::Mask;
        refuse(self.initial_mask.is_some() && !mask, "initial_mask", text!("`init = mask`"))?;
        if of.force == Force::Speed && self.speed.is_none() {
            return Err(Error::input(text!("`force = speed` needs a field: give `speed` FILE")));
        }
        if mask && self.initial_mask.is_none() {
            return Err(Error::input(text!("`init = mask` needs one: give `initial_mask` FILE")));
        }
        Ok(())
    }

    /// Parameters of the force that do not go together.
    fn check_force(&self, of: &Settings) -> Result<()> {
        match of.force {
            Force::MeanCurvature if of.evolution.iterations == Iterations::Auto => {
                Err(Error::input(text!(
                    "`force = mean-curvature` makes everything vanish in the end, so that no bound is of use: give `iterations` N"
                )))
            }
            Force::ChanVese(MeansOptions { inside, outside, .. })
                if inside == 0.0 && outside == 0.0 =>
            {
                Err(Error::input(text!(
                    "both `inside` and `outside` are 0: the image has no say; give one of them above 0"
                )))
            }
            Force::GeodesicRegions(mixture) => {
                let classes = mixture.classes.unwrap_or(of.evolution.regions);
                if let Some(wrong) = mixture.object_classes.numbers().find(|n| *n > classes) {
                    return Err(Error::input(text!(
                        "`object_classes` has class {wrong}, and there are {classes} `classes`; give numbers up to that"
                    )));
                }
                if mixture.object_classes.numbers().count() == classes {
                    return Err(Error::input(text!(
                        "`object_classes` has all {classes} `classes`: nothing is left for the background; leave one out"
                    )));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What several regions do not go with.
    fn check_regions(&self, of: &Settings) -> Result<()> {
        let regions = of.evolution.regions;
        if regions == 2 {
            return Ok(());
        }
        if !matches!(of.force, Force::ChanVese(_) | Force::GeodesicRegions(_)) {
            return Err(Error::input(text!(
                "`regions` is {regions}, and `force = {}` knows an inside and an outside alone; leave it out, or give `force = chan-vese` or \
                 geodesic-regions",
                of.force.name()
            )));
        }
        let two = || text!("two regions");
        for option in ["inside", "outside", "object", "object_classes", "edge_sigma", "contrast"] {
            refuse(self.force.has(option), option, two())?;
        }
        for option in ["smooth", "smooth_every"] {
            refuse(self.evolution.has(option), option, two())?;
        }
        if let Force::GeodesicRegions(MixtureOptions { classes: Some(classes), .. }) = of.force
            && classes != regions
        {
            return Err(Error::input(text!(
                "`classes` is {classes} and `regions` is {regions}: each of several regions is one class; leave `classes` out"
            )));
        }
        match of.init {
            Init::Dense(DenseOptions { init_shape: DenseShape::Checkerboard, .. }) => Ok(()),
            _ => Err(Error::input(text!(
                "more than two `regions` start from squares of all labels: leave `init` and `init_shape` out"
            ))),
        }
    }

    /// What would be ignored.
    fn check_used(&self, of: &Settings) -> Result<()> {
        let (evolution, tidy) = (&of.evolution, &of.tidy);
        let smooths = evolution.smooth > 0;
        refuse(self.evolution.has("smooth_every") && !smooths, "smooth_every", text!("`smooth`"))?;
        if let (Init::Dense(dense), Preset::None) = (of.init, of.preset) {
            let checkerboard = dense.init_shape == DenseShape::Checkerboard;
            let apart = text!("`init_shape = ball` and box");
            refuse(dense.init_spacing.is_some() && checkerboard, "init_spacing", apart)?;
            if let Some(size) = dense.init_size.filter(|s| checkerboard && s.fract() != 0.0) {
                return Err(Error::input(text!(
                    "`init_size` is {size}, and squares have whole numbers of voxels; give one"
                )));
            }
        }
        if let Some(sigma) = evolution.sigma.filter(|_| !of.bends() && !smooths) {
            return Err(Error::input(text!(
                "`sigma` is {sigma}, and nothing here goes by the curvature of the front; leave it out, or give `smooth` or a `curvature` above 0"
            )));
        }
        if tidy.largest_component && tidy.smallest_island > 0.0 {
            return Err(Error::input(text!(
                "both `largest_component` and `smallest_island` are given; leave one of them out"
            )));
        }
        Ok(())
    }

    /// The files that are read beside the image.
    pub(super) fn files(&self) -> impl Iterator<Item = Input<'_>> {
        let all = [
            (Role::Speed, &self.speed),
            (Role::PriorMask, &self.prior_mask),
            (Role::InitialMask, &self.initial_mask),
            (Role::LabelNames, &self.label_names),
        ];
        let all = all.into_iter().filter_map(|(role, p)| Some(Input::new(role, p.as_deref()?)));
        all.collect::<Vec<_>>().into_iter()
    }
}

impl Settings {
    /// Whether the force goes by the curvature or the normal of the front.
    fn bends(&self) -> bool {
        if self.preset != Preset::None {
            return true;
        }
        match self.force {
            Force::ChanVese(of) => of.curvature != Some(0.0),
            Force::GeodesicRegions(of) => of.curvature != Some(0.0),
            Force::MeanCurvature | Force::Edge(_) => true,
            Force::Speed => false,
        }
    }

    /// Whether the force goes by the image.
    pub(super) fn looks_at_image(&self) -> bool {
        self.preset != Preset::None || !matches!(self.force, Force::MeanCurvature | Force::Speed)
    }

    /// The same with the contrast of edges that an image with these voxels has, where none was given.
    pub(super) fn keep_contrast(&mut self, contrast: Option<f64>) {
        let edges = match &mut self.force {
            Force::GeodesicRegions(of) => &mut of.edges,
            Force::Edge(of) => &mut of.edges,
            _ => return,
        };
        edges.contrast = edges.contrast.or(contrast);
    }

    /// The neighbourhood on a grid: of the image, or of slices beside each other.
    pub(super) fn neighbourhood(&self, grid: &Grid) -> Result<Neighbourhood> {
        let usual = if grid.is_2d() { Neighbourhood::Four } else { Neighbourhood::Six };
        let in_slices = self.preset == Preset::WhiteMatterHead;
        let asked = match self.evolution.connectivity {
            // The finished object has three dimensions.
            Some(_) if in_slices && !grid.is_2d() => return Ok(usual),
            None => return Ok(usual),
            Some(asked) => asked,
        };
        let found = Neighbourhood::from(asked);
        if found.is_2d() != grid.is_2d() {
            let (dimension, remedy) = match grid.is_2d() {
                true if in_slices => ("taken slice by slice", "4 or 8"),
                true => ("2D", "4 or 8"),
                false => ("3D", "6, 18 or 26"),
            };
            return Err(Error::input(text!(
                "`connectivity` is {}, and the image is {dimension}; give {remedy}",
                asked.name()
            )));
        }
        Ok(found)
    }

    /// The smallest spacing of an image, mm, and the spacing along all axes.
    pub(super) fn spacing(grid: &Grid) -> (f64, [f64; 3]) {
        let all = grid.spacing();
        let axes = if grid.is_2d() { 2 } else { 3 };
        // Axes of a single voxel have no spacing that matters.
        let several = (0..axes).filter(|a| grid.dims()[*a] > 1).map(|a| all[a]);
        let least = several.fold(f64::INFINITY, f64::min);
        (if least.is_finite() { least } else { all[0] }, all)
    }

    /// The standard deviation of the Gaussian of curvatures, mm.
    pub(super) fn sigma(&self, grid: &Grid) -> f64 {
        // The forces of presets are strong: their curvature is for noise alone.
        let voxels = if self.preset == Preset::None { 3.0 } else { 1.0 };
        self.evolution.sigma.unwrap_or(voxels * Self::spacing(grid).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::from_toml;

    #[test]
    fn what_would_be_ignored_is_refused() {
        let said = |text: &str| {
            let options: Options = from_toml(text).unwrap();
            options.settings().unwrap_err().to_string()
        };
        for (text, part) in [
            ("speed = 'a.nii'", "`speed` is for `force = speed`"),
            ("force = 'speed'", "give `speed` FILE"),
            ("prior_mask = 'a.nii'\ninit = 'circle'", "`prior_mask` is for `init = dense`"),
            ("initial_mask = 'a.nii'", "`initial_mask` is for `init = mask`"),
            ("init = 'mask'", "give `initial_mask` FILE"),
            ("force = 'mean-curvature'", "give `iterations` N"),
            ("force = 'edge'\ncurvature = 1", "`curvature` is for `force = chan-vese`"),
            ("force = 'mean-curvature'\niterations = 3\npressure = 1", "`pressure` is for"),
            ("inside = 0\noutside = 0", "the image has no say"),
            ("curvature = -1", "`curvature` is -1"),
            ("force = 'geodesic-regions'\nclasses = 3\nobject_classes = [2, 4]", "class 4"),
            ("force = 'geodesic-regions'\nobject_classes = '1,2'", "nothing is left"),
            ("force = 'geodesic-regions'\nregions = 3\nclasses = 4", "leave `classes` out"),
            ("regions = 3\nforce = 'edge'", "`force = edge` knows an inside"),
            ("regions = 3\nobject = 'darker'", "`object` is for two regions"),
            ("regions = 3\nsmooth = 4", "`smooth` is for two regions"),
            ("regions = 3\ninit = 'circle'", "leave `init`"),
            ("regions = 3\ninit_shape = 'ball'", "leave `init`"),
            ("regions = 1", "`regions` is 1"),
            ("smooth_every = 3", "`smooth_every` is for `smooth`"),
            ("init_spacing = 9", "`init_spacing` is for `init_shape = ball`"),
            ("init_size = 2.5", "whole numbers"),
            ("init = 'circle'\ninit_shape = 'ball'", "`init_shape` is for `init = dense`"),
            ("init_centre = '1,2,3'", "`init_centre` is for `init = circle`"),
            ("curvature = 0\nsigma = 2", "leave it out"),
            ("force = 'speed'\nspeed = 'a.nii'\nsigma = 2", "leave it out"),
            ("largest_component = true\nsmallest_island = 5", "leave one of them out"),
            ("smallest_island = -5", "`smallest_island` is -5"),
            ("preset = 'bone'\nforce = 'edge'", "`force`: `preset = bone` has"),
            ("preset = 'bone'\nobject = 'darker'", "`object`"),
            ("preset = 'white-matter'\ninit_size = 3", "`init_size`"),
            ("preset = 'white-matter'\nregions = 2", "`regions`"),
            ("preset = 'white-matter-head'\nprior_mask = 'a.nii'", "`prior_mask` is for"),
            ("preset = 'white-matter'\nbone_threshold = 200", "`bone_threshold` is for"),
            ("preset = 'bone'\nbone_threshold = 20", "`bone_threshold` is 20"),
        ] {
            let text = said(text);
            assert!(text.contains(part), "{part}: {text}");
        }
        for wrong in ["connectivity = 5", "iterations = 0", "init_centre = '1'", "classes = 'x'"] {
            assert!(from_toml::<Options>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_put_together_and_read_back() {
        let text = "force = 'geodesic-regions'\nclasses = 4\nobject-classes = [3, 4]\ncontrast = 2.5\ninit = 'box'\n\
                    init_centre = [1, -2, 3.5]\nconnectivity = 18\niterations = 7\nfill_holes = true\nsurface = false";
        let options: Options = from_toml(text).unwrap();
        let all = options.settings().unwrap();
        let Force::GeodesicRegions(mixture) = all.force else { panic!("{all:?}") };
        assert_eq!(mixture.object_classes.numbers().collect::<Vec<_>>(), [3, 4]);
        assert_eq!((mixture.edges.contrast, mixture.classes), (Some(2.5), Some(4)));
        let Init::Box(shape) = all.init else { panic!("{all:?}") };
        assert_eq!(shape.init_centre.unwrap().with_z(0.0), [1.0, -2.0, 3.5]);
        assert_eq!(all.evolution.iterations, Iterations::Most(7));
        assert!(all.tidy.fill_holes && options.no_surface);
        let solid = Grid::axis_aligned([4, 5, 6], [2.0, 1.0, 0.5]).unwrap();
        assert_eq!(all.neighbourhood(&solid).unwrap(), Neighbourhood::Eighteen);
        assert_eq!(all.sigma(&solid), 1.5);
        let flat = Grid::axis_aligned([4, 5, 1], [2.0, 1.0, 0.5]).unwrap();
        let said = all.neighbourhood(&flat).unwrap_err().to_string();
        assert!(said.contains("give 4 or 8"), "{said}");
        assert_eq!(all.sigma(&flat), 3.0);
        let data = serde_json::to_value(&options).unwrap();
        assert_eq!(crate::options::from_json::<Options>(data).unwrap(), options);
    }
}
