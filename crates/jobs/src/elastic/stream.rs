//! A sequence of fixed images that the body follows, from files to files.

use super::job::{Inputs, Job};
use super::sequence::{Attempt, Begin, Ended, Following, Rank, Step};
use super::task::{OfBody, files_of};
use crate::Job as _;
use crate::deform::{self, Course};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener, Unstoppable, check};
use crate::machine::Machine;
use crate::options::refuse;
use crate::pair::odd;
use crate::remedy::Speaker;
use crate::results::ResultFile;
use crate::run::{
    Caller, Clock, Done, Input, Output, RECORD, REPORT, Read, Role, Run, conclude, inputs,
    nothing_more, record,
};
use crate::staged::Staged;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use voxalign_image::{Grid, Volume};
use voxalign_options::{Text, text};
use voxalign_register::compare::same_grid;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Check, RegisterError, Remedy, Verdict};
use voxalign_report::stream::{StreamFrameRecord, StreamRecord, render};
use voxalign_report::{GridRecord, InputRecord, MaterialRecord, RunRecord};

/// The table of frames.
const TABLE: &str = "stream.csv";
/// The record of the sequence.
const STREAM: &str = "stream.json";

/// The folder of a frame, counted from 1.
fn folder_of(frame: usize) -> String {
    format!("frame_{frame:03}")
}

/// The files of a sequence, for pipelines; those of frames are in folders.
pub(super) fn results() -> [ResultFile; 2] {
    [
        ResultFile::of("frames", TABLE, "A line for each frame of a sequence"),
        ResultFile::of("stream", STREAM, "The record of a sequence"),
    ]
}

/// What is alike in all frames.
struct Sequence<'a> {
    job: &'a Job,
    machine: &'a Machine,
    run: Run<'a>,
    similarity: Similarity,
    /// What was read, with the first fixed image.
    images: deform::Inputs,
    materials: Vec<MaterialRecord>,
    remarks: Vec<String>,
    /// The records of all inputs.
    read: Vec<InputRecord>,
    /// What helps where the verdict on a frame is bad, of the first one that is.
    remedy: Option<Remedy>,
}

/// A fixed image that was read for its registration.
struct Frame {
    path: PathBuf,
    folder: PathBuf,
    fixed: Arc<Volume<f32>>,
    oddities: Vec<Text>,
}

impl Job {
    /// Whether it is a sequence, which [`track`](Self::track) follows.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        !self.stream.is_empty()
    }

    /// Refuses what is of one frame alone.
    pub(super) fn check_stream(&self) -> Result<()> {
        let masks = &self.paths.masks;
        let labels =
            [("fixed_labels", &masks.fixed_labels), ("moving_labels", &masks.moving_labels)];
        for (option, _) in labels.iter().filter(|(_, path)| path.is_some()) {
            let pair = text!("a single fixed image, as labels move with it, without `stream`");
            refuse(self.is_sequence(), option, pair)?;
        }
        let scales = self.stream_schedule.is_some();
        refuse(scales && !self.is_sequence(), "stream_schedule", text!("`stream`"))
    }

    /// The fixed images, in the order of time.
    fn frames(&self) -> impl Iterator<Item = &Path> + Clone {
        std::iter::once(&self.paths.fixed).chain(&self.stream).map(PathBuf::as_path)
    }

    /// The further fixed images with what they are.
    pub(super) fn stream_files(&self) -> impl Iterator<Item = Input<'_>> {
        let [which, _] = self.paths.which.of_both();
        self.stream.iter().map(move |path| Input::new(Role::Frame, path).of(which.clone()))
    }

    /// All files that a sequence may write.
    pub(super) fn stream_outputs(&self) -> Vec<Output> {
        let frames = 1..=self.frames().count();
        let all = frames.flat_map(|n| {
            let folder = folder_of(n);
            files_of().into_iter().map(move |output| output.within(&folder))
        });
        let own = [("frames", TABLE), ("report", REPORT), ("record", STREAM)];
        all.chain(own.map(|(role, name)| Output::new(role, name, None))).collect()
    }

    /// Looks at all frames before anything is registered: whether they are there, on the grid of the first one, and show something.
    /// None is kept.
    pub(super) fn check_frames(&self, first: &Grid, listener: &dyn Listener) -> Result<()> {
        for path in &self.stream {
            let (fixed, _) = self.read_frame(path, listener)?;
            let at = |e: Error| e.at(format!("'{}'", path.display()));
            if same_grid(first, fixed.grid()).is_err() {
                return Err(at(Error::input(text!(
                    "the images of a sequence are on one grid; it has {}, the first one, '{}', has {first}; bring it there first: \
                     `voxalign apply -i IMAGE -r REFERENCE -o OUT`",
                    fixed.grid(),
                    self.paths.fixed.display()
                ))));
            }
            shows_something(&fixed).map_err(|e| at(e.into()))?;
        }
        Ok(())
    }

    /// Reads a frame, with what is odd about its file.
    fn read_frame(&self, path: &Path, listener: &dyn Listener) -> Result<(Volume<f32>, Vec<Text>)> {
        let [which, _] = self.paths.which.of_both();
        let image = files::image_of(path, &which, listener);
        let (fixed, info) = image.map_err(|e| e.choosing(Role::Frame))?;
        Ok((fixed, odd("fixed", &info)))
    }

    /// Follows the body over the sequence that [`stream`](Self::stream) goes on with; `each` hears of every frame as soon as it is
    /// done.
    ///
    /// Every frame has a folder with what a registration of its own has, which is complete or not there. Where a frame fails or it is
    /// stopped, the table, the record and the report have the frames before all the same.
    ///
    /// # Errors
    /// What is wrong with options or files, before anything is written; what a frame fails with, after the frames before it are
    /// written; [`Error::Stopped`] before the end of the first frame, later [`Error::Ended`].
    pub fn track(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
        each: &mut dyn FnMut(&StreamFrameRecord) -> Result<()>,
    ) -> Result<Done<StreamRecord>> {
        self.check(caller, listener)?;
        if !self.is_sequence() {
            return Err(Error::input(text!("there is no sequence; give `stream`")));
        }
        let read = self.inputs(caller, listener)?;
        let mut clock = read.clock();
        let (Inputs { images, setting, materials, remarks }, read) = read.split();
        let images = images.volumes()?;
        let setting = if machine.gpu().is_some() { setting.on_gpu() } else { setting };
        let grid = GridRecord::from(images.pair.fixed.grid());
        let products = self.products();
        // What was found stays, also where the listener wants to stop.
        let heard = Unstoppable(listener);
        let staged = Staged::new(&self.output, &heard)?;
        self.say_older(listener);
        // The date is that of the beginning.
        let run = record(caller, machine, read.records.clone());
        let mut sequence = Sequence {
            job: self,
            machine,
            run: self.as_run(&products, caller, listener),
            similarity: self.similarity()?,
            images,
            materials,
            remarks,
            read: read.records,
            remedy: None,
        };
        let mut following = Following::new(setting, self.stream_schedule.clone());
        let (mut frames, mut parameters) = (Vec::new(), None);
        let ended = loop {
            let Some(path) = self.frames().nth(frames.len()) else { break None };
            match sequence.follow(&mut following, path) {
                Ok((frame, of_frame)) => {
                    parameters.get_or_insert(of_frame);
                    each(&frame)?;
                    frames.push(frame);
                }
                Err(error) => {
                    let name = format!("frame {}, '{}'", frames.len() + 1, path.display());
                    break Some(error.at(name));
                }
            }
        };
        if frames.is_empty() {
            return Err(ended.unwrap_or_else(|| Error::Internal("no frame was registered".into())));
        }
        clock.lap("register");
        let mut parameters: serde_json::Value = parameters.unwrap_or_default();
        parameters["stream_schedule"] = json!(following.schedule().to_string());
        let run = RunRecord { parameters, ..run };
        let asked = self.frames().count();
        let verdict = caller.worded(together(&frames, asked, sequence.remedy), Speaker::Elastic);
        let record = StreamRecord {
            bad: frames.iter().filter(|f| !f.good).count(),
            asked,
            ended: ended.as_ref().map(|e| caller.say(e.text())),
            frames,
            verdict,
            ..StreamRecord::new(run, grid)
        };
        let done = self.conclude(staged, clock, record)?;
        match ended {
            None => Ok(done),
            Some(Error::Stopped) => Err(Error::Ended(self.output.clone())),
            Some(error) => {
                let written = match done.record.frames.len() {
                    1 => "the result of the previous frame is".to_owned(),
                    n => format!("the results of the {n} previous frames are"),
                };
                Err(error.after(&written, &self.output))
            }
        }
    }

    /// Writes what is of all frames, the record last.
    fn conclude(
        &self,
        mut staged: Staged<'_>,
        clock: Clock,
        record: StreamRecord,
    ) -> Result<Done<StreamRecord>> {
        let mut table = StreamFrameRecord::COLUMNS.to_owned() + "\n";
        record.frames.iter().for_each(|frame| table += &(frame.csv() + "\n"));
        staged.write_text(TABLE, &table)?;
        let report = self.written.wants_report().then(|| ("report", REPORT.to_owned()));
        let frames = record.frames.iter().map(|f| ("frame", format!("{}/{RECORD}", f.folder)));
        let written: Vec<_> = frames
            .chain([("frames", TABLE.to_owned())])
            .chain(report)
            .chain([("record", STREAM.to_owned())])
            .collect();
        let render = |record: &_| Ok::<_, Error>(render(record));
        conclude(staged, clock, record, (&self.output, &written), nothing_more, render)
    }

    /// Says that a folder is of an earlier run.
    fn say_older(&self, listener: &dyn Listener) {
        let next = self.output.join(folder_of(self.frames().count() + 1));
        if next.exists() {
            let said = "is of an earlier run with more frames, and stays as it is";
            listener.say(Level::Warning, format!("'{}' {said}", next.display()));
        }
    }
}

/// Refuses an image in which nothing can be seen.
fn shows_something(image: &Volume<f32>) -> Result<(), RegisterError> {
    let role = voxalign_register::Role::Fixed;
    let values = image.data();
    let count = values.iter().filter(|v| !v.is_finite()).count();
    if count > 0 {
        return Err(RegisterError::NotFinite { role, count });
    }
    let value = values.first().copied().unwrap_or_default();
    match values.iter().all(|v| *v == value) {
        true => Err(RegisterError::Constant { role, value, within: "" }),
        false => Ok(()),
    }
}

impl Sequence<'_> {
    /// Registers the next frame; gives its row and its parameters.
    fn follow(
        &mut self,
        following: &mut Following,
        path: &Path,
    ) -> Result<(StreamFrameRecord, serde_json::Value)> {
        let began = Instant::now();
        check(self.run.listener)?;
        let frame = self.frame(following.next_frame(), path)?;
        let step = following.next(|attempt| self.attempt(&frame, attempt))?;
        let Step { frame: number, begin, restarted, largest_change, result } = step;
        let mut record = StreamFrameRecord {
            frame: number,
            file: path.display().to_string(),
            folder: folder_of(number),
            start: begin.to_string(),
            restarted,
            largest_change_mm: largest_change,
            ..StreamFrameRecord::new(&result)
        };
        let failed = result.verdict.checks.iter().find_map(|c| c.remedy_code);
        self.remedy = self.remedy.or(failed.filter(|_| !record.good));
        record.total_seconds = began.elapsed().as_secs_f64();
        let said = match (restarted, begin) {
            (false, _) => String::new(),
            (true, Begin::Frame(_)) => ", also from rest".to_owned(),
            (true, _) => ", from rest in a second try".to_owned(),
        };
        let said = format!("frame {number}: {}{said}", record.verdict);
        self.run.listener.say(Level::Verbose, said);
        Ok((record, result.parameters))
    }

    /// Reads a frame.
    fn frame(&self, number: usize, path: &Path) -> Result<Frame> {
        let folder = self.job.output.join(folder_of(number));
        let path = path.to_owned();
        let (fixed, oddities) = match number {
            1 => (Arc::clone(&self.images.pair.fixed), None),
            _ => {
                let (fixed, oddities) = self.job.read_frame(&path, self.run.listener)?;
                (Arc::new(fixed), Some(oddities))
            }
        };
        let oddities = oddities.unwrap_or_else(|| self.images.pair.odd_fixed().to_vec());
        Ok(Frame { path, folder, fixed, oddities })
    }

    /// Registers a frame once, and writes it unless it is worse than what was found before.
    fn attempt(&self, frame: &Frame, attempt: Attempt) -> Result<Option<Ended<RunRecord>>> {
        let mut images = self.images.of_frame(Arc::clone(&frame.fixed), frame.oddities.clone())?;
        if attempt.affine.is_some() {
            // That of the first good frame was compared there.
            (images.start, images.with_rival) = (attempt.affine, false);
        }
        let read = Read::of(|_| self.records(frame), || Ok(images))?;
        let mut remarks = self.remarks.clone();
        if let Some(begin) = attempt.again {
            remarks.push(format!(
                "it was registered a second time, from rest, as from {begin} it was bad or failed"
            ));
        }
        let mut job = self.job.clone();
        job.paths.fixed = frame.path.clone();
        let run = Run { folder: &frame.folder, ..self.run };
        let (setting, similarity) = (&attempt.setting, self.similarity);
        let of = Some(similarity);
        let course =
            Course { machine: self.machine, run, similarity: of, deformer: &|_, _| setting };
        let task = OfBody::new(&job, (setting, similarity), &self.materials, &remarks);
        let mut task = task.of_frame(&attempt);
        let done = course.run(read, &mut task)?;
        let scales = done.record.deformation.as_ref().map_or(&[][..], |d| &d.scales);
        let rank = Rank::of(&done.record.verdict, scales);
        let kept = attempt.keeps(&rank);
        let end = task.end();
        Ok(kept.then_some(Ended { result: done.record, rank, end }))
    }

    /// The records of the inputs of a frame.
    fn records(&self, frame: &Frame) -> Result<Vec<InputRecord>> {
        let [which, _] = self.job.paths.which.of_both();
        let fixed = [Input::new(Role::Fixed, &frame.path).of(which)];
        let mut all = inputs(&fixed, self.run.listener)?;
        let others = ["fixed", "fixed_data", "frame", "frame_data"];
        all.extend(self.read.iter().filter(|r| !others.contains(&&*r.role)).cloned());
        Ok(all)
    }
}

/// The verdict on all frames.
fn together(frames: &[StreamFrameRecord], asked: usize, remedy: Option<Remedy>) -> Verdict {
    let names = |holds: &dyn Fn(&StreamFrameRecord) -> bool| -> Vec<String> {
        frames.iter().filter(|f| holds(f)).map(|f| f.frame.to_string()).collect()
    };
    let bad = names(&|f| !f.good);
    let left = asked - frames.len().min(asked);
    let check = Check::none("frames with a bad verdict", bad.len() as u64).of(bad);
    let check = match remedy {
        Some(remedy) => check.or(remedy),
        None => check,
    };
    let checks = vec![check, Check::none("frames without a result", left as u64)];
    let mut remarks = Vec::new();
    for frame in frames.iter().filter(|f| !f.good) {
        remarks.push(text!("frame {}: {}", frame.frame, frame.verdict));
    }
    let again = names(&|f| f.restarted);
    if !again.is_empty() {
        remarks.push(text!(
            "frames that were registered a second time, from rest, as they were bad or failed from the last good one: {}",
            again.join(", ")
        ));
    }
    let moving = names(&|f| !f.at_rest);
    if !moving.is_empty() {
        remarks.push(text!(
            "frames in which the body did not come to rest (more iterations in `schedule` and `stream_schedule` help): {}",
            moving.join(", ")
        ));
    }
    Verdict::new(checks, remarks)
}
