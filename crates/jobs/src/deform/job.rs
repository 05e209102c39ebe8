//! A deformation from files to files.

use super::fields::{Fields, Writing, displacement, field_files, write_transform, writers};
use super::{
    AffineChoice, AffinePart, Channel, DeformMethod, Inputs, Scored, affine_part, record, unfit,
    with_affine_part,
};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Listener, check};
use crate::machine::Machine;
use crate::options::{
    InitChoice, LandmarkOptions, OutputOptions, Product, Products, as_text, refuse,
};
use crate::pair::{PairPaths, read_pairs, score_figures};
use crate::plan::{self, Plan};
use crate::remedy::Speaker;
use crate::run::{
    self, Caller, Done, Input, Output, RECORD, REPORT, Read, Role, Run, TRANSFORM, TRANSFORM_FSL,
    WARPED,
};
use crate::staged::Staged;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Transform};
use voxalign_io::image::{self, DataType, ReadOptions};
use voxalign_io::transform::Geometry;
use voxalign_register::attachment::Landmarks;
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::{
    DeformModel, DeformOptions, DeformResult, check_start, register_deformable,
};
use voxalign_register::linear::Init;
use voxalign_register::resample::displacements;
use voxalign_register::similarity::Similarity;
use voxalign_report::RunRecord;
use voxalign_report::deform::{DeformReport, energies, render};

/// Names of the files that are a deformation's own.
pub(super) const WARP: &str = "warp.nii.gz";
pub(super) const INVERSE_WARP: &str = "inverse_warp.nii.gz";
pub(super) const COMPOSITE: &str = "composite.nii.gz";
pub(super) const INVERSE_COMPOSITE: &str = "inverse_composite.nii.gz";
pub(super) const JACOBIAN: &str = "jacobian.nii.gz";

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
    /// Where the search of the affine registration that comes first starts; at the centres of mass where nothing is said.
    #[serde(default, with = "as_text")]
    pub init: Option<InitChoice>,
    /// Corresponding points that pull as well.
    #[serde(flatten)]
    pub landmarks: LandmarkOptions,
    /// How results are written.
    #[serde(flatten)]
    pub written: OutputOptions,
    /// Which files are written beside record and report; [usual](Products::usual) ones where none are named.
    #[serde(default, with = "as_text")]
    pub outputs: Option<Products>,
    /// The folder for the results.
    pub output: PathBuf,
}

/// Refuses options about points and starts that others make meaningless.
///
/// # Errors
/// Names one.
pub fn check_points(
    landmarks: &LandmarkOptions,
    init: Option<&InitChoice>,
    affine: Option<&AffineChoice>,
) -> Result<()> {
    landmarks.check(init.is_some_and(InitChoice::has_points))?;
    let given = affine.is_some_and(|start| *start != AffineChoice::Auto);
    refuse(
        given && init.is_some(),
        "init",
        "an affine registration that comes first (`affine = auto`)",
    )
}

/// What a job asks of the registration.
pub(super) struct Ask {
    pub(super) channels: Vec<Channel>,
    /// The similarity of the fixed and the moving image.
    pub(super) similarity: Similarity,
    pub(super) options: DeformOptions,
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
    pub(super) fn start(&self) -> AffineChoice {
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
        all.extend(self.init.iter().flat_map(InitChoice::inputs));
        if let Some([fixed, moving]) = self.landmarks.files() {
            all.push(Input::new(Role::FixedLandmarks, fixed));
            all.push(Input::new(Role::MovingLandmarks, moving));
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
        Run { caller, folder, output, products, listener }
    }

    /// Checks what can be checked before a device is started.
    ///
    /// # Errors
    /// Options that others make meaningless, outputs that are inputs, channels on other grids.
    pub fn check(&self, caller: &Caller) -> Result<()> {
        let Ask { channels, .. } = self.ask()?;
        self.check_points()?;
        let products = self.products();
        self.as_run(&products, caller, &crate::Silent).check(&OUTPUTS, &self.files(&channels))?;
        self.paths.check()?;
        self.check_channels(&channels)
    }

    /// Refuses options about points and starts that others make meaningless.
    ///
    /// # Errors
    /// Names one.
    pub fn check_points(&self) -> Result<()> {
        check_points(&self.landmarks, self.init.as_ref(), self.affine.as_ref())
    }

    /// The fixed images of all channels are on one grid.
    fn check_channels(&self, channels: &[Channel]) -> Result<()> {
        let grid = |path: &Path, which: &ReadOptions| {
            Ok::<_, Error>(image::read_info_of(path, which)?.grid)
        };
        if channels.is_empty() {
            return Ok(());
        }
        let fixed = grid(&self.paths.fixed, &self.paths.which.of_both()[0])?;
        for channel in channels {
            let own =
                grid(&channel.fixed, &ReadOptions::default()).map_err(|e| e.at("`channel`"))?;
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
            DeformModel::Lddmm => {
                64 + ask.options.storage.bytes(1, ask.options.time_steps as u64, 1)
            }
            // That of the symmetric model, in which both images flow.
            _ => 155,
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
            let convention = self.landmarks.point_convention;
            let grids = [pair.fixed.grid(), pair.moving.grid()];
            let init = match &self.init {
                Some(init) => {
                    init.load(&geometry, convention, listener).map_err(|e| e.at("`init`"))?
                }
                None => Init::default(),
            };
            let landmarks = match self.landmarks.files() {
                Some(files) => {
                    let pairs = read_pairs(files, convention, grids, listener);
                    Some(Landmarks::of(pairs.map_err(|e| e.at("`landmarks`"))?, self.weight())?)
                }
                None => None,
            };
            Ok(Inputs { channels, pair, start, init, landmarks })
        };
        self.as_run(&products, caller, listener).read(&self.files(&ask.channels), read)
    }

    /// How strongly landmarks pull, 1/mm²: by default so that they come to a voxel or less, and the images still
    /// decide elsewhere (docs/accuracy.md says how that was found).
    pub(super) fn weight(&self) -> f64 {
        let usual = match self.method.similarity() {
            Similarity::Ssd(_) => 3e-6,
            Similarity::Mi(_) | Similarity::Nmi(_) => 1e-3,
            _ => 3e-4,
        };
        self.landmarks.landmark_weight.unwrap_or(usual)
    }

    /// The affine map to start from, where it is not to be found.
    fn given(&self, geometry: &Geometry<'_>, listener: &dyn Listener) -> Result<Option<Affine>> {
        match self.start() {
            AffineChoice::Auto => Ok(None),
            AffineChoice::None => Ok(Some(Affine::identity())),
            AffineChoice::File(path) => {
                let init = InitChoice::File(path).load(geometry, None, listener);
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
            if let Some(distances) = inputs.distances(start, &whole) {
                verdict = distances.judged(verdict, &grids[0]);
                verdict.remarks.extend(inputs.landmark_remarks([&grids[0], &grids[1]]));
                record.landmarks = distances.note(&mut record.figures);
            }
            verdict.remarks.extend(inputs.pair.remarks(&views));
            record.verdict = caller.worded(verdict, Speaker::Deform);
            clock.lap("resample");
            if run.writes(Product::Warped) {
                let image = &views.after.image;
                staged.write(WARPED, |path| image::write_volume(path, image, &as_floats))?;
            }
            clock.lap("write");

            score_figures(&mut record, &views, &inputs.pair.label_names);
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
