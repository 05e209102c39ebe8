//! X-ray images of a CT, simulated (digitally reconstructed radiographs, DRR).
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Silent, drr, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = drr::Job::new("ct.nii.gz", "out");
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Cpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.images[0].files[0]);
//! # Ok(())
//! # }
//! ```

mod options;
mod poses;

pub use options::{Format, Projection, Rays, Shown, Simulation};
pub use poses::PoseChoice;

use crate::error::{Error, Result};
use crate::listener::{Listener, check};
use crate::machine::Machine;
use crate::plan::{self, Plan};
use crate::projection::{Ct, CtOptions, NamedView, ViewOptions};
use crate::run::{Caller, Clock, Done, Input, RECORD, REPORT, Role, check_outputs, conclude};
use crate::run::{inputs, record, written};
use crate::staged::Staged;
use options::Shown as Values;
use poses::Pose;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use voxalign_compute::ops::raycast::Along;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Grid, Vector3};
use voxalign_io::xray::{self, XrayToWrite, geometry};
use voxalign_register::Choice;
use voxalign_register::projection::Simulator;
use voxalign_register::random::Random;
use voxalign_report::drr::{DrrImageRecord, DrrRecord, DrrReport, render};
use voxalign_report::xray::{ViewRecord, XrayPicture};
use voxalign_report::{GridRecord, RunRecord};

/// The table of the views.
const VIEWS: &str = "views.toml";
/// The most images that a report shows.
const PICTURES: usize = 12;

/// X-ray images that are to be made of a CT.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The CT.
    pub ct: PathBuf,
    /// How attenuations are made of it.
    #[serde(flatten)]
    pub material: CtOptions,
    /// Where the views are.
    #[serde(flatten)]
    pub views: ViewOptions,
    /// Where the CT is.
    #[serde(flatten)]
    pub place: PoseChoice,
    /// How images are simulated and written.
    #[serde(flatten)]
    pub simulation: Simulation,
    /// Whether there is no report.
    #[serde(
        default,
        with = "crate::options::negated",
        rename = "report",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub no_report: bool,
    /// The folder for the results.
    pub output: PathBuf,
}

/// A view at a pose, as it is written.
struct Made {
    record: DrrImageRecord,
    /// What a report shows of it.
    shown: Option<Vec<f32>>,
}

impl Job {
    /// Of a CT, from the front; results go to a folder.
    pub fn new(ct: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { ct: ct.into(), output: output.into(), ..Self::default() }
    }

    fn files<'a>(&'a self, caller: &'a Caller) -> Vec<Input<'a>> {
        let mut all = self.material.files(&self.ct);
        all.extend(self.views.file());
        all.extend(self.place.files());
        all.extend(caller.config.as_deref().map(|path| Input::new(Role::Config, path)));
        all
    }

    /// Checks what can be checked before a device is started.
    ///
    /// # Errors
    /// Options that others make meaningless, outputs that are inputs.
    pub fn check(&self, caller: &Caller) -> Result<()> {
        self.material.check()?;
        self.views.check()?;
        self.place.check()?;
        self.simulation.check()?;
        let files = self.files(caller);
        let names = [RECORD, REPORT, VIEWS].into_iter();
        check_outputs(&self.output, names, files.iter().map(Input::path))
    }

    /// What it would do.
    ///
    /// # Errors
    /// As of [`check`](Self::check); headers that cannot be read.
    pub fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller)?;
        let plan = Plan::new(&self.files(caller), Vec::new(), listener)?;
        let grid = crate::files::grid(&self.ct, listener)?;
        let views = self.views.views(&grid, listener)?;
        let poses = self.place.read(self.centre(&grid), listener)?;
        let writes = self.written(&views, poses.len());
        let writes = writes.into_iter().map(|(_, name)| self.output.join(name)).collect();
        let voxels = plan.voxels(Role::Ct.name());
        let pixels = views.iter().map(|v| v.geometry.dims().iter().product::<usize>()).max();
        // The volume with and without its border, and an image with what is written of it.
        let taken = plan::BASE + 12 * voxels + 24 * pixels.unwrap_or(0) as u64;
        Ok(Plan { writes, ..plan }.taking(taken))
    }

    /// The point about which the CT is turned.
    fn centre(&self, ct: &Grid) -> Vector3<f64> {
        self.views.isocentre.map_or_else(|| ct.centre(), |p| Vector3::from(p.0))
    }

    /// What a view at a pose is called, which no other image is.
    fn name(view: &NamedView, number: usize, poses: usize) -> String {
        match poses {
            1 => view.name.clone(),
            _ => format!("{}_{number:04}", view.name),
        }
    }

    /// The names of the files of an image.
    fn files_of(&self, name: &str) -> Vec<String> {
        self.simulation.formats().iter().map(|f| format!("{name}.{}", f.extension())).collect()
    }

    /// What is written, with what it is.
    fn written(&self, views: &[NamedView], poses: usize) -> Vec<(&'static str, String)> {
        let each = views.iter().flat_map(|v| (0..poses).map(move |n| Self::name(v, n, poses)));
        let images = each.flat_map(|name| self.files_of(&name)).map(|name| ("image", name));
        written(images.chain([("views", VIEWS.to_owned())]), !self.no_report)
    }

    /// Does it all: checks, reads, simulates and writes.
    ///
    /// # Errors
    /// What is wrong with options or files; a source within the CT; a view that sees nothing of it;
    /// [`Error::Stopped`].
    pub fn run(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<DrrRecord>> {
        self.check(caller)?;
        let mut clock = Clock::start();
        let files = self.files(caller);
        let read = inputs(&files, listener)?;
        let Ct { volume, parameters } = self.material.read(&self.ct, listener)?;
        let views = self.views.views(volume.grid(), listener)?;
        let centre = self.centre(volume.grid());
        let poses = self.place.read(centre, listener)?;
        let written = self.written(&views, poses.len());
        let names = written.iter().map(|w| w.1.as_str());
        check_outputs(&self.output, names, files.iter().map(Input::path))?;
        clock.lap("read");
        let grid = volume.grid().clone();
        for view in &views {
            poses.iter().try_for_each(|pose| outside(view, pose, &grid))?;
        }
        let mut staged = Staged::new(&self.output, listener)?;
        let simulator = Simulator::new(&machine.device, &volume)?;
        drop(volume);
        clock.lap("device");
        let mut made = Vec::new();
        let mut random = Random::new(self.simulation.seed.unwrap_or(0));
        for view in &views {
            for (number, pose) in poses.iter().enumerate() {
                check(listener)?;
                let values = self.simulated(&simulator, view, pose, &mut random)?;
                clock.lap("simulate");
                let shown = made.len() < PICTURES && !self.no_report;
                let name = Self::name(view, number, poses.len());
                made.push(self.write(&mut staged, view, pose, (name, values), shown)?);
                clock.lap("write");
            }
        }
        let tables: Vec<_> = views.iter().map(table).collect();
        staged.write(VIEWS, |path| geometry::write(path, &tables))?;
        let mut all = json!({
            "rays": self.simulation.rays.unwrap_or(Rays::Trilinear).name(),
            "step_mm": match self.simulation.traversal(&grid) {
                voxalign_compute::ops::raycast::Traversal::Trilinear { step, .. } => Some(step),
                _ => None,
            },
            "projection": self.simulation.projection.unwrap_or(Projection::Integral).name(),
            "values": self.simulation.unit(),
            "photons": self.simulation.photons,
            "seed": self.simulation.photons.map(|_| self.simulation.seed.unwrap_or(0)),
            "centre_of_rotation_mm": <[f64; 3]>::from(centre),
        });
        if let (Some(all), Some(ct)) = (all.as_object_mut(), parameters.as_object()) {
            all.extend(ct.clone());
        }
        let (images, pictures): (Vec<_>, Vec<_>) =
            made.into_iter().map(|m| (m.record, m.shown)).unzip();
        let run = RunRecord { parameters: all, ..record(caller, machine, read) };
        let record = DrrRecord { images, ..DrrRecord::new(run, GridRecord::from(&grid)) };
        conclude(staged, clock, record, (&self.output, &written), |record| {
            let shown = record.images.iter().zip(&pictures);
            let intensity = self.simulation.values == Some(Values::Intensity);
            let pictures: Vec<_> = shown
                .filter_map(|(image, values)| {
                    let picture = XrayPicture::new(image.view.size, values.as_deref()?);
                    Some(if intensity { picture.inverted() } else { picture })
                })
                .collect();
            render(&DrrReport { record, pictures: &pictures })
        })
    }

    /// The values of an image as they are written.
    fn simulated(
        &self,
        simulator: &Simulator<'_, AnyDevice>,
        view: &NamedView,
        pose: &Pose,
        random: &mut Random,
    ) -> Result<Vec<f32>> {
        let how = self.simulation.traversal(simulator.grid());
        let along = self.simulation.along();
        let mut values = simulator.image(&view.geometry, &pose.map, how, along)?;
        if values.iter().all(|&v| v == 0.0) {
            return Err(Error::input(format!(
                "the view '{}' sees nothing of the CT where it is turned by {:?} degrees and moved by {:?} mm; \
                 check `geometry`, `isocentre`, `region` and the pose",
                view.name, pose.degrees, pose.mm
            )));
        }
        if along == Along::Maximum {
            return Ok(values);
        }
        if let Some(photons) = self.simulation.photons {
            values.iter_mut().for_each(|v| *v = counted(*v, photons, random));
        }
        if self.simulation.values == Some(Values::Intensity) {
            values.iter_mut().for_each(|v| *v = (-*v).exp());
        }
        Ok(values)
    }

    /// Writes an image in all formats.
    fn write(
        &self,
        staged: &mut Staged<'_>,
        view: &NamedView,
        pose: &Pose,
        (name, values): (String, Vec<f32>),
        shown: bool,
    ) -> Result<Made> {
        let geometry = view.geometry;
        let image =
            XrayToWrite { geometry: Some(geometry), ..XrayToWrite::new(&values, geometry.dims()) };
        let files = self.files_of(&name);
        for name in &files {
            staged.write(name, |path| xray::write(path, &image).map(drop))?;
        }
        let fold = |start: f32, f: fn(f32, f32) -> f32| values.iter().copied().fold(start, f);
        let record = DrrImageRecord {
            name,
            view: ViewRecord::new(&view.name, &geometry),
            pose: pose.map.rows(),
            rotation_degrees: pose.degrees,
            translation_mm: pose.mm,
            least: f64::from(fold(f32::INFINITY, f32::min)),
            most: f64::from(fold(f32::NEG_INFINITY, f32::max)),
            unit: self.simulation.unit().to_owned(),
            files,
        };
        Ok(Made { record, shown: shown.then_some(values) })
    }
}

/// A view for the table of views.
fn table(view: &NamedView) -> geometry::View {
    let mut table = geometry::View::new(view.geometry);
    table.name = Some(view.name.clone());
    table
}

/// Refuses a source within the CT.
fn outside(view: &NamedView, pose: &Pose, ct: &Grid) -> Result<()> {
    let source = ct.world_to_index(pose.map.apply(view.geometry.source()));
    if ct.contains_index(source) {
        return Err(Error::input(format!(
            "the source of the view '{}' is within the CT where it is turned by {:?} degrees and moved by {:?} \
             mm; check `source_to_isocentre`, `isocentre` or the geometry, and the pose",
            view.name, pose.degrees, pose.mm
        )));
    }
    Ok(())
}

/// An attenuation as it is measured by counting photons.
fn counted(attenuation: f32, photons: f64, random: &mut Random) -> f32 {
    let expected = photons * f64::from(-attenuation).exp();
    // Half a photon stands for none.
    (photons / random.poisson(expected).max(0.5)).ln() as f32
}
