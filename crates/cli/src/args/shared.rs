//! Options that several commands share: one name, one meaning.

use super::values::{Angles, InitChoice, Interpolation, Levels, Outside, Steps, not_negative};
use super::{choice, choice_of};
use crate::device::{Auto, Machine, start_threads};
use crate::failure::Failure;
use crate::files::{self, Grids};
use crate::progress::Talk;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use voxalign_compute::ops::histogram::{JointScheme, Scheme};
use voxalign_compute::select::DeviceChoice;
use voxalign_image::Grid;
use voxalign_io::image::ReadOptions;
use voxalign_io::points::PointConvention;
use voxalign_io::transform::Geometry;
use voxalign_register::Choice;
use voxalign_register::linear::{AffineOptions, Search, SearchRange};
use voxalign_register::search::OptimiserKind;
use voxalign_register::similarity::Similarity;

/// How a command runs and what it says.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct RunArgs {
    /// Device to compute on [default: VOXALIGN_DEVICE, else auto]
    ///
    /// `cpu`, `cuda` (the first GPU that can be used), `cuda:N`, or `auto`: for affine, deform,
    /// atlas and demo `cuda` where there is a usable GPU, else `cpu`; for apply, stack and bench always `cpu`,
    /// as starting a GPU takes longer than their work. The environment variable VOXALIGN_DEVICE
    /// sets the default; `voxalign devices` lists what there is.
    #[arg(long, value_name = "auto|cpu|cuda|cuda:N")]
    pub(crate) device: Option<DeviceChoice>,
    /// Threads to use; the result does not depend on it. With a GPU, they do the work that remains
    /// on the CPU [default: all]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print every step
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
}

impl RunArgs {
    /// How much is said.
    pub(crate) fn talk(&self) -> Talk {
        match (self.quiet, self.verbose) {
            (true, _) => Talk::Quiet,
            (_, true) => Talk::Verbose,
            _ => Talk::Normal,
        }
    }

    /// Starts the device; `auto` stands for what `--device auto` means to the command.
    pub(crate) fn machine(&self, auto: Auto) -> Result<Machine, Failure> {
        let machine = Machine::start(self.device, auto, self.threads)?;
        machine.explain(self.talk());
        Ok(machine)
    }

    /// Does something while the device starts. What the device says comes first.
    pub(crate) fn machine_and<T>(
        &self,
        auto: Auto,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(Machine, T), Failure> {
        let starting = Machine::starting(self.device, auto, self.threads)?;
        let done = work();
        let machine = starting.wait()?;
        machine.explain(self.talk());
        Ok((machine, done?))
    }
}

/// What is written and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Interpolation of warped.nii.gz [default: linear]
    #[arg(long, value_enum)]
    interpolation: Option<Interpolation>,
    /// Value of warped.nii.gz outside the moving image, or `nan` [default: 0; for images with a
    /// background below 0, such as CT, their smallest value]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    outside: Option<Outside>,
    /// Write report.html (the default)
    #[arg(long, conflicts_with = "no_report")]
    report: bool,
    /// Do not write report.html
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
}

impl OutputArgs {
    /// Whether a report is written.
    pub(crate) fn wants_report(&self) -> bool {
        self.report || !self.no_report
    }
    /// Interpolation of the resampled image.
    pub(crate) fn interpolation(&self) -> Interpolation {
        self.interpolation.unwrap_or(Interpolation::Linear)
    }

    /// Value outside the moving image, where it was given.
    pub(crate) fn outside(&self) -> Option<f32> {
        self.outside.map(|Outside(v)| v)
    }

    /// Refuses what is not for images.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.interpolation().of_image().map(|_| ())
    }
}

/// How a command runs that works on the host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct HostArgs {
    /// Threads to use; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl HostArgs {
    /// How much is said.
    pub(crate) fn talk(&self) -> Talk {
        if self.quiet { Talk::Quiet } else { Talk::Normal }
    }

    /// Sets the number of threads.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        start_threads(self.threads)
    }
}

/// A number of threads.
fn threads(text: &str) -> Result<usize, String> {
    const MOST: usize = 1024;
    let number = text.trim().parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("give a number of threads from 1 to {MOST}"))
}

/// The form of a result.
#[derive(Debug, Clone, Args)]
pub(crate) struct JsonArgs {
    /// Print JSON, for programs; what is no finite number is null
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which image of a file or folder that holds several.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which image")]
pub(crate) struct WhichArgs {
    /// Of an image with several volumes, such as a 4D NIfTI file: the number of one, from 0
    #[arg(long, value_name = "N")]
    volume: Option<usize>,
    /// Of a folder with several DICOM series: the UID of one, or its number in the list that
    /// `voxalign info FOLDER` shows
    #[arg(long, value_name = "UID|N")]
    series: Option<String>,
}

impl WhichArgs {
    /// As the readers take it.
    pub(crate) fn options(&self) -> ReadOptions {
        let Self { volume, series } = self.clone();
        ReadOptions { series, volume, ..ReadOptions::default() }
    }

    /// Whether one is chosen.
    pub(crate) fn is_given(&self) -> bool {
        self.volume.is_some() || self.series.is_some()
    }

    /// Whether a volume is chosen.
    pub(crate) fn has_volume(&self) -> bool {
        self.volume.is_some()
    }

    /// Whether a series is chosen.
    pub(crate) fn has_series(&self) -> bool {
        self.series.is_some()
    }
}

/// The images that transform files are relative to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Geometry of transform files")]
pub(crate) struct GeometryArgs {
    /// The fixed (reference) image of the transform: FSL matrices need it, and displacement
    /// fields are written on its grid
    #[arg(long, value_name = "IMAGE")]
    pub(crate) fixed_geometry: Option<PathBuf>,
    /// The moving (input) image of the transform: FSL matrices need it
    #[arg(long, value_name = "IMAGE")]
    pub(crate) moving_geometry: Option<PathBuf>,
}

impl GeometryArgs {
    /// Reads the grids that were named.
    pub(crate) fn grids(&self) -> Result<Grids, Failure> {
        let grid = |path: &Option<PathBuf>, option: &str| {
            let read = path.as_ref().map(|p| files::grid(p).map_err(|e| e.at(option)));
            read.transpose()
        };
        Ok(Grids {
            fixed: grid(&self.fixed_geometry, "--fixed-geometry")?,
            moving: grid(&self.moving_geometry, "--moving-geometry")?,
        })
    }

    /// The files that were named.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.fixed_geometry.iter().chain(&self.moving_geometry)
    }
}

/// The world that the coordinates of a point file are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum PointConventionName {
    /// x to the right, y to the front, z up, as everywhere in this program
    #[default]
    Ras,
    /// x to the left, y to the back, z up, as ITK, ANTs and DICOM
    Lps,
}

impl From<PointConventionName> for PointConvention {
    fn from(name: PointConventionName) -> Self {
        match name {
            PointConventionName::Ras => PointConvention::Ras,
            PointConventionName::Lps => PointConvention::Lps,
        }
    }
}

/// Whether a similarity can drive an affine registration.
pub(crate) fn of_maps(similarity: &Similarity) -> bool {
    similarity.of_sums().is_some()
}

/// The method of an affine registration.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Method")]
pub(crate) struct MethodArgs {
    /// Degrees of freedom: 6 rigid, 7 with one scale, 9 with three, 12 affine; for 2D images 3
    /// rigid, 4 with one scale, 6 affine [default: 12, and 6 for 2D images]
    #[arg(long, value_name = "N")]
    pub(crate) dof: Option<usize>,
    /// Similarity measure [default: cr]
    #[arg(long, visible_alias = "similarity", value_parser = choice_of(of_maps))]
    pub(crate) cost: Option<Similarity>,
    /// Histogram bins at the finest level, for cr, mi and nmi [default: depends on the cost]
    #[arg(long, value_name = "N")]
    pub(crate) bins: Option<usize>,
    /// Start: `header` uses the headers as they are, `centre` aligns the image centres, `moments`
    /// aligns the centres of mass, `identity` ignores the headers (first voxel on first voxel, axis
    /// on axis), FILE is a transform file, fixed to moving [default: moments]
    #[arg(long, value_name = "header|centre|moments|identity|FILE")]
    pub(crate) init: Option<InitChoice>,
    /// `full` tries all rotations in the range of --search-angles, `local` refines the start,
    /// `none` only scores the start [default: full]
    #[arg(long, value_parser = choice::<Search>())]
    pub(crate) search: Option<Search>,
    /// Rotations about x, y and z that a full search tries, degrees: one number A for -A:A about
    /// every axis, or three, each a number A or a range MIN:MAX, such as `30,30,-180:180` [default:
    /// 180]
    #[arg(long, value_name = "DEGREES", allow_hyphen_values = true)]
    pub(crate) search_angles: Option<Angles>,
    /// Steps of the coarse and of the fine rotation search, degrees [default: 60,18]
    #[arg(long, value_name = "COARSE,FINE")]
    pub(crate) search_steps: Option<Steps>,
    /// Sample spacing of each resolution level, coarse to fine, mm [default: 8,4,2,1, adapted to
    /// images much smaller or larger than a head]
    #[arg(long, value_name = "MM,MM,...")]
    pub(crate) levels: Option<Levels>,
    /// Width of the border of the overlap within which voxels count less, mm; 0 for none [default:
    /// 2]
    #[arg(long, value_name = "MM", value_parser = not_negative, allow_hyphen_values = true)]
    pub(crate) apodise: Option<f64>,
    /// How the minimum of the cost is found from each candidate [default: bfgs]
    #[arg(long, value_parser = choice::<OptimiserKind>())]
    pub(crate) optimiser: Option<OptimiserKind>,
    /// How the sums of cr, ncc and ssd are made: conflict_free, direct, and on a GPU also
    /// fixed_point, warp_aggregated, global_merge, and, for comparison only as their last digits
    /// differ from run to run, global_atomic, shared_atomic, shared_merge, shared_warp [default:
    /// conflict_free]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheme: Option<Scheme>,
}

impl MethodArgs {
    /// The library's options; a start from a file is read with the grids of the two images.
    pub(crate) fn options(&self, geometry: &Geometry<'_>) -> Result<AffineOptions, Failure> {
        let default = AffineOptions::default();
        let flat = geometry.fixed.is_some_and(Grid::is_2d);
        let dof = self.dof.unwrap_or(if flat { 6 } else { default.dof });
        let known: &[usize] = if flat { &[3, 4, 6] } else { &[6, 7, 9, 12] };
        if !known.contains(&dof) {
            let (kind, list) = if flat { ("2D", "3, 4 or 6") } else { ("3D", "6, 7, 9 or 12") };
            return Err(Failure::input(format!("--dof is {dof}; for {kind} images give {list}")));
        }
        self.check()?;
        let range = SearchRange::default();
        let mut similarity = self.cost.unwrap_or(default.similarity);
        if let Some(bins) = self.bins {
            similarity.set("bins", bins);
        }
        let steps = self.search_steps.map_or([range.coarse, range.fine], Steps::radians);
        Ok(AffineOptions {
            dof,
            similarity,
            init: match &self.init {
                Some(choice) => choice.load(geometry).map_err(|e| e.at("--init"))?,
                None => default.init,
            },
            search: self.search.unwrap_or(default.search),
            range: SearchRange {
                angles: self.search_angles.map_or(range.angles, Angles::radians),
                coarse: steps[0],
                fine: steps[1],
            },
            apodise: self.apodise.unwrap_or(default.apodise),
            levels: self.levels.as_ref().map(|l| l.0.clone()),
            scheme: self.scheme,
            joint: JointScheme::Default,
            optimiser: self.optimiser.unwrap_or_default(),
        })
    }

    /// Refuses options that others make meaningless.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let default = AffineOptions::default();
        let search = self.search.unwrap_or(default.search);
        let cost = self.cost.unwrap_or(default.similarity);
        if search != Search::Full && (self.search_angles.is_some() || self.search_steps.is_some()) {
            return Err(Failure::input(
                "--search-angles and --search-steps are for --search full; leave them out",
            ));
        }
        if search == Search::None && self.dof.is_some() {
            return Err(Failure::input(
                "--dof is for --search full or local; with --search none the start is scored as it \
                 is",
            ));
        }
        if search == Search::None && self.optimiser.is_some() {
            return Err(Failure::input(
                "--optimiser is for --search full or local; leave it out where nothing is searched",
            ));
        }
        if self.bins.is_some() && cost.get("bins").is_none() {
            return Err(Failure::input(format!(
                "--bins is for cr, mi and nmi; {} has no histogram",
                cost.name()
            )));
        }
        if self.scheme.is_some() && !cost.takes_scheme() {
            return Err(Failure::input(format!(
                "--scheme is for cr, ncc and ssd; {} has a joint histogram",
                cost.name()
            )));
        }
        Ok(())
    }
}
