//! Options shared by several commands, each with one name and one meaning.

use crate::device;
use crate::failure::Failure;
use crate::progress::{Printer, Talk};
use crate::words::typed;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_jobs::machine::{Auto, ConfigFile, DryRun, Machine, Running, thread_count};
use voxalign_jobs::{Caller, invoked};

/// How a command runs and what it says.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) running: Running,
}

impl RunArgs {
    /// How much is said.
    pub(crate) fn talk(&self) -> Talk {
        match (self.running.quiet, self.running.verbose) {
            (true, _) => Talk::Quiet,
            (_, true) => Talk::Verbose,
            _ => Talk::Normal,
        }
    }

    /// A listener that prints.
    pub(crate) fn printer(&self) -> Printer {
        Printer::new(self.talk())
    }

    /// Starts the device; `auto` stands for what `--device auto` means to the command.
    pub(crate) fn machine(&self, auto: Auto) -> Result<Machine, Failure> {
        device::start(self.running.machine, auto, &Printer::lines(self.talk()))
    }

    /// Does something while the device starts. What the device says comes first.
    pub(crate) fn machine_and<T>(
        &self,
        auto: Auto,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(Machine, T), Failure> {
        device::start_beside(self.running.machine, auto, &Printer::lines(self.talk()), work)
    }
}

/// A command that is a job.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobArgs<J: Args> {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) file: ConfigFile,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) job: J,
    /// Print the record of the run, as in result.json, to standard output, and nothing else there
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) dry: DryRun,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) run: RunArgs,
}

/// Who runs a job: a command of this program, with its configuration file.
pub(crate) fn caller(command: &str, config: Option<&PathBuf>) -> Caller {
    Caller {
        program: format!("voxalign {command}"),
        command: invoked::command(),
        config: config.cloned(),
        words: typed,
    }
}

/// How a command runs that works on the host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct HostArgs {
    /// Threads to use; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = thread_count)]
    pub(crate) threads: Option<usize>,
    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl HostArgs {
    /// How much is said.
    pub(crate) fn talk(&self) -> Talk {
        if self.quiet { Talk::Quiet } else { Talk::Normal }
    }

    /// A listener that prints lines.
    pub(crate) fn printer(&self) -> Printer {
        Printer::lines(self.talk())
    }

    /// Sets the number of threads.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        device::start_threads(self.threads)
    }
}

/// The form of a result.
#[derive(Debug, Clone, Args)]
pub(crate) struct JsonArgs {
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    pub(crate) json: bool,
}
