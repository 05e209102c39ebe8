//! The operators of the library on the files of the command.

use super::{Images, Operation, StackArgs};
use crate::failure::Failure;
use crate::files;
use crate::interrupt;
use crate::output;
use crate::progress::Talk;
use crate::staging::Staging;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use voxalign_compute::Device;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_io::image::{self, DataType, Format};
use voxalign_population::stream::operators::{
    Energies, Energy, Extreme, Mean, Miso, Normalise, Product, Smooth, Target, Variance,
    WindowMean, bound,
};
use voxalign_population::stream::{
    Files, Listener, OutputFiles, Sink, Source, StreamOptions, Streamed, Trace, mimo, miso,
    sliding_window,
};

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

/// Checks that the results have names of their own, and none that of an input.
pub(super) fn check_folder(
    args: &StackArgs,
    images: &[PathBuf],
    inputs: &[&Path],
) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for path in images {
        let name = result_name(path)?;
        if args.output.is_dir() {
            files::check_output(&args.output.join(&name), inputs.iter().copied())?;
        }
        if !names.insert(name.clone()) {
            return Err(Failure::input(format!(
                "two of the images would give '{name}' in the folder '{}'; images need names of \
                 their own",
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
    pub(super) options: StreamOptions,
}

impl Job<'_> {
    fn watch(&self) -> Watch {
        Watch { talk: self.args.run.talk() }
    }

    /// Does it and writes the result.
    pub(super) fn run<D: Device>(&self, device: &D) -> Result<Trace, Failure> {
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
                self.folder(|sink| {
                    mimo(device, self.source, &operator, sink, &self.options, &self.watch())
                })
            }
            Operation::Smooth => {
                let sigma = self.args.sigma.unwrap_or(0.0);
                let operator = Smooth { sigma, method: GaussianMethod::Recursive };
                self.folder(|sink| {
                    mimo(device, self.source, &operator, sink, &self.options, &self.watch())
                })
            }
            Operation::WindowMean => {
                let operator = WindowMean { radius: self.args.window.unwrap_or(3) / 2 };
                self.folder(|sink| {
                    sliding_window(
                        device,
                        self.source,
                        &operator,
                        sink,
                        &self.options,
                        &self.watch(),
                    )
                })
            }
        }
    }

    fn bound<D: Device>(&self, device: &D) -> Result<f64, Failure> {
        Ok(bound(device, self.source, &self.options, &self.watch())?)
    }

    /// An operator with one image as result.
    fn image<D: Device, O: Miso<D, Output = Vec<f32>>>(
        &self,
        device: &D,
        operator: &O,
    ) -> Result<Trace, Failure> {
        let done = miso(device, self.source, operator, &self.options, &self.watch())?;
        interrupt::check()?;
        let options = files::write_options(DataType::F32, self.source.dimensions());
        image::write_values(&self.args.output, self.source.grid(), &done.value, &options)?;
        Ok(done.trace)
    }

    fn energy<D: Device>(&self, device: &D) -> Result<Trace, Failure> {
        let reference = match &self.args.reference {
            Some(path) => {
                // On the grid of the images, with finite values, as they are.
                let all = [self.source.paths()[0].clone(), path.clone()].to_vec();
                let file = Files::open(all).map_err(|e| Failure::from(e).at("--reference"))?;
                let mut values = vec![0.0; self.source.grid().len()];
                file.read(1, &mut values)?;
                Some(values)
            }
            None => None,
        };
        let operator = Energy { reference: reference.as_deref() };
        let done: Streamed<Energies> =
            miso(device, self.source, &operator, &self.options, &self.watch())?;
        interrupt::check()?;
        let mut rows = csv::Writer::from_writer(Vec::new());
        let internal = |e: &dyn std::fmt::Display| Failure::Internal(e.to_string());
        rows.write_record(["path", "energy"]).map_err(|e| internal(&e))?;
        for (path, energy) in self.images.paths.iter().zip(&done.value.each) {
            let row = [path.to_string_lossy().into_owned(), energy.to_string()];
            rows.write_record(row).map_err(|e| internal(&e))?;
        }
        let text = rows.into_inner().map_err(|e| internal(&e))?;
        voxalign_io::atomic::write_file(&self.args.output, |w| w.write_all(&text))?;
        if self.args.run.talk() > Talk::Quiet {
            output::line(&format!("total energy: {}", done.value.total));
        }
        Ok(done.trace)
    }

    /// An operator with an image of each image as result.
    fn folder(
        &self,
        run: impl FnOnce(&dyn Sink) -> voxalign_population::Result<Streamed<()>>,
    ) -> Result<Trace, Failure> {
        let mut staging = Staging::new(&self.args.output)?;
        let names = self.images.paths.iter().map(|path| result_name(path));
        let paths = names.map(|name| staging.path(&name?)).collect::<Result<_, _>>()?;
        let sink = OutputFiles {
            paths,
            grid: self.source.grid().clone(),
            options: files::write_options(DataType::F32, self.source.dimensions()),
        };
        let done = run(&sink)?;
        interrupt::check()?;
        staging.commit()?;
        Ok(done.trace)
    }
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
