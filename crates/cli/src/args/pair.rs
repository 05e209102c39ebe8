//! The options that every registration of a pair of images has.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;
use voxalign_jobs::pair::{MaskPaths, PairPaths, Which};

/// The two images, where the results go, and a file with options.
#[derive(Debug, Clone, Args)]
pub(crate) struct PairArgs {
    /// The fixed (reference) image
    #[arg(value_name = "FIXED")]
    pub(crate) fixed: Option<PathBuf>,
    /// The moving image, which is registered to it
    #[arg(value_name = "MOVING")]
    pub(crate) moving: Option<PathBuf>,
    /// Folder for the results; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// TOML file with options; those on the command line take precedence
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
}

impl PairArgs {
    /// Takes the values of positional arguments from a configuration file, where the command line has
    /// none.
    pub(crate) fn fill(&mut self, positionals: Vec<(String, PathBuf)>) {
        for (name, value) in positionals {
            let slot = if name == "fixed" { &mut self.fixed } else { &mut self.moving };
            slot.get_or_insert(value);
        }
    }

    /// The files of the pair and the folder for the results; `command` is for messages.
    pub(crate) fn paths(
        &self,
        (masks, which): (MaskPaths, Which),
        command: &str,
    ) -> Result<(PairPaths, PathBuf), Failure> {
        let needed = |value: &Option<PathBuf>, what: &str| {
            value.clone().ok_or_else(|| {
                Failure::input(format!("{what} is missing; see `voxalign {command} --help`"))
            })
        };
        let fixed = needed(&self.fixed, "the fixed image FIXED")?;
        let moving = needed(&self.moving, "the moving image MOVING")?;
        let output = needed(&self.output, "the output folder -o DIR")?;
        Ok((PairPaths { fixed, moving, masks, which }, output))
    }
}
