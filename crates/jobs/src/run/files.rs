//! Running a job from files to files: reading, staging, writing and finishing.

use super::Role;
use super::record::{Clock, Input, inputs, peak_memory, record};
use super::{Output, RECORD, REPORT, check_outputs};
use crate::bids::BidsOptions;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener};
use crate::machine::Machine;
use crate::options::{OutputOptions, Product, Products};
use crate::pair::HeldImage;
use crate::plan::Plan;
use crate::remedy::{Speaker, words};
use crate::staged::Staged;
use std::path::{Path, PathBuf};
use std::time::Instant;
use voxalign_image::Grid;
use voxalign_options::Text;
use voxalign_register::Verdict;
use voxalign_report::{InputRecord, Judged, OutputRecord, ReportError, RunRecord};

/// Who runs a job: what the record says of that, and how options are called there.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The program, such as `voxalign affine`.
    pub program: String,
    /// The command with its arguments, as it was given; empty where there is none.
    pub command: Vec<String>,
    /// A file of options, for the record.
    pub config: Option<PathBuf>,
    /// Says a text that names options in the words of the caller.
    pub words: fn(&Text) -> String,
}

impl Default for Caller {
    /// A program that uses this library, and calls options as it does.
    fn default() -> Self {
        Self {
            program: "voxalign".to_owned(),
            command: Vec::new(),
            config: None,
            words: Text::to_string,
        }
    }
}

impl Caller {
    /// A text in the words of the caller.
    pub(crate) fn say(&self, text: impl Into<Text>) -> String {
        (self.words)(&text.into())
    }

    /// A verdict with remedies in the words of the caller.
    pub(crate) fn worded(&self, verdict: Verdict, speaker: Speaker) -> Verdict {
        verdict.worded(|remedy| self.say(words(remedy, speaker)), self.words)
    }
}

/// A job that is done.
#[derive(Debug)]
pub struct Done<R> {
    /// What was found, as it is in the folder.
    pub record: R,
    /// The folder of the results.
    pub folder: PathBuf,
    /// The moving image on the fixed one, where images of a pair were in the memory of a device, and so is this.
    pub warped: Option<HeldImage>,
}

impl<R> Done<R> {
    /// Of a record in a folder.
    pub(crate) fn new(record: R, folder: &Path) -> Self {
        Self { record, folder: folder.to_owned(), warped: None }
    }
}

impl<R: Judged> Done<R> {
    /// Whether the verdict is good.
    pub fn is_good(&self) -> bool {
        self.record.verdict().good
    }
}

/// What was read before the work begins; what is in memory becomes it by [`From`].
#[derive(Debug)]
pub struct Read<T> {
    pub(crate) inputs: T,
    pub(crate) records: Vec<InputRecord>,
    seconds: f64,
}

/// Inputs that are in memory, and of no file.
impl<T> From<T> for Read<T> {
    fn from(inputs: T) -> Self {
        Self { inputs, records: Vec::new(), seconds: 0.0 }
    }
}

impl<T> Read<T> {
    /// Reads inputs, which are of these files.
    pub(crate) fn of(
        files: impl FnOnce(&T) -> Result<Vec<InputRecord>>,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<Self> {
        let began = Instant::now();
        let inputs = read()?;
        let records = files(&inputs)?;
        Ok(Self { inputs, records, seconds: began.elapsed().as_secs_f64() })
    }

    /// What was read, and what is to be said of that.
    pub(crate) fn split(self) -> (T, Read<()>) {
        let Self { inputs, records, seconds } = self;
        (inputs, Read { inputs: (), records, seconds })
    }

    /// A clock that counts what was read.
    pub(crate) fn clock(&self) -> Clock {
        let mut clock = Clock::start();
        clock.add("read", self.seconds);
        clock
    }

    /// The same with something else in place of what was read.
    pub(crate) fn with<U>(self, inputs: U) -> Read<U> {
        Read { inputs, records: self.records, seconds: self.seconds }
    }
}

/// How the result of a pair of images goes into a data set of BIDS derivatives, where it does.
#[derive(Clone, Copy)]
pub(crate) struct IntoBids<'a> {
    pub(crate) options: &'a BidsOptions,
    /// The files of the images, empty of one in memory.
    pub(crate) fixed: &'a Path,
    pub(crate) moving: &'a Path,
}

/// A run: how it was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) caller: &'a Caller,
    /// The folder for the results.
    pub(crate) folder: &'a Path,
    pub(crate) output: &'a OutputOptions,
    /// The files to write; all where nothing is said.
    pub(crate) products: Option<&'a Products>,
    /// A data set that the result goes into as well.
    pub(crate) bids: Option<IntoBids<'a>>,
    pub(crate) listener: &'a dyn Listener,
}

impl<'a> Run<'a> {
    /// The same that writes these files only, where some are named, beside record and report.
    pub(crate) fn only(self, products: Option<&'a Products>) -> Self {
        Self { products, ..self }
    }

    /// Whether a file is to be written.
    pub(crate) fn writes(&self, product: Product) -> bool {
        self.products.is_none_or(|wanted| wanted.contains(product))
    }

    /// Checks what can be checked before a device is started: no output may be one of the inputs.
    pub(crate) fn check(&self, outputs: &[Output], inputs: &[Input<'_>]) -> Result<()> {
        let paths = inputs.iter().map(Input::path).chain(self.caller.config.as_deref());
        check_outputs(self.folder, outputs.iter().map(|o| &*o.name), paths)?;
        if let Some(IntoBids { options, fixed, moving }) = self.bids {
            options.check_with(fixed, moving)?;
        }
        self.output.check()
    }

    /// The records of the inputs, the configuration file among them.
    pub(crate) fn inputs(&self, files: &[Input<'_>]) -> Result<Vec<InputRecord>> {
        inputs(&self.with_config(files), self.listener)
    }

    /// These files, and the configuration file where there is one.
    fn with_config<'f>(&self, files: &[Input<'f>]) -> Vec<Input<'f>>
    where
        'a: 'f,
    {
        let config = self.caller.config.as_deref().map(|path| Input::new(Role::Config, path));
        files.iter().cloned().chain(config).collect()
    }

    /// Reads the inputs, which are these files.
    pub(crate) fn read<T>(
        &self,
        files: &[Input<'_>],
        read: impl FnOnce() -> Result<T>,
    ) -> Result<Read<T>> {
        Read::of(|_| self.inputs(files), read)
    }

    /// A clock that counts what was read, and how long the start of the device took beyond that.
    pub(crate) fn clock<T>(&self, machine: &Machine, read: &Read<T>) -> Clock {
        let mut clock = read.clock();
        if machine.gpu().is_some() {
            clock.add("device", machine.seconds);
        }
        clock
    }

    /// What it would read and write.
    pub(crate) fn plan(&self, files: &[Input<'_>], outputs: &[Output]) -> Result<Plan> {
        let written: Vec<_> = outputs.iter().filter(|o| self.is_written(o)).collect();
        let paths = written.iter().map(|o| self.folder.join(&*o.name)).collect();
        let plan = Plan::new(&self.with_config(files), paths, self.listener)?;
        let Some(IntoBids { options, fixed, moving }) = self.bids else { return Ok(plan) };
        let roles: Vec<_> = written.iter().map(|o| (o.role, o.name.to_string())).collect();
        options.planned(plan, (fixed, moving), (self.folder, &roles))
    }

    /// Whether a file is among the results.
    fn is_written(&self, output: &Output) -> bool {
        match output.product {
            Some(product) => self.writes(product),
            None => {
                self.output.wants_report()
                    || Path::new(&*output.name).file_name() != Some(REPORT.as_ref())
            }
        }
    }

    /// The record of what begins now.
    pub(crate) fn record(&self, machine: &Machine, inputs: Vec<InputRecord>) -> RunRecord {
        record(self.caller, machine, inputs)
    }

    /// Tells the grids.
    pub(crate) fn say_grids(&self, [fixed, moving]: &[Grid; 2]) {
        self.listener.say(Level::Verbose, format!("fixed:  {fixed}"));
        self.listener.say(Level::Verbose, format!("moving: {moving}"));
    }

    /// Writes report and record, and moves everything to its place, as [`conclude`]. Of `outputs`, those that this run
    /// does not write go where an older one did.
    pub(crate) fn finish(
        &self,
        mut staged: Staged<'_>,
        clock: Clock,
        record: RunRecord,
        outputs: &[Output],
        rest: impl FnOnce() -> Result<()>,
        report: impl FnOnce(&RunRecord) -> Result<String, ReportError>,
    ) -> Result<Done<RunRecord>> {
        let (written, not): (Vec<_>, Vec<_>) = outputs.iter().partition(|o| self.is_written(o));
        not.iter().for_each(|output| staged.without(&output.name));
        let written: Vec<_> = written.iter().map(|o| (o.role, o.name.to_string())).collect();
        let done = conclude(staged, clock, record, (self.folder, &written), rest, report)?;
        if let Some(IntoBids { options, .. }) = self.bids {
            options.take(&done.folder, &done.record.text(), self.listener)?;
        }
        Ok(done)
    }
}

/// The files of a job, each by what it is and its name: those that are its own, then report and record. What is
/// planned, checked and recorded is this.
pub(crate) fn written(
    own: impl IntoIterator<Item = (&'static str, String)>,
    with_report: bool,
) -> Vec<(&'static str, String)> {
    let report = with_report.then(|| ("report", REPORT.to_owned()));
    own.into_iter().chain(report).chain([("record", RECORD.to_owned())]).collect()
}

/// Nothing is left to be written.
pub(crate) fn nothing_more() -> Result<()> {
    Ok(())
}

/// Ends a job, of which all that is [`written`] but report and record is staged: writes the report, where it is among that, waits
/// for the `rest`, which another thread may still write, and writes the record, which stands for the whole. Then everything moves to
/// its place, and an older report goes where there is none. A job whose result is one file has that in place of the folder, and names of
/// its own beside it; the record of one in a folder may have another name as well.
pub(crate) fn conclude<R: Judged, E>(
    mut staged: Staged<'_>,
    mut clock: Clock,
    mut record: R,
    (folder, written): (&Path, &[(&'static str, String)]),
    rest: impl FnOnce() -> Result<()>,
    report: impl FnOnce(&R) -> Result<String, E>,
) -> Result<Done<R>>
where
    Error: From<E>,
{
    let named = |wanted: &str| written.iter().find(|(role, _)| *role == wanted).map(|w| &*w.1);
    let own = named("record").unwrap_or(RECORD);
    let in_folder = staged.final_path(own) == folder.join(own);
    let path = |name: &str| match in_folder {
        true => staged.final_path(name),
        false => folder.with_file_name(name),
    };
    let output = |(role, name): &(&'static str, String)| OutputRecord {
        role: (*role).to_owned(),
        path: path(name).display().to_string(),
    };
    record.wrote(written.iter().map(output).collect());
    match named("report") {
        Some(name) => {
            record.measured(clock.laps(), peak_memory());
            let html = report(&record)?;
            staged.write_text(name, &html)?;
            clock.lap("report");
        }
        None if in_folder => staged.without(REPORT),
        None => {}
    }
    rest()?;
    clock.lap("write");
    clock.total();
    record.measured(clock.laps(), peak_memory());
    staged.write_text(own, &record.text())?;
    staged.commit()?;
    Ok(Done::new(record, folder))
}
