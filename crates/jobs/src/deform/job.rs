//! A deformation from files to files.

use super::course::{Course, Task, given, outputs};
use super::{AffineChoice, Channel, ChannelImages, DeformMethod, Inputs, record};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::Listener;
use crate::machine::Machine;
use crate::options::{
    AffineWay, InitChoice, LandmarkOptions, OutputOptions, Products, as_text, check_dof, refuse,
};
use crate::pair::{PairPaths, read_pairs};
use crate::plan::{self, Plan};
use crate::run::{Caller, Done, Input, Read, Role, Run, WARPED};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_io::image::{self, ReadOptions};
use voxalign_io::transform::Geometry;
use voxalign_options::text;
use voxalign_register::attachment::Landmarks;
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::{Intensities, Matching, Preparation};
use voxalign_register::linear::Init;
use voxalign_register::similarity::Similarity;
use voxalign_report::RunRecord;

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
    /// How the affine registration that comes first is made otherwise.
    #[serde(flatten)]
    pub way: AffineWay,
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
        text!("an affine registration that comes first (`affine = auto`)"),
    )
}

/// Refuses options of the affine registration that comes first where none does.
///
/// # Errors
/// Names one.
pub fn check_way(way: &AffineWay, affine: Option<&AffineChoice>) -> Result<()> {
    let given = affine.is_some_and(|start| *start != AffineChoice::Auto);
    if let Some(option) = way.given() {
        refuse(given, option, text!("an affine registration that comes first (`affine = auto`)"))?;
    }
    way.usual(false).map(|_| ())
}

/// How strongly landmarks pull beside images that are compared by a similarity where nothing is said, 1/mm²: so that they
/// come to a voxel or less, and the images still decide elsewhere (docs/accuracy.md says how that was found).
#[must_use]
pub fn usual_landmark_weight(similarity: &Similarity) -> f64 {
    match similarity {
        Similarity::Ssd(_) => 3e-6,
        Similarity::Mi(_) | Similarity::Nmi(_) => 1e-3,
        _ => 3e-4,
    }
}

/// What a job asks of the registration.
pub(super) struct Ask {
    pub(super) channels: Vec<Channel>,
    /// The similarity of the fixed and the moving image.
    pub(super) similarity: Similarity,
    pub(super) matching: Matching,
    pub(super) preparation: Preparation,
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
        let matching = self.method.matching(&channels)?;
        let similarity = self.method.matching.similarity()?;
        Ok(Ask { channels, similarity, matching, preparation: self.method.preparation()? })
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
        self.as_run(&products, caller, &crate::Silent)
            .check(&outputs(Some(WARPED.to_owned())), &self.files(&channels))?;
        self.paths.check()?;
        self.check_channels(&channels)
    }

    /// Refuses options about points and starts that others make meaningless.
    ///
    /// # Errors
    /// Names one.
    pub fn check_points(&self) -> Result<()> {
        check_way(&self.way, self.affine.as_ref())?;
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
            let own = grid(&channel.fixed, &ReadOptions::default())
                .map_err(|e| e.at(text!("`channel`")))?;
            if same_grid(&own, &fixed).is_err() {
                return Err(Error::input(text!(
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
        let plan = run.plan(&self.files(&ask.channels), &outputs(Some(WARPED.to_owned())))?;
        let fixed = plan.voxels("fixed");
        let both = fixed + plan.voxels("moving");
        let each = ask.matching.model.bytes_per_voxel();
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
            let image =
                |path: &Path| files::image(path, listener).map_err(|e| e.at(text!("`channel`")));
            let channel = |c: &Channel| {
                let images = [image(&c.fixed)?, image(&c.moving)?];
                let (similarity, weight) = (c.similarity, c.weight);
                Ok(ChannelImages {
                    images,
                    similarity,
                    weight,
                    intensities: Intensities::Calibrated,
                })
            };
            let pair = self.paths.read(listener)?;
            let grids = [pair.fixed.grid(), pair.moving.grid()];
            let geometry = Geometry { fixed: Some(grids[0]), moving: Some(grids[1]) };
            let start = given(&self.start(), &geometry, listener)?;
            let channels = ask.channels.iter().map(channel).collect::<Result<_>>()?;
            let convention = self.landmarks.point_convention;
            let grids = [pair.fixed.grid(), pair.moving.grid()];
            let init = match &self.init {
                Some(init) => {
                    init.load(&geometry, convention, listener).map_err(|e| e.at(text!("`init`")))?
                }
                None => Init::default(),
            };
            let landmarks = match self.landmarks.files() {
                Some(files) => {
                    let pairs = read_pairs(files, convention, grids, listener);
                    Some(Landmarks::of(
                        pairs.map_err(|e| e.at(text!("`landmarks`")))?,
                        self.weight(),
                    )?)
                }
                None => None,
            };
            let shapes = Vec::new();
            let (weight, with_rival, way) = (1.0, true, self.way.usual(grids[0].is_2d())?);
            check_dof(way.dof, grids[0].is_2d())?;
            let preparation = ask.preparation;
            Ok(Inputs {
                channels,
                pair,
                weight,
                start,
                with_rival,
                init,
                way,
                landmarks,
                shapes,
                preparation,
            })
        };
        self.as_run(&products, caller, listener).read(&self.files(&ask.channels), read)
    }

    /// How strongly landmarks pull, 1/mm².
    pub(super) fn weight(&self) -> f64 {
        let similarity = || self.method.matching.similarity().unwrap_or(Similarity::LNCC);
        let usual = || usual_landmark_weight(&similarity());
        self.landmarks.landmark_weight.unwrap_or_else(usual)
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
        let run = self.as_run(&products, caller, listener);
        let Ask { similarity, matching, .. } = &ask;
        let course = Course { machine, run, similarity: *similarity, matching };
        course.run(read, &mut OfImages { job: self, ask: &ask })
    }
}

/// A registration of images, which has nothing of its own.
struct OfImages<'a> {
    job: &'a Job,
    ask: &'a Ask,
}

impl Task for OfImages<'_> {
    fn parameters(&self, outside: f32) -> serde_json::Value {
        record::parameters(self.job, self.ask, outside)
    }

    fn files(&self) -> Vec<Input<'_>> {
        self.job.files(&self.ask.channels)
    }
}
