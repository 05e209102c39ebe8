//! The options that every registration of a pair of images has.

use super::PairPaths;
use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

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

/// What goes with the two images.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Masks and labels")]
pub(crate) struct PairMaskArgs {
    /// Mask of the fixed image, on its grid: only voxels above 0 count
    #[arg(long, value_name = "IMAGE")]
    fixed_mask: Option<PathBuf>,
    /// Mask of the moving image, on its grid: only voxels above 0 count, so that a lesion can be left out
    #[arg(long, value_name = "IMAGE")]
    moving_mask: Option<PathBuf>,
    /// Label map of the fixed image, to report the overlap before and after; not used for the
    /// registration
    #[arg(long, value_name = "LABELS", display_order = 1000)]
    fixed_labels: Option<PathBuf>,
    /// Label map of the moving image, to report the overlap before and after
    #[arg(long, value_name = "LABELS", display_order = 1001)]
    moving_labels: Option<PathBuf>,
    /// Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV
    /// with a number and a name in each line
    #[arg(long, value_name = "FILE", display_order = 1002)]
    label_names: Option<PathBuf>,
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
        masks: &PairMaskArgs,
        command: &str,
    ) -> Result<(PairPaths, PathBuf), Failure> {
        let needed = |value: &Option<PathBuf>, what: &str| {
            value.clone().ok_or_else(|| {
                Failure::input(format!("{what} is missing; see `voxalign {command} --help`"))
            })
        };
        let paths = PairPaths {
            fixed: needed(&self.fixed, "the fixed image FIXED")?,
            moving: needed(&self.moving, "the moving image MOVING")?,
            fixed_mask: masks.fixed_mask.clone(),
            moving_mask: masks.moving_mask.clone(),
            fixed_labels: masks.fixed_labels.clone(),
            moving_labels: masks.moving_labels.clone(),
            label_names: masks.label_names.clone(),
        };
        Ok((paths, needed(&self.output, "the output folder -o DIR")?))
    }
}
