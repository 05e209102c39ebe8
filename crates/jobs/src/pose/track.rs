//! Tracking a CT over a sequence of X-ray images.

use super::input::{Values, table_of};
use super::sequence::{Moment, Reel, Sequence};
use super::{CT_TO_ROOM, Job, check_view, simulated, write_pose};
use crate::Job as _;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, Unstoppable, check, reading};
use crate::machine::Machine;
use crate::options::as_text;
use crate::plan::{self, Plan};
use crate::projection::{Ct, Numbers, behind, counted, unique};
use crate::run::{
    Caller, Clock, Done, Input, Role, TRANSFORM, check_written, conclude, inputs, nothing_more,
    written,
};
use crate::staged::Staged;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3, XrayGeometry};
use voxalign_io::xray::{FrameType, geometry};
use voxalign_options::{Choice, text};
use voxalign_register::projection::register::{Range, TrackStatus, TrackView};
use voxalign_register::projection::{PoseOptions, PreparedCt, TrackOptions, Tracker};
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::pose::PosePictures;
use voxalign_report::track::{FrameRecord, Sequence as Frames, TrackRecord, TrackReport, render};
use voxalign_report::xray::{ViewRecord, XrayPicture};
use voxalign_report::{GridRecord, RunRecord};

/// The table of poses.
pub(super) const TRACK: &str = "track.csv";
/// How long the next frame is waited for before somebody may stop it.
const PATIENCE: Duration = Duration::from_millis(50);

/// How values of raw frames are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Storage {
    /// Unsigned integers of 8 bits.
    U8,
    /// Unsigned integers of 16 bits, little-endian.
    U16,
    /// Floats of 32 bits, little-endian.
    F32,
}

/// What makes a pose a sequence of poses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Sequences"))]
#[serde(default)]
pub struct StreamOptions {
    /// Track the CT over a sequence instead: for each view a folder of images in the order of the numbers in their
    /// names, or a file with
    /// several frames; one folder of images that `voxalign drr` wrote; or `-` for raw frames on standard input, one per
    /// view in turn
    #[cfg_attr(feature = "clap", arg(long, value_name = "FOLDER|FILE|-"))]
    pub stream: Vec<PathBuf>,
    /// Data type of raw frames [default: u16]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    pub frame_type: Option<Storage>,
    /// Largest motion of the CT between two frames, along and about each axis, mm and degrees; the track is lost beyond
    /// it [default: 10,10]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM,DEGREES"))]
    #[serde(with = "as_text")]
    pub frame_range: Option<Numbers<2>>,
}

impl StreamOptions {
    /// Whether it is standard input.
    fn is_raw(&self) -> bool {
        self.stream.iter().any(|path| path.as_os_str() == "-")
    }

    /// The files and folders.
    fn paths(&self) -> impl Iterator<Item = &Path> + Clone {
        self.stream.iter().map(PathBuf::as_path).filter(|path| path.as_os_str() != "-")
    }
}

/// The views of a sequence.
struct Views {
    names: Vec<String>,
    all: Vec<TrackView>,
    /// Whether nothing says how far away their detectors are.
    assumed: Vec<bool>,
    /// What their values are.
    values: Vec<Values>,
    sequence: Sequence,
}

impl Job {
    /// Checks what is said of a sequence.
    pub(super) fn check_stream(&self) -> Result<()> {
        let of = &self.frames;
        if of.stream.is_empty() {
            crate::options::refuse(of.frame_type.is_some(), "frame_type", text!("`stream`"))?;
            return crate::options::refuse(
                of.frame_range.is_some(),
                "frame_range",
                text!("`stream`"),
            );
        }
        if !self.xrays.is_empty() || !self.frame.is_empty() {
            return Err(Error::input(text!(
                "`stream` gives the X-ray images; leave out the images after the CT and `frame`"
            )));
        }
        if of.is_raw() && of.stream.len() > 1 {
            return Err(Error::input(text!(
                "`stream`: standard input has the frames of all views, one of each in turn; give nothing else"
            )));
        }
        if of.is_raw() && self.geometry.is_empty() {
            return Err(Error::input(text!(
                "raw frames have no geometry; give `geometry`, with the 'size' of each"
            )));
        }
        if !of.is_raw() {
            crate::options::refuse(
                of.frame_type.is_some(),
                "frame_type",
                text!("frames on standard input"),
            )?;
        }
        self.track_options(super::options::options(&self.method)?).map(drop)
    }

    /// The options of a sequence whose first pose is found like this.
    fn track_options(&self, pose: PoseOptions) -> Result<TrackOptions> {
        let usual = TrackOptions::default();
        let range = self
            .frames
            .frame_range
            .map_or(usual.range, |r| Range { translation: r.0[0], rotation: r.0[1].to_radians() });
        let options = TrackOptions { pose, range, ..usual };
        options.check()?;
        Ok(options)
    }

    /// Whether it is a sequence, which [`track`](Self::track) follows.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        !self.frames.stream.is_empty()
    }

    /// The files that are read, as far as they are known.
    fn stream_files<'a>(&'a self, tables: &'a [PathBuf], caller: &'a Caller) -> Vec<Input<'a>> {
        let mut all = self.files(&[], tables, caller);
        all.extend(self.frames.paths().filter(|p| p.is_file()).map(|p| Input::new(Role::Xray, p)));
        all
    }

    /// What is written, with what it is.
    fn track_written(&self) -> Vec<(&'static str, String)> {
        let own = [("poses", TRACK), ("pose", TRANSFORM), ("inverse_pose", CT_TO_ROOM)];
        written(own.map(|(role, name)| (role, name.to_owned())), self.report.wanted())
    }

    /// What following a sequence would read and write.
    pub(super) fn plan_track(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        let tables = self.tables();
        let (written, files) = (self.track_written(), self.stream_files(&tables, caller));
        check_written(&self.output, &written, &files)?;
        let writes = written.into_iter().map(|(_, name)| self.output.join(name));
        let plan = Plan::new(&files, writes.collect(), listener)?;
        let voxels = plan.voxels(Role::Ct);
        Ok(plan.taking(plan::BASE + 16 * voxels))
    }

    /// Follows the CT over the sequence that [`StreamOptions::stream`] names; `each` hears of every frame as soon as it
    /// is done.
    /// Where the sequence ends in the middle of a frame, or is stopped, what was found before is written all the same.
    ///
    /// # Errors
    /// What is wrong with options or files; a sequence that is cut, after the frames before it are written;
    /// [`Error::Stopped`] before the first frame, later [`Error::Ended`].
    pub fn track(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
        each: &mut dyn FnMut(&FrameRecord) -> Result<()>,
    ) -> Result<Done<TrackRecord>> {
        self.check(caller, listener)?;
        if !self.is_sequence() {
            return Err(Error::input(text!("there is no sequence; give `stream`")));
        }
        let mut clock = Clock::start();
        let Views { names, all: mut views, assumed, values, sequence } = self.sequence(listener)?;
        let tables = self.tables();
        let files = self.stream_files(&tables, caller);
        let outputs = self.track_written();
        check_written(&self.output, &outputs, &files)?;
        let read = inputs(&files, listener)?;
        let Ct { volume, parameters, .. } = self.material.read(&self.ct, listener)?;
        let named: Vec<_> =
            names.iter().zip(&views).map(|(n, v)| (n.as_str(), v.geometry, v.region)).collect();
        let start = self.start.read(volume.grid(), &named, listener)?;
        let options = self.track_options(self.pose_options(volume.grid())?)?;
        clock.lap("read");
        for ((name, view), assumed) in names.iter().zip(&mut views).zip(assumed) {
            let of = format!("view '{name}'");
            check_view(&of, (&view.geometry, view.region), &start, volume.grid())?;
            let known = (view.geometry, assumed);
            view.geometry = behind(known, &start, volume.grid(), &of, listener)?;
        }
        // What was found stays, also where the listener wants to stop.
        let heard = Unstoppable(listener);
        let mut staged = Staged::new(&self.output, &heard)?;
        let mut prepared = PreparedCt::new(&machine.device, &volume)?;
        let centre = self.start.start()?.centre(volume.grid());
        let tracker = Tracker::new(&mut prepared, views.clone(), &start, options.clone());
        let mut tracker = tracker?;
        let mut run = Following {
            values,
            unabsorbed: Vec::new(),
            centre,
            frames: Vec::new(),
            last: None,
            first: None,
            began: None,
        };
        let moments = sequence.ahead()?;
        let ended = loop {
            if let Err(stopped) = check(listener) {
                break Some(stopped);
            }
            let moment = match moments.recv_timeout(PATIENCE) {
                Ok(Ok(moment)) => moment,
                Ok(Err(error)) => break Some(error),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => continue,
            };
            match run.follow(&mut tracker, moment, listener) {
                Ok(frame) => each(frame)?,
                Err(error) => break Some(error),
            }
        };
        if run.frames.is_empty() {
            return Err(
                ended.unwrap_or_else(|| Error::input(text!("`stream`: there are no frames")))
            );
        }
        drop(tracker);
        clock.lap("track");
        let simulated = match &run.last {
            Some((_, pose)) => {
                let views = views.iter().map(|v| &v.geometry);
                simulated(machine, &volume, views, [start, *pose])?
            }
            None => Vec::new(),
        };
        let mut table = FrameRecord::COLUMNS.to_owned() + "\n";
        for frame in &run.frames {
            let _ = writeln!(table, "{}", frame.csv(centre.into()));
        }
        staged.write_text(TRACK, &table)?;
        if let Some((_, pose)) = &run.last {
            write_pose(&mut staged, pose)?;
        }
        clock.lap("write");
        let mut all = self.parameters(&options.pose, &run.values, parameters);
        all["frame_range_mm"] = json!(options.range.translation);
        all["frame_range_degrees"] = json!(options.range.rotation.to_degrees());
        all["frame_scales"] = json!(options.scales);
        all["frame_pixels"] = json!(options.pixels);
        let record = RunRecord { parameters: all, ..crate::run::record(caller, machine, read) };
        let verdict = caller.worded(run.verdict(), crate::remedy::Speaker::Pose);
        let of = |(name, v): (&String, &TrackView)| (ViewRecord::new(name, &v.geometry), v.region);
        let sequence = Frames {
            grid: GridRecord::from(volume.grid()),
            views: names.iter().zip(&views).map(of).collect(),
            start,
            centre,
            frames: run.frames,
            ended: ended.as_ref().map(|e| caller.say(e.text())),
        };
        let last = run.last;
        let record = TrackRecord::new(record, sequence, verdict);
        let done =
            conclude(staged, clock, record, (&self.output, &outputs), nothing_more, |record| {
                let shown = last.iter().flat_map(|(moment, _)| moment.iter());
                let pictures: Vec<_> = shown
                    .zip(&views)
                    .zip(&simulated)
                    .map(|((xray, view), [before, after])| {
                        let picture = |values| XrayPicture::new(view.geometry.dims(), values);
                        PosePictures {
                            xray: picture(xray),
                            before: picture(before),
                            after: picture(after),
                            left_out: None,
                        }
                    })
                    .collect();
                render(&TrackReport { record, pictures: &pictures })
            })?;
        match ended {
            None => Ok(done),
            Some(Error::Stopped) => Err(Error::Ended(self.output.clone())),
            Some(error) => {
                let written = match done.record.frames.len() {
                    1 => "the pose of the previous frame is".to_owned(),
                    n => format!("the poses of the {n} previous frames are"),
                };
                Err(error.after(&written, &self.output))
            }
        }
    }

    /// The views and their frames.
    fn sequence(&self, listener: &dyn Listener) -> Result<Views> {
        let mut tables = Vec::new();
        for path in &self.tables() {
            tables.extend(reading(listener, || geometry::read(path))?);
        }
        let streams = &self.frames.stream;
        let raw = self.frames.is_raw();
        // All views are in one folder, as `drr` writes them.
        let together = table_of(streams).is_some() && self.geometry.is_empty();
        if !raw && !together && !tables.is_empty() && tables.len() != streams.len() {
            return Err(Error::input(text!(
                "`stream` names {} sequences, and `geometry` has {} views; give a sequence for each view, in the same \
                 order",
                streams.len(),
                tables.len()
            )));
        }
        let mut reels = Vec::new();
        if together {
            let names = tables.iter().enumerate().map(|(number, table)| {
                table.name.clone().unwrap_or_else(|| format!("view{}", number + 1))
            });
            for name in names {
                reels.push(reading(listener, || Reel::of_view(&streams[0], &name))?);
            }
        } else {
            for path in self.frames.paths() {
                reels.push(reading(listener, || Reel::open(path))?);
            }
        }
        let count = if raw { tables.len() } else { reels.len() };
        let (mut names, mut views) = (Vec::new(), Vec::new());
        let (mut assumed, mut values) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (table, reel) = (tables.get(number), reels.get(number));
            let geometry: XrayGeometry = match (table.filter(|t| t.has_geometry()), reel) {
                (Some(table), reel) => table.geometry(reel.map(Reel::dims))?,
                (None, Some(reel)) => reel.geometry()?,
                (None, None) => {
                    return Err(Error::input(text!(
                        "`geometry`: view {} has no geometry",
                        number + 1
                    )));
                }
            };
            let of = format!("view {}", number + 1);
            let region = counted(&geometry, self.region, table.and_then(|t| t.region), &of)?;
            let own = table.and_then(|t| t.name.clone());
            names.push(own.unwrap_or_else(|| format!("view{}", number + 1)));
            for oddity in reel.map(Reel::oddities).unwrap_or_default() {
                listener.say(Level::Warning, format!("{of}: {oddity}"));
            }
            let header = reel.and_then(Reel::signal);
            values.push(Values::of(self.pixels, header, &of, listener));
            assumed.push(table.is_some_and(|t| t.assumes_distance()));
            views.push(TrackView { geometry, region });
        }
        let names = unique(names.iter().map(String::as_str));
        let dims: Vec<_> = views.iter().map(|v| v.geometry.dims()).collect();
        let sequence = if raw {
            let kind = match self.frames.frame_type.unwrap_or(Storage::U16) {
                Storage::U8 => FrameType::U8,
                Storage::U16 => FrameType::U16,
                Storage::F32 => FrameType::F32,
            };
            Sequence::raw(Box::new(std::io::stdin()), &dims, kind)?
        } else {
            Sequence::Reels(reels)
        };
        Ok(Views { names, all: views, assumed, values, sequence })
    }
}

/// A track under way.
struct Following {
    /// What the values of each view are.
    values: Vec<Values>,
    /// The value of a ray that nothing absorbs, by the first image of each view.
    unabsorbed: Vec<f32>,
    /// The centre of rotations, in the world of the CT.
    centre: Vector3<f64>,
    frames: Vec<FrameRecord>,
    /// The last frame that has a pose, and that.
    last: Option<(Moment, Affine)>,
    /// The verdict on the first pose.
    first: Option<Verdict>,
    /// When the first frame was done.
    began: Option<Instant>,
}

impl Following {
    /// Finds the pose of the next frame.
    fn follow<D: Device>(
        &mut self,
        tracker: &mut Tracker<'_, '_, D>,
        mut moment: Moment,
        listener: &dyn Listener,
    ) -> Result<&FrameRecord> {
        if self.unabsorbed.is_empty() {
            for (number, (image, values)) in moment.iter().zip(&self.values).enumerate() {
                let of = format!("view {}", number + 1);
                self.unabsorbed.push(values.unabsorbed(image, &of)?);
            }
        }
        let known = self.values.iter().zip(&self.unabsorbed);
        for (image, (values, &unabsorbed)) in moment.iter_mut().zip(known) {
            values.to_attenuations(image, unabsorbed);
        }
        let images: Vec<&[f32]> = moment.iter().map(Vec::as_slice).collect();
        let found = tracker.next(&images, listener)?;
        let mut frame = FrameRecord::new(&found, self.centre);
        match self.began {
            None => self.began = Some(Instant::now()),
            Some(began) => {
                let seconds = began.elapsed().as_secs_f64().max(1e-9);
                frame.frames_per_second = Some(self.frames.len() as f64 / seconds);
            }
        }
        if let (None, Some(search)) = (&self.first, &found.search) {
            self.first = Some(search.verdict.clone());
        }
        let number = frame.frame;
        match found.status {
            TrackStatus::Lost(loss) => {
                listener.say(Level::Warning, format!("frame {number}: the track is lost: {loss}"));
            }
            _ => self.last = Some((moment, found.transform)),
        }
        self.frames.push(frame);
        self.frames.last().ok_or_else(|| Error::Internal("a frame without a record".into()))
    }

    /// That on the first pose, and whether all frames have one.
    fn verdict(&self) -> Verdict {
        let mut checks = Vec::new();
        for check in self.first.iter().flat_map(|first| &first.checks) {
            let name = format!("first pose: {}", check.name);
            checks.push(Check { name, ..check.clone() });
        }
        let lost = self.frames.iter().filter(|f| !f.is_good()).count();
        checks.push(Check::none("frames without a pose", lost as u64).or(Remedy::NearerStart));
        Verdict::new(checks, Vec::new())
    }
}
