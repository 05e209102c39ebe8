//! Surfaces of labels and images.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Silent, machine, surface};
//! use voxalign_options::Given;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = surface::Job::new("labels.nii.gz", "hippocampus.gii");
//! job.options.object = Given::default().with("label", "47,48")?;
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Cpu)?;
//! let made = job.make(&machine, &Caller::default(), &Silent)?;
//! println!("{} mm² in {} triangles", made.done.record.surface.area_mm2, made.mesh.faces().len());
//! # Ok(())
//! # }
//! ```

mod each;
mod judge;
mod make;
mod object;
mod options;

pub(crate) use make::{Of, made};
pub use options::{ObjectOptions, Options, ShapeOptions, Space};

use crate::Job as _;
use crate::error::{Error, Result};
use crate::files::{self, WhichImage};
use crate::job::missing;
use crate::listener::{Listener, check};
use crate::machine::{Auto, Machine};
use crate::plan::{self, Plan};
use crate::remedy::Speaker;
use crate::results::{RECORDED, REPORTED, ResultFile};
use crate::run::{Caller, Clock, Done, Input, Role, conclude, inputs, nothing_more, record};
use crate::staged::Staged;
use judge::Shaped;
use make::Making;
use object::Object;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use voxalign_compute::select::AnyDevice;
use voxalign_image::{LabelMap, Mesh, Volume};
use voxalign_io::mesh::{self, WriteOptions};
use voxalign_options::text;
use voxalign_register::Choice;
use voxalign_report::surface::{SurfaceFound, SurfaceRecord, SurfaceReport, render};
use voxalign_report::{GridRecord, RunRecord};

/// A surface that is to be made, or one of each label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// A label map, or an image
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "IMAGE", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub image: PathBuf,
    /// The mesh to write; with --each the folder of the meshes
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "MESH|DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// What the surface is of, and how it is made.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub options: Options,
    /// Which image of several.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub which: WhichImage,
}

/// What was made.
#[derive(Debug)]
pub struct Made {
    /// What was found, as it is beside the mesh, and where the mesh is.
    pub done: Done<SurfaceRecord>,
    /// The surface, world mm.
    pub mesh: Mesh,
}

impl Job {
    /// Of an image, into a file; what the surface is of is to be said in the options.
    pub fn new(image: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { image: image.into(), output: output.into(), ..Self::default() }
    }

    fn role(&self) -> Role {
        if self.options.object.has("level") { Role::Image } else { Role::Labels }
    }

    fn files<'a>(&'a self, caller: &'a Caller) -> Vec<Input<'a>> {
        let image = Input::new(self.role(), &self.image).of(self.which.options());
        let config = caller.config.as_deref().map(|path| Input::new(Role::Config, path));
        let names = self.options.label_names.as_deref();
        let names = names.map(|path| Input::new(Role::LabelNames, path));
        [image].into_iter().chain(names).chain(config).collect()
    }

    /// What is written: the mesh, the report where there is one, and the record.
    fn written(&self) -> Vec<(&'static str, PathBuf)> {
        let report = self.options.report.then(|| ("report", beside(&self.output, "html")));
        let record = ("record", beside(&self.output, "json"));
        [("surface", self.output.clone())].into_iter().chain(report).chain([record]).collect()
    }

    /// Does it all: reads, extracts, smooths, decimates, measures and writes.
    ///
    /// # Errors
    /// What is wrong with options or files; labels that are not there, a level that no voxel reaches;
    /// [`Error::Stopped`].
    pub fn make(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Made> {
        if self.options.each {
            return Err(Error::input(text!(
                "`each` is for several surfaces, in a folder; leave it out"
            )));
        }
        self.check(caller, listener)?;
        let mut clock = Clock::start();
        let read = inputs(&self.files(caller), listener)?;
        let (wanted, shape) = self.options.made()?;
        let object = Object::read(&self.image, &self.which, &wanted, listener)?;
        let grid = object.grid.clone();
        self.options.check_lines(&self.output, grid.is_2d())?;
        clock.lap("read");
        let (shaped, found) =
            self.making(machine, listener, (&wanted, &shape)).make(object, &mut clock)?;
        let run = RunRecord { parameters: self.parameters()?, ..record(caller, machine, read) };
        let SurfaceFound { object, isosurface, surface, most_triangles, distance, verdict } = found;
        let verdict = caller.worded(verdict, Speaker::Surface);
        let empty = SurfaceRecord::new(run, GridRecord::from(&grid));
        let record = SurfaceRecord {
            object,
            isosurface,
            surface,
            most_triangles,
            distance,
            verdict,
            ..empty
        };
        check(listener)?;
        let done = self.write(record, &shaped, (clock, listener))?;
        Ok(Made { done, mesh: shaped.mesh })
    }

    fn making<'a>(
        &'a self,
        machine: &'a Machine,
        listener: &'a dyn Listener,
        (wanted, shape): (&'a ObjectOptions, &'a ShapeOptions),
    ) -> Making<'a> {
        Making { path: &self.image, wanted, shape, device: Some(&machine.device), listener }
    }

    /// Writes it, the record last.
    fn write(
        &self,
        record: SurfaceRecord,
        shaped: &Shaped,
        (mut clock, listener): (Clock, &dyn Listener),
    ) -> Result<Done<SurfaceRecord>> {
        let mut staged = Staged::for_file(&self.output, listener)?;
        let space = self.options.space.unwrap_or_default().into();
        let options = WriteOptions { space, ..WriteOptions::default() };
        staged.write(&name(&self.output), |path| mesh::write(path, &shaped.mesh, &options))?;
        clock.lap("write");
        let written = self.written().into_iter().map(|(role, path)| (role, name(&path)));
        let written: Vec<_> = written.collect();
        conclude(staged, clock, record, (&self.output, &written), nothing_more, |record| {
            // What was read is not kept, as most surfaces have no report.
            let image = self.image_for_report(listener)?;
            let distances = shaped.distances()?;
            Ok::<_, Error>(render(&SurfaceReport {
                record,
                image: &image,
                mesh: &shaped.mesh,
                isosurface: shaped.exact(),
                distances: distances.as_deref(),
            })?)
        })
    }

    /// The image that the surface is drawn upon: of a label map the labels.
    fn image_for_report(&self, listener: &dyn Listener) -> Result<Volume<f32>> {
        let (volume, _) = files::image_of(&self.image, &self.which.options(), listener)?;
        let ObjectOptions { label: labels, level, .. } = self.options.made()?.0;
        if level.is_some() || labels.is_empty() {
            return Ok(volume);
        }
        // What is wanted is bright, other labels are grey.
        Ok(volume.try_map(|&v| match v {
            v if labels.contains(&(v as i32)) => 1.0,
            0.0 => 0.0,
            _ => 0.35,
        })?)
    }

    /// The parameters as they were used, also those left at their default.
    fn parameters(&self) -> Result<serde_json::Value> {
        let ((object, shape), space) = (self.options.made()?, self.options.space);
        let mut all = serde_json::Map::new();
        let mut put = |name: &str, value| drop(all.insert(name.to_owned(), value));
        match object.level {
            None => put("label", json!(object.label)),
            Some(level) => {
                put("level", json!(level));
                put("below", json!(object.below));
            }
        }
        put("largest_component", json!(object.largest_component));
        put("fill_holes", json!(object.fill_holes));
        put("sigma_mm", json!(shape.sigma));
        put("smoothing", json!(shape.smoothing(!object.label.is_empty())));
        put("triangles", json!(shape.triangles));
        put("keep", json!(shape.keep));
        put("space", json!(space.unwrap_or_default().name()));
        Ok(all.into())
    }
}

/// Voxels in memory that a surface is made around.
#[derive(Debug, Clone, Copy)]
pub enum Voxels<'a> {
    /// The labels of a map that the options name, together.
    Labels(&'a LabelMap),
    /// Those of an image that are at least the level of the options, or at most.
    Image(&'a Volume<f32>),
}

/// Makes the surface around voxels in memory, world mm, and judges it. Of the options, those about the object and its shape are
/// looked at.
///
/// # Errors
/// Options that cannot be or do not go with the voxels; labels that are not there, a level that no voxel reaches;
/// [`Error::Stopped`].
pub fn make(
    device: &AnyDevice,
    voxels: Voxels<'_>,
    options: &Options,
    listener: &dyn Listener,
) -> Result<(Mesh, SurfaceFound)> {
    options.check(Path::new("mesh.vtp"))?;
    let (wanted, shape) = options.made()?;
    let object = match (voxels, wanted.level) {
        (Voxels::Labels(labels), None) => Object::of_labels(labels, &wanted.label)?,
        (Voxels::Image(image), Some(level)) => {
            Object::of_image(image.try_clone()?, level, wanted.below)?
        }
        (Voxels::Labels(_), Some(_)) => {
            return Err(Error::input(text!("`level` is for images; give a `label` of the map")));
        }
        (Voxels::Image(_), None) => {
            return Err(Error::input(text!(
                "`label` is for label maps; give a `level` of the image"
            )));
        }
    };
    let path = Path::new("the voxels");
    let making = Making { path, wanted: &wanted, shape: &shape, device: Some(device), listener };
    let (shaped, found) = making.make(object, &mut Clock::start())?;
    Ok((shaped.mesh, found))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A file beside the mesh: its name and this ending.
fn beside(output: &Path, ending: &str) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    output.with_file_name(name)
}

/// The files of a surface, for pipelines: one with its record beside it, or a folder.
pub(crate) fn results() -> Vec<ResultFile> {
    vec![
        ResultFile::beside("surface", "", "The surface, or the folder of surfaces").always(),
        ResultFile::beside("record", ".json", RECORDED),
        ResultFile::beside("report", ".html", REPORTED),
    ]
}

impl crate::Job for Job {
    type Record = SurfaceRecord;
    type Inputs = ();
    const NAME: &'static str = "surface";
    const AUTO: Auto = Auto::Cpu;

    fn missing(&self) -> Option<&'static str> {
        let mesh = if self.options.each { "the folder -o DIR" } else { "the mesh -o MESH" };
        missing(&[(&self.image, "the image"), (&self.output, mesh)])
    }

    fn check_options(&self) -> Result<()> {
        // The name of the mesh may not be known yet.
        let usual = Path::new(if self.options.each { "surfaces" } else { "mesh.vtp" });
        let output = Some(&*self.output).filter(|path| !path.as_os_str().is_empty());
        self.options.check(output.unwrap_or(usual))
    }

    fn check(&self, caller: &Caller, _: &dyn Listener) -> Result<()> {
        self.check_options()?;
        if self.options.each {
            return self.check_folder(caller);
        }
        let files = self.files(caller);
        self.written()
            .iter()
            .try_for_each(|(_, path)| files::check_output(path, files.iter().map(Input::path)))
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        let writes = match self.options.each {
            true => {
                let written = self.written_each(&self.wanted_labels(listener)?.2);
                written.into_iter().map(|(_, name)| self.output.join(name)).collect()
            }
            false => self.written().into_iter().map(|(_, path)| path).collect(),
        };
        let plan = Plan::new(&self.files(caller), writes, listener)?;
        let voxels = plan.voxels(self.role());
        // The image, and for objects that fill it values and flags; surfaces have a vertex for every few voxels of it.
        Ok(plan.taking(plan::BASE + 24 * voxels))
    }

    fn read(&self, _: &Caller, _: &dyn Listener) -> Result<()> {
        Ok(())
    }

    fn find(
        &self,
        machine: &Machine,
        (): (),
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<SurfaceRecord>> {
        Ok(self.make(machine, caller, listener)?.done)
    }
}
