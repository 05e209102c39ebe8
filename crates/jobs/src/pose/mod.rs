//! The rigid pose of a CT from X-ray images of it.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, machine, pose};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = pose::Job::new("ct.nii.gz", ["front.png", "side.png"], "out");
//! job.geometry = vec!["views.toml".into()];
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.verdict.summary());
//! # Ok(())
//! # }
//! ```
//!
//! A CT and X-ray images that are in memory are its [`Inputs`], which [`find`](crate::Job::find) takes on a device that runs
//! already; [`PreparedCt`] stays there for one pose after the other, and writes nothing.

mod advice;
mod border;
mod files;
mod input;
mod options;
mod seen;
mod sequence;
mod start;
mod targets;
mod track;

pub(crate) use files::results;
pub use input::XrayInput;
pub use options::{Method, Pixels};
pub use start::{PoseInit, Start, StartOptions};
pub use track::{Storage, StreamOptions};

use crate::error::{Error, Result};
use crate::job::missing;
use crate::listener::{Level, Listener};
use crate::machine::{Auto, Machine};
use crate::options::{ReportOption, as_text, texts};
use crate::plan::{self, Plan};
use crate::projection::{Ct, CtOptions, VIEWS, Whole, behind, check_region, is_within, may_see};
use crate::run::{
    Caller, Done, Input, RECORD, REPORT, Read, Role, TRANSFORM, check_outputs, check_written,
    conclude, inputs, nothing_more, written,
};
use crate::staged::Staged;
use input::{Reading, Values};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_image::{Affine, Grid, Transform, Volume, XrayGeometry};
use voxalign_io::transform::{self, Geometry};
use voxalign_io::xray::{self, XrayToWrite, geometry};
use voxalign_options::text;
use voxalign_register::projection::objective::View;
use voxalign_register::projection::{
    PoseOptions, PoseResult, PoseSearch, PreparedCt, Simulator, in_the_middle,
};
use voxalign_register::{Choice, RegisterError};
use voxalign_report::pose::{PosePictures, PoseRecord, PoseReport, render};
use voxalign_report::xray::{ViewRecord, XrayPicture};
use voxalign_report::{GridRecord, RunRecord};

/// The inverse of the pose: from the world of the CT to the room.
const CT_TO_ROOM: &str = "ct_to_room.tfm";

/// A pose that is to be found.
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
    /// X-ray images: PNG, TIFF, DICOM, NIfTI; omitted if the views of --geometry name them; or a folder written by
    /// `voxalign drr`
    #[cfg_attr(feature = "clap", arg(value_name = "XRAY"))]
    pub xrays: Vec<PathBuf>,
    /// Folder for the results; created if it does not exist
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// Geometry of the views, in the order of the images: TOML tables, MayaCam 2, cameras of OpenCV (YAML, XML) or
    /// plastimatch's projection matrices; may be repeated [default: the headers of DICOM]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Views"))]
    pub geometry: Vec<PathBuf>,
    /// Which frame of X-ray files with several, counted from 0; one for all files, or one for each
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "Views")
    )]
    #[serde(with = "texts")]
    pub frame: Vec<usize>,
    /// Quantity stored in the pixels of the X-ray images [default: as in the DICOM headers, else attenuation]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT", help_heading = "Views"))]
    pub pixels: Option<Pixels>,
    /// Region of each X-ray image to compare: first column and row, then the numbers of columns and rows; replaces the
    /// 'region' of a table of views
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "COLUMN,ROW,COLUMNS,ROWS", help_heading = "Views")
    )]
    #[serde(with = "as_text")]
    pub region: Option<Whole<4>>,
    /// Where the search starts, and the centre of rotations.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub start: StartOptions,
    /// How the pose is found.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub method: Method,
    /// How attenuations are made of the CT.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub material: CtOptions,
    /// What makes it a sequence.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub frames: StreamOptions,
    /// Whether there is a report.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub report: ReportOption,
}

/// A CT, and X-ray images of it.
#[derive(Debug)]
pub struct Inputs {
    /// The CT.
    pub ct: Ct,
    /// Its X-ray images.
    pub xrays: Vec<XrayInput>,
}

impl Job {
    /// Of a CT and X-ray images of it, with usual options; results go to a folder.
    pub fn new<P: Into<PathBuf>>(
        ct: impl Into<PathBuf>,
        xrays: impl IntoIterator<Item = P>,
        output: impl Into<PathBuf>,
    ) -> Self {
        let xrays = xrays.into_iter().map(Into::into).collect();
        Self { ct: ct.into(), xrays, output: output.into(), ..Self::default() }
    }

    /// The files that say where images were taken from: those that are named, else that of a folder of `drr`.
    fn tables(&self) -> Vec<PathBuf> {
        if !self.geometry.is_empty() {
            return self.geometry.clone();
        }
        let folders = if self.is_sequence() { &self.frames.stream } else { &self.xrays };
        input::table_of(folders).into_iter().collect()
    }

    fn files<'a>(
        &'a self,
        xrays: &'a [PathBuf],
        tables: &'a [PathBuf],
        caller: &'a Caller,
    ) -> Vec<Input<'a>> {
        let mut all = self.material.files(&self.ct);
        all.extend(xrays.iter().map(|path| Input::new(Role::Xray, path)));
        all.extend(tables.iter().map(|path| Input::new(Role::Geometry, path)));
        all.extend(self.start.files());
        all.extend(caller.config.as_deref().map(|path| Input::new(Role::Config, path)));
        all
    }

    /// The pose, and the options by which it was found: those of a search of all rotations where nothing says how far to search and the
    /// verdict would be bad.
    fn found(
        &self,
        machine: &Machine,
        ct: &Volume<f32>,
        (views, start): (&[XrayInput], Affine),
        options: PoseOptions,
        listener: &dyn Listener,
    ) -> Result<(PoseResult, PoseOptions)> {
        let all: Vec<_> = views.iter().map(XrayInput::view).collect();
        let mut prepared = PreparedCt::new(&machine.device, ct)?;
        let found = prepared.register(&all, &start, &options, listener)?;
        // One start asks for a local search.
        let said = self.start.given.has("search") || options::options(&self.method)?.starts == 1;
        if found.verdict.good || said {
            return Ok((found, options));
        }
        listener.say(
            Level::Normal,
            text!("the verdict would be bad: searching all rotations, as with `search = full`"),
        );
        let counted = views.iter().map(|v| (&v.geometry, v.region));
        let middle = in_the_middle(&start, ct.grid(), counted)?;
        let everywhere = PoseOptions { search: PoseSearch::Full, ..options.clone() };
        let again = match prepared.register(&all, &middle, &everywhere, listener) {
            Ok(again) => again,
            Err(RegisterError::Stopped) => return Err(RegisterError::Stopped.into()),
            Err(_) => return Ok((found, options)),
        };
        if !again.verdict.good {
            listener.say(Level::Normal, "that search found no certain pose: the first one is kept");
            return Ok((found, options));
        }
        listener.say(
            Level::Normal,
            "that search found a certain pose: it is the result, and its start is used",
        );
        Ok((again, everywhere))
    }

    /// The X-ray images with their geometry.
    fn images(&self, listener: &dyn Listener) -> Result<Vec<XrayInput>> {
        let sources = input::sources(&self.xrays, &self.tables(), listener)?;
        let (pixels, region) = (self.pixels, self.region);
        let frames = self.frames(sources.len())?;
        let read =
            |(source, frame)| input::read(source, Reading { pixels, frame, region, listener });
        let all: Vec<XrayInput> =
            sources.into_iter().zip(frames).map(read).collect::<Result<_>>()?;
        input::hear_of_other_names(&all, listener);
        Ok(all)
    }

    /// The frame that is taken of each of so many images.
    fn frames(&self, images: usize) -> Result<Vec<Option<usize>>> {
        match self.frame[..] {
            [] => Ok(vec![None; images]),
            [one] => Ok(vec![Some(one); images]),
            ref each if each.len() == images => Ok(each.iter().copied().map(Some).collect()),
            ref each => Err(Error::input(text!(
                "`frame` has {} numbers, and the number of X-ray images is {images}; give one for all of them, \
                 or one for each",
                each.len()
            ))),
        }
    }

    /// The options of the library for a CT.
    fn pose_options(&self, ct: &Grid) -> Result<PoseOptions> {
        let start = self.start.start()?;
        let options = PoseOptions {
            centre: Some(start.centre(ct)),
            search: start.search.unwrap_or_default(),
            ..options::options(&self.method)?
        };
        options.check_all()?;
        Ok(options)
    }

    /// Refuses sources within the CT, and views of which no ray that counts meets the CT, where the search starts.
    fn check_views(&self, views: &[XrayInput], start: &Affine, ct: &Grid) -> Result<()> {
        for view in views {
            let of = format!("'{}'", view.path.display());
            check_view(&of, (&view.geometry, view.region), start, ct)?;
        }
        Ok(())
    }

    /// The parameters as they were used, with what the values of the images were.
    fn parameters(
        &self,
        options: &PoseOptions,
        values: &[Values],
        ct: serde_json::Value,
    ) -> serde_json::Value {
        let mut all = json!({
            "similarity": options.similarity.name(),
            "optimiser": options.optimiser.name(),
            "search": options.search.name(),
            "sampling": options.sampling,
            "redraw": options.redraw,
            "range_mm": options.range.0[0],
            "range_degrees": options.range.0[1],
            "starts": options.starts,
            "levels_mm": options.levels.as_ref().map_or(&[][..], |levels| &levels.0),
            "restarts": options.restarts,
            "refine": options.refine.map(Choice::name),
            "metal": options.metal.name(),
            "response": options.response.name(),
            "seed": options.seed,
            "centre_mm": options.centre.map(<[f64; 3]>::from),
            "pixels": input::stored_as(values),
        });
        if !self.frame.is_empty() {
            all["frame"] = json!(self.frame);
        }
        if let (Some(all), Some(ct)) = (all.as_object_mut(), ct.as_object()) {
            all.extend(options.similarity.as_json());
            all.extend(options.optimiser.as_json());
            all.extend(ct.clone());
        }
        all
    }

    /// What is written for views of these names, with what it is.
    fn written<'a>(&self, views: impl Iterator<Item = &'a str>) -> Vec<(&'static str, String)> {
        let own = [("pose", TRANSFORM.to_owned()), ("inverse_pose", CT_TO_ROOM.to_owned())];
        let table = self.method.given.has("refine").then(|| ("views", VIEWS.to_owned()));
        let own = own.into_iter().chain(table);
        written(own.chain(views.map(|v| ("simulated", drr(v)))), self.report.wanted())
    }

    fn write(
        &self,
        staged: &mut Staged<'_>,
        views: &[XrayInput],
        found: &PoseResult,
        simulated: &[[Vec<f32>; 2]],
    ) -> Result<()> {
        write_pose(staged, &found.transform)?;
        if !found.geometry.is_empty() {
            let tables: Vec<_> = views.iter().map(XrayInput::table).collect();
            staged.write(VIEWS, |path| geometry::write(path, &tables))?;
        }
        for (view, [_, after]) in views.iter().zip(simulated) {
            let image = XrayToWrite {
                geometry: Some(view.geometry),
                ..XrayToWrite::new(after, view.geometry.dims())
            };
            staged.write(&drr(&view.name), |path| xray::write(path, &image).map(drop))?;
        }
        Ok(())
    }
}

impl XrayInput {
    /// Its name, where it was taken from, and what of it counts.
    fn named(&self) -> (&str, XrayGeometry, Option<[usize; 4]>) {
        (&self.name, self.geometry, self.region)
    }

    /// A line of a table of views.
    fn table(&self) -> geometry::View {
        let mut table = geometry::View::new(self.geometry);
        table.name = Some(self.name.clone());
        table.image = Some(self.path.clone());
        table.region = self.region;
        table
    }

    fn view(&self) -> View<'_> {
        View { geometry: &self.geometry, image: &self.values, region: self.region, without: None }
    }

    /// The image with those that are simulated for the start and for the result.
    fn pictures<'a>(
        &'a self,
        simulated: &'a [Vec<f32>; 2],
        left_out: Option<&'a [f32]>,
    ) -> PosePictures<'a> {
        let picture = |values: &'a [f32]| XrayPicture::new(self.geometry.dims(), values);
        let [before, after] = simulated;
        PosePictures {
            xray: picture(&self.values),
            before: picture(before),
            after: picture(after),
            left_out: left_out.map(picture),
        }
    }
}

/// Writes a pose and its inverse.
fn write_pose(staged: &mut Staged<'_>, pose: &Affine) -> Result<()> {
    let none = Geometry::default();
    for (name, map) in [(TRANSFORM, *pose), (CT_TO_ROOM, pose.inverse()?)] {
        staged.write(name, |path| transform::write(path, &Transform::Affine(map), &none))?;
    }
    Ok(())
}

/// The images of views at two poses.
fn simulated<'a>(
    machine: &Machine,
    ct: &Volume<f32>,
    views: impl Iterator<Item = &'a XrayGeometry>,
    poses: [Affine; 2],
) -> Result<Vec<[Vec<f32>; 2]>> {
    let simulator = Simulator::new(&machine.device, ct)?;
    let how = Traversal::trilinear(ct.grid().spacing().into_iter().fold(f64::INFINITY, f64::min));
    let image = |view: &XrayGeometry, at| simulator.image(view, at, how, Along::Integral);
    views.map(|view| Ok([image(view, &poses[0])?, image(view, &poses[1])?])).collect()
}

/// Refuses a source within the CT, and a view of which no ray that counts meets the CT, where the search starts.
fn check_view(
    of: &str,
    (view, region): (&XrayGeometry, Option<[usize; 4]>),
    start: &Affine,
    ct: &Grid,
) -> Result<()> {
    let wrong = |what: &str| {
        Err(Error::input(text!(
            "{of}: {what} where the search starts; check the geometry and `init`, or give `search = full`"
        )))
    };
    if is_within(view, start, ct) {
        return wrong("the source is within the CT");
    }
    let counted = match region {
        Some([x, y, w, h]) => view.part([x, y], [w, h])?,
        None => *view,
    };
    if !may_see(&counted, start, ct)? {
        return wrong("the CT is outside the view");
    }
    Ok(())
}

/// The name of the simulated image of a view.
fn drr(name: &str) -> String {
    format!("drr_{name}.nii.gz")
}

impl crate::Job for Job {
    type Record = PoseRecord;
    type Inputs = Read<Inputs>;
    const NAME: &'static str = "pose";
    const AUTO: Auto = Auto::Gpu;

    fn missing(&self) -> Option<&'static str> {
        let all = [(&self.ct, "the CT"), (&self.output, "the output folder -o DIR")];
        missing(&all)
    }

    fn check_options(&self) -> Result<()> {
        self.material.check()?;
        options::options(&self.method)?;
        self.start.check()?;
        if self.is_sequence() && self.method.given.has("refine") {
            return Err(Error::input(text!(
                "`refine` is for the pose of single images, not of a `stream`: give it with the images of one moment first, and the \
                 `views.toml` of that as `geometry`"
            )));
        }
        self.check_stream()?;
        if self.is_sequence() && self.start.targets.is_some() {
            return Err(Error::input(text!(
                "`targets` are for the pose of single images, not of a `stream`; leave one of them out"
            )));
        }
        check_region(self.region)
    }

    fn check(&self, caller: &Caller, _: &dyn Listener) -> Result<()> {
        self.check_options()?;
        let tables = self.tables();
        let xrays = if input::table_of(&self.xrays).is_some() { &[][..] } else { &self.xrays };
        let files = self.files(xrays, &tables, caller);
        let names = [RECORD, REPORT, TRANSFORM, CT_TO_ROOM].into_iter();
        check_outputs(&self.output, names, files.iter().map(Input::path))
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        if self.is_sequence() {
            return self.plan_track(caller, listener);
        }
        let views = self.images(listener)?;
        let xrays: Vec<_> = views.iter().map(|v| v.path.clone()).collect();
        let tables = self.tables();
        let files = self.files(&xrays, &tables, caller);
        let writes = self.written(views.iter().map(|v| v.name.as_str()));
        check_written(&self.output, &writes, &files)?;
        let writes = writes.into_iter().map(|(_, name)| self.output.join(name)).collect();
        let plan = Plan::new(&files, writes, listener)?;
        let pixels = views.iter().map(|v| v.values.len() as u64);
        let (all, most) = (pixels.clone().sum::<u64>(), pixels.max().unwrap_or(0));
        let stored = views.iter().map(|v| v.stored as u64).max().unwrap_or(0);
        let method = options::options(&self.method)?;
        let rays = options::rays(&method, most, views.len() as u64);
        let voxels = plan.voxels(Role::Ct);
        // X-ray images as they are read; then, beside their copies and what is simulated of them, the volume as it goes to
        // the device, or there with the derivatives of rays, or with what is looked at for metal: all images with those that are
        // simulated, and what is made of the largest one.
        let read = 4 * (all + stored);
        let looked = if method.adapts() { 13 * all + 54 * most } else { 0 };
        let searched = 16 * all + (16 * voxels).max(8 * voxels + looked.max(36 * rays));
        Ok(plan.taking(plan::BASE + read.max(searched)))
    }

    fn read(&self, caller: &Caller, listener: &dyn Listener) -> Result<Read<Inputs>> {
        if self.is_sequence() {
            return Err(Error::input(text!(
                "`stream` names a sequence, which has a pose for each frame"
            )));
        }
        let tables = self.tables();
        let files = |read: &Inputs| {
            let paths: Vec<_> = read.xrays.iter().map(|v| v.path.clone()).collect();
            inputs(&self.files(&paths, &tables, caller), listener)
        };
        let read = || {
            let xrays = self.images(listener)?;
            let paths: Vec<_> = xrays.iter().map(|v| v.path.clone()).collect();
            let written = self.written(xrays.iter().map(|v| v.name.as_str()));
            // Those that views name are inputs as well.
            check_written(&self.output, &written, &self.files(&paths, &tables, caller))?;
            Ok(Inputs { ct: self.material.read(&self.ct, listener)?, xrays })
        };
        Read::of(files, read)
    }

    fn find(
        &self,
        machine: &Machine,
        read: Read<Inputs>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<PoseRecord>> {
        let mut clock = read.clock();
        let Read { inputs: Inputs { ct, xrays: mut views }, records: read, .. } = read;
        let Ct { volume, parameters, .. } = ct;
        let written = self.written(views.iter().map(|v| v.name.as_str()));
        let named: Vec<_> = views.iter().map(XrayInput::named).collect();
        let start = self.start.read(volume.grid(), &named, listener)?;
        let options = self.pose_options(volume.grid())?;
        let targets = targets::read(self.start.targets.as_deref(), listener)?;
        clock.lap("read");
        self.check_views(&views, &start, volume.grid())?;
        for view in &mut views {
            let of = format!("'{}'", view.path.display());
            let known = (view.geometry, view.assumed);
            view.geometry = behind(known, &start, volume.grid(), &of, listener)?;
        }

        let mut staged = Staged::new(&self.output, listener)?;
        let (found, options) = self.found(machine, &volume, (&views, start), options, listener)?;
        clock.lap("register");
        for (view, refined) in views.iter_mut().zip(&found.geometry) {
            view.geometry = refined.geometry;
        }
        let poses = [found.start, found.transform];
        let geometries = views.iter().map(|v| &v.geometry);
        let simulated = simulated(machine, &volume, geometries, poses)?;
        clock.lap("simulate");
        self.write(&mut staged, &views, &found, &simulated)?;
        clock.lap("write");
        let values: Vec<_> = views.iter().map(|v| v.stored_as).collect();
        let run = RunRecord {
            parameters: self.parameters(&options, &values, parameters),
            ..crate::run::record(caller, machine, read)
        };
        let of = |v: &XrayInput| (ViewRecord::new(&v.name, &v.geometry), v.region);
        let grid = GridRecord::from(volume.grid());
        let mut record = PoseRecord::new(run, grid, views.iter().map(of).collect(), &found);
        record.expected_error = targets::expected(&found, &targets, &views);
        let regions: Vec<_> = views.iter().map(|v| v.region).collect();
        let used = advice::Used::of(self, &options, &regions);
        record.verdict = used.worded(caller, record.verdict);
        conclude(staged, clock, record, (&self.output, &written), nothing_more, |record| {
            let all = views.iter().zip(&simulated).zip(&found.without);
            let left_out = |without: &Vec<bool>| without.iter().map(|w| f32::from(*w)).collect();
            let all: Vec<(_, Option<Vec<f32>>)> =
                all.map(|(of, without)| (of, without.as_ref().map(left_out))).collect();
            let pictures: Vec<_> = all
                .iter()
                .map(|((view, images), left_out)| view.pictures(images, left_out.as_deref()))
                .collect();
            render(&PoseReport { record, pictures: &pictures })
        })
    }
}
