//! A deformation between two images, after an affine part, and its inverse.
//!
//! The chain: an affine registration, unless a start is given; the deformation from there; and a verdict on both. A
//! start that is given is compared with the best affine map at the end, so that a wrong one is seen.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Silent, deform, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = deform::Job::new("fixed.nii.gz", "moving.nii.gz", "out");
//! job.method.matching.similarity = Some(voxalign_register::similarity::Similarity::MI);
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.verdict.summary());
//! # Ok(())
//! # }
//! ```

mod fields;
mod method;
mod record;
mod unfit;

pub use method::{AffineChoice, Channel, DeformMethod};

use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Listener, Quiet, check};
use crate::machine::Machine;
use crate::options::{AffineMethod, InitChoice, OutputOptions, Product, Products, as_text};
use crate::pair::{Pair, PairPaths, Views};
use crate::plan::{self, Plan};
use crate::remedy::Speaker;
use crate::run::{
    self, Caller, Done, Input, Output, RECORD, REPORT, Read, Role, Run, TRANSFORM, TRANSFORM_FSL,
    WARPED,
};
use crate::staged::Staged;
use fields::{Fields, Writing, displacement, field_files, write_transform, writers};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Transform, Volume};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::Geometry;
use voxalign_register::attachment::Landmarks;
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::calibrate::foreground_threshold;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformModel, DeformOptions, DeformResult, check_start, object_of,
    register_deformable,
};
use voxalign_register::linear::{AffineResult, Init, register_affine};
use voxalign_register::measures::FieldMeasures;
use voxalign_register::resample::{MovingImage, displacements};
use voxalign_register::scores::{Resampled, Scores, Scoring, Tissue};
use voxalign_register::similarity::Similarity;
use voxalign_register::{RegisterError, Remedy, Verdict};
use voxalign_report::RunRecord;
use voxalign_report::deform::{DeformReport, energies, render};

/// Names of the files that are a deformation's own.
const WARP: &str = "warp.nii.gz";
const INVERSE_WARP: &str = "inverse_warp.nii.gz";
const COMPOSITE: &str = "composite.nii.gz";
const INVERSE_COMPOSITE: &str = "inverse_composite.nii.gz";
const JACOBIAN: &str = "jacobian.nii.gz";

/// What each file is.
pub(super) const OUTPUTS: [Output; 10] = [
    Output::new("warp", WARP, Some(Product::Warp)),
    Output::new("inverse_warp", INVERSE_WARP, Some(Product::InverseWarp)),
    Output::new("transform", TRANSFORM, Some(Product::Affine)),
    Output::new("transform_fsl", TRANSFORM_FSL, Some(Product::Affine)),
    Output::new("composite", COMPOSITE, Some(Product::Composite)),
    Output::new("inverse_composite", INVERSE_COMPOSITE, Some(Product::InverseComposite)),
    Output::new("resampled", WARPED, Some(Product::Warped)),
    Output::new("jacobian", JACOBIAN, Some(Product::Jacobian)),
    Output::new("record", RECORD, None),
    Output::new("report", REPORT, None),
];

/// A registration of files that is to be done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The two images, and what goes with them.
    #[serde(flatten)]
    pub paths: PairPaths,
    /// How is registered.
    #[serde(flatten)]
    pub method: DeformMethod,
    /// Where the deformation starts; an affine registration comes first where nothing is said.
    #[serde(default, with = "as_text")]
    pub affine: Option<AffineChoice>,
    /// How results are written.
    #[serde(flatten)]
    pub written: OutputOptions,
    /// Which files are written beside record and report; [usual](Products::usual) ones where none are named.
    #[serde(default, with = "as_text")]
    pub outputs: Option<Products>,
    /// The folder for the results.
    pub output: PathBuf,
}

/// What a job asks of the registration.
struct Ask {
    channels: Vec<Channel>,
    /// The similarity of the fixed and the moving image.
    similarity: Similarity,
    options: DeformOptions,
}

/// What was read.
#[derive(Debug)]
pub struct Inputs {
    /// The images.
    pub pair: Pair,
    /// Fixed and moving images of further channels, each with a similarity and the factor of its energy.
    pub channels: Vec<([Volume<f32>; 2], Similarity, f64)>,
    /// The affine map to start from, where it is not to be found.
    pub start: Option<Affine>,
    /// Corresponding points that pull as well.
    pub landmarks: Option<Landmarks>,
}

/// A registration of images in memory.
#[derive(Debug)]
pub struct Registered {
    /// The affine part, where it was to be found.
    pub affine: Option<AffineResult>,
    /// The deformation; its own verdict is a part of [`verdict`](Self::verdict).
    pub deformation: DeformResult,
    /// The moving image on the fixed one by the affine part and by the result, with scores.
    pub views: Views,
    /// Whether the result can be used, and why.
    pub verdict: Verdict,
}

/// The affine part of a registration.
struct AffinePart {
    /// From the fixed to the moving world.
    start: Affine,
    /// How it was found, where it was.
    found: Option<AffineResult>,
    /// The best one, where another was given.
    rival: Option<AffineResult>,
}

/// Finds the affine part; a start that was given is compared with the best affine map at the end.
fn affine_part(
    device: &AnyDevice,
    inputs: &Inputs,
    listener: &dyn Listener,
) -> Result<AffinePart, RegisterError> {
    let flat = inputs.pair.fixed.grid().is_2d();
    let options = AffineMethod::default().usual(flat);
    let input = inputs.pair.as_affine_input();
    let Some(start) = inputs.start else {
        let found = register_affine(device, &input, &options, listener)?;
        return Ok(AffinePart { start: found.transform, found: Some(found), rival: None });
    };
    let rival = match register_affine(device, &input, &options, &Quiet(listener)) {
        Ok(rival) => Some(rival).filter(|f| f.verdict.good),
        Err(e) if e.is_of_images() => None,
        Err(e) => return Err(e),
    };
    Ok(AffinePart { start, found: None, rival })
}

/// Registers images in memory; the moving one is let go.
///
/// # Errors
/// Images that cannot be registered, an affine part from which no deformation can start, [`Error::Stopped`].
pub fn register(
    device: &AnyDevice,
    inputs: &mut Inputs,
    similarity: Similarity,
    options: &DeformOptions,
    written: &OutputOptions,
    listener: &dyn Listener,
) -> Result<Registered> {
    inputs.pair.check()?;
    let AffinePart { start, found, rival } = affine_part(device, inputs, listener)?;
    check(listener)?;
    check_start(&start, options.model)?;
    let input = inputs.as_input(similarity, start);
    let mut deformation = register_deformable(device, &input, options, listener)?;
    drop(input);
    inputs.channels.clear();
    let outside = inputs.pair.outside(written);
    let field = std::mem::replace(&mut deformation.forward, inputs.pair.no_field()?);
    let whole = Transform::Composite(vec![displacement(field), Transform::Affine(start)]);
    let scored = Scored::of(device, &mut inputs.pair, &whole, (start, rival), (written, outside))?;
    if let Transform::Composite(parts) = whole
        && let Some(Transform::Displacement(field)) = parts.into_iter().next()
    {
        deformation.forward = field.into_field();
    }
    let verdict = with_affine_part(deformation.verdict.clone(), found.as_ref());
    let mut verdict = scored.judged(verdict, &deformation.measures, inputs.pair.fixed.grid().len());
    let views = scored.views;
    verdict.remarks.extend(inputs.pair.remarks(&views));
    Ok(Registered { affine: found, deformation, views, verdict })
}

/// The verdict on a deformation after that on its affine part.
fn with_affine_part(verdict: Verdict, affine: Option<&AffineResult>) -> Verdict {
    match affine {
        Some(affine) => verdict.after("affine part", &affine.verdict, Remedy::OtherAffinePart),
        None => verdict,
    }
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

    /// Where the deformation starts.
    fn start(&self) -> AffineChoice {
        self.affine.clone().unwrap_or_default()
    }

    fn ask(&self) -> Result<Ask> {
        let channels = self.method.channels()?;
        let options = self.method.options(&channels)?;
        Ok(Ask { channels, similarity: self.method.similarity(), options })
    }

    /// All files with what they are.
    fn files<'a>(&'a self, channels: &'a [Channel]) -> Vec<Input<'a>> {
        let mut all = self.paths.all();
        for channel in channels {
            all.push(Input::new(Role::ChannelFixed, &channel.fixed));
            all.push(Input::new(Role::ChannelMoving, &channel.moving));
        }
        let start = self.affine.as_ref().and_then(AffineChoice::file);
        all.extend(start.map(|path| Input::new(Role::Affine, path)));
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
        Run { caller, folder, output, products, listener }
    }

    /// Checks what can be checked before a device is started.
    ///
    /// # Errors
    /// Options that others make meaningless, outputs that are inputs, channels on other grids.
    pub fn check(&self, caller: &Caller) -> Result<()> {
        let Ask { channels, .. } = self.ask()?;
        let products = self.products();
        self.as_run(&products, caller, &crate::Silent).check(&OUTPUTS, &self.files(&channels))?;
        self.paths.check()?;
        self.check_channels(&channels)
    }

    /// The fixed images of all channels are on one grid.
    fn check_channels(&self, channels: &[Channel]) -> Result<()> {
        let grid = |path: &Path| Ok::<_, Error>(image::read_info(path)?.grid);
        if channels.is_empty() {
            return Ok(());
        }
        let fixed = grid(&self.paths.fixed)?;
        for channel in channels {
            let own = grid(&channel.fixed).map_err(|e| e.at("`channel`"))?;
            if same_grid(&own, &fixed).is_err() {
                return Err(Error::input(format!(
                    "`channel`: '{0}' is on another grid than the fixed image '{1}': {own} against \
                     {fixed}; bring it there first, by `voxalign apply -i {0} -r {1} -o CHANNEL.nii.gz`",
                    channel.fixed.display(),
                    self.paths.fixed.display()
                )));
            }
        }
        Ok(())
    }

    /// What it would do.
    ///
    /// # Errors
    /// As of [`check`](Self::check); headers that cannot be read.
    pub fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller)?;
        let (ask, products) = (self.ask()?, self.products());
        let run = self.as_run(&products, caller, listener);
        let plan = run.plan(&self.files(&ask.channels), &OUTPUTS)?;
        let fixed = plan.voxels("fixed");
        let both = fixed + plan.voxels("moving");
        // Bytes a voxel of the fixed image: as measured from 1 to 17 million of them, at most.
        let each = match ask.options.model {
            DeformModel::Greedy => 88,
            DeformModel::Symmetric => 155,
            DeformModel::Lddmm => {
                64 + ask.options.storage.bytes(1, ask.options.time_steps as u64, 1)
            }
        };
        let further = 8 * 2 * fixed * ask.channels.len() as u64;
        let bytes = (plan::AFFINE * both).max(each * fixed) + further;
        Ok(plan.taking(plan::BASE + bytes))
    }

    /// Reads all files.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        let (ask, products) = (self.ask()?, self.products());
        let read = || {
            let image = |path: &Path| files::image(path, listener).map_err(|e| e.at("`channel`"));
            let channel =
                |c: &Channel| Ok(([image(&c.fixed)?, image(&c.moving)?], c.similarity, c.weight));
            let pair = self.paths.read(listener)?;
            let grids = [pair.fixed.grid(), pair.moving.grid()];
            let geometry = Geometry { fixed: Some(grids[0]), moving: Some(grids[1]) };
            let start = self.given(&geometry, listener)?;
            let channels = ask.channels.iter().map(channel).collect::<Result<_>>()?;
            Ok(Inputs { channels, pair, start, landmarks: None })
        };
        self.as_run(&products, caller, listener).read(&self.files(&ask.channels), read)
    }

    /// The affine map to start from, where it is not to be found.
    fn given(&self, geometry: &Geometry<'_>, listener: &dyn Listener) -> Result<Option<Affine>> {
        match self.start() {
            AffineChoice::Auto => Ok(None),
            AffineChoice::None => Ok(Some(Affine::identity())),
            AffineChoice::File(path) => {
                let init = InitChoice::File(path).load(geometry, listener);
                match init.map_err(|e| e.at("`affine`"))? {
                    Init::Given(affine) => Ok(Some(affine)),
                    _ => Err(Error::Internal("a file is no start".into())),
                }
            }
        }
    }

    /// Does it all: [checks](Self::check), [reads](Self::read), registers and writes.
    ///
    /// # Errors
    /// As of these; images that cannot be registered, [`Error::Stopped`].
    pub fn run(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<RunRecord>> {
        self.check(caller)?;
        self.run_with(machine, self.read(caller, listener)?, caller, listener)
    }

    /// As [`run`](Self::run) with what was checked and read before.
    ///
    /// # Errors
    /// As there.
    pub fn run_with(
        &self,
        machine: &Machine,
        read: Read<Inputs>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<RunRecord>> {
        let (ask, products) = (self.ask()?, self.products());
        let (device, run) = (&machine.device, self.as_run(&products, caller, listener));
        let mut clock = run.clock(machine, &read);
        let Read { mut inputs, records: input_records, .. } = read;
        let grids = [inputs.pair.fixed.grid().clone(), inputs.pair.moving.grid().clone()];
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        clock.lap("read");

        let mut staged = Staged::new(&self.output, listener)?;
        run.say_grids(&grids);
        let blamed = |e| run::blamed(e, &self.files(&ask.channels));
        let AffinePart { start, found, rival } =
            affine_part(device, &inputs, listener).map_err(blamed)?;
        check(listener)?;
        clock.lap("affine");
        if let Some(affine) = found.as_ref().filter(|f| !f.verdict.good)
            && let Err(why) = check_start(&start, ask.options.model)
        {
            let end = unfit::End { job: self, ask: &ask, machine, affine, why: &why };
            return end.write(&run, inputs.pair, staged, clock, input_records);
        }
        let input = inputs.as_input(ask.similarity, start);
        let result = register_deformable(device, &input, &ask.options, listener).map_err(blamed)?;
        drop(input);
        inputs.channels.clear();
        clock.lap("register");

        let outside = inputs.pair.outside(&self.written);
        let mut record =
            record::record((self, &ask, &run), &result, found.as_ref(), outside, machine);
        record.inputs = input_records;
        let verdict = with_affine_part(result.verdict, found.as_ref());
        let DeformResult { forward, inverse, jacobian, measures, scales, path, .. } = result;

        let dimensions = inputs.pair.dimensions;
        if run.writes(Product::Affine) {
            run::write_affine(&mut staged, &start, dimensions, &geometry)?;
        }
        let back =
            Transform::Composite(vec![Transform::Affine(start.inverse()?), displacement(inverse)]);
        if run.writes(Product::InverseComposite) {
            let field = displacements(device, &grids[1], &back)?;
            write_transform(&mut staged, INVERSE_COMPOSITE, &displacement(field))?;
        }
        let whole = Transform::Composite(vec![displacement(forward), Transform::Affine(start)]);
        if run.writes(Product::Composite) {
            let field = displacements(device, &grids[0], &whole)?;
            write_transform(&mut staged, COMPOSITE, &displacement(field))?;
        }
        let as_floats = files::write_options(DataType::F32, dimensions);
        let files = field_files(&run, &mut staged)?;
        let fields = Fields { back, whole: &whole, jacobian: &jacobian, options: &as_floats };
        let mut fields = Some(fields);
        if machine.gpu().is_none() {
            // On the CPU all threads have enough to do, and the inverse is let go before the result is scored.
            fields.take().map_or(Ok(()), |fields| fields.write(&files))?;
        }
        clock.lap("write");
        // While a GPU scores the result, and the report is made, other threads write.
        let writers = fields.as_ref().map(|_| writers(machine.threads)).transpose()?;
        std::thread::scope(|scope| {
            let (files, writers) = (&files, writers.as_ref());
            let write = move |fields: Fields<'_>| match writers {
                Some(writers) => writers.install(|| fields.write(files)),
                None => fields.write(files),
            };
            let mut writing = Writing(fields.map(|fields| scope.spawn(move || write(fields))));
            let of = (&self.written, outside);
            let scored = Scored::of(device, &mut inputs.pair, &whole, (start, rival), of)?;
            let mut verdict = scored.judged(verdict, &measures, grids[0].len());
            let views = scored.views;
            verdict.remarks.extend(inputs.pair.remarks(&views));
            record.verdict = caller.worded(verdict, Speaker::Deform);
            clock.lap("resample");
            if run.writes(Product::Warped) {
                let image = &views.after.image;
                staged.write(WARPED, |path| image::write_volume(path, image, &as_floats))?;
            }
            clock.lap("write");

            run::score_figures(&mut record, &views, &inputs.pair.label_names);
            let field = match &whole {
                Transform::Composite(parts) => parts.first(),
                _ => None,
            };
            let Some(Transform::Displacement(warp)) = field else {
                return Err(Error::Internal("the field is gone".into()));
            };
            let report = |record: &_| {
                render(&DeformReport {
                    record,
                    images: views.images(&inputs.pair),
                    jacobian: &jacobian,
                    field: warp.field(),
                    energies: &energies(&scales, path.as_ref(), ask.options.sigma, &grids[0]),
                })
            };
            run.finish(staged, clock, record, &OUTPUTS, move || writing.wait(), report)
        })
    }
}

/// The moving image on the fixed one.
struct Scored {
    views: Views,
    /// By the best affine map, where that is not the start.
    rival: Option<Scores>,
}

impl Scored {
    /// Brings the moving image to the fixed one by the result, by the affine map alone, and by its rival.
    fn of(
        device: &AnyDevice,
        pair: &mut Pair,
        whole: &Transform,
        (start, rival): (Affine, Option<AffineResult>),
        (written, outside): (&OutputOptions, f32),
    ) -> Result<Self> {
        let moving = pair.take_moving()?;
        // A mask says by itself what counts.
        let masked = pair.fixed_mask.is_some();
        let moving_above = match foreground_threshold(moving.data()) {
            Some((_, above)) if !masked => above,
            _ => f32::NEG_INFINITY,
        };
        let object = object_of(&pair.fixed, pair.fixed_mask.as_ref());
        let tissue = object.map(|object| Tissue { object, moving_above });
        let moving = MovingImage::new(device, moving)?;
        let scoring = Scoring { tissue, ..pair.scoring(written, outside)? };
        let after = scoring.under(device, &moving, whole)?;
        let before: Resampled = scoring.under(device, &moving, &Transform::Affine(start))?;
        let rival = rival.map(|rival| {
            let rival = Transform::Affine(rival.transform);
            Ok::<_, Error>(scoring.under(device, &moving, &rival)?.scores)
        });
        Ok(Self { views: Views { before, after }, rival: rival.transpose()? })
    }

    /// The verdict with what the images say: `voxels` is the number of those of the fixed one.
    fn judged(&self, verdict: Verdict, measures: &FieldMeasures, voxels: usize) -> Verdict {
        let Views { before, after } = &self.views;
        let (worse, remedy) = match &self.rival {
            Some(rival) => (rival, Remedy::BetterStart),
            None => (&before.scores, Remedy::OtherAffinePart),
        };
        let energy = measures.harmonic_energy_of_object(voxels);
        let earns = energy.and_then(|energy| after.scores.earns(energy));
        let verdict = verdict.with(after.scores.worth(worse, remedy));
        verdict.with(after.scores.agrees()).with(earns)
    }
}

impl Inputs {
    /// Two images, of which an affine registration finds where the deformation starts.
    #[must_use]
    pub fn new(fixed: Volume<f32>, moving: Volume<f32>) -> Self {
        let pair = Pair::new(fixed, moving);
        Self { pair, channels: Vec::new(), start: None, landmarks: None }
    }

    fn as_input(&self, similarity: Similarity, affine: Affine) -> DeformInput<'_> {
        let (fixed, moving) = (&self.pair.fixed, &self.pair.moving);
        let mut channels = vec![ChannelInput::new(fixed, moving, similarity)];
        for ([fixed, moving], similarity, weight) in &self.channels {
            let channel = ChannelInput::new(fixed, moving, *similarity);
            channels.push(ChannelInput { weight: *weight, ..channel });
        }
        let [fixed_mask, moving_mask] =
            [&self.pair.fixed_mask, &self.pair.moving_mask].map(|m| m.as_ref().map(Into::into));
        let landmarks = self.landmarks.clone();
        DeformInput { channels, fixed_mask, moving_mask, affine, landmarks }
    }
}
