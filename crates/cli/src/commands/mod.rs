//! The command line: one file or folder a command, with its arguments and what it does.

pub(crate) mod affine;
pub(crate) mod apply;
pub(crate) mod atlas;
pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod compose;
pub(crate) mod convert;
pub(crate) mod deform;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod info;
pub(crate) mod invert;
pub(crate) mod shell;
pub(crate) mod stack;

use crate::failure::{Failure, Outcome};
use clap::{Parser, Subcommand};

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(
    name = "voxalign",
    version,
    about = "Medical image registration: exact geometry, the same bits every time, a verdict on \
             every result",
    long_about = "Medical image registration: exact geometry, the same bits every time, a verdict \
                  on every result.\n\n\
                  World space is RAS+ millimetres, as in NIfTI. A transform maps points of the \
                  fixed image to points of the moving image: the direction in which images are \
                  resampled. Points that belong to the moving image go through its inverse. \
                  Angles are degrees, lengths millimetres.",
    after_help = "Exit codes: 0 done (and the verdict is good), 1 done but the verdict is bad, \
                  2 bad input or options, 3 internal error, 130 stopped by Ctrl-C.",
    propagate_version = true,
    arg_required_else_help = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register two images by a rigid, similarity or affine transform
    Affine(Box<affine::AffineArgs>),
    /// Register two images by a diffeomorphic (invertible) deformation, after an affine transform
    Deform(Box<deform::DeformArgs>),
    /// Build an unbiased atlas of many images, with the deformation of each to it
    Atlas(Box<atlas::AtlasArgs>),
    /// Register a real pair of brains that comes with the program
    Demo(Box<demo::DemoArgs>),
    /// Apply transforms to an image, a label map or points
    Apply(apply::ApplyArgs),
    /// Write the inverse of a transform
    Invert(invert::InvertArgs),
    /// Combine several transforms into one
    Compose(compose::ComposeArgs),
    /// Score how well two images, label maps or point lists agree
    Compare(compare::CompareArgs),
    /// Compute the mean, extremes, variance or product of many images, or normalise or smooth each
    Stack(Box<stack::StackArgs>),
    /// Show the contents of a file, and anything unusual about it
    Info(info::InfoArgs),
    /// Convert an image, a label map, a transform or a point list to another format
    Convert(convert::ConvertArgs),
    /// Measure the speed of the operators and of affine registration on this machine
    Bench(Box<voxalign_bench::BenchArgs>),
    /// List the devices that can be used: the CPU and GPUs
    Devices(devices::DevicesArgs),
    /// Print what a shell completes: commands, options and their values
    Completions(shell::CompletionsArgs),
    /// Write manual pages for `man`
    Man(shell::ManArgs),
}

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Affine(args) => affine::run(*args),
        Command::Deform(args) => deform::run(*args),
        Command::Atlas(args) => atlas::run(*args),
        Command::Demo(args) => demo::run(*args),
        Command::Apply(args) => apply::run(&args),
        Command::Invert(args) => invert::run(&args),
        Command::Compose(args) => compose::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Stack(args) => stack::run(*args),
        Command::Info(args) => info::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
