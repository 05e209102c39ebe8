//! The commands: one file or folder each, with its arguments and what it does.

pub(crate) mod affine;
pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod compose;
pub(crate) mod convert;
pub(crate) mod deform;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod info;
pub(crate) mod invert;

use crate::args::Command;
use crate::failure::{Failure, Outcome};

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Affine(args) => affine::run(*args),
        Command::Deform(args) => deform::run(*args),
        Command::Demo(args) => demo::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Invert(args) => invert::run(&args),
        Command::Compose(args) => compose::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Devices(args) => devices::run(&args),
    }
}
