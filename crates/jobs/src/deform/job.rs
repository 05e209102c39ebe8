//! Deformable registration, from files to files.

use super::course::{Course, Task, given, outputs};
use super::{AffineChoice, Channel, ChannelImages, DeformMethod, Inputs};
use crate::bids::BidsOptions;
use crate::error::{Error, Result};
use crate::files;
use crate::job::{OfPair, missing};
use crate::listener::Listener;
use crate::machine::{Auto, Machine};
use crate::options::{
    AffineWay, InitChoice, LandmarkOptions, LandmarkWeight, OutputOptions, Products, as_text,
    check_dof, recorded, refuse, usual_landmark_weight,
};
use crate::pair::{Pair, PairPaths, read_pairs};
use crate::plan::{self, Plan};
use crate::run::{self, Caller, Done, Input, Read, Role, Run, WARPED};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use voxalign_image::Affine;
use voxalign_io::image::{self, ReadOptions};
use voxalign_io::transform::Geometry;
use voxalign_options::{Choice, Parameters, Text, text};
use voxalign_register::attachment::Landmarks;
use voxalign_register::compare::same_grid;
use voxalign_register::diffeo::{DeformModel, Intensities, Matching, Preparation, check_start};
use voxalign_register::linear::Init;
use voxalign_register::similarity::Similarity;
use voxalign_report::RunRecord;

/// A registration of files that is to be done.
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
    /// Affine transform to start from: `auto` runs an affine registration first, as `voxalign
    /// affine` does; `none` uses the headers as they are; FILE is an affine
    /// transform, fixed to moving [default: auto]
    #[cfg_attr(feature = "clap", arg(long, value_name = "auto|none|FILE"))]
    #[serde(with = "as_text")]
    pub affine: Option<AffineChoice>,
    /// Start of the initial affine registration, as for `voxalign affine`; --landmarks do not influence it unless given
    /// here as well [default: moments]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "header|centre|moments|identity|FILE|landmarks:F,M")
    )]
    #[serde(with = "as_text")]
    pub init: Option<InitChoice>,
    /// Registration method.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub method: DeformMethod,
    /// How the affine registration that comes first is made otherwise.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub way: AffineWay,
    /// Corresponding points that pull as well.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub landmarks: LandmarkOptions,
    /// The two images, and what goes with them.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub paths: PairPaths,
    /// How results are written.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub written: OutputOptions,
    /// Which files to write, separated by commas: warp, inverse_warp, affine, composite,
    /// inverse_composite, warped, jacobian, or `all`; result.json is always written, and
    /// report.html unless --no-report says otherwise [default: warp,inverse_warp,affine,warped]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME,...", value_parser = crate::options::of_deform, help_heading = "Output"))]
    #[serde(with = "as_text")]
    pub outputs: Option<Products>,
    /// A data set of BIDS derivatives that the result goes into as well.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub bids: BidsOptions,
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

/// What a job asks of the registration.
struct Ask {
    channels: Vec<Channel>,
    /// The similarity of the fixed and the moving image; none where they decide.
    similarity: Option<Similarity>,
    matching: Ways,
    /// How images are matched that turn out to be of two kinds, where they decide.
    of_two_kinds: Option<Ways>,
    preparation: Preparation,
}

/// How images are matched.
struct Ways {
    usual: Matching,
    /// From an affine map that has no half-way map; none where a model was chosen.
    without_middle: Option<Matching>,
}

impl Ways {
    /// That which can start from an affine map.
    fn from(&self, start: &Affine) -> &Matching {
        let other = self.without_middle.as_ref();
        other.filter(|_| check_start(start, self.usual.model).is_err()).unwrap_or(&self.usual)
    }

    fn all(&self) -> impl Iterator<Item = &Matching> {
        std::iter::once(&self.usual).chain(&self.without_middle)
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
        let given = &self.method.matching;
        let ways = |similarity: &Similarity| {
            let by = |model| self.method.matching_by(similarity, &channels, model);
            let usual = by(DeformModel::SYMMETRIC)?;
            let without_middle = match given.model.kind() {
                None => Some(by(DeformModel::GREEDY)?),
                Some(_) => None,
            };
            Ok::<_, Error>(Ways { usual, without_middle })
        };
        let matching = ways(&given.similarity()?)?;
        let similarity = given.named().map(|_| given.similarity()).transpose()?;
        // Options that the one does not take decide for the other.
        let of_two_kinds = match similarity {
            None => ways(&Similarity::MAPPED).ok(),
            Some(_) => None,
        };
        let preparation = self.method.preparation()?;
        Ok(Ask { channels, similarity, matching, of_two_kinds, preparation })
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
        let bids = Some(self.paths.as_bids(&self.bids));
        Run { caller, folder, output, products, bids, listener }
    }

    /// The fixed images of all channels are on one grid.
    fn check_channels(&self, channels: &[Channel]) -> Result<()> {
        let grid = |path: &Path, which: &ReadOptions| {
            Ok::<_, Error>(image::read_info_of(path, which)?.grid)
        };
        // An image in memory is compared with them when it is registered.
        if channels.is_empty() || self.paths.fixed.as_os_str().is_empty() {
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

    /// How strongly landmarks pull, 1/mm².
    fn weight(&self) -> f64 {
        let similarity = || self.method.matching.similarity().unwrap_or(Similarity::LNCC);
        let usual = || usual_landmark_weight(&similarity());
        let given = self.landmarks.weight.over(LandmarkWeight::USUAL).unwrap_or_default();
        given.landmark_weight.unwrap_or_else(usual)
    }

    /// What is registered, of these images.
    fn inputs(&self, ask: &Ask, pair: Pair, listener: &dyn Listener) -> Result<Inputs> {
        let image =
            |path: &Path| files::image(path, listener).map_err(|e| e.at(text!("`channel`")));
        let channel = |c: &Channel| {
            let images = [image(&c.fixed)?.into(), image(&c.moving)?.into()];
            let (similarity, weight) = (c.similarity, c.weight);
            Ok(ChannelImages { images, similarity, weight, intensities: Intensities::Calibrated })
        };
        let grids = [pair.fixed.grid(), pair.moving.grid()];
        let geometry = Geometry { fixed: Some(grids[0]), moving: Some(grids[1]) };
        let start = given(&self.start(), &geometry, listener)?;
        let channels = ask.channels.iter().map(channel).collect::<Result<_>>()?;
        let convention = self.landmarks.point_convention;
        let init = match &self.init {
            Some(init) => {
                init.load(&geometry, convention, listener).map_err(|e| e.at(text!("`init`")))?
            }
            None => Init::default(),
        };
        let landmarks = match self.landmarks.files() {
            Some(files) => {
                let pairs = read_pairs(files, convention, grids, listener);
                Some(Landmarks::of(pairs.map_err(|e| e.at(text!("`landmarks`")))?, self.weight())?)
            }
            None => None,
        };
        let way = self.way.usual(grids[0].is_2d())?;
        check_dof(way.dof, grids[0].is_2d())?;
        let preparation = ask.preparation;
        Ok(Inputs { channels, start, init, way, landmarks, preparation, ..Inputs::of(pair) })
    }
}

/// A registration of images, which has nothing of its own.
struct OfImages<'a> {
    job: &'a Job,
    ask: &'a Ask,
}

impl Ask {
    /// How images that are compared by a similarity are matched from an affine map on.
    fn matching(&self, similarity: &Similarity, start: &Affine) -> &Matching {
        let of_two_kinds = self.of_two_kinds.as_ref();
        let ways = of_two_kinds.filter(|_| *similarity == Similarity::MAPPED);
        ways.unwrap_or(&self.matching).from(start)
    }
}

impl Task for OfImages<'_> {
    fn parameters(
        &self,
        outside: f32,
        similarity: Similarity,
        start: &Affine,
    ) -> serde_json::Value {
        let (job, ask) = (self.job, self.ask);
        let path = |p: &Path| p.display().to_string();
        let first = (&job.paths.fixed, &job.paths.moving, similarity, 1.0);
        let further = ask.channels.iter().map(|c| (&c.fixed, &c.moving, c.similarity, c.weight));
        let channels: Vec<_> = std::iter::once(first).chain(further).collect();
        let mut all = json!({
            "affine": job.start().to_string(),
            "channels": channels.iter().map(|(fixed, moving, similarity, weight)| json!({
                "fixed": path(fixed),
                "moving": path(moving),
                "similarity": similarity.name(),
                "weight": weight,
            })).collect::<Vec<_>>(),
            "outside": run::outside(outside),
            "interpolation": job.written.interpolation().name(),
        });
        if let Some(given) = all.as_object_mut() {
            given
                .extend(job.init.as_ref().map(|init| ("init".to_owned(), json!(init.to_string()))));
            given.extend(ask.preparation.as_json());
            let way = serde_json::to_value(&job.way).unwrap_or_default();
            let said = way.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            given.extend(said.map(|(name, value)| (name.clone(), value.clone())));
            if let Some([fixed, moving]) = job.landmarks.files() {
                given.insert("landmarks".to_owned(), json!([path(fixed), path(moving)]));
                given.insert("landmark_weight".to_owned(), json!(job.weight()));
            }
            let convention = job.landmarks.point_convention;
            given.extend(convention.map(|c| ("point_convention".to_owned(), json!(c.name()))));
        }
        let similarities: Vec<_> = channels.iter().map(|c| c.2).collect();
        if let Some(all) = all.as_object_mut() {
            all.extend(recorded(ask.matching(&similarity, start), &similarities));
            all.extend(job.paths.which.parameters());
        }
        all
    }

    fn remark(&self, similarity: &Similarity, start: &Affine) -> Option<Text> {
        let taken = self.ask.matching(similarity, start).model;
        let chosen = self.job.method.matching.model.kind().is_some();
        let other = DeformModel::SYMMETRIC.name();
        (!chosen && !taken.meets_half_way()).then(|| {
            text!(
                "deformed by {0}: the affine transform mirrors or rotates by 180 degrees, so that there is no transform half-way for {1}",
                taken.name(),
                other
            )
        })
    }

    fn files(&self) -> Vec<Input<'_>> {
        self.job.files(&self.ask.channels)
    }
}

impl crate::Job for Job {
    type Record = RunRecord;
    type Inputs = Read<Inputs>;
    const NAME: &'static str = "deform";
    const AUTO: Auto = Auto::Gpu;

    fn missing(&self) -> Option<&'static str> {
        self.paths.missing().or(missing(&[(&self.output, "the output folder -o DIR")]))
    }

    fn check_options(&self) -> Result<()> {
        self.ask()?;
        self.bids.check()?;
        check_way(&self.way, self.affine.as_ref())?;
        check_points(&self.landmarks, self.init.as_ref(), self.affine.as_ref())
    }

    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()> {
        let Ask { channels, .. } = self.ask()?;
        self.check_options()?;
        let products = self.products();
        self.as_run(&products, caller, listener)
            .check(&outputs(Some(WARPED.to_owned())), &self.files(&channels))?;
        self.paths.check()?;
        self.check_channels(&channels)
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        let (ask, products) = (self.ask()?, self.products());
        let run = self.as_run(&products, caller, listener);
        let plan = run.plan(&self.files(&ask.channels), &outputs(Some(WARPED.to_owned())))?;
        let fixed = plan.voxels(Role::Fixed);
        let both = fixed + plan.voxels(Role::Moving);
        let models = [Some(&ask.matching), ask.of_two_kinds.as_ref()].into_iter().flatten();
        let models = models.flat_map(Ways::all);
        let meeting = plan.meeting([Role::Fixed, Role::Moving]);
        let divided = plan.divided(Role::Fixed);
        let of = |model: DeformModel| match model.meets_half_way() {
            true => (model.bytes_per_voxel() * meeting).max(48 * meeting + plan::FIELDS * divided),
            false => model.bytes_per_voxel() * fixed,
        };
        let bytes = models.map(|m| of(m.model)).max().unwrap_or_default();
        let further = 8 * 2 * fixed * ask.channels.len() as u64;
        let bytes = (plan::AFFINE * both).max(bytes) + further;
        Ok(plan.taking(plan::BASE + bytes))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        let (ask, products) = (self.ask()?, self.products());
        let read = || self.inputs(&ask, self.paths.read(listener)?, listener);
        self.as_run(&products, caller, listener).read(&self.files(&ask.channels), read)
    }

    fn find(
        &self,
        machine: &Machine,
        read: Read<Inputs>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<RunRecord>> {
        let (ask, products) = (self.ask()?, self.products());
        let run = self.as_run(&products, caller, listener);
        let deformer = |similarity: &Similarity, start: &Affine| ask.matching(similarity, start);
        let course = Course { machine, run, similarity: ask.similarity, deformer: &deformer };
        course.run(read, &mut OfImages { job: self, ask: &ask })
    }
}

impl OfPair for Job {
    fn paths(&self) -> &PairPaths {
        &self.paths
    }

    fn given(&self, pair: Pair, _: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        Ok(self.inputs(&self.ask()?, pair, listener)?.into())
    }
}
