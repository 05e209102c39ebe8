//! A registration as it runs from files to files: what it reads, stages and writes, and how it ends.

use super::record::{Clock, Input, inputs, peak_memory};
use super::{Output, RECORD, REPORT, check_outputs, write_text};
use crate::args::{OutputArgs, Product, Products, RunArgs};
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::{Printer, Talk};
use crate::staging::Staging;
use std::path::{Path, PathBuf};
use std::time::Instant;
use voxalign_image::Grid;
use voxalign_report::{InputRecord, Judged, OutputRecord, ReportError, RunRecord};

/// What was read before a registration begins.
#[derive(Debug)]
pub(crate) struct Read<T> {
    pub(crate) inputs: T,
    pub(crate) records: Vec<InputRecord>,
    seconds: f64,
}

/// A run: how it was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The configuration file, where there is one.
    pub(crate) config: Option<&'a Path>,
    /// The folder for the results.
    pub(crate) output: &'a Path,
    pub(crate) output_options: &'a OutputArgs,
    /// The files to write; all where nothing is said.
    products: Option<&'a Products>,
    pub(crate) talk: Talk,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        config: &'a Option<PathBuf>,
        output: &'a Path,
        output_options: &'a OutputArgs,
        run: &RunArgs,
    ) -> Self {
        let config = config.as_deref();
        Self { config, output, output_options, products: None, talk: run.talk() }
    }

    /// The same that writes these files only, where some are named, beside record and report.
    pub(crate) fn only(self, products: Option<&'a Products>) -> Self {
        Self { products, ..self }
    }

    /// Whether a file is to be written.
    pub(crate) fn writes(&self, product: Product) -> bool {
        self.products.is_none_or(|wanted| wanted.contains(product))
    }

    /// Checks what can be checked before a device is started: no output may be one of the inputs.
    pub(crate) fn check(&self, outputs: &[Output], inputs: &[Input<'_>]) -> Result<(), Failure> {
        let paths = inputs.iter().map(Input::path).chain(self.config);
        check_outputs(self.output, outputs.iter().map(|o| o.name), paths)?;
        self.output_options.check()
    }

    /// The records of the inputs, the configuration file among them.
    pub(crate) fn inputs(&self, files: &[Input<'_>]) -> Result<Vec<InputRecord>, Failure> {
        let config = self.config.map(|path| Input::other("config", path));
        inputs(&files.iter().copied().chain(config).collect::<Vec<_>>())
    }

    /// Reads the inputs, which are these files.
    pub(crate) fn read<T>(
        &self,
        files: &[Input<'_>],
        read: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Read<T>, Failure> {
        let began = Instant::now();
        let inputs = read()?;
        let records = self.inputs(files)?;
        Ok(Read { inputs, records, seconds: began.elapsed().as_secs_f64() })
    }

    /// A clock that counts what was read, and how long the start of the device took beyond that.
    pub(crate) fn clock<T>(&self, machine: &Machine, read: &Read<T>) -> Clock {
        let mut clock = Clock::start();
        if machine.gpu().is_some() {
            clock.add("device", machine.seconds);
        }
        clock.add("read", read.seconds);
        clock
    }

    /// The listener of the registration; it begins with the grids.
    pub(crate) fn printer(&self, [fixed, moving]: &[Grid; 2]) -> Printer {
        let printer = Printer::new(self.talk);
        printer.say(Talk::Verbose, &format!("fixed:  {fixed}"));
        printer.say(Talk::Verbose, &format!("moving: {moving}"));
        printer
    }

    /// Writes report and record, moves everything to its place and tells how it went. Of `outputs`,
    /// those that this run does not write go where an older one did. `written` waits for what another thread
    /// still writes.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn finish(
        &self,
        mut staging: Staging,
        mut clock: Clock,
        record: &mut RunRecord,
        outputs: &[Output],
        written: impl FnOnce() -> Result<(), Failure>,
        report: impl FnOnce(&RunRecord) -> Result<String, ReportError>,
        print: impl FnOnce(&RunRecord),
    ) -> Result<Outcome, Failure> {
        let with_report = self.output_options.wants_report();
        for output in outputs {
            let is_written = match output.product {
                Some(product) => self.writes(product),
                None => with_report || output.name != REPORT,
            };
            if is_written {
                let path = staging.final_path(output.name).display().to_string();
                record.outputs.push(OutputRecord { role: output.role.to_owned(), path });
            } else {
                staging.without(output.name);
            }
        }
        if with_report {
            record.timings = clock.laps();
            record.peak_memory_bytes = peak_memory();
            let html = report(record)?;
            write_text(&mut staging, REPORT, &html)?;
            clock.lap("report");
        }
        written()?;
        clock.lap("write");
        end(staging, clock, record, self.talk, print)
    }
}

/// Writes the record, which stands for the whole, moves everything to its place and tells how it went.
pub(crate) fn end<R: Judged>(
    mut staging: Staging,
    mut clock: Clock,
    record: &mut R,
    talk: Talk,
    print: impl FnOnce(&R),
) -> Result<Outcome, Failure> {
    clock.total();
    record.measured(clock.laps(), peak_memory());
    write_text(&mut staging, RECORD, &record.text())?;
    staging.commit()?;
    let good = record.verdict().good;
    if talk > Talk::Quiet {
        print(record);
    } else if !good {
        output::note(&format!("verdict: {}", record.verdict().summary()));
    }
    Ok(if good { Outcome::Good } else { Outcome::Bad })
}
