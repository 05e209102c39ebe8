//! `voxalign completions`: shell completions, generated from the definition of the arguments.

use super::Cli;
use crate::failure::{Failure, Outcome};
use crate::output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `voxalign completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign completions bash > ~/.local/share/bash-completion/completions/voxalign
  voxalign completions zsh > ~/.zfunc/_voxalign
      with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  voxalign completions fish > ~/.config/fish/completions/voxalign.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions of a shell.
pub(crate) fn run(args: CompletionsArgs) -> Result<Outcome, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "voxalign", &mut text);
    output::text(&text);
    Ok(Outcome::Good)
}
