//! The operators of the library on the files of the command.

use super::{Images, Operation, StackArgs};
use crate::failure::Failure;
use crate::files;
use crate::interrupt;
use crate::output;
use crate::progress::Talk;
use crate::registration::{Clock, RECORD, peak_memory, write_text};
use crate::staging::Staging;
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
    Files, Listener, OutputFiles, Sink, Source, StreamOptions, Streamed, Trace, mimo, miso,
    sliding_window,
};
use voxalign_report::{InputRecord, OutputRecord, StackRecord};

/// Tells how far it is, and stops where the user asks for it.
struct Watch {
    talk: Talk,
}

impl Listener for Watch {
    fn ended(&self, done: usize, count: usize) {
        if self.talk == Talk::Verbose {
            output::note(&format!("{done} of {count}"));
        }
    }
    fn stop(&self) -> bool {
        interrupt::requested()
    }
}

/// The name that the result of an image has in the folder of results.
fn result_name(path: &Path) -> Result<String, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let one = matches!(Format::from_path(path)?, Format::Nifti | Format::Nrrd | Format::MetaImage);
    if one {
        return Ok(name);
    }
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    Ok(format!("{}.nii.gz", plain.rsplit_once('.').map_or(plain, |(stem, _)| stem)))
}

/// The record beside an output that is one file.
pub(super) fn beside(output: &Path) -> PathBuf {
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
pub(super) fn check_folder(
    args: &StackArgs,
    images: &[PathBuf],
    inputs: &[&Path],
) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    if args.output.is_dir() {
        files::check_output(&args.output.join(RECORD), inputs.iter().copied())?;
    }
    for path in images {
        let name = result_name(path)?;
        if args.output.is_dir() {
            files::check_output(&args.output.join(&name), inputs.iter().copied())?;
        }
        if !names.insert(name.to_lowercase()) {
            return Err(Failure::input(format!(
                "two of the images would be written to '{name}' in the folder '{}'; give the \
                 images different names",
                args.output.display()
            )));
        }
    }
    Ok(())
}

/// What is to be done.
pub(super) struct Job<'j> {
    pub(super) args: &'j StackArgs,
    pub(super) images: &'j Images,
    pub(super) source: &'j Files,
    /// Of the stored values.
    pub(super) data_type: DataType,
    pub(super) options: StreamOptions,
    /// With program, machine and the inputs that are no images of the stack.
    pub(super) record: StackRecord,
    pub(super) clock: Clock,
}

impl<'j> Job<'j> {
    fn stream(&self) -> (&'j Files, StreamOptions, Watch) {
        (self.source, self.options, self.watch())
    }

    fn watch(&self) -> Watch {
        Watch { talk: self.args.run.talk() }
    }

    /// Does it and writes the result.
    pub(super) fn run(mut self, device: &AnyDevice) -> Result<Trace, Failure> {
        match self.args.operation {
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
                let target = match self.args.range[..] {
                    [low, high] => Target::Range(low as f32, high as f32),
                    _ => Target::Standard,
                };
                let operator = Normalise::new(target);
                let (source, options, watch) = self.stream();
                self.folder(|sink| mimo(device, source, &operator, sink, &options, &watch))
            }
            Operation::Smooth => {
                let sigma = self.args.sigma.unwrap_or(0.0);
                let operator = Smooth { sigma, method: GaussianMethod::Recursive };
                let (source, options, watch) = self.stream();
                self.folder(|sink| mimo(device, source, &operator, sink, &options, &watch))
            }
            Operation::WindowMean => {
                let operator = WindowMean { radius: self.args.window() / 2 };
                let (source, options, watch) = self.stream();
                self.folder(|sink| {
                    sliding_window(device, source, &operator, sink, &options, &watch)
                })
            }
        }
    }

    fn bound(&self, device: &AnyDevice) -> Result<f64, Failure> {
        Ok(bound(device, self.source, &self.options, &self.watch())?)
    }

    /// An operator with one image as result.
    fn image<O: Miso<AnyDevice, Output = Vec<f32>>>(
        &mut self,
        device: &AnyDevice,
        operator: &O,
    ) -> Result<Trace, Failure> {
        let done = miso(device, self.source, operator, &self.options, &self.watch())?;
        self.clock.lap("stream");
        interrupt::check()?;
        files::warn_of_rounding(&done.value, self.data_type, self.args.run.talk());
        let options = files::write_options(self.data_type, self.source.dimensions());
        let grid = self.source.grid();
        self.one_file(&done.trace, |staging, name| {
            staging.write_image(name, |p| image::write_values(p, grid, &done.value, &options))
        })?;
        Ok(done.trace)
    }

    fn energy(&mut self, device: &AnyDevice) -> Result<Trace, Failure> {
        let reference = match &self.args.reference {
            Some(path) => {
                // On the grid of the images, with finite values, as they are.
                let all = [self.source.paths()[0].clone(), path.clone()].to_vec();
                let file = Files::open(all).map_err(|e| Failure::from(e).at("--reference"))?;
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
        interrupt::check()?;
        let mut rows = csv::Writer::from_writer(Vec::new());
        let internal = |e: &dyn std::fmt::Display| Failure::Internal(e.to_string());
        rows.write_record(["path", "energy"]).map_err(|e| internal(&e))?;
        for (path, energy) in self.images.paths.iter().zip(&done.value.each) {
            let row = [path.to_string_lossy().into_owned(), energy.to_string()];
            rows.write_record(row).map_err(|e| internal(&e))?;
        }
        let text = rows.into_inner().map_err(|e| internal(&e))?;
        self.record.figures.insert("total_energy".to_owned(), done.value.total);
        self.one_file(&done.trace, |staging, name| {
            staging.write(name, |p| voxalign_io::atomic::write_file(p, |w| w.write_all(&text)))
        })?;
        if self.args.run.talk() > Talk::Quiet {
            output::line(&format!("total energy: {}", done.value.total));
        }
        Ok(done.trace)
    }

    /// An operator with an image of each image as result.
    fn folder(
        &mut self,
        run: impl FnOnce(&dyn Sink) -> voxalign_population::Result<Streamed<()>>,
    ) -> Result<Trace, Failure> {
        let mut staging = Staging::new(&self.args.output)?;
        let names = self.images.paths.iter().map(|path| result_name(path));
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        let paths = names.iter().map(|name| staging.path(name)).collect::<Result<_, _>>()?;
        let named = names.iter().map(|name| staging.final_path(name)).collect();
        let files = OutputFiles {
            paths,
            grid: self.source.grid().clone(),
            options: files::write_options(self.data_type, self.source.dimensions()),
        };
        let sink = Counted { files, named, clamped: 0.into(), rounded: 0.into() };
        let done = run(&sink)?;
        self.clock.lap("stream");
        interrupt::check()?;
        let changed = (sink.clamped.into_inner(), sink.rounded.into_inner());
        files::say_changes(changed, self.data_type, self.args.run.talk());
        for path in &self.images.paths {
            let path = staging.final_path(&result_name(path)?);
            self.wrote("image", &path);
        }
        let path = staging.final_path(RECORD);
        self.wrote("record", &path);
        let text = self.finish(&done.trace);
        write_text(&mut staging, RECORD, &text)?;
        staging.commit()?;
        Ok(done.trace)
    }

    /// An output that is one file, and its record after it.
    fn one_file(
        &mut self,
        trace: &Trace,
        write: impl FnOnce(&mut Staging, &str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let output = self.args.output.clone();
        let record = beside(&output);
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut staging = Staging::for_file(&output)?;
        write(&mut staging, &name(&output))?;
        self.clock.lap("write");
        self.wrote("result", &output);
        self.wrote("record", &record);
        let text = self.finish(trace);
        write_text(&mut staging, &name(&record), &text)?;
        staging.commit()
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
        let args = self.args;
        record.parameters = parameters(args, self.images, self.data_type, self.options.readers);
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
    args: &StackArgs,
    images: &Images,
    data_type: DataType,
    readers: usize,
) -> serde_json::Value {
    let (operation, mut all) = (args.operation, serde_json::Map::new());
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
            put("sigma_mm", json!(args.sigma));
        }
        Operation::WindowMean => {
            put("window", json!(args.window()));
        }
        Operation::Normalise if args.range.is_empty() => {
            put("range", json!("zero mean and unit variance"));
        }
        Operation::Normalise => {
            put("range", json!(args.range));
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
