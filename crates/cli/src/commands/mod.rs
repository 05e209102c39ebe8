//! The commands, one file or folder each, with their arguments.

mod affine;
mod anatomy;
mod apply;
mod atlas;
mod bench;
mod compare;
mod completions;
mod compose;
mod convert;
mod deform;
mod demo;
mod devices;
mod drr;
mod elastic;
mod info;
mod invert;
mod job;
mod man;
mod pose;
mod segment;
mod stack;
mod surface;

use crate::failure::{Failure, Outcome};
use clap::{Parser, Subcommand};
use voxalign_jobs::about;

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
                  2 bad input or options, 3 internal error, 4 standard output cannot be written, \
                  130 stopped by Ctrl-C.",
    propagate_version = true,
    arg_required_else_help = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Makes the enumeration of the commands: the module, the name, the type of its arguments, and what
/// `voxalign --help` says of it.
macro_rules! commands {
    ($($(#[$meta:meta])* $module:ident $Command:ident($Args:ident) $summary:expr,)+) => {
        /// The commands.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $(#[command(about = $summary)] $(#[$meta])* $Command(Box<$module::$Args>),)+
        }

        /// Runs a command.
        pub(crate) fn run(command: Command) -> Result<Outcome, Failure> {
            match command {
                $(Command::$Command(args) => $module::run(*args),)+
            }
        }
    };
}

commands! {
    #[command(
        after_help = affine::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign affine [OPTIONS] <FIXED> <MOVING> -o <DIR>"
    )]
    affine Affine(AffineArgs) about::AFFINE,
    #[command(
        after_help = deform::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign deform [OPTIONS] <FIXED> <MOVING> -o <DIR>"
    )]
    deform Deform(DeformArgs) about::DEFORM,
    #[command(
        after_help = elastic::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign elastic [OPTIONS] <FIXED> <MOVING> -o <DIR>"
    )]
    elastic Elastic(ElasticArgs) about::ELASTIC,
    #[command(
        after_help = anatomy::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign anatomy [OPTIONS] <FIXED.toml> <MOVING.toml> -o <DIR>",
        mut_arg("similarity", |a| a.hide(true)),
        mut_arg("radius", |a| a.hide(true)),
        mut_arg("bins", |a| a.hide(true)),
        mut_arg("channel", |a| a.hide(true))
    )]
    anatomy Anatomy(AnatomyArgs) about::ANATOMY,
    #[command(
        after_help = atlas::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        mut_arg("path_storage", |a| a.hide(true))
    )]
    atlas Atlas(AtlasArgs) about::ATLAS,
    #[command(
        after_help = drr::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign drr [OPTIONS] <CT> -o <DIR>"
    )]
    drr Drr(DrrArgs) about::DRR,
    #[command(
        after_help = pose::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign pose [OPTIONS] <CT> [XRAY]... -o <DIR>"
    )]
    pose Pose(PoseArgs) about::POSE,
    #[command(
        after_help = segment::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign segment [OPTIONS] <IMAGE> -o <DIR>"
    )]
    segment Segment(SegmentArgs) about::SEGMENT,
    demo Demo(DemoArgs) "Register a real pair of brains that comes with the program",
    apply Apply(ApplyArgs) about::APPLY,
    invert Invert(InvertArgs) about::INVERT,
    compose Compose(ComposeArgs) about::COMPOSE,
    compare Compare(CompareArgs) about::COMPARE,
    #[command(after_help = stack::EXAMPLES)]
    stack Stack(StackArgs) about::STACK,
    #[command(
        after_help = surface::EXAMPLES,
        args_override_self = true,
        arg_required_else_help = true,
        override_usage = "voxalign surface [OPTIONS] <IMAGE> (--label <N,...> | --level <VALUE>) -o <MESH>\n       \
                      voxalign surface [OPTIONS] <LABELS> --each [--label <N,...>] -o <DIR>"
    )]
    surface Surface(SurfaceArgs) about::SURFACE,
    info Info(InfoArgs) about::INFO,
    convert Convert(ConvertArgs) about::CONVERT,
    bench Bench(BenchArgs) "Measure the speed of the operators and of affine registration on this machine",
    devices Devices(DevicesArgs) "List the devices that can be used: the CPU and GPUs",
    completions Completions(CompletionsArgs) "Print shell completions for commands, options and their values",
    man Man(ManArgs) "Write manual pages for `man`",
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
