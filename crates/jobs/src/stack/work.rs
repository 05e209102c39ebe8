//! The library's operators applied to the files of a job.

use super::names::{beside, result_name};
use super::{Images, Job, Operands, Operation};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener, check};
use crate::run::{Clock, Done, conclude, nothing_more, written};
use crate::staged::Staged;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::select::AnyDevice;
use voxalign_image::memory;
use voxalign_io::image::{self, DataType};
use voxalign_options::text;
use voxalign_population::PopulationError;
use voxalign_population::stream::operators::{
    Energies, Energy, Extreme, Mean, Miso, Normalise, Product, Smooth, Target, Variance, WindowMean,
};
use voxalign_population::stream::{
    Files, Listener as StreamListener, OutputFiles, Sink, Source, StreamOptions, Streamed, Trace,
    bound, mimo, miso, sliding_window,
};
use voxalign_register::Choice;
use voxalign_report::{Figure, InputRecord, StackRecord};

/// Tells how far it is, and stops where the user asks for it.
struct Watch<'l>(&'l dyn Listener);

impl StreamListener for Watch<'_> {
    fn ended(&self, done: usize, count: usize) {
        self.0.say(Level::Verbose, format!("{done} of {count}"));
    }
    fn stop(&self) -> bool {
        self.0.stop()
    }
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

/// What is to be done.
pub(super) struct Work<'j> {
    pub(super) job: &'j Job,
    pub(super) operands: Operands,
    pub(super) images: &'j Images,
    pub(super) source: &'j Files,
    /// Of the stored values.
    pub(super) data_type: DataType,
    pub(super) options: StreamOptions,
    /// With program, machine and the inputs that are no images of the stack.
    pub(super) record: StackRecord,
    pub(super) clock: Clock,
    pub(super) listener: &'j dyn Listener,
}

impl<'j> Work<'j> {
    fn stream(&self) -> (&'j Files, StreamOptions, Watch<'j>) {
        (self.source, self.options, self.watch())
    }

    fn watch(&self) -> Watch<'j> {
        Watch(self.listener)
    }

    /// Does it and writes the result.
    pub(super) fn run(self, device: &AnyDevice) -> Result<Done<StackRecord>> {
        match self.job.operation {
            Operation::Mean => {
                let mean = Mean::new(&self.images.weights, self.bound(device)?)?;
                self.image(device, &mean)
            }
            Operation::Variance => {
                let variance = Variance::new(self.bound(device)?)?;
                self.image(device, &variance)
            }
            Operation::Max => self.image(device, &Extreme::Max),
            Operation::Min => self.image(device, &Extreme::Min),
            Operation::Product => self.image(device, &Product),
            Operation::Energy => self.energy(device),
            Operation::Normalise => {
                let target = match self.operands.range[..] {
                    [low, high] => Target::Range(low as f32, high as f32),
                    _ => Target::Standard,
                };
                let operator = Normalise::new(target);
                let (source, options, watch) = self.stream();
                self.folder(|sink| mimo(device, source, &operator, sink, &options, &watch))
            }
            Operation::Smooth => {
                let sigma = self.operands.sigma.unwrap_or(0.0);
                let operator = Smooth { sigma, method: GaussianMethod::Recursive };
                let (source, options, watch) = self.stream();
                self.folder(|sink| mimo(device, source, &operator, sink, &options, &watch))
            }
            Operation::WindowMean => {
                let operator = WindowMean { radius: self.operands.window / 2 };
                let (source, options, watch) = self.stream();
                self.folder(|sink| {
                    sliding_window(device, source, &operator, sink, &options, &watch)
                })
            }
        }
    }

    fn bound(&self, device: &AnyDevice) -> Result<f64> {
        Ok(bound(device, self.source, &self.options, &self.watch())?)
    }

    /// An operator with one image as result.
    fn image<O: Miso<AnyDevice, Output = Vec<f32>>>(
        mut self,
        device: &AnyDevice,
        operator: &O,
    ) -> Result<Done<StackRecord>> {
        let done = miso(device, self.source, operator, &self.options, &self.watch())?;
        self.clock.lap("stream");
        check(self.listener)?;
        files::warn_of_rounding(&done.value, self.data_type, self.listener);
        let options = files::write_options(self.data_type, self.source.dimensions());
        let grid = self.source.grid();
        self.one_file(&done.trace, |staged, name| {
            staged.write_image(name, |p| image::write_values(p, grid, &done.value, &options))
        })
    }

    fn energy(mut self, device: &AnyDevice) -> Result<Done<StackRecord>> {
        let reference = match &self.job.options.reference {
            Some(path) => {
                // On the grid of the images, with finite values, as they are.
                let all = [self.source.paths()[0].clone(), path.clone()].to_vec();
                let file = Files::open(all).map_err(|e| Error::from(e).at(text!("`reference`")))?;
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
        self.record.figures.set(Figure::TotalEnergy, done.value.total);
        self.one_file(&done.trace, |staged, name| {
            staged.write(name, |p| voxalign_io::atomic::write_file(p, |w| w.write_all(&text)))
        })
    }

    /// An operator with an image of each image as result.
    fn folder(
        mut self,
        run: impl FnOnce(&dyn Sink) -> voxalign_population::Result<Streamed<()>>,
    ) -> Result<Done<StackRecord>> {
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
        let written = written(names.into_iter().map(|name| ("image", name)), false);
        self.end(staged, &written, &done.trace)
    }

    /// An output that is one file, and its record after it.
    fn one_file(
        mut self,
        trace: &Trace,
        write: impl FnOnce(&mut Staged<'_>, &str) -> Result<()>,
    ) -> Result<Done<StackRecord>> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (output, record) = (name(&self.job.output), name(&beside(&self.job.output)));
        let mut staged = Staged::for_file(&self.job.output, self.listener)?;
        write(&mut staged, &output)?;
        self.clock.lap("write");
        self.end(staged, &[("result", output), ("record", record)], trace)
    }

    /// Completes the record and ends the run.
    fn end(
        mut self,
        staged: Staged<'_>,
        written: &[(&'static str, String)],
        trace: &Trace,
    ) -> Result<Done<StackRecord>> {
        let record = &mut self.record;
        let mut inputs = Vec::new();
        for (path, sums) in self.source.paths().iter().zip(self.source.checksums()) {
            for (of, sha256) in sums {
                let role = if of == *path { "image" } else { "image_data" }.to_owned();
                inputs.push(InputRecord {
                    sha256_of: None,
                    role,
                    path: of.display().to_string(),
                    sha256,
                    grid: None,
                });
            }
        }
        inputs.append(&mut record.provenance.inputs);
        record.provenance.inputs = inputs;
        record.parameters = parameters(
            (self.job.operation, &self.operands),
            self.images,
            self.data_type,
            self.options.readers,
        );
        record.figures.set(Figure::Images, self.images.paths.len() as f64);
        for (i, stage) in trace.stages.iter().enumerate() {
            self.clock.note(format!("stream_{}", stage.name), trace.busy(i));
        }
        let at = (&*self.job.output, written);
        let no_report = |_: &StackRecord| Ok::<_, Error>(String::new());
        conclude(staged, self.clock, self.record, at, nothing_more, no_report)
    }
}

/// The parameters that have an effect, as they were used, also those left at their default.
fn parameters(
    (operation, operands): (Operation, &Operands),
    images: &Images,
    data_type: DataType,
    readers: usize,
) -> serde_json::Value {
    let mut all = serde_json::Map::new();
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
            put("sigma_mm", json!(operands.sigma));
        }
        Operation::WindowMean => {
            put("window", json!(operands.window));
        }
        Operation::Normalise if operands.range.is_empty() => {
            put("range", json!("zero mean and unit variance"));
        }
        Operation::Normalise => {
            put("range", json!(operands.range));
        }
        _ => {}
    }
    all.into()
}
