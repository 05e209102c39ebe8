//! `voxalign bench`: measures the operators and the jobs on this machine.

use crate::args::RunArgs;
use crate::failure::{Failure, Outcome};
use crate::progress::Printer;
use crate::{device, interrupt, output, ranks};
use voxalign_bench::Host;

pub(crate) use voxalign_bench::BenchArgs;
use voxalign_jobs::machine::{Auto, Machine, MachineOptions};
use voxalign_jobs::{Error, Level, Listener, Result, team};
use voxalign_options::Text;
use voxalign_register::{Event, Progress};

/// This program as one that measures.
struct Program(Printer);

impl Progress for Program {
    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }

    fn stop(&self) -> bool {
        interrupt::requested()
    }
}

impl Listener for Program {
    fn tell(&self, level: Level, text: &Text) {
        self.0.tell(level, text);
    }

    fn reading(&self, read: &mut dyn FnMut()) {
        self.0.reading(read);
    }
}

impl Host for Program {
    fn line(&self, text: &str) {
        output::line(text);
    }

    fn machine(&self, options: MachineOptions, auto: Auto) -> Result<Machine> {
        device::start(options, auto, &self.0).map_err(said)
    }

    fn team(&self, options: MachineOptions, gpus: Option<usize>) -> Result<Machine> {
        let world = ranks::world().map_err(said)?;
        let machine = team::start(options, gpus, world, &self.0)?;
        device::start_threads(Some(machine.threads)).map_err(said)?;
        device::keep(&machine);
        Ok(machine)
    }

    fn finish(&self) {
        self.0.finish();
    }
}

/// A failure of this program as one of the library, which gives it back as it is.
fn said(failure: Failure) -> Error {
    match failure {
        Failure::Stopped => Error::Stopped,
        Failure::Memory(message) => Error::Memory(message),
        Failure::Internal(message) => Error::Internal(message),
        Failure::Gpu(message) => Error::Gpu(message),
        Failure::Peer(message) => Error::Peer(message),
        Failure::Ranks(message) => Error::Ranks(message),
        other => Error::input(other.to_string()),
    }
}

/// Measures and prints.
pub(crate) fn run(args: BenchArgs) -> std::result::Result<Outcome, Failure> {
    let args = &args;
    let run = RunArgs { running: args.running() };
    voxalign_bench::run(args, &Program(run.printer()))?;
    Ok(Outcome::Good)
}
