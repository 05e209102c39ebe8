//! Segmentation of an image by fronts that move: level sets in their fast form.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, machine, segment};
//! use voxalign_options::Chosen;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = segment::Job::new("ct.nii.gz", "out");
//! job.options.force = Chosen::of(segment::Force::CHAN_VESE).with("object", "brighter")?;
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Cpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{} ml", done.record.found.regions[1].volume_ml);
//! # Ok(())
//! # }
//! ```

mod evolve;
mod held;
mod judge;
mod options;
mod preset;
mod regions;
mod settings;
mod stage;
mod start;
mod values;
mod work;

pub use options::{
    BoneOptions, DenseOptions, DenseShape, EdgeOptions, EvolutionOptions, Force, Init,
    MeansOptions, MixtureOptions, ObjectKind, OfJob, Options, Preset, PressureOptions,
    ShapeOptions, TidyOptions,
};
pub use values::{Centre, Classes, Connectivity, Iterations};
pub use work::{Segmented, segment};

use crate::error::{Error, Result};
use crate::files::{self, WhichImage};
use crate::job::missing;
use crate::listener::{Level, Listener, check};
use crate::machine::{Auto, Machine};
use crate::plan::{self, Plan};
use crate::remedy::Speaker;
use crate::results::ResultFile;
use crate::run::{
    Caller, Done, Input, RECORD, REPORT, Read, Role, check_outputs, check_written, conclude,
    inputs, nothing_more, record, written,
};
use crate::staged::Staged;
use crate::surface::{self, Of};
use serde::{Deserialize, Serialize};
use serde_json::json;
use settings::Settings;
use std::path::{Path, PathBuf};
use voxalign_image::{LabelMap, Mesh, Volume};
use voxalign_io::image::DataType;
use voxalign_io::labels::{self, LabelTable};
use voxalign_io::{atomic, mesh};
use voxalign_options::{Choice, Parameters, text};
use voxalign_report::draw::{Animation, AnimationOptions, FrameColours};
use voxalign_report::segment::{SegmentFound, SegmentRecord, SegmentReport, render};
use voxalign_report::{Fronts, GridRecord, RunRecord};
use work::Files;

/// The regions.
const LABELS: &str = "labels.nii.gz";
/// Their names and colours, for ITK-SNAP.
const NAMES: &str = "labels.txt";
/// The same for 3D Slicer.
const SEGMENTATION: &str = "labels.seg.nrrd";
/// The fronts as they move.
const EVOLUTION: &str = "evolution.png";
/// How long a picture of them is shown, and how long the last one, milliseconds.
const SHOWN: [u32; 2] = [150, 2000];

/// An image that is to be segmented.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The image, of two or three dimensions
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub image: PathBuf,
    /// Folder for the results; created if it does not exist
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// How it is segmented.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub options: Options,
    /// Which image of several.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub which: WhichImage,
}

/// What is read before fronts move.
#[derive(Debug)]
pub struct Inputs {
    image: Volume<f32>,
    /// Of the file.
    dimensions: usize,
    files: Files,
}

impl Job {
    /// Of an image, into a folder, with usual options.
    pub fn new(image: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { image: image.into(), output: output.into(), ..Self::default() }
    }

    fn files<'a>(&'a self, caller: &'a Caller) -> Vec<Input<'a>> {
        let image = Input::new(Role::Image, &self.image).of(self.which.options());
        let config = caller.config.as_deref().map(|path| Input::new(Role::Config, path));
        [image].into_iter().chain(self.options.files()).chain(config).collect()
    }

    /// What is written where these labels have voxels.
    fn written(&self, labels: &[i32], regions: usize, flat: bool) -> Vec<(&'static str, String)> {
        let surfaces = labels.iter().filter(|_| !self.options.no_surface);
        let surfaces = surfaces.map(|l| ("surface", surface_name(*l, regions, flat)));
        let own = [
            ("labels", LABELS),
            ("label_names", NAMES),
            ("segmentation", SEGMENTATION),
            ("evolution", EVOLUTION),
        ];
        let own = own.map(|(role, name)| (role, name.to_owned())).into_iter().chain(surfaces);
        written(own, self.options.report.wanted())
    }

    /// All parameters, as they were used, also those left at their default.
    fn parameters(
        &self,
        image: &Volume<f32>,
        settings: &Settings,
        used: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<serde_json::Value> {
        let grid = image.grid();
        let mut all = serde_json::Map::new();
        all.insert("preset".into(), settings.preset.name().into());
        if settings.preset == Preset::None {
            all.insert("force".into(), settings.force.name().into());
            all.insert("init".into(), settings.init.name().into());
            all.extend(start::used(grid, settings));
        }
        all.extend(settings.evolution.as_json());
        let connectivity = settings.neighbourhood(grid)?.count();
        all.insert("connectivity".into(), connectivity.into());
        all.insert("sigma".into(), settings.sigma(grid).into());
        all.extend(used.clone());
        all.extend(settings.tidy.as_json());
        let path = |path: &Option<PathBuf>| json!(path.as_ref().map(|p| p.display().to_string()));
        let Options { speed, prior_mask, initial_mask, label_names, .. } = &self.options;
        for (name, file) in [
            ("speed", speed),
            ("prior_mask", prior_mask),
            ("initial_mask", initial_mask),
            ("label_names", label_names),
        ] {
            all.insert(name.into(), path(file));
        }
        all.insert("surface".into(), (!self.options.no_surface).into());
        all.insert("volume".into(), json!(self.which.volume));
        all.insert("series".into(), json!(self.which.series));
        Ok(all.into())
    }
}

/// The name of the surface of a label.
fn surface_name(label: i32, regions: usize, flat: bool) -> String {
    let (name, ending) = if flat { ("outline", "vtk") } else { ("surface", "gii") };
    if regions == 2 { format!("{name}.{ending}") } else { format!("{name}_{label}.{ending}") }
}

/// The files of a segmentation, for pipelines.
pub(crate) fn results() -> Vec<ResultFile> {
    vec![
        ResultFile::of("labels", LABELS, "The regions").always(),
        ResultFile::of("label_names", NAMES, "Their names and colours, for ITK-SNAP").always(),
        ResultFile::of("segmentation", SEGMENTATION, "The regions for 3D Slicer").always(),
        ResultFile::of("evolution", EVOLUTION, "The fronts as they move").always(),
        ResultFile::of("surface", "surface*.gii", "The surface of each region"),
        ResultFile::of("outline", "outline*.vtk", "The outline of each region, in the plane"),
        ResultFile::record(),
        ResultFile::report(),
    ]
}

/// Names of the regions, and colours.
fn table(found: &SegmentFound) -> Result<LabelTable> {
    let objects: Vec<_> = found.regions.iter().filter(|r| r.label != 0).collect();
    let usual = |label: i32| match objects.len() {
        1 => "object".to_owned(),
        _ => format!("region {label}"),
    };
    let names = objects.iter().map(|r| (r.label, r.name.clone().unwrap_or_else(|| usual(r.label))));
    LabelTable::new(names).map_err(|e| Error::input(text!("`label_names`: {}", e.to_string())))
}

/// The fronts as an animated PNG.
fn film(fronts: &Fronts) -> Result<Vec<u8>> {
    let pictures = fronts.pictures();
    let [delay_ms, last_ms] = SHOWN;
    let options = AnimationOptions {
        size: pictures.first().map_or([0; 2], |p| p.size),
        colours: FrameColours::Rgb,
        frames: pictures.len(),
        delay_ms,
        last_ms,
    };
    let mut file = Vec::new();
    let mut animation = Animation::new(&mut file, options)?;
    pictures.iter().try_for_each(|p| animation.frame(&p.pixels))?;
    animation.finish()?;
    Ok(file)
}

/// The surfaces of regions, with what is odd about them.
fn surfaces(
    labels: &LabelMap,
    of: &[i32],
    regions: usize,
    listener: &dyn Listener,
) -> Result<Vec<(i32, Mesh)>> {
    let flat = labels.grid().is_2d();
    let mut all = Vec::new();
    for &label in of {
        check(listener)?;
        let wanted = surface::ObjectOptions { label: vec![label], ..surface::ObjectOptions::USUAL };
        let name = surface_name(label, regions, flat);
        let shape = surface::ShapeOptions::USUAL;
        let options = (&wanted, &shape);
        let (mesh, verdict) =
            surface::made(Of::Labels(labels), Path::new(&name), options, listener)?;
        if !verdict.good {
            listener.say(Level::Verbose, text!("{name}: {}", verdict.summary()));
        }
        all.push((label, mesh));
    }
    Ok(all)
}

impl crate::Job for Job {
    type Record = SegmentRecord;
    type Inputs = Read<Inputs>;
    const NAME: &'static str = "segment";
    const AUTO: Auto = Auto::Cpu;

    fn missing(&self) -> Option<&'static str> {
        missing(&[(&self.image, "the image IMAGE"), (&self.output, "the output folder -o DIR")])
    }

    fn check_options(&self) -> Result<()> {
        self.options.settings().map(drop)
    }

    fn check(&self, caller: &Caller, _: &dyn Listener) -> Result<()> {
        let regions = self.options.settings()?.evolution.regions;
        let files = self.files(caller);
        let labels: Vec<i32> = (1..regions as i32).collect();
        let names = [true, false].into_iter().flat_map(|flat| self.written(&labels, regions, flat));
        let names: Vec<String> = names.map(|w| w.1).collect();
        let own = [RECORD, REPORT].into_iter().chain(names.iter().map(String::as_str));
        check_outputs(&self.output, own, files.iter().map(Input::path))
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        let settings = self.options.settings()?;
        let files = self.files(caller);
        let plan = Plan::new(&files, Vec::new(), listener)?;
        let dims = plan.reads.first().and_then(|r| r.dims).unwrap_or([1; 3]);
        let regions = settings.evolution.regions;
        let labels: Vec<i32> = (1..regions as i32).collect();
        let written = self.written(&labels, regions, dims[2] == 1);
        let writes = written.into_iter().map(|(_, name)| self.output.join(name)).collect();
        let voxels = plan.voxels(Role::Image);
        // The image and its labels, sets, levels, lists of both sides of the front and of its parts; edges have six numbers a voxel more.
        let edges = match settings.force {
            // Speeds, slices beside each other, depths, and the image in their order.
            _ if settings.preset != Preset::None => 60,
            Force::GeodesicRegions(_) if regions == 2 => 56,
            // Scores of each label, and its shares of what is around.
            Force::GeodesicRegions(_) => 8 * regions as u64 + 4,
            Force::ChanVese(_) if regions > 2 => 4 * regions as u64 + 4,
            Force::Edge(_) => 48,
            _ => 0,
        };
        Ok(Plan { writes, ..plan }.taking(plan::BASE + (48 + edges) * voxels))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        let records = inputs(&self.files(caller), listener)?;
        Read::of(
            |_| Ok(records),
            || {
                let (image, info) = files::image_of(&self.image, &self.which.options(), listener)?;
                let files = Files::read(&self.options, image.grid(), listener)?;
                work::finite(&self.image, &image)?;
                let dimensions = if image.grid().is_2d() { info.dims.len().min(2) } else { 3 };
                Ok(Inputs { image, dimensions, files })
            },
        )
    }

    fn find(
        &self,
        machine: &Machine,
        read: Read<Inputs>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<SegmentRecord>> {
        let mut clock = read.clock();
        let Read { inputs: Inputs { image, dimensions, files }, records: read, .. } = read;
        let settings = self.options.settings()?;
        let grid = image.grid().clone();
        let (flat, regions) = (grid.is_2d(), settings.evolution.regions);
        let mut fronts = Fronts::new(&image);
        let at = |e: Error| e.at(format!("'{}'", self.image.display()));
        let device = &machine.device;
        let work =
            work::Work { device, image: &image, settings: &settings, files: &files, listener };
        let (Segmented { labels, found, verdict }, used) =
            work.done(&mut fronts, &mut clock).map_err(at)?;
        let has_voxels = |l: &i32| found.regions.iter().any(|r| r.label == *l && r.voxels > 0);
        let there: Vec<i32> = (1..regions as i32).filter(has_voxels).collect();
        let meshes = match self.options.no_surface {
            true => Vec::new(),
            false => surfaces(&labels, &there, regions, listener)?,
        };
        clock.lap("surface");
        let written = self.written(&there, regions, flat);
        check_written(&self.output, &written, &self.files(caller))?;
        let mut staged = Staged::new(&self.output, listener)?;
        let options = files::write_options(DataType::U8, dimensions);
        let table = table(&found)?;
        staged.write_image(LABELS, |path| {
            labels::write_nifti(path, &labels, &table, &options).map(drop)
        })?;
        staged.write(SEGMENTATION, |path| {
            labels::write_segmentation(path, &labels, &table, &options)
        })?;
        let film = film(&fronts)?;
        staged.write(EVOLUTION, |path| atomic::write_file(path, |w| w.write_all(&film)))?;
        for (label, mesh) in &meshes {
            let name = surface_name(*label, regions, flat);
            staged.write(&name, |path| mesh::write(path, mesh, &mesh::WriteOptions::default()))?;
        }
        // What another run with these regions left.
        let all: Vec<i32> = (1..regions as i32).collect();
        for name in all.iter().map(|l| surface_name(*l, regions, flat)) {
            if !written.iter().any(|w| w.1 == name) {
                staged.without(&name);
            }
        }
        clock.lap("write");
        let parameters = self.parameters(&image, &settings, &used)?;
        let run = RunRecord { parameters, ..record(caller, machine, read) };
        let verdict = caller.worded(verdict, Speaker::Segment);
        let record =
            SegmentRecord { found, verdict, ..SegmentRecord::new(run, GridRecord::from(&grid)) };
        conclude(staged, clock, record, (&self.output, &written), nothing_more, |record| {
            let (image, labels, meshes, fronts) = (&image, &labels, &meshes, &fronts);
            render(&SegmentReport { record, image, labels, meshes, fronts })
        })
    }
}
