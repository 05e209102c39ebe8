//! The options that every command about X-ray images of a CT has.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

/// The CT, where the results go, and a file with options.
#[derive(Debug, Clone, Args)]
pub(crate) struct CtArgs {
    /// The CT: NIfTI, NRRD, MetaImage, or a folder of DICOM
    #[arg(value_name = "CT")]
    ct: Option<PathBuf>,
    /// Folder for the results; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// TOML file with options; those on the command line take precedence
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
}

impl CtArgs {
    /// Takes the CT from a configuration file, where the command line has none; gives the values of other positional
    /// arguments.
    pub(crate) fn fill(&mut self, positionals: Vec<(String, PathBuf)>) -> Vec<PathBuf> {
        let mut others = Vec::new();
        for (name, value) in positionals {
            match name.as_str() {
                "ct" => drop(self.ct.get_or_insert(value)),
                _ => others.push(value),
            }
        }
        others
    }

    /// The CT and the folder for the results; `command` is for messages.
    pub(crate) fn paths(&self, command: &str) -> Result<(PathBuf, PathBuf), Failure> {
        let needed = |value: &Option<PathBuf>, what: &str| {
            value.clone().ok_or_else(|| {
                Failure::input(format!("{what} is missing; see `voxalign {command} --help`"))
            })
        };
        Ok((needed(&self.ct, "the CT")?, needed(&self.output, "the output folder -o DIR")?))
    }
}
