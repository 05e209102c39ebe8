//! Operators over many images, streamed through bounded memory: the mean, extremes, variance or product, or one image
//! of each.

use crate::error::{Error, Result};
use crate::files;
use crate::list;
use crate::listener::{Level, Listener, check, reading};
use crate::machine::Machine;
use crate::options::{as_text, texts};
use crate::plan::{self, Plan};
use crate::run::{
    Caller, Clock, Done, Input, RECORD, Role, inputs as run_inputs, peak_memory, record,
};
use crate::staged::Staged;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::select::AnyDevice;
use voxalign_image::memory;
use voxalign_io::image::{self, DataType, Format};
use voxalign_population::PopulationError;
use voxalign_population::stream::operators::{
    Energies, Energy, Extreme, Mean, Miso, Normalise, Product, Smooth, Target, Variance,
    WindowMean, bound,
};
use voxalign_population::stream::{
    Files, Listener as StreamListener, OutputFiles, Sink, Source, StreamOptions, Streamed, Trace,
    mimo, miso, sliding_window,
};
use voxalign_register::{Choice, choices};
use voxalign_report::{GridRecord, InputRecord, OutputRecord, StackRecord};

/// What to compute from the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// The (weighted) mean.
    #[default]
    Mean,
    /// The largest value of each voxel.
    Max,
    /// The smallest value of each voxel.
    Min,
    /// The sample variance of each voxel.
    Variance,
    /// The product of each voxel over all images.
    Product,
    /// The sum of squares of each image.
    Energy,
    /// Each image scaled to common intensities.
    Normalise,
    /// Each image smoothed.
    Smooth,
    /// The mean of each image and its neighbours.
    WindowMean,
}

choices! { Operation:
    Mean "mean" "The (weighted) mean: one image",
    Max "max" "The largest value of each voxel: one image",
    Min "min" "The smallest value of each voxel: one image",
    Variance "variance" "The sample variance of each voxel (over n - 1): one image",
    Product "product" "The product of each voxel over all images, such as the intersection of masks: one image",
    Energy "energy" "The sum of squares of each image, or of its differences to --reference: a table (.csv)",
    Normalise "normalise" "Each image scaled to common intensities: a folder of images",
    Smooth "smooth" "Each image smoothed by a Gaussian of --sigma: a folder of images",
    WindowMean "window-mean" "The mean of each image and its neighbours in the series: a folder of images",
}

impl Operation {
    /// What the output is.
    fn output(self) -> Kind {
        match self {
            Self::Mean | Self::Max | Self::Min | Self::Variance | Self::Product => Kind::Image,
            Self::Energy => Kind::Table,
            Self::Normalise | Self::Smooth | Self::WindowMean => Kind::Folder,
        }
    }
}

/// What a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Table,
    Folder,
}

/// The options of a stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Options {
    /// Weights of the images, for mean; they are divided by their sum
    #[cfg_attr(feature = "clap", arg(long, value_name = "W,W,...", value_delimiter = ',', value_parser = crate::options::number,
          conflicts_with = "list", allow_hyphen_values = true))]
    #[serde(with = "texts")]
    pub weights: Vec<f64>,
    /// Standard deviation of the Gaussian, mm, for smooth
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM", value_parser = crate::options::number, allow_hyphen_values = true))]
    pub sigma: Option<f64>,
    /// Number of images in a window, odd, for window-mean [default: 3]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub window: Option<usize>,
    /// Intensity range that each image is scaled to, for normalise [default: zero mean and unit
    /// variance]
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOW,HIGH", value_delimiter = ',', num_args = 1,
          value_parser = crate::options::number, allow_hyphen_values = true))]
    #[serde(with = "texts")]
    pub range: Vec<f64>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for energy
    /// [default: f32; for max and min that of the images, if all have the same one of at most 16
    /// bits and none is scaled]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    #[serde(with = "as_text")]
    pub data_type: Option<DataType>,
    /// Image that is subtracted first, for energy
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub reference: Option<PathBuf>,
}

impl Options {
    /// Images of a window.
    fn window(&self) -> usize {
        self.window.unwrap_or(3)
    }
}

/// An operation over images that is to be done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What to compute.
    #[serde(with = "operation")]
    pub operation: Operation,
    /// The images, all on one grid.
    #[serde(default)]
    pub images: Vec<PathBuf>,
    /// They as a table with the column `path` and, for the mean, optionally `weight`.
    #[serde(default)]
    pub list: Option<PathBuf>,
    /// How.
    #[serde(flatten)]
    pub options: Options,
    /// The result: an image, a table of energies, or a folder.
    pub output: PathBuf,
}

/// Operations by their names.
mod operation {
    use super::{Choice, Operation};
    use crate::options::by_name;
    use serde::de::Error as _;
    use serde::{Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(of: &Operation, to: S) -> Result<S::Ok, S::Error> {
        of.name().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Operation, D::Error> {
        by_name::deserialize(from)?.ok_or_else(|| D::Error::custom("there is no `operation`"))
    }
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
            return Err(Error::input(format!(
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
            return Err(Error::input(format!(
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
                if named != wanted {
                    return Err(Error::input(format!(
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
        if self.images.is_empty() == self.list.is_none() {
            return Err(Error::input("give images, or a `list` of them"));
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
                return Err(Error::input(format!(
                    "`{option}` is for {}, but this is {}; leave it out",
                    of.name(),
                    operation.name()
                )));
            }
        }
        if options.data_type.is_some() && operation == Operation::Energy {
            return Err(Error::input(
                "`data_type` is for images, and the result of energy is a table; leave it out",
            ));
        }
        if operation == Operation::Smooth && options.sigma.is_none() {
            return Err(Error::input("smooth needs `sigma`, the width of the Gaussian in mm"));
        }
        if !options.range.is_empty() && !matches!(options.range[..], [low, high] if low < high) {
            return Err(Error::input("`range`: give the lower number first, such as 0,1"));
        }
        if options.window.is_some_and(|n| n % 2 == 0) {
            return Err(Error::input(
                "`window`: give an odd number, for the image and as many neighbours on each side",
            ));
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
            self.images.paths.iter().map(|p| Input::new(Role::Channel, p)).collect();
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

/// Tells how far it is, and stops where the user asks for it.
struct Watch<'l>(&'l dyn Listener);

impl StreamListener for Watch<'_> {
    fn ended(&self, done: usize, count: usize) {
        self.0.say(Level::Verbose, &format!("{done} of {count}"));
    }
    fn stop(&self) -> bool {
        self.0.stop()
    }
}

/// The name that the result of an image has in the folder of results.
fn result_name(path: &Path) -> Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let one = matches!(Format::from_path(path)?, Format::Nifti | Format::Nrrd | Format::MetaImage);
    if one {
        return Ok(name);
    }
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    Ok(format!("{}.nii.gz", plain.rsplit_once('.').map_or(plain, |(stem, _)| stem)))
}

/// The record beside an output that is one file.
fn beside(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".json");
    output.with_file_name(name)
}

/// Writes images and counts the values that their type does not hold.
struct Counted {
    files: OutputFiles,
    /// The names that they will have.
    named: Vec<PathBuf>,
    clamped: AtomicUsize,
    rounded: AtomicUsize,
}

impl Sink for Counted {
    fn write(&self, item: usize, values: &[f32]) -> voxalign_population::Result<()> {
        let (clamped, rounded) = files::changed(values, self.files.options.data_type);
        self.clamped.fetch_add(clamped, Ordering::Relaxed);
        self.rounded.fetch_add(rounded, Ordering::Relaxed);
        self.files.write(item, values).map_err(|e| match e {
            PopulationError::File(e) => e.instead_at(&self.named[item]).into(),
            other => other,
        })
    }
}

/// Checks that the results have names of their own, and none that of an input.
fn check_folder(output: &Path, images: &[PathBuf], inputs: &[&Path]) -> Result<()> {
    let mut names = BTreeSet::new();
    if output.is_dir() {
        files::check_output(&output.join(RECORD), inputs.iter().copied())?;
    }
    for path in images {
        let name = result_name(path)?;
        if output.is_dir() {
            files::check_output(&output.join(&name), inputs.iter().copied())?;
        }
        if !names.insert(name.to_lowercase()) {
            return Err(Error::input(format!(
                "two of the images would be written to '{name}' in the folder '{}'; give the \
                 images different names",
                output.display()
            )));
        }
    }
    Ok(())
}

/// What is to be done.
struct Work<'j> {
    job: &'j Job,
    images: &'j Images,
    source: &'j Files,
    /// Of the stored values.
    data_type: DataType,
    options: StreamOptions,
    /// With program, machine and the inputs that are no images of the stack.
    record: StackRecord,
    clock: Clock,
    listener: &'j dyn Listener,
}

impl<'j> Work<'j> {
    fn stream(&self) -> (&'j Files, StreamOptions, Watch<'j>) {
        (self.source, self.options, self.watch())
    }

    fn watch(&self) -> Watch<'j> {
        Watch(self.listener)
    }

    /// Does it and writes the result.
    fn run(mut self, device: &AnyDevice) -> Result<Made> {
        let trace = match self.job.operation {
            Operation::Mean => {
                let mean = Mean::new(&self.images.weights, self.bound(device)?)?;
                self.image(device, &mean)
            }
            Operation::Variance => self.image(device, &Variance::new(self.bound(device)?)?),
            Operation::Max => self.image(device, &Extreme::Max),
            Operation::Min => self.image(device, &Extreme::Min),
            Operation::Product => self.image(device, &Product),
            Operation::Energy => self.energy(device),
            Operation::Normalise => {
                let target = match self.job.options.range[..] {
                    [low, high] => Target::Range(low as f32, high as f32),
                    _ => Target::Standard,
                };
                let operator = Normalise::new(target);
                let (source, options, watch) = self.stream();
                self.folder(|sink| mimo(device, source, &operator, sink, &options, &watch))
            }
            Operation::Smooth => {
                let sigma = self.job.options.sigma.unwrap_or(0.0);
                let operator = Smooth { sigma, method: GaussianMethod::Recursive };
                let (source, options, watch) = self.stream();
                self.folder(|sink| mimo(device, source, &operator, sink, &options, &watch))
            }
            Operation::WindowMean => {
                let operator = WindowMean { radius: self.job.options.window() / 2 };
                let (source, options, watch) = self.stream();
                self.folder(|sink| {
                    sliding_window(device, source, &operator, sink, &options, &watch)
                })
            }
        }?;
        let done = Done { record: self.record, folder: self.job.output.clone() };
        Ok(Made { done, trace })
    }

    fn bound(&self, device: &AnyDevice) -> Result<f64> {
        Ok(bound(device, self.source, &self.options, &self.watch())?)
    }

    /// An operator with one image as result.
    fn image<O: Miso<AnyDevice, Output = Vec<f32>>>(
        &mut self,
        device: &AnyDevice,
        operator: &O,
    ) -> Result<Trace> {
        let done = miso(device, self.source, operator, &self.options, &self.watch())?;
        self.clock.lap("stream");
        check(self.listener)?;
        files::warn_of_rounding(&done.value, self.data_type, self.listener);
        let options = files::write_options(self.data_type, self.source.dimensions());
        let grid = self.source.grid();
        self.one_file(&done.trace, |staged, name| {
            staged.write_image(name, |p| image::write_values(p, grid, &done.value, &options))
        })?;
        Ok(done.trace)
    }

    fn energy(&mut self, device: &AnyDevice) -> Result<Trace> {
        let reference = match &self.job.options.reference {
            Some(path) => {
                // On the grid of the images, with finite values, as they are.
                let all = [self.source.paths()[0].clone(), path.clone()].to_vec();
                let file = Files::open(all).map_err(|e| Error::from(e).at("`reference`"))?;
                let mut values = memory::zeroed::<f32>(self.source.grid().len())?;
                file.read(1, &mut values)?;
                Some(values)
            }
            None => None,
        };
        let operator = Energy { reference: reference.as_deref() };
        let done: Streamed<Energies> =
            miso(device, self.source, &operator, &self.options, &self.watch())?;
        self.clock.lap("stream");
        check(self.listener)?;
        let mut rows = csv::Writer::from_writer(Vec::new());
        let internal = |e: &dyn std::fmt::Display| Error::Internal(e.to_string());
        rows.write_record(["path", "energy"]).map_err(|e| internal(&e))?;
        for (path, energy) in self.images.paths.iter().zip(&done.value.each) {
            let row = [path.to_string_lossy().into_owned(), energy.to_string()];
            rows.write_record(row).map_err(|e| internal(&e))?;
        }
        let text = rows.into_inner().map_err(|e| internal(&e))?;
        self.record.figures.insert("total_energy".to_owned(), done.value.total);
        self.one_file(&done.trace, |staged, name| {
            staged.write(name, |p| voxalign_io::atomic::write_file(p, |w| w.write_all(&text)))
        })?;
        Ok(done.trace)
    }

    /// An operator with an image of each image as result.
    fn folder(
        &mut self,
        run: impl FnOnce(&dyn Sink) -> voxalign_population::Result<Streamed<()>>,
    ) -> Result<Trace> {
        let mut staged = Staged::new(&self.job.output, self.listener)?;
        let names = self.images.paths.iter().map(|path| result_name(path));
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        let paths = names.iter().map(|name| staged.path(name)).collect::<Result<_, _>>()?;
        let named = names.iter().map(|name| staged.final_path(name)).collect();
        let files = OutputFiles {
            paths,
            grid: self.source.grid().clone(),
            options: files::write_options(self.data_type, self.source.dimensions()),
        };
        let sink = Counted { files, named, clamped: 0.into(), rounded: 0.into() };
        let done = run(&sink)?;
        self.clock.lap("stream");
        check(self.listener)?;
        let changed = (sink.clamped.into_inner(), sink.rounded.into_inner());
        files::say_changes(changed, self.data_type, self.listener);
        for path in &self.images.paths {
            let path = staged.final_path(&result_name(path)?);
            self.wrote("image", &path);
        }
        let path = staged.final_path(RECORD);
        self.wrote("record", &path);
        let text = self.finish(&done.trace);
        staged.write_text(RECORD, &text)?;
        staged.commit()?;
        Ok(done.trace)
    }

    /// An output that is one file, and its record after it.
    fn one_file(
        &mut self,
        trace: &Trace,
        write: impl FnOnce(&mut Staged<'_>, &str) -> Result<()>,
    ) -> Result<()> {
        let output = self.job.output.clone();
        let record = beside(&output);
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut staged = Staged::for_file(&output, self.listener)?;
        write(&mut staged, &name(&output))?;
        self.clock.lap("write");
        self.wrote("result", &output);
        self.wrote("record", &record);
        let text = self.finish(trace);
        staged.write_text(&name(&record), &text)?;
        staged.commit()
    }

    fn wrote(&mut self, role: &str, path: &Path) {
        let path = path.display().to_string();
        self.record.outputs.push(OutputRecord { role: role.to_owned(), path });
    }

    /// The record, once all is done.
    fn finish(&mut self, trace: &Trace) -> String {
        let record = &mut self.record;
        let mut inputs = Vec::new();
        for (path, sums) in self.source.paths().iter().zip(self.source.checksums()) {
            for (of, sha256) in sums {
                let role = if of == *path { "image" } else { "image_data" }.to_owned();
                inputs.push(InputRecord {
                    role,
                    path: of.display().to_string(),
                    sha256,
                    grid: None,
                });
            }
        }
        inputs.append(&mut record.provenance.inputs);
        record.provenance.inputs = inputs;
        record.parameters = parameters(self.job, self.images, self.data_type, self.options.readers);
        record.figures.insert("images".to_owned(), self.images.paths.len() as f64);
        self.clock.total();
        record.timings = self.clock.laps();
        for (i, stage) in trace.stages.iter().enumerate() {
            record.timings.insert(format!("stream_{}", stage.name), trace.busy(i));
        }
        record.peak_memory_bytes = peak_memory();
        record.to_json()
    }
}

/// The parameters that have an effect, as they were used, also those left at their default.
fn parameters(
    job: &Job,
    images: &Images,
    data_type: DataType,
    readers: usize,
) -> serde_json::Value {
    let (operation, mut all) = (job.operation, serde_json::Map::new());
    let mut put = |name: &str, value| all.insert(name.to_owned(), value);
    put("operation", json!(operation.name()));
    put("readers", json!(readers));
    if operation != Operation::Energy {
        put("data_type", json!(data_type.to_string()));
    }
    match operation {
        Operation::Mean if images.weights.is_empty() => {
            put("weights", json!(vec![1.0; images.paths.len()]));
        }
        Operation::Mean => {
            put("weights", json!(images.weights));
        }
        Operation::Smooth => {
            put("sigma_mm", json!(job.options.sigma));
        }
        Operation::WindowMean => {
            put("window", json!(job.options.window()));
        }
        Operation::Normalise if job.options.range.is_empty() => {
            put("range", json!("zero mean and unit variance"));
        }
        Operation::Normalise => {
            put("range", json!(job.options.range));
        }
        _ => {}
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_results() {
        for (path, name) in [
            ("x/a.nii.gz", "a.nii.gz"),
            ("a.b.nii", "a.b.nii"),
            ("a.mha", "a.mha"),
            ("a.nrrd", "a.nrrd"),
            ("x/a.hdr", "a.nii.gz"),
            ("a.img.gz", "a.nii.gz"),
            ("a.b.nhdr", "a.b.nii.gz"),
        ] {
            assert_eq!(result_name(Path::new(path)).unwrap(), name);
        }
        assert!(result_name(Path::new("a.txt")).is_err());
    }
}
