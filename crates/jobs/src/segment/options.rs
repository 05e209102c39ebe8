//! Options of a segmentation: the force, the start, the evolution, and what is done with the result.

use super::values::{Centre, Classes, Connectivity, Iterations, MOST_CLASSES};
use crate::options::{ReportOption, negated};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_options::{Choice, Chosen, Given, Parameters, UseOf};
use voxalign_segment::Object;

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

impl Options {
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
