//! Registration by an elastic body, from files to files.

use super::body::{Made, Of};
use super::mesh::{MeshOptions, USUAL_SPACING_MM, with_labels};
use super::slices::{self, Slices};
use super::state::read_state;
use super::task::{OfBody, files_of, slice_files};
use crate::bids::BidsOptions;
use crate::deform::{self, AffineChoice, Course, check_points, check_way, given};
use crate::error::{Error, Result};
use crate::job::{OfPair, missing};
use crate::listener::Listener;
use crate::machine::{Auto, Machine};
use crate::options::{
    AffineWay, InitChoice, LandmarkOptions, OutputOptions, Products, as_text, check_dof,
    of_elastic, refuse,
};
use crate::pair::{Pair, PairPaths};
use crate::plan::{self, Plan};
use crate::run::{Caller, Done, Input, Output, Read, Role, Run};
use serde::{Deserialize, Deserializer, Serialize};
use std::path::PathBuf;
use voxalign_image::Grid;
use voxalign_io::transform::Geometry;
use voxalign_options::{Chosen, Given, Parameters as _, UseOf, text};
use voxalign_register::diffeo::{ElasticSetting, Multiscale, Preparation, check_similarity};
use voxalign_register::linear::Init;
use voxalign_register::model::elastic::{Elastic, Sampling, Tissue};
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;
use voxalign_report::{MaterialRecord, RunRecord};

/// The similarities by which images move a body.
#[derive(Debug)]
pub struct OfBodies;

impl UseOf<Similarity> for OfBodies {
    fn serves(kind: &Similarity) -> bool {
        kind.has_energy()
    }

    fn usual() -> Option<Similarity> {
        Some(Similarity::SSD)
    }
}

impl UseOf<Multiscale> for OfBodies {
    fn takes(parameter: &str) -> bool {
        parameter == "schedule"
    }
}

impl UseOf<Preparation> for OfBodies {
    fn takes(parameter: &str) -> bool {
        parameter == "histogram_match"
    }
}

/// A registration of files by an elastic body that is to be done.
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
    /// Start of the initial affine registration, as for `voxalign affine` [default: moments]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "header|centre|moments|identity|FILE|landmarks:F,M")
    )]
    #[serde(with = "as_text")]
    pub init: Option<InitChoice>,
    /// Further slices, where the fixed image is a slice too: a volume is brought to all of them. A slice is an image of which exactly one
    /// dimension is 1, at its place in the world
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub slice: Vec<PathBuf>,
    /// How images are compared.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub similarity: Chosen<Similarity, OfBodies>,
    /// What is done with the images first.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub preparation: Given<Preparation, OfBodies>,
    /// What the body is made of, where that is one tissue.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub tissue: Given<Tissue>,
    /// CSV file with the material of each label of the mesh: label, young (Pa), poisson, density (kg/m³)
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv", help_heading = "Body"))]
    pub materials: Option<PathBuf>,
    /// Start where the body of an earlier run with the same mesh ended, and as it moved there: the mesh.vtu of that run
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.vtu", help_heading = "Body"))]
    pub state: Option<PathBuf>,
    /// Follow a sequence: further fixed images on the same grid, in the order of time after FIXED.
    /// Each begins where the body ended in the one before, without the coarse scales, and has a
    /// folder frame_NNN of its own
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE", num_args = 1.., help_heading = "Sequences"))]
    pub stream: Vec<PathBuf>,
    /// Scales and iterations of the frames after the first [default: the last scale of --schedule]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FxN,...", help_heading = "Sequences"))]
    #[serde(with = "as_text")]
    pub stream_schedule: Option<Schedule>,
    /// Its mesh, and where it is held.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub mesh: MeshOptions,
    /// How it moves.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub elastic: Given<Elastic>,
    /// How coarse and how long.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub multiscale: Given<Multiscale, OfBodies>,
    /// How the affine registration that comes first is made otherwise.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub way: AffineWay,
    /// The two images, and what goes with them.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub paths: PairPaths,
    /// How results are written.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub written: OutputOptions,
    /// Which files to write, separated by commas: warp, inverse_warp, affine, composite,
    /// inverse_composite, warped, jacobian, mesh, or `all`; result.json is always written, and
    /// report.html unless --no-report says otherwise [default: warp,inverse_warp,affine,warped,mesh]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME,...", value_parser = of_elastic, help_heading = "Output"))]
    #[serde(serialize_with = "as_text::serialize", deserialize_with = "products")]
    pub outputs: Option<Products>,
    /// A data set of BIDS derivatives that the result goes into as well.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub bids: BidsOptions,
}

/// Which files, of those that a registration by a body has.
fn products<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Products>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| of_elastic(&text).map_err(serde::de::Error::custom)).transpose()
}

/// The images of a registration.
#[derive(Debug)]
pub(super) enum Images {
    /// Two volumes.
    Volumes(Box<deform::Inputs>),
    /// Slices, and the volume that is brought to them.
    Slices(Box<Slices>),
}

impl Images {
    /// Those of two volumes.
    pub(super) fn volumes(self) -> Result<deform::Inputs> {
        match self {
            Self::Volumes(images) => Ok(*images),
            Self::Slices(_) => Err(Error::Internal("slices are no volume".into())),
        }
    }
}

/// What was read.
#[derive(Debug)]
pub struct Inputs {
    pub(super) images: Images,
    pub(super) setting: ElasticSetting,
    pub(super) materials: Vec<MaterialRecord>,
    pub(super) remarks: Vec<String>,
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

    /// The one tissue.
    pub(super) fn tissue(&self) -> Result<Tissue> {
        let tissue = self.tissue.over(Tissue::USUAL)?;
        tissue.check()?;
        Ok(tissue)
    }

    /// What is done with the images first.
    pub(super) fn preparation(&self) -> Result<Preparation> {
        Ok(self.preparation.over(Preparation::default())?)
    }

    pub(super) fn similarity(&self) -> Result<Similarity> {
        let mut similarity = self.similarity.kind().unwrap_or(Similarity::SSD);
        self.similarity.check_used(&[similarity])?;
        self.similarity.tell(&mut similarity)?;
        check_similarity(&similarity)?;
        Ok(similarity)
    }

    fn elastic(&self) -> Result<Elastic> {
        let elastic = self.elastic.over(Elastic::USUAL)?;
        elastic.check()?;
        Ok(elastic)
    }

    pub(super) fn multiscale(&self) -> Result<Multiscale> {
        let multiscale = self.multiscale.over(Multiscale::default())?;
        multiscale.check()?;
        Ok(multiscale)
    }

    fn of(&self) -> Result<Of<'_>> {
        match &self.materials {
            Some(path) => Ok(Of::Table(path)),
            None => Ok(Of::One(self.tissue()?)),
        }
    }

    /// All files with what they are.
    pub(super) fn files(&self) -> Vec<Input<'_>> {
        let mut all = self.paths.all();
        let start = self.affine.as_ref().and_then(AffineChoice::file);
        all.extend(start.map(|path| Input::new(Role::Affine, path)));
        all.extend(self.init.iter().flat_map(InitChoice::inputs));
        all.extend(self.slice.iter().map(|path| Input::new(Role::Slice, path)));
        all.extend(self.mesh.files());
        all.extend(Input::those_given(&[
            (Role::Materials, &self.materials),
            (Role::State, &self.state),
        ]));
        all.extend(self.stream_files());
        all
    }

    /// All files that may be written.
    fn may_write(&self) -> Vec<Output> {
        match self.slice.len() {
            _ if self.is_sequence() => self.stream_outputs(),
            0 => files_of(),
            further => slice_files(&self.output, 1 + further).files,
        }
    }

    pub(super) fn products(&self) -> Products {
        self.outputs.clone().unwrap_or_else(Products::usual_of_elastic)
    }

    pub(super) fn as_run<'a>(
        &'a self,
        products: &'a Products,
        caller: &'a Caller,
        listener: &'a dyn Listener,
    ) -> Run<'a> {
        let (folder, output, products) = (&*self.output, &self.written, Some(products));
        let bids = Some(self.paths.as_bids(&self.bids));
        Run { caller, folder, output, products, bids, listener }
    }

    /// The body in an image on a grid, with how it moves and from where.
    fn body(&self, fixed: &Grid, listener: &dyn Listener) -> Result<(ElasticSetting, Made)> {
        let made = self.of()?.made(&self.mesh, fixed, listener)?;
        let rest = made.body.finest().body.mesh();
        let start = match &self.state {
            Some(path) => {
                let state = read_state(path, rest, listener);
                Some(state.map_err(|e| e.at(text!("`state`")))?)
            }
            None => None,
        };
        let setting = ElasticSetting {
            elastic: self.elastic()?,
            multiscale: self.multiscale()?,
            start,
            timed: true,
            ..ElasticSetting::new(made.body.clone())
        };
        Ok((setting, made))
    }

    /// What is read where the fixed image is a slice.
    fn with_slices(&self, pair: Pair, run: &Run<'_>) -> Result<Inputs> {
        let listener = run.listener;
        self.bids.only_for_volumes()?;
        // One that is alone is known as a slice only now.
        run.check(&slice_files(&self.output, 1 + self.slice.len()).files, &self.files())?;
        let images = slices::read(self, pair, listener)?;
        let (setting, made) = self.body(images.grid(), listener)?;
        let Made { materials, remarks, .. } = made;
        images.check(self.similarity()?, &setting)?;
        Ok(Inputs { images: Images::Slices(Box::new(images)), setting, materials, remarks })
    }

    /// Reads all that is needed before a device is; of a sequence the first frame.
    pub(super) fn inputs(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        let products = self.products();
        let run = self.as_run(&products, caller, listener);
        run.read(&self.files(), || self.of_pair(self.paths.read(listener)?, &run))
    }

    /// The same of these images.
    fn of_pair(&self, pair: Pair, run: &Run<'_>) -> Result<Inputs> {
        let listener = run.listener;
        let flat = [pair.fixed.grid(), pair.moving.grid()].map(slices::is_slice);
        if !self.slice.is_empty() || flat == [true, false] {
            return self.with_slices(pair, run);
        }
        let grids = [pair.fixed.grid().clone(), pair.moving.grid().clone()];
        self.check_frames(&grids[0], listener)?;
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let start = given(&self.start(), &geometry, listener)?;
        let init = match &self.init {
            Some(init) => {
                let init = init.load(&geometry, Default::default(), listener);
                init.map_err(|e| e.at(text!("`init`")))?
            }
            None => Init::default(),
        };
        let way = self.way.usual(grids[0].is_2d())?;
        check_dof(way.dof, grids[0].is_2d())?;
        let (setting, made) = self.body(&grids[0], listener)?;
        let Made { materials, remarks, .. } = made;
        let images = deform::Inputs {
            start,
            init,
            way,
            preparation: self.preparation()?,
            ..deform::Inputs::of(pair)
        };
        setting.check(&images.as_input(self.similarity()?, Default::default()))?;
        Ok(Inputs { images: Images::Volumes(Box::new(images)), setting, materials, remarks })
    }

    /// The image that the body is in at rest: the fixed one, or the moving one where that is a slice.
    fn rests_in(plan: &Plan) -> Role {
        let fixed =
            plan.reads.iter().find(|r| r.role == voxalign_options::Choice::name(Role::Fixed));
        let flat = fixed.and_then(|r| r.dims).is_some_and(|dims| dims.contains(&1));
        if flat { Role::Moving } else { Role::Fixed }
    }

    /// Tetrahedra of the mesh that would be made, about.
    fn tetrahedra(&self, plan: &Plan) -> u64 {
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
        if let Some(path) = &self.mesh.mesh {
            // Four numbers of four bytes each at least.
            return size(path) / 16;
        }
        let role = match self.mesh.mesh_mask.is_some() {
            true => Role::MeshMask,
            false => Self::rests_in(plan),
        };
        let spacing = self.mesh.spacing().unwrap_or(USUAL_SPACING_MM);
        let of = plan.reads.iter().find(|r| r.role == voxalign_options::Choice::name(role));
        let sides = of.and_then(|r| r.dims.zip(r.spacing_mm));
        let cells =
            sides.map(|(dims, mm)| (0..3).map(|a| dims[a] as f64 * mm[a] / spacing).product());
        6 * cells.map_or(0, |cells: f64| cells.ceil() as u64)
    }
}

impl crate::Job for Job {
    type Record = RunRecord;
    type Inputs = Read<Inputs>;
    const NAME: &'static str = "elastic";
    const AUTO: Auto = Auto::Gpu;

    fn missing(&self) -> Option<&'static str> {
        self.paths.missing().or(missing(&[(&self.output, "the output folder -o DIR")]))
    }

    fn check_options(&self) -> Result<()> {
        let (similarity, elastic) = (self.similarity()?, self.elastic()?);
        elastic.newmark().check()?;
        self.multiscale()?;
        self.preparation()?;
        self.tissue()?;
        self.bids.check()?;
        let sampled = elastic.samples != Sampling::All;
        let whole = text!("`samples = all`, as its similarity compares neighbouring voxels");
        let local = matches!(similarity, Similarity::Lncc(_));
        refuse(sampled && local, "similarity = lncc", whole)?;
        let masked = self.paths.masks.moving_mask.is_some();
        refuse(sampled && masked, "moving_mask", text!("`samples = all`"))?;
        if let Some(option) = self.tissue.first().filter(|_| self.materials.is_some()) {
            refuse(true, option, text!("a body of one tissue, without `materials`"))?;
        }
        refuse(self.materials.is_some() && !self.mesh.has_labels(), "materials", with_labels())?;
        self.mesh.check()?;
        if !self.slice.is_empty() {
            slices::check(self)?;
        }
        if !self.slice.is_empty() || self.is_sequence() {
            self.bids.only_for_volumes()?;
        }
        self.check_stream()?;
        check_way(&self.way, self.affine.as_ref())?;
        check_points(&LandmarkOptions::default(), self.init.as_ref(), self.affine.as_ref())
    }

    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()> {
        self.check_options()?;
        let products = self.products();
        self.as_run(&products, caller, listener).check(&self.may_write(), &self.files())?;
        self.paths.check()
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        let products = self.products();
        let run = self.as_run(&products, caller, listener);
        let plan = run.plan(&self.files(), &self.may_write())?;
        let both = plan.voxels(Role::Fixed) + plan.voxels(Role::Moving);
        let body =
            VOXEL * plan.voxels(Self::rests_in(&plan)) + TETRAHEDRON * self.tetrahedra(&plan);
        Ok(plan.taking(plan::BASE + (plan::AFFINE * both).max(body)))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        if self.is_sequence() {
            return Err(Error::input(text!(
                "`stream` names a sequence, which has a result for each frame"
            )));
        }
        self.inputs(caller, listener)
    }

    fn find(
        &self,
        machine: &Machine,
        read: Read<Inputs>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<RunRecord>> {
        let (similarity, products) = (self.similarity()?, self.products());
        let run = self.as_run(&products, caller, listener);
        let (Inputs { images, setting, materials, remarks }, read) = read.split();
        let setting = if machine.gpu().is_some() { setting.on_gpu() } else { setting };
        let images = match images {
            Images::Volumes(images) => *images,
            Images::Slices(images) => {
                let (how, body) = ((&setting, similarity), (&*materials, &*remarks));
                return slices::run(self, (machine, run), read.with(*images), how, body);
            }
        };
        let course =
            Course { machine, run, similarity: Some(similarity), deformer: &|_, _| &setting };
        let mut task = OfBody::new(self, (&setting, similarity), &materials, &remarks);
        course.run(read.with(images), &mut task)
    }
}

impl OfPair for Job {
    fn paths(&self) -> &PairPaths {
        &self.paths
    }

    fn given(&self, pair: Pair, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        let products = self.products();
        Ok(self.of_pair(pair, &self.as_run(&products, caller, listener))?.into())
    }
}

/// The memory of a registration, bytes a voxel of the image that the body is in.
const VOXEL: u64 = 86;

/// That of a body with its matrices, bytes a tetrahedron.
const TETRAHEDRON: u64 = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Job as _;

    /// What a job of these options says.
    fn checked(options: &str) -> Result<(), String> {
        let job: Job = crate::options::from_toml(options).map_err(|e| e.to_string())?;
        job.check_options().map_err(|e| e.to_string())
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        assert_eq!(checked("fixed = 'a'\nmoving = 'b'\noutput = 'c'"), Ok(()));
        for (bad, said) in [
            ("young = 0", "`young` is 0"),
            ("poisson = 0.5", "`poisson` is 0.5"),
            ("density = -1", "`density` is -1"),
            ("newmark = '0.1,0.5'", "not stable"),
            ("time_step = 0", "`time_step` is 0"),
            ("tolerance = 1", "`tolerance` is 1"),
            (
                "samples = '8x8x8'\nsimilarity = 'lncc'",
                "`similarity = lncc` is for `samples = all`",
            ),
            ("samples = '8x8x8'\nmoving_mask = 'm.nii'", "`moving_mask` is for"),
            ("materials = 'm.csv'\nyoung = 2000\nmesh = 'a.vtu'", "`young` is for"),
            ("materials = 'm.csv'", "`materials` is for a mesh with labels"),
            ("radius = 3", "`radius` is for"),
            ("similarity = 'cr'", "similarity"),
            ("convergence = 0.1", "convergence"),
            ("affine = 'none'\ninit = 'header'", "`init` is for"),
            ("outputs = 'mash'", "mash"),
            ("clip = false", "clip"),
            ("stream_schedule = '1x9'", "`stream_schedule` is for `stream`"),
            ("stream = ['d']\nfixed_labels = 'l'", "`fixed_labels` is for a single fixed image"),
            ("stream = ['d']\nstream_schedule = '1x0'", "not a scale"),
        ] {
            let error = checked(bad).unwrap_err();
            assert!(error.contains(said), "{bad}: {error}");
        }
        let job: Job = crate::options::from_toml("outputs = 'warp,mesh'").unwrap();
        assert!(job.products().contains(crate::options::Product::Mesh));
    }
}
