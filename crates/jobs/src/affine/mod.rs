//! A rigid, similarity or affine transform between two images.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, affine, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = affine::Job::new("fixed.nii.gz", "moving.nii.gz", "out");
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.verdict.summary());
//! # Ok(())
//! # }
//! ```

mod distributed;
mod record;

use crate::bids::BidsOptions;
use crate::blocks::is_pyramid;
use crate::error::{Error, Result};
use crate::files;
use crate::job::{OfPair, missing};
use crate::listener::{Level, Listener};
use crate::machine::{Auto, Machine};
use crate::options::{
    AffineMethod, DistributedOptions, InitChoice, OutputOptions, Product, Products,
};
use crate::pair::{
    Distances, HeldImage, Pair, PairPaths, Views, landmark_remarks, optional_image, outside,
    score_figures,
};
use crate::plan::{self, Plan};
use crate::run::{
    self, Caller, Done, Input, Output, RECORD, REPORT, Read, Role, Run, TRANSFORM, TRANSFORM_FSL,
    WARPED,
};
use crate::staged::Staged;
use distributed::Blockwise;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Transform, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::Geometry;
use voxalign_options::{Text, text};
use voxalign_register::Silent;
use voxalign_register::linear::{AffineInput, AffineOptions, AffineResult, Init, register_affine};
use voxalign_register::resample::MovingImage;
use voxalign_report::RunRecord;
use voxalign_report::affine::{AffineReport, render};

/// What each file is.
pub(crate) const OUTPUTS: [Output; 5] = [
    Output::new("transform", TRANSFORM, Some(Product::Affine)),
    Output::new("transform_fsl", TRANSFORM_FSL, Some(Product::Affine)),
    Output::new("resampled", WARPED, Some(Product::Warped)),
    Output::new("record", RECORD, None),
    Output::new("report", REPORT, None),
];

/// A registration of two files that is to be done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// Folder for the results; created if it does not exist
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// Registration method.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub method: AffineMethod,
    /// The two images, and what goes with them.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub paths: PairPaths,
    /// Weight of each voxel of the fixed image (0 or more), on its grid
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "IMAGE", help_heading = "Masks and labels")
    )]
    pub fixed_weight: Option<PathBuf>,
    /// How images are registered that are read in blocks.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub distributed: DistributedOptions,
    /// How results are written.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub written: OutputOptions,
    /// Which files to write, separated by commas: affine, warped, or `all`; result.json is always written, and
    /// report.html unless --no-report says otherwise [default: all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME,...", value_parser = crate::options::of_affine, help_heading = "Output"))]
    #[serde(with = "of_affine")]
    pub outputs: Option<Products>,
    /// A data set of BIDS derivatives that the result goes into as well.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub bids: BidsOptions,
}

/// Which files, of those that an affine registration has.
mod of_affine {
    use crate::options::{Products, as_text, of_affine};
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        outputs: &Option<Products>,
        to: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        as_text::serialize(outputs, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> std::result::Result<Option<Products>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| of_affine(&text).map_err(D::Error::custom)).transpose()
    }
}

/// What was read.
#[derive(Debug)]
pub struct Inputs {
    /// The images.
    pub pair: Pair,
    /// What each voxel of the fixed image counts.
    pub fixed_weight: Option<Volume<f32>>,
}

/// What is read before the work begins.
#[derive(Debug)]
pub enum Given {
    /// The images.
    Whole(Box<Read<Inputs>>),
    /// Nothing: they are read in blocks.
    Blocks,
}

/// Images that are in memory.
impl From<Inputs> for Given {
    fn from(inputs: Inputs) -> Self {
        Self::Whole(Box::new(inputs.into()))
    }
}

/// A registration of images in memory.
#[derive(Debug)]
pub struct Registered {
    /// What was found, with its verdict.
    pub result: AffineResult,
    /// The moving image on the fixed one before and after, with scores.
    pub views: Views,
    /// What the reader of the result should know that no check can see.
    pub remarks: Vec<Text>,
    /// The value outside of the moving image.
    outside: f32,
}

/// Registers two images in memory. Of `written` the interpolation and the value outside are looked at.
///
/// # Errors
/// Options that the images do not have, images that cannot be registered, [`Error::Stopped`].
pub fn register(
    device: &AnyDevice,
    inputs: &Inputs,
    options: &AffineOptions,
    written: &OutputOptions,
    listener: &dyn Listener,
) -> Result<Registered> {
    inputs.pair.rule()?;
    let result = find(device, inputs, options, listener)?;
    scored(device, &inputs.pair, Arc::clone(&inputs.pair.moving), result, written)
}

fn find(
    device: &AnyDevice,
    inputs: &Inputs,
    options: &AffineOptions,
    listener: &dyn Listener,
) -> Result<AffineResult, voxalign_register::RegisterError> {
    let result = register_affine(device, &inputs.as_input(), options, listener)?;
    if let Some(scheme) = result.scheme {
        listener.say(Level::Verbose, format!("histogram scheme: {}", scheme.name()));
    }
    Ok(result)
}

fn scored(
    device: &AnyDevice,
    pair: &Pair,
    moving: Arc<Volume<f32>>,
    result: AffineResult,
    written: &OutputOptions,
) -> Result<Registered> {
    let (rule, outside) = (pair.rule()?, outside(device, written, &moving)?);
    let moving = MovingImage::new(device, moving)?;
    let scoring = pair.scoring(&rule, (written, outside))?;
    let after = scoring.under(device, &moving, &Transform::Affine(result.transform))?;
    let before = scoring.under(device, &moving, &Transform::identity())?;
    drop(moving);
    let views = Views { before, after };
    let remarks = pair.remarks(&views);
    Ok(Registered { result, views, remarks, outside })
}

impl Job {
    /// Of two files, with usual options; results go to a folder.
    pub fn new(
        fixed: impl Into<PathBuf>,
        moving: impl Into<PathBuf>,
        output: impl Into<PathBuf>,
    ) -> Self {
        Self { paths: PairPaths::new(fixed, moving), output: output.into(), ..Self::default() }
    }

    /// All files with what they are.
    fn files(&self) -> Vec<Input<'_>> {
        let mut all = self.paths.all();
        all.extend(Input::those_given(&[(Role::FixedWeight, &self.fixed_weight)]));
        all.extend(self.method.init.iter().flat_map(InitChoice::inputs));
        all
    }

    /// What is registered, of these images.
    fn inputs(&self, pair: Pair, listener: &dyn Listener) -> Result<Inputs> {
        let fixed_weight = optional_image(&self.fixed_weight, "fixed_weight", listener)?;
        Ok(Inputs { pair, fixed_weight })
    }

    /// Whether images are read in blocks, and spread over the devices of all ranks.
    #[must_use]
    pub fn is_distributed(&self) -> bool {
        self.distributed.distributed.kind().is_some()
    }

    /// The registration in blocks, where that is asked for.
    fn blockwise<'a>(
        &'a self,
        caller: &'a Caller,
        listener: &'a dyn Listener,
    ) -> Result<Option<Blockwise<'a>>> {
        let kind = self.distributed.chosen()?;
        Ok(kind.map(|kind| Blockwise { job: self, kind, caller, listener }))
    }

    fn as_run<'a>(&'a self, caller: &'a Caller, listener: &'a dyn Listener) -> Run<'a> {
        let (folder, output, products) = (&*self.output, &self.written, self.outputs.as_ref());
        let bids = Some(self.paths.as_bids(&self.bids));
        Run { caller, folder, output, products, bids, listener }
    }
}

impl Inputs {
    /// Two images.
    #[must_use]
    pub fn new(fixed: impl Into<Arc<Volume<f32>>>, moving: impl Into<Arc<Volume<f32>>>) -> Self {
        Self { pair: Pair::new(fixed, moving), fixed_weight: None }
    }

    fn as_input(&self) -> AffineInput<'_> {
        let fixed_weight = self.fixed_weight.as_ref().map(Into::into);
        AffineInput { fixed_weight, ..self.pair.as_affine_input() }
    }
}

impl crate::Job for Job {
    type Record = RunRecord;
    type Inputs = Given;
    const NAME: &'static str = "affine";
    const AUTO: Auto = Auto::Gpu;

    fn missing(&self) -> Option<&'static str> {
        self.paths.missing().or(missing(&[(&self.output, "the output folder -o DIR")]))
    }

    fn check_options(&self) -> Result<()> {
        self.method.usual(false)?;
        self.bids.check()?;
        match self.blockwise(&Caller::default(), &Silent)? {
            Some(blocks) => blocks.check_options(),
            None => Ok(()),
        }
    }

    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()> {
        self.check_options()?;
        if let Some(product) = self.outputs.as_ref().and_then(Products::not_of_affine) {
            return Err(Error::input(text!(
                "`outputs` has {product}, which is not a file of an affine registration; give affine, \
                 warped, or all"
            )));
        }
        if let Some(blocks) = self.blockwise(caller, listener)? {
            return blocks.check();
        }
        if let Some(path) =
            [&self.paths.fixed, &self.paths.moving].into_iter().find(|p| is_pyramid(p))
        {
            return Err(Error::input(text!(
                "'{}' is an image that is read in blocks; give `distributed = auto`, or convert it to .nii.gz with the right spacing, \
                 for instance with ITK-SNAP or SimpleITK",
                path.display()
            )));
        }
        self.as_run(caller, listener).check(&OUTPUTS, &self.files())?;
        self.paths.check()
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        if let Some(blocks) = self.blockwise(caller, listener)? {
            return blocks.plan();
        }
        let plan = self.as_run(caller, listener).plan(&self.files(), &OUTPUTS)?;
        let voxels = plan.voxels(Role::Fixed) + plan.voxels(Role::Moving);
        Ok(plan.taking(plan::BASE + plan::AFFINE * voxels))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Given> {
        if self.is_distributed() {
            return Ok(Given::Blocks);
        }
        let inputs = || {
            let pair = self.paths.read(listener)?;
            self.inputs(pair, listener)
        };
        let read = self.as_run(caller, listener).read(&self.files(), inputs)?;
        Ok(Given::Whole(Box::new(read)))
    }

    fn find(
        &self,
        machine: &Machine,
        given: Given,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<RunRecord>> {
        let read = match (given, self.blockwise(caller, listener)?) {
            (Given::Whole(read), None) => *read,
            (Given::Blocks, Some(blocks)) => return blocks.run(machine),
            (Given::Whole(_), Some(_)) => {
                let is_for = text!("images that are read from files");
                return Err(Error::Ignored("distributed", is_for));
            }
            (Given::Blocks, None) => {
                return Err(Error::Internal("the images were not read".into()));
            }
        };
        let (device, run) = (&machine.device, self.as_run(caller, listener));
        let mut clock = run.clock(machine, &read);
        let Read { mut inputs, records: input_records, .. } = read;
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let options = self.method.options(&geometry, listener)?;
        clock.lap("read");

        let mut staged = Staged::new(&self.output, listener)?;
        run.say_grids(&grids);
        let result =
            find(device, &inputs, &options, listener).map_err(|e| run::blamed(e, &self.files()))?;
        clock.lap("register");
        let moving = inputs.pair.take_moving()?;
        let found = scored(device, &inputs.pair, moving, result, &self.written)?;
        clock.lap("resample");

        let dimensions = inputs.pair.dimensions;
        let Registered { result, views, remarks, outside } = found;
        if run.writes(Product::Affine) {
            run::write_affine(&mut staged, &result.transform, dimensions, &geometry)?;
        }
        if run.writes(Product::Warped) {
            let as_floats = files::write_options(DataType::F32, dimensions);
            let image = &views.after.image;
            image.bring()?;
            staged.write(WARPED, |path| image::write_volume(path, image, &as_floats))?;
        }
        clock.lap("write");

        let mut record =
            record::record(self, &run, machine, &options, (&result, grids[0].is_2d()), outside);
        record.inputs = input_records;
        record.verdict.remarks.extend(remarks);
        record.transform = record::transform(&result, &grids[0]);
        record.figures = record::figures(&result);
        if let Init::Landmarks(pairs) = &options.init {
            let found = Transform::Affine(result.transform);
            let distances = Distances::of(pairs, &Transform::identity(), &found, &grids[0]);
            record.verdict.remarks.extend(landmark_remarks(pairs, [&grids[0], &grids[1]]));
            record.landmarks = distances.note(&mut record.figures);
        }
        score_figures(&mut record, &views, &inputs.pair.label_names);
        if run.output.wants_report() {
            views.bring(&inputs.pair)?;
        }
        let report =
            |record: &_| render(&AffineReport { record, images: views.images(&inputs.pair) });
        let done = run.finish(staged, clock, record, &OUTPUTS, || Ok(()), report)?;
        Ok(Done { warped: HeldImage::remaining(&views.after.image, dimensions)?, ..done })
    }
}

impl OfPair for Job {
    fn paths(&self) -> &PairPaths {
        &self.paths
    }

    fn given(&self, pair: Pair, _: &Caller, listener: &dyn Listener) -> Result<Given> {
        Ok(self.inputs(pair, listener)?.into())
    }
}
