//! The registration of two anatomies, from files to files.

use super::file::{Anatomy, Kind, Source};
use super::matched::{Matched, matched};
use super::prepared::{Prepared, Shown, fitted, grid_of, prepare};
use super::read::{CALLED, Thing, of_side, things};
use super::task::OfAnatomies;
use super::{drawing, place};
use crate::Job as _;
use crate::deform::{AffineChoice, Course, DeformMethod, given, outputs};
use crate::error::{Error, Result};
use crate::job::missing;
use crate::listener::Listener;
use crate::machine::{Auto, Machine};
use crate::options::{InitChoice, MatchingOptions, OutputOptions, Products, as_text, refuse};
use crate::pair::MaskPaths;
use crate::plan::{self, Plan};
use crate::results::{ResultFile, of_outputs};
use crate::run::{Caller, Done, Input, Output, Read, Role, Run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use voxalign_image::Affine;
use voxalign_io::image::ReadOptions;
use voxalign_io::transform::Geometry;
use voxalign_options::{Choice, text};
use voxalign_register::diffeo::{DeformModel, Matching};
use voxalign_register::fit::{MapKind, fit_points};
use voxalign_register::fit_shapes::ShapeStart;
use voxalign_register::linear::Init;
use voxalign_report::RunRecord;

/// Where the search of the affine part starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At the landmarks of the anatomies laid on each other.
    Landmarks,
    /// As that of images.
    Other(InitChoice),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "landmarks" => Ok(Self::Landmarks),
            other => other
                .parse()
                .map(Self::Other)
                .map_err(|e: String| format!("{e}; or landmarks, for those of the anatomies")),
        }
    }
}

impl Display for Start {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landmarks => f.write_str("landmarks"),
            Self::Other(choice) => choice.fmt(f),
        }
    }
}

/// A registration of two anatomies that is to be done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The file of the fixed anatomy
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "FIXED.toml", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub fixed: PathBuf,
    /// The file of the moving anatomy, which is registered to it
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "MOVING.toml", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub moving: PathBuf,
    /// Folder for the results; created if it does not exist
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// Affine transform to start from: `auto` runs an affine registration first, of the first image, else of all
    /// probabilities, else of the closest points of the shapes; `none` uses the coordinates as they are; FILE is an
    /// affine transform, fixed to moving [default: auto]
    #[cfg_attr(feature = "clap", arg(long, value_name = "auto|none|FILE"))]
    #[serde(with = "as_text")]
    pub affine: Option<AffineChoice>,
    /// Start of the initial affine registration: `landmarks` uses those of the anatomies, the others are as for
    /// `voxalign affine` [default: moments]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "landmarks|header|centre|moments|identity|FILE")
    )]
    #[serde(with = "as_text")]
    pub init: Option<Start>,
    /// Spacing of the grid around the shapes of anatomies without images, mm [default: 1/80 of the longest side of the
    /// fixed shapes]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM", value_parser = crate::options::positive, allow_hyphen_values = true))]
    pub spacing: Option<f64>,
    /// Registration method; similarities are said in the file of the fixed anatomy.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub method: DeformMethod,
    /// What goes with them.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub masks: MaskPaths,
    /// How results are written.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub written: OutputOptions,
    /// Which files to write, separated by commas: warp, inverse_warp, affine, composite,
    /// inverse_composite, warped (everything that is warped: images, probabilities, shapes), jacobian, or
    /// `all`; result.json is always written, and report.html unless --no-report says otherwise
    /// [default: warp,inverse_warp,affine,warped]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME,...", value_parser = crate::options::of_deform, help_heading = "Output"))]
    #[serde(with = "as_text")]
    pub outputs: Option<Products>,
}

/// What was read of two anatomies.
#[derive(Debug)]
pub struct Inputs {
    things: Vec<Thing>,
    matched: Vec<Matched>,
    remarks: Vec<String>,
}

impl Job {
    /// Of two files, with usual options; results go to a folder.
    pub fn new(
        fixed: impl Into<PathBuf>,
        moving: impl Into<PathBuf>,
        output: impl Into<PathBuf>,
    ) -> Self {
        let (fixed, moving, output) = (fixed.into(), moving.into(), output.into());
        Self { fixed, moving, output, ..Self::default() }
    }

    /// What both files have in common.
    fn matched(&self, listener: &dyn Listener) -> Result<Vec<Matched>> {
        let [fixed, moving] = [&self.fixed, &self.moving].map(|path| Anatomy::read(path, listener));
        matched(&fixed?, &moving?)
    }

    fn matching(&self) -> Result<Matching> {
        let of_files = self.method.matching.similarity.first();
        let channel = (!self.method.channel.is_empty()).then_some("channel");
        if let Some(option) = of_files.or(channel) {
            return Err(Error::input(text!(
                "`{option}` is set for each image in the file of the fixed anatomy; leave it out"
            )));
        }
        self.method.matching(&[], DeformModel::default())
    }

    /// How what is registered is matched.
    fn matching_for(&self, matched: &[Matched]) -> Result<Matching> {
        let mut matching = self.matching()?;
        let shapes_alone = !matched.iter().any(|m| m.kind.is_image());
        if shapes_alone {
            of_shapes_alone(&mut matching, &self.method.matching)?;
        }
        Ok(matching)
    }

    /// All files with what they are; each once.
    pub(super) fn files<'a>(&'a self, matched: &'a [Matched]) -> Vec<Input<'a>> {
        let mut all = vec![
            Input::new(Role::FixedAnatomy, &self.fixed),
            Input::new(Role::MovingAnatomy, &self.moving),
        ];
        let masks = &self.masks;
        let first = matched.iter().position(|m| m.kind == Kind::Image);
        let mut seen = BTreeSet::new();
        for (i, m) in matched.iter().enumerate() {
            let roles = match m.kind {
                Kind::Image if first == Some(i) => [Role::Fixed, Role::Moving],
                Kind::Image => [Role::ChannelFixed, Role::ChannelMoving],
                Kind::Probability => [Role::FixedProbability, Role::MovingProbability],
                Kind::Landmarks => [Role::FixedLandmarks, Role::MovingLandmarks],
                _ => [Role::FixedShape, Role::MovingShape],
            };
            let made = [Role::FixedShapeImage, Role::MovingShapeImage];
            for ((role, of_voxels), source) in roles.into_iter().zip(made).zip(&m.sources) {
                let volumes = match source {
                    Source::Images(files) => files.clone(),
                    Source::Voxels(of) => vec![(of.path.clone(), of.volume)],
                    other => other.paths().iter().map(|p| ((*p).to_owned(), None)).collect(),
                };
                let role = if matches!(source, Source::Voxels(_)) { of_voxels } else { role };
                for (path, (_, volume)) in source.paths().into_iter().zip(volumes) {
                    let name = Input::new(role, path).name();
                    if seen.insert((name, path)) {
                        let which = ReadOptions { volume, ..ReadOptions::default() };
                        all.push(Input::new(role, path).of(which));
                    }
                }
                if let Some(table) = source.names().filter(|table| seen.insert(("", table))) {
                    all.push(Input::new(Role::LabelNames, table));
                }
            }
        }
        all.extend(Input::those_given(&[
            (Role::FixedMask, &masks.fixed_mask),
            (Role::MovingMask, &masks.moving_mask),
            (Role::FixedLabels, &masks.fixed_labels),
            (Role::MovingLabels, &masks.moving_labels),
            (Role::LabelNames, &masks.label_names),
        ]));
        let start = self.affine.as_ref().and_then(AffineChoice::file);
        all.extend(start.map(|path| Input::new(Role::Affine, path)));
        if let Some(Start::Other(init)) = &self.init {
            all.extend(init.inputs());
        }
        all
    }

    fn products(&self) -> Products {
        self.outputs.clone().unwrap_or_else(Products::usual)
    }

    fn as_run<'a>(
        &'a self,
        products: &'a Products,
        caller: &'a Caller,
        listener: &'a dyn Listener,
    ) -> Run<'a> {
        let (folder, output, products) = (&*self.output, &self.written, Some(products));
        Run { caller, folder, output, products, bids: None, listener }
    }

    fn checked(&self, caller: &Caller, listener: &dyn Listener) -> Result<Vec<Matched>> {
        self.check_options()?;
        let matched = self.matched(listener)?;
        let has = |kind: Kind| matched.iter().any(|m| m.kind == kind);
        let images = has(Kind::Image) || has(Kind::Probability);
        refuse(self.spacing.is_some() && images, "spacing", text!("anatomies without images"))?;
        let masks = &self.masks;
        for (path, option) in [
            (&masks.fixed_mask, "fixed_mask"),
            (&masks.moving_mask, "moving_mask"),
            (&masks.fixed_labels, "fixed_labels"),
            (&masks.moving_labels, "moving_labels"),
        ] {
            refuse(
                path.is_some() && !images,
                option,
                text!("anatomies with images, on whose grids it is"),
            )?;
        }
        let histograms = self.method.preparation()?.histogram_match && !has(Kind::Image);
        refuse(histograms, "histogram_match", text!("anatomies with an [[image]]"))?;
        if self.init == Some(Start::Landmarks) && !has(Kind::Landmarks) {
            return Err(Error::input(text!(
                "`init = landmarks` is for anatomies with [[landmarks]]; list some, or leave it out"
            )));
        }
        if let Some(Start::Other(init)) = self.init.as_ref().filter(|_| !images)
            && !matches!(init, InitChoice::Header | InitChoice::Moments | InitChoice::File(_))
        {
            return Err(Error::input(text!(
                "`init` is {init}, which is for images; for anatomies of shapes give moments, header, landmarks (those \
                 of the anatomies) or a transform file"
            )));
        }
        let products = self.products();
        let outputs = files_of(&matched);
        let inputs = self.files(&matched);
        self.as_run(&products, caller, &crate::Silent).check(&outputs, &inputs)?;
        Ok(matched)
    }

    /// Where the deformation starts.
    pub(super) fn start(&self) -> AffineChoice {
        self.affine.clone().unwrap_or_default()
    }
}

/// What is usual for shapes alone, where nothing is said: they have no noise that smoothing the whole displacement would keep out,
/// and it would hold them back; and they come to rest only where steps become shorter.
pub(crate) fn of_shapes_alone(matching: &mut Matching, said: &MatchingOptions) -> Result<()> {
    for (name, usual) in [("total_sigma", "0"), ("step_rule", "adaptive")] {
        if !said.model.has(name) {
            matching.model.set(name, usual)?;
        }
    }
    Ok(())
}

/// All files that may be written.
pub(super) fn files_of(matched: &[Matched]) -> Vec<Output> {
    let first = matched.iter().find(|m| m.kind == Kind::Image);
    let mut all = outputs(first.map(|m| warped(&m.name)));
    let own = matched.iter().filter(|m| Some(&m.name) != first.map(|f| &f.name));
    for m in own {
        let product = Some(crate::options::Product::Warped);
        if m.kind.is_image() {
            all.push(Output::named("warped", warped(&m.name), product));
        } else {
            let [there, back] = carried_names(m);
            all.push(Output::named(CARRIED[0], there, product));
            all.push(Output::named(CARRIED[1], back, product));
        }
    }
    all
}

/// The same for pipelines.
pub(crate) fn results() -> Vec<ResultFile> {
    let mut all = of_outputs(&outputs(Some(warped("*"))));
    for (role, about) in CARRIED.into_iter().zip([
        "Moving surfaces, curves and points in the fixed world",
        "Fixed surfaces, curves and points in the moving world",
    ]) {
        all.push(ResultFile::of(role, &format!("{role}/*"), about));
    }
    all
}

/// The folders of surfaces, curves and points that were carried.
const CARRIED: [&str; 2] = ["moving_on_fixed", "fixed_on_moving"];

/// The file of a moving image or probability on the fixed grid.
pub(super) fn warped(name: &str) -> String {
    format!("warped/{name}.nii.gz")
}

/// The extension of the files that something is written to: points are a list where all that they are from are lists.
pub(crate) fn extension(m: &Matched) -> &'static str {
    let list = |source: &Source| matches!(source, Source::List(..));
    match m.kind {
        Kind::Surface => "surf.gii",
        Kind::Landmarks => "csv",
        Kind::Points if m.sources.iter().all(list) => "csv",
        _ => "vtk",
    }
}

/// The files of a moving shape in the fixed world, and of a fixed one in the moving world.
pub(super) fn carried_names(m: &Matched) -> [String; 2] {
    let extension = extension(m);
    CARRIED.map(|folder| format!("{folder}/{}.{extension}", m.name))
}

impl crate::Job for Job {
    type Record = RunRecord;
    type Inputs = Read<Inputs>;
    const NAME: &'static str = "anatomy";
    const AUTO: Auto = Auto::Gpu;

    fn missing(&self) -> Option<&'static str> {
        let all = [
            (&self.fixed, "the fixed anatomy FIXED.toml"),
            (&self.moving, "the moving anatomy MOVING.toml"),
            (&self.output, "the output folder -o DIR"),
        ];
        missing(&all)
    }

    fn check_options(&self) -> Result<()> {
        self.matching()?;
        let given = self.affine.as_ref().is_some_and(|start| *start != AffineChoice::Auto);
        refuse(
            given && self.init.is_some(),
            "init",
            text!("an affine registration that comes first (`affine = auto`)"),
        )?;
        if let Some(spacing) = self.spacing.filter(|s| !(*s > 0.0 && s.is_finite())) {
            return Err(Error::input(text!("`spacing` is {spacing}; give a number above 0, mm")));
        }
        self.masks.check()
    }

    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()> {
        self.checked(caller, listener).map(|_| ())
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        let matched = self.checked(caller, listener)?;
        let (matching, products) = (self.matching_for(&matched)?, self.products());
        let run = self.as_run(&products, caller, listener);
        let plan = run.plan(&self.files(&matched), &files_of(&matched))?;
        let voxels = |roles: [Role; 3]| roles.map(|role| plan.voxels(role));
        let fixed = voxels([Role::Fixed, Role::ChannelFixed, Role::FixedProbability]);
        let moving = voxels([Role::Moving, Role::ChannelMoving, Role::MovingProbability]);
        if fixed.iter().sum::<u64>() == 0 {
            // How large shapes are is in their files.
            return Ok(plan);
        }
        let images = matched.iter().filter(|m| m.kind.is_image()).count() as u64;
        // All are on one grid; volumes of one file are counted once.
        let grid = plan.largest(&[Role::Fixed, Role::FixedProbability]);
        let largest = plan.largest(&[Role::Moving, Role::MovingProbability]);
        let classes = matched.iter().filter(|m| m.kind == Kind::Probability).count() as u64;
        // Sums of kernels on grids, and elements, as measured with structures of a brain.
        let shapes = matched.iter().filter(|m| m.kind.is_shape());
        // Surfaces that are made take what the images take of which they are made, one after the other.
        let of_voxels = 24 * plan.largest(&[Role::FixedShapeImage, Role::MovingShapeImage]);
        let files = shapes.flat_map(|m| &m.sources).flat_map(Source::paths);
        let of_shapes = of_voxels
            + files
                .map(|path| (16 << 20) + 64 * std::fs::metadata(path).map_or(0, |file| file.len()))
                .sum::<u64>();
        let all = fixed.iter().chain(&moving).sum::<u64>().max(images * (grid + largest));
        let bytes = (plan::AFFINE * (grid + largest)).max(matching.model.bytes_per_voxel() * grid)
            + 4 * all
            + 16 * grid * images.saturating_sub(1)
            + 8 * grid * classes
            + of_shapes;
        Ok(plan.taking(plan::BASE + bytes))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        let matched = self.checked(caller, listener)?;
        let products = self.products();
        let files = self.files(&matched);
        let read = || {
            let (things, remarks) = things(matched.clone(), listener)?;
            // As early as that can be said.
            for (side, called) in CALLED.into_iter().enumerate() {
                if let Some(grid) = grid_of(&things, side) {
                    place::check(&of_side(&things, side), called, grid)?;
                }
            }
            if grid_of(&things, 0).is_none() {
                let spacing =
                    self.spacing.unwrap_or_else(|| drawing::usual_spacing(&of_side(&things, 0)));
                drawing::around(&of_side(&things, 0), spacing)?;
            }
            Ok(Inputs { things, matched: matched.clone(), remarks })
        };
        self.as_run(&products, caller, listener).read(&files, read)
    }

    fn find(
        &self,
        machine: &Machine,
        read: Read<Inputs>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<RunRecord>> {
        let products = self.products();
        let run = self.as_run(&products, caller, listener);
        let (Inputs { things, matched, remarks: of_meshes }, read) = read.split();
        let matching = self.matching_for(&matched)?;
        let prepared = prepare(&machine.device, things, self.spacing, &self.masks, listener)?;
        let Prepared { mut inputs, similarity, shown, things, channels, first, mut remarks } =
            prepared;
        inputs.preparation = self.method.preparation()?;
        remarks.extend(of_meshes);
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let start = self.affine.clone().unwrap_or_default();
        inputs.start = given(&start, &geometry, listener)?;
        let init = match (&self.init, &inputs.landmarks) {
            (None, _) => Init::default(),
            (Some(Start::Landmarks), Some(landmarks)) => Init::Landmarks(landmarks.pairs().clone()),
            (Some(Start::Landmarks), None) => {
                return Err(Error::Internal("missing landmarks".into()));
            }
            (Some(Start::Other(init)), _) => init
                .load(&geometry, Default::default(), listener)
                .map_err(|e| e.at(text!("`init`")))?,
        };
        if shown == Shown::Drawing && inputs.start.is_none() {
            let from = match init {
                Init::Header => ShapeStart::Given(Affine::identity()),
                Init::Given(map) => ShapeStart::Given(map),
                Init::Landmarks(pairs) => {
                    ShapeStart::Given(fit_points(&pairs, MapKind::Rigid, None)?.map)
                }
                _ => ShapeStart::Moments,
            };
            inputs.start = Some(fitted(&things, inputs.landmarks.as_ref(), &from)?);
            inputs.with_rival = false;
        } else {
            inputs.init = init;
        }
        let spacing = grids[0].spacing().into_iter().fold(f64::INFINITY, f64::min);
        let mut task = OfAnatomies {
            job: self,
            matching: &matching,
            preparation: self.method.preparation()?,
            matched: &matched,
            shown,
            first,
            things,
            channels,
            remarks,
            spacing,
            exchanged: Vec::new(),
            classes: Vec::new(),
            followed: Vec::new(),
            marks: Vec::new(),
            record: Default::default(),
        };
        let course =
            Course { machine, run, similarity: Some(similarity), deformer: &|_, _| &matching };
        course.run(read.with(inputs), &mut task)
    }
}
