//! Operators over many images, streamed through bounded memory: the mean, extremes, variance or product, or one image
//! of each.

mod names;
mod options;
mod work;

pub use options::{Operation, Options};

use crate::error::{Error, Result};
use crate::files;
use crate::list;
use crate::listener::{Listener, reading};
use crate::machine::Machine;
use crate::plan::{self, Plan};
use crate::run::{Caller, Clock, Done, Input, RECORD, Role, inputs as run_inputs, record};
use names::{beside, check_folder, result_name};
use options::Kind;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_io::image::DataType;
use voxalign_options::text;
use voxalign_population::stream::{Files, Source, StreamOptions, Trace};
use voxalign_register::Choice;
use voxalign_report::{GridRecord, StackRecord};
use work::Work;

/// An operation over images that is to be done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// What to compute from the images
    #[cfg_attr(feature = "clap", arg(value_enum))]
    pub operation: Operation,
    /// The images, all on one grid
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "IMAGES", required_unless_present = "list", conflicts_with = "list")
    )]
    pub images: Vec<PathBuf>,
    /// The images as a table with the column `path` and, for mean, optionally `weight`
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv"))]
    pub list: Option<PathBuf>,
    /// The result: an image, a table for energy, a folder for normalise, smooth and window-mean
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "OUT"))]
    pub output: PathBuf,
    /// How.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub options: Options,
}

/// What was made.
#[derive(Debug)]
pub struct Made {
    /// What was found, as it is beside the result, and where the result is.
    pub done: Done<StackRecord>,
    /// What ran when.
    pub trace: Trace,
}

/// The images, and their weights or none.
struct Images {
    paths: Vec<PathBuf>,
    weights: Vec<f64>,
}

impl Images {
    fn of_list(list: &Path, listener: &dyn Listener) -> Result<Self> {
        let entries = reading(listener, || list::of_csv(list))?;
        if entries[0].channels.len() > 1 {
            return Err(Error::input(text!(
                "the list '{}': it has several channels, but stack takes one image per line; leave \
                 out the column channel2",
                list.display()
            )));
        }
        // Without a column all are 1, which are no weights.
        let weighted = entries.iter().any(|e| e.weight != 1.0);
        let weights =
            if weighted { entries.iter().map(|e| e.weight).collect() } else { Vec::new() };
        Ok(Self { paths: entries.into_iter().flat_map(|e| e.channels).collect(), weights })
    }
}

/// A job that is checked, its files opened.
pub struct Ready<'j> {
    job: &'j Job,
    images: Images,
    source: Files,
    clock: Clock,
    caller: &'j Caller,
    listener: &'j dyn Listener,
}

impl Job {
    /// An operation on images, with usual options.
    pub fn new<P: Into<PathBuf>>(
        operation: Operation,
        images: impl IntoIterator<Item = P>,
        output: impl Into<PathBuf>,
    ) -> Self {
        let images = images.into_iter().map(Into::into).collect();
        Self { operation, images, list: None, options: Options::default(), output: output.into() }
    }

    /// Checks what can be checked before a device is started, and opens the files.
    ///
    /// # Errors
    /// Options that others make meaningless, files that cannot be read or are on other grids, outputs that are
    /// inputs.
    pub fn ready<'j>(
        &'j self,
        caller: &'j Caller,
        listener: &'j dyn Listener,
    ) -> Result<Ready<'j>> {
        self.check_options()?;
        let images = match &self.list {
            Some(list) => Images::of_list(list, listener)?,
            None => Images { paths: self.images.clone(), weights: self.options.weights.clone() },
        };
        if !images.weights.is_empty() && self.operation != Operation::Mean {
            return Err(Error::input(text!(
                "weights are for mean, but this is {}; leave them out",
                self.operation.name()
            )));
        }
        let inputs = images.paths.iter().chain(&self.options.reference).chain(&self.list);
        let inputs: Vec<_> = inputs.map(PathBuf::as_path).collect();
        let mut clock = Clock::start();
        match self.operation.output() {
            Kind::Folder => check_folder(&self.output, &images.paths, &inputs)?,
            kind => {
                files::check_output(&self.output, inputs.iter().copied())?;
                files::check_output(&beside(&self.output), inputs.iter().copied())?;
                let named = files::kind(&self.output)?;
                let (wanted, name) = match kind {
                    Kind::Image => (files::Kind::Image, "an image, such as mean.nii.gz"),
                    _ => (files::Kind::Points, "a table, such as energy.csv"),
                };
                let table = self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
                if named != wanted || kind != Kind::Image && !table {
                    return Err(Error::input(text!(
                        "'{}': the result of {} must be {name}",
                        self.output.display(),
                        self.operation.name()
                    )));
                }
            }
        }
        let source = Files::open(images.paths.clone())?.with_checksums();
        clock.lap("headers");
        Ok(Ready { job: self, images, source, clock, caller, listener })
    }

    /// Does it all.
    ///
    /// # Errors
    /// As of [`ready`](Self::ready); [`Error::Stopped`].
    pub fn run(&self, machine: &Machine, caller: &Caller, listener: &dyn Listener) -> Result<Made> {
        self.ready(caller, listener)?.run(machine)
    }

    /// Options that would be ignored are errors.
    fn check_options(&self) -> Result<()> {
        let (operation, options) = (self.operation, &self.options);
        match (self.images.is_empty(), &self.list) {
            (true, None) => return Err(Error::input(text!("give images, or a `list` of them"))),
            (false, Some(_)) => {
                return Err(Error::input(text!(
                    "both images and a `list` are given; leave one of them out"
                )));
            }
            (true, Some(_)) if !options.weights.is_empty() => {
                return Err(Error::input(text!(
                    "`weights` are for images that are named; give those of a list in its column \
                     weight"
                )));
            }
            _ => {}
        }
        let of_others = [
            ("weights", !options.weights.is_empty(), Operation::Mean),
            ("sigma", options.sigma.is_some(), Operation::Smooth),
            ("window", options.window.is_some(), Operation::WindowMean),
            ("range", !options.range.is_empty(), Operation::Normalise),
            ("reference", options.reference.is_some(), Operation::Energy),
        ];
        for (option, given, of) in of_others {
            if given && of != operation {
                return Err(Error::input(text!(
                    "`{option}` is for {}, but this is {}; leave it out",
                    of.name(),
                    operation.name()
                )));
            }
        }
        if options.data_type.is_some() && operation == Operation::Energy {
            return Err(Error::input(text!(
                "`data_type` is for images, and the result of energy is a table; leave it out"
            )));
        }
        if operation == Operation::Smooth && options.sigma.is_none() {
            return Err(Error::input(text!(
                "smooth needs `sigma`, the width of the Gaussian in mm"
            )));
        }
        if !options.range.is_empty() && !matches!(options.range[..], [low, high] if low < high) {
            return Err(Error::input(text!("`range`: give the lower number first, such as 0,1")));
        }
        if options.window.is_some_and(|n| n % 2 == 0) {
            return Err(Error::input(text!(
                "`window`: give an odd number, for the image and as many neighbours on each side"
            )));
        }
        Ok(())
    }
}

impl Ready<'_> {
    /// What it would do.
    ///
    /// # Errors
    /// Headers that cannot be read.
    pub fn plan(&self) -> Result<Plan> {
        let job = self.job;
        let mut inputs: Vec<_> =
            self.images.paths.iter().map(|p| Input::new(Role::Image, p)).collect();
        let others = [(Role::List, &job.list), (Role::Reference, &job.options.reference)];
        inputs.extend(Input::those_given(&others));
        let writes = match job.operation.output() {
            Kind::Folder => {
                let names = self.images.paths.iter().map(|path| result_name(path));
                let names = names.chain([Ok(RECORD.to_owned())]);
                names.map(|name| Ok(job.output.join(name?))).collect::<Result<_>>()?
            }
            _ => vec![job.output.clone(), beside(&job.output)],
        };
        let plan = Plan::new(&inputs, writes, self.listener)?;
        // Two images for each reader, and some on their way.
        Ok(plan.taking(plan::BASE + 4 * 16 * self.source.grid().len() as u64))
    }

    /// Does it.
    ///
    /// # Errors
    /// As of [`Job::run`].
    pub fn run(self, machine: &Machine) -> Result<Made> {
        let Self { job, images, source, mut clock, caller, listener } = self;
        clock.lap("device");
        // Other inputs are small; images are hashed while they are read.
        let others = [(Role::List, &job.list), (Role::Reference, &job.options.reference)];
        let others: Vec<_> = Input::those_given(&others).collect();
        let record = record(caller, machine, run_inputs(&others, listener)?);
        let work = Work {
            job,
            images: &images,
            source: &source,
            data_type: job.options.data_type.unwrap_or_else(|| usual_type(job.operation, &source)),
            record: StackRecord::new(record, GridRecord::from(source.grid())),
            clock,
            listener,
            options: StreamOptions { readers: machine.readers(), ..Default::default() },
        };
        work.run(&machine.device)
    }
}

/// The type of the stored values where none is asked for: results that are values of the images keep that of
/// the images, where 32-bit floats hold all of it.
fn usual_type(operation: Operation, source: &Files) -> DataType {
    let small = |t: &DataType| t.is_integer() && t.size() <= 2;
    match operation {
        Operation::Max | Operation::Min => source.data_type().filter(small),
        _ => None,
    }
    .unwrap_or(DataType::F32)
}
