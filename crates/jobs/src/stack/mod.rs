//! Operators over many images, streamed through bounded memory: the mean, extremes, variance or product, or one image
//! of each.

mod names;
mod options;
mod work;

pub(crate) use names::results;
pub use options::{Operands, Operation, Options};

use crate::error::{Error, Result};
use crate::files;
use crate::job::missing;
use crate::list;
use crate::listener::{Listener, reading};
use crate::machine::{Auto, Machine};
use crate::plan::{self, Plan};
use crate::run::{Caller, Clock, Done, Input, RECORD, Role, inputs as run_inputs, record};
use names::{beside, check_folder, result_name};
use options::Kind;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;
use voxalign_io::image::DataType;
use voxalign_options::{Parameters, text};
use voxalign_population::stream::{Files, Source, StreamOptions};
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
    #[cfg_attr(feature = "clap", arg(value_name = "IMAGES", conflicts_with = "list"))]
    pub images: Vec<PathBuf>,
    /// The images as a table with the column `path` and, for mean, optionally `weight`
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv"))]
    pub list: Option<PathBuf>,
    /// The result: an image, a table for energy, a folder for normalise, smooth and window-mean
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "OUT", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// How.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub options: Options,
}

/// The images, and their weights or none.
#[derive(Debug)]
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

/// What is read before a device is needed: the images with their headers.
#[derive(Debug)]
pub struct Inputs {
    images: Images,
    source: Files,
    seconds: f64,
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

    /// The images, named or in a list.
    fn images(&self, listener: &dyn Listener) -> Result<Images> {
        let images = match &self.list {
            Some(list) => Images::of_list(list, listener)?,
            None => {
                let weights = self.options.operands.over(Operands::USUAL)?.weights;
                Images { paths: self.images.clone(), weights }
            }
        };
        if !images.weights.is_empty() && self.operation != Operation::Mean {
            return Err(Error::input(text!(
                "weights are for mean, but this is {}; leave them out",
                self.operation.name()
            )));
        }
        Ok(images)
    }

    /// The files that are read beside the images.
    fn others<'a>(&'a self, caller: &'a Caller) -> Vec<Input<'a>> {
        let config = caller.config.as_deref().map(|path| Input::new(Role::Config, path));
        let given = [(Role::List, &self.list), (Role::Reference, &self.options.reference)];
        Input::those_given(&given).chain(config).collect()
    }

    /// Options that would be ignored are errors.
    fn check_used(&self) -> Result<()> {
        let (operation, options) = (self.operation, &self.options);
        if self.list.is_some() && !self.images.is_empty() {
            return Err(Error::input(text!(
                "both images and a `list` are given; leave one of them out"
            )));
        }
        if self.list.is_some() && options.operands.has("weights") {
            return Err(Error::input(text!(
                "`weights` are for images that are named; give those of a list in its column \
                 weight"
            )));
        }
        let of_others = [
            ("weights", options.operands.has("weights"), Operation::Mean),
            ("sigma", options.operands.has("sigma"), Operation::Smooth),
            ("window", options.operands.has("window"), Operation::WindowMean),
            ("range", options.operands.has("range"), Operation::Normalise),
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
        let operands = options.operands.over(Operands::USUAL)?;
        operands.check()?;
        if operation == Operation::Smooth && operands.sigma.is_none() {
            return Err(Error::input(text!(
                "smooth needs `sigma`, the width of the Gaussian in mm"
            )));
        }
        let range = &operands.range[..];
        if !range.is_empty() && !matches!(range, [low, high] if low < high) {
            return Err(Error::input(text!("`range`: give the lower number first, such as 0,1")));
        }
        if operands.window % 2 == 0 {
            return Err(Error::input(text!(
                "`window`: give an odd number, for the image and the same number of neighbours on each side"
            )));
        }
        Ok(())
    }
}

impl crate::Job for Job {
    type Record = StackRecord;
    type Inputs = Inputs;
    const NAME: &'static str = "stack";
    const AUTO: Auto = Auto::Cpu;

    fn missing(&self) -> Option<&'static str> {
        let none = self.images.is_empty() && self.list.is_none();
        let images = none.then_some("IMAGES, or a list of them,");
        images.or_else(|| missing(&[(&self.output, "the result -o OUT")]))
    }

    fn check_options(&self) -> Result<()> {
        self.check_used()
    }

    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()> {
        self.check_used()?;
        let (images, others) = (self.images(listener)?, self.others(caller));
        let inputs: Vec<_> = images.paths.iter().map(PathBuf::as_path).collect();
        let inputs: Vec<_> = inputs.into_iter().chain(others.iter().map(Input::path)).collect();
        let kind = match self.operation.output() {
            Kind::Folder => return check_folder(&self.output, &images.paths, &inputs),
            kind => kind,
        };
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
        Ok(())
    }

    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        self.check(caller, listener)?;
        let Inputs { images, source, .. } = self.read(caller, listener)?;
        let mut inputs: Vec<_> = images.paths.iter().map(|p| Input::new(Role::Image, p)).collect();
        inputs.extend(self.others(caller));
        let writes = match self.operation.output() {
            Kind::Folder => {
                let names = images.paths.iter().map(|path| result_name(path));
                let names = names.chain([Ok(RECORD.to_owned())]);
                names.map(|name| Ok(self.output.join(name?))).collect::<Result<_>>()?
            }
            _ => vec![self.output.clone(), beside(&self.output)],
        };
        let plan = Plan::new(&inputs, writes, listener)?;
        // Two images for each reader, and some on their way.
        Ok(plan.taking(plan::BASE + 4 * 16 * source.grid().len() as u64))
    }

    fn read(&self, _: &Caller, listener: &dyn Listener) -> Result<Inputs> {
        let began = Instant::now();
        let images = self.images(listener)?;
        let source = Files::open(images.paths.clone())?.with_checksums();
        Ok(Inputs { images, source, seconds: began.elapsed().as_secs_f64() })
    }

    fn find(
        &self,
        machine: &Machine,
        Inputs { images, source, seconds }: Inputs,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<StackRecord>> {
        let mut clock = Clock::start();
        clock.add("device", machine.seconds);
        clock.add("headers", seconds);
        // Other inputs are small; images are hashed while they are read.
        let record = record(caller, machine, run_inputs(&self.others(caller), listener)?);
        let work = Work {
            job: self,
            operands: self.options.operands.over(Operands::USUAL)?,
            images: &images,
            source: &source,
            data_type: self
                .options
                .data_type
                .unwrap_or_else(|| usual_type(self.operation, &source)),
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
