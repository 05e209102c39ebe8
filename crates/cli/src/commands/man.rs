//! `voxalign man`: manual pages, generated from the definition of the arguments.

use super::Cli;
use crate::failure::{Failure, Outcome};
use crate::output;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use std::path::PathBuf;
use voxalign_io::atomic;

/// Arguments of `voxalign man`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign man -o ~/.local/share/man/man1
      then `man voxalign`, `man voxalign-deform`, ...")]
pub(crate) struct ManArgs {
    /// Folder for the pages: voxalign.1 and one per command; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Writes the manual pages.
pub(crate) fn run(args: ManArgs) -> Result<Outcome, Failure> {
    let failed = |e: std::io::Error, what: &str| {
        Failure::input(format!("'{}': cannot {what}: {e}", args.output.display()))
    };
    std::fs::create_dir_all(&args.output).map_err(|e| failed(e, "make the folder"))?;
    let mut root = Cli::command();
    root.build();
    let pages = std::iter::once(&root).chain(root.get_subcommands().filter(|c| !c.is_hide_set()));
    for command in pages {
        let man = Man::new(command.clone());
        let name = man.get_filename();
        atomic::write_file(&args.output.join(&name), |mut out| man.render(&mut out))?;
        output::line(&name);
    }
    Ok(Outcome::Good)
}
