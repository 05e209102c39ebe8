//! Simulation of X-ray images of a CT (digitally reconstructed radiographs, DRR).
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, drr, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = drr::Job::new("ct.nii.gz", "out");
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Cpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.images[0].files[0]);
//! # Ok(())
//! # }
//! ```

mod images;
mod options;
mod poses;

pub(crate) use images::results;
pub use options::{Detection, Format, Projection, Rays, Samples, Shown, Simulated, Simulation};
pub use poses::{Motion, PoseChoice};

use crate::error::{Error, Result};
use crate::job::missing;
use crate::listener::{Level, Listener, reading};
use crate::machine::{Auto, Machine};
use crate::options::ReportOption;
use crate::plan::{self, Plan};
use crate::projection::{Ct, CtOptions, NamedView, VIEWS, ViewOptions, is_within, short};
use crate::run::{
    Caller, Done, Input, RECORD, REPORT, Read, Role, check_outputs, check_written, conclude,
    inputs, nothing_more, record, written,
};
use crate::staged::Staged;
use images::{KEPT, Maker, PICTURES};
use poses::Pose;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use voxalign_compute::ops::raycast::Traversal;
use voxalign_image::Grid;
use voxalign_io::xray::{Series, Signal, Study, geometry};
use voxalign_options::text;
use voxalign_register::Choice;
use voxalign_register::projection::Simulator;
use voxalign_register::random::Random;
use voxalign_report::drr::{DrrRecord, DrrReport, render};
use voxalign_report::xray::{ViewRecord, XrayPicture};
use voxalign_report::{GridRecord, InputRecord, RunRecord};

/// X-ray images that are to be made of a CT.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The CT: NIfTI, NRRD, MetaImage, or a folder of DICOM
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "CT", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub ct: PathBuf,
    /// Folder for the results; created if it does not exist
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// How attenuations are made of it.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub material: CtOptions,
    /// Where the views are.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub views: ViewOptions,
    /// Where the CT is.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub place: PoseChoice,
    /// How images are simulated and written.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub simulation: Simulation,
    /// Whether there is a report.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub report: ReportOption,
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

    /// What is written, with what it is.
    fn written(&self, views: &[NamedView], poses: usize) -> Vec<(&'static str, String)> {
        let formats = self.simulation.formats();
        let each = views.iter().flat_map(|v| (0..poses).map(move |n| images::name(v, n, poses)));
        let files = |name: String| formats.iter().map(move |&f| images::file(&name, f)).collect();
        let images = each.flat_map::<Vec<_>, _>(files).map(|name| ("image", name));
        written(images.chain([("views", VIEWS.to_owned())]), self.report.wanted())
    }
}

/// What the images of a run are made of, wherever the files lie and however options were given: the CT and its labels by their
/// checksums, the parameters, views and poses, and the kind of device, by which last digits differ.
fn key(
    parameters: &serde_json::Value,
    read: &[InputRecord],
    (views, poses): (&[NamedView], &[Pose]),
    gpu: bool,
) -> String {
    let shown = [Role::Ct.name(), Role::Labels.name()];
    let read = read.iter().filter(|input| shown.contains(&input.role.as_str()));
    let read: Vec<_> = read.map(|input| (&input.role, &input.sha256)).collect();
    let views: Vec<_> =
        views.iter().map(|v| (ViewRecord::new(&v.name, &v.geometry), v.isocentre)).collect();
    let poses: Vec<_> = poses.iter().map(|pose| pose.map.rows()).collect();
    format!("{parameters} {read:?} {views:?} {poses:?} {gpu}")
}

/// A view for the table of views, with its image where it is the only one.
fn table(view: &NamedView, image: Option<PathBuf>) -> geometry::View {
    let mut table = geometry::View::new(view.geometry);
    table.image = image;
    table.name = Some(view.name.clone());
    table
}

/// Refuses a source within the CT.
fn outside(view: &NamedView, pose: &Pose, ct: &Grid) -> Result<()> {
    if is_within(&view.geometry, &pose.map, ct) {
        return Err(Error::input(text!(
            "the source of the view '{}' is within the CT where it is turned by {} degrees and moved by {} \
             mm; check `source_to_isocentre`, `isocentre` or the geometry, and the pose",
            view.name,
            short(&pose.degrees),
            short(&pose.mm)
        )));
    }
    Ok(())
}

impl crate::Job for Job {
    type Record = DrrRecord;
    type Inputs = Read<Ct>;
    const NAME: &'static str = "drr";
    const AUTO: Auto = Auto::Cpu;

    fn missing(&self) -> Option<&'static str> {
        let all = [(&self.ct, "the CT"), (&self.output, "the output folder -o DIR")];
        missing(&all)
    }

    fn check_options(&self) -> Result<()> {
        self.material.check()?;
        self.views.check()?;
        self.place.check()?;
        self.simulation.made().map(drop)
    }

    fn check(&self, caller: &Caller, _: &dyn Listener) -> Result<()> {
        self.check_options()?;
        let files = self.files(caller);
        let names = [RECORD, REPORT, VIEWS].into_iter();
        check_outputs(&self.output, names, files.iter().map(Input::path))
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        let files = self.files(caller);
        let plan = Plan::new(&files, Vec::new(), listener)?;
        let grid = self.material.grid(&self.ct, listener)?;
        let views = self.views.views(&grid, listener)?;
        let poses = self.place.read(&grid, listener)?;
        let writes = self.written(&views, poses.len());
        check_written(&self.output, &writes, &files)?;
        let writes = writes.into_iter().map(|(_, name)| self.output.join(name)).collect();
        let voxels = plan.voxels(Role::Ct);
        let pixels = views.iter().map(|v| v.geometry.dims().iter().product::<usize>()).max();
        let pixels = pixels.unwrap_or(0) as u64;
        let (views, poses) = (views.len() as u64, poses.len() as u64);
        let together = if self.simulation.has_window() { poses } else { 1 };
        let kept = (together * pixels).min(KEPT as u64).max(pixels);
        let shown =
            if !self.report.wanted() { 0 } else { (views * poses).min(PICTURES as u64) * pixels };
        // The volume with and without its border while it goes to the device; later on images, and what is written of one.
        let taken = plan::BASE + (12 * voxels).max(4 * voxels + 4 * (kept + shown) + 24 * pixels);
        Ok(Plan { writes, ..plan }.taking(taken))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Ct>> {
        // Before the CT, whose values may say nothing while another file cannot be read at all.
        let records = inputs(&self.files(caller), listener)?;
        Read::of(|_| Ok(records), || self.material.read(&self.ct, listener))
    }

    fn find(
        &self,
        machine: &Machine,
        read: Read<Ct>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<DrrRecord>> {
        let mut clock = read.clock();
        let Read { inputs: Ct { volume, parameters, dicom }, records: read, .. } = read;
        let views = self.views.views(volume.grid(), listener)?;
        let poses = self.place.read(volume.grid(), listener)?;
        let written = self.written(&views, poses.len());
        check_written(&self.output, &written, &self.files(caller))?;
        clock.lap("read");
        let grid = volume.grid().clone();
        for view in &views {
            poses.iter().try_for_each(|pose| outside(view, pose, &grid))?;
        }
        let mut staged = Staged::new(&self.output, listener)?;
        let simulator = Simulator::new(&machine.device, &volume)?;
        drop(volume);
        clock.lap("device");
        let (asked, projection) = self.simulation.made()?;
        let rays = asked.on(machine.gpu().is_some());
        if asked != rays {
            listener.say(
                Level::Normal,
                text!("the CPU has no texture units: values are interpolated in single precision, as by \
                 `rays = trilinear`"),
            );
        }
        let traversal = rays.traversal(&grid);
        let mut all = json!({
            "rays": rays.name(),
            "step_mm": match traversal {
                Traversal::Trilinear { step, .. } => Some(step),
                _ => None,
            },
            "projection": projection.name(),
            "values": projection.unit(),
            "photons": projection.photons(),
            "seed": projection.photons().map(|_| projection.seed()),
        });
        if let (Some(all), Some(ct)) = (all.as_object_mut(), parameters.as_object()) {
            all.extend(ct.clone());
        }
        let key = key(&all, &read, (&views, &poses), machine.gpu().is_some());
        let study = match dicom.filter(|_| self.simulation.formats().contains(&Format::Dicom)) {
            Some(path) => Some(reading(listener, || Study::read(&path))?),
            None => None,
        };
        let mut maker = Maker {
            simulation: &self.simulation,
            projection,
            simulator: &simulator,
            traversal,
            random: Random::new(projection.seed()),
            with_pictures: self.report.wanted(),
            series: Series::new(key, "Digitally reconstructed radiographs", study),
            kept: KEPT,
            made: Vec::new(),
        };
        for view in &views {
            maker.view(view, &poses, (&mut staged, &mut clock), listener)?;
        }
        let made = maker.made;
        let first = self.simulation.formats().first().copied().filter(|_| poses.len() == 1);
        staged.write(VIEWS, |path| {
            let image = |v: &NamedView| Some(path.with_file_name(images::file(&v.name, first?)));
            let tables: Vec<_> = views.iter().map(|v| table(v, image(v))).collect();
            geometry::write(path, &tables)
        })?;
        let (images, pictures): (Vec<_>, Vec<_>) =
            made.into_iter().map(|m| (m.record, m.shown)).unzip();
        let run = RunRecord { parameters: all, ..record(caller, machine, read) };
        let record = DrrRecord { images, ..DrrRecord::new(run, GridRecord::from(&grid)) };
        conclude(staged, clock, record, (&self.output, &written), nothing_more, |record| {
            let shown = record.images.iter().zip(&pictures);
            let intensity = projection.signal() == Some(Signal::Intensity);
            let pictures: Vec<_> = shown
                .filter_map(|(image, values)| {
                    let picture = XrayPicture::new(image.view.size, values.as_deref()?);
                    Some(if intensity { picture.inverted() } else { picture })
                })
                .collect();
            render(&DrrReport { record, pictures: &pictures })
        })
    }
}
