//! A registration as it runs from files to files: what it reads, stages and writes, and how it ends.

use super::record::{Clock, Input, inputs, peak_memory};
use super::{RECORD, REPORT, check_outputs, write_text};
use crate::args::{OutputArgs, RunArgs};
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::files::Staging;
use crate::output;
use crate::progress::{Printer, Talk};
use std::path::{Path, PathBuf};
use voxalign_image::Grid;
use voxalign_report::{InputRecord, OutputRecord, ReportError, RunRecord};

/// A run: how it was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The configuration file, where there is one.
    pub(crate) config: Option<&'a Path>,
    /// The folder for the results.
    pub(crate) output: &'a Path,
    pub(crate) output_options: &'a OutputArgs,
    pub(crate) talk: Talk,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        config: &'a Option<PathBuf>,
        output: &'a Path,
        output_options: &'a OutputArgs,
        run: &RunArgs,
    ) -> Self {
        Self { config: config.as_deref(), output, output_options, talk: run.talk() }
    }

    /// Checks what can be checked before a device is started: no output may be one of the inputs.
    pub(crate) fn check(
        &self,
        outputs: &[(&str, &str)],
        inputs: &[Input<'_>],
    ) -> Result<(), Failure> {
        let paths = inputs.iter().map(Input::path).chain(self.config);
        check_outputs(self.output, outputs.iter().map(|(_, name)| *name), paths)?;
        self.output_options.check()
    }

    /// The records of the inputs, the configuration file among them.
    pub(crate) fn inputs(&self, files: &[Input<'_>]) -> Result<Vec<InputRecord>, Failure> {
        let config = self.config.map(|path| Input::other("config", path));
        inputs(&files.iter().copied().chain(config).collect::<Vec<_>>())
    }

    /// A clock that counts the start of the device.
    pub(crate) fn clock(&self, machine: &Machine) -> Clock {
        let mut clock = Clock::start();
        if machine.gpu().is_some() {
            clock.add("device", machine.seconds);
        }
        clock
    }

    /// The listener of the registration; it begins with the grids.
    pub(crate) fn printer(&self, [fixed, moving]: &[Grid; 2]) -> Printer {
        let printer = Printer::new(self.talk);
        printer.say(Talk::Verbose, &format!("fixed:  {fixed}"));
        printer.say(Talk::Verbose, &format!("moving: {moving}"));
        printer
    }

    /// Writes report and record, moves everything to its place and tells how it went. `outputs` are
    /// the roles and names of the files, of which the report is the last.
    pub(crate) fn finish(
        &self,
        mut staging: Staging,
        mut clock: Clock,
        record: &mut RunRecord,
        outputs: &[(&str, &str)],
        report: impl FnOnce(&RunRecord) -> Result<String, ReportError>,
        print: impl FnOnce(&RunRecord),
    ) -> Result<Outcome, Failure> {
        let with_report = self.output_options.wants_report();
        let written = outputs.iter().filter(|(_, name)| with_report || *name != REPORT);
        record.outputs = written
            .map(|&(role, name)| OutputRecord {
                role: role.to_owned(),
                path: staging.final_path(name).display().to_string(),
            })
            .collect();
        if with_report {
            record.timings = clock.laps();
            record.peak_memory_bytes = peak_memory();
            let html = report(record).map_err(|e| Failure::Internal(e.to_string()))?;
            write_text(&staging.path(REPORT)?, &html)?;
            clock.lap("report");
        } else {
            staging.without(REPORT);
        }
        clock.total();
        record.timings = clock.laps();
        record.peak_memory_bytes = peak_memory();
        write_text(&staging.path(RECORD)?, &record.to_json())?;
        staging.commit()?;
        let good = record.verdict.good;
        if self.talk > Talk::Quiet {
            print(record);
        } else if !good {
            output::note(&format!("verdict: {}", record.verdict.summary()));
        }
        Ok(if good { Outcome::Good } else { Outcome::Bad })
    }
}
