//! The command line: commands, and the options that several of them share.

mod shared;
mod values;

pub(crate) use shared::{
    GeometryArgs, Grids, HostArgs, JsonArgs, MethodArgs, OutputArgs, PointConventionName, RunArgs,
};
pub(crate) use values::{InitChoice, Interpolation, Outside, TransformArg, number};

use crate::commands;
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
    Affine(Box<commands::affine::AffineArgs>),
    /// Register two images by a deformation that can be undone, after an affine transform
    Deform(Box<commands::deform::DeformArgs>),
    /// Register a real pair of brains that comes with the program
    Demo(commands::demo::DemoArgs),
    /// Carry an image, a label map or points through transforms
    Apply(commands::apply::ApplyArgs),
    /// Write the inverse of a transform
    Invert(commands::invert::InvertArgs),
    /// Write several transforms as one
    Compose(commands::compose::ComposeArgs),
    /// Score how well two images, label maps or point lists agree
    Compare(commands::compare::CompareArgs),
    /// Show what a file holds and what is odd about it
    Info(commands::info::InfoArgs),
    /// Convert an image, a label map, a transform or a point list to another format
    Convert(commands::convert::ConvertArgs),
    /// Measure the operators and the affine job on this machine
    Bench(Box<commands::bench::BenchArgs>),
    /// List the processors that can compute: the CPU and GPUs
    Devices(commands::devices::DevicesArgs),
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
