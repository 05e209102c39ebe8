//! The `voxalign` program: parses, dispatches and prints; the work is done by the libraries. [`main`] is all of it but the
//! allocator and the process, which the binary and the Python package have each in its way.

mod allocator;
mod args;
mod commands;
mod config;
#[cfg(test)]
mod descriptors;
mod device;
mod failure;
mod interrupt;
mod output;
mod progress;
mod ranks;
#[cfg(test)]
mod reference;
mod tables;
mod words;

use clap::{CommandFactory, Parser};
use failure::{Failure, Outcome};
use std::panic;
use std::sync::{Mutex, PoisonError};

pub use allocator::Allocator;
pub use voxalign_jobs::invoked::Invoked;

/// What the last panic said, for the one sentence that is printed instead of a trace.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs the program, which can be done once in a process, and gives its exit code.
pub fn main(invoked: Invoked) -> u8 {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let what = text.and_then(|t| t.lines().next()).unwrap_or("no message");
        let place = info.location().map_or_else(String::new, |l| format!(" at {l}"));
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{what}{place}"));
    }));
    guarded(|| {
        let cli = match commands::Cli::try_parse_from(invoked.keep()) {
            Ok(cli) => cli,
            Err(message) => {
                // Help and version, or an error whose message is shown.
                let shown = !message.use_stderr();
                output::clap(message);
                return if shown { Ok(Outcome::Good) } else { Err(Failure::Usage) };
            }
        };
        interrupt::listen();
        commands::run(cli.command)
    })
}

/// The definition of the command line.
pub fn command() -> clap::Command {
    commands::Cli::command()
}

/// Runs a command and gives the exit code; a panic becomes one sentence and the code 3.
fn guarded(command: impl FnOnce() -> Result<Outcome, Failure>) -> u8 {
    let result = panic::catch_unwind(panic::AssertUnwindSafe(command)).unwrap_or_else(|_| {
        let said = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(Failure::Internal(said.unwrap_or_else(|| "no message".to_owned())))
    });
    let result = result.and_then(|outcome| output::finish().map(|()| outcome));
    match &result {
        // What clap has said already, and what the process that failed says itself.
        Ok(_) | Err(Failure::Usage | Failure::Peer(_)) => {}
        Err(failure) => output::error(&ranks::named(&failure.to_string())),
    }
    ranks::end(result.as_ref().err());
    result.map_or_else(|failure| failure.code(), Outcome::code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_code() {
        assert_eq!(guarded(|| Ok(Outcome::Good)), 0);
        assert_eq!(guarded(|| Ok(Outcome::Bad)), 1);
        assert_eq!(guarded(|| Err(Failure::input("x"))), 2);
        assert_eq!(guarded(|| panic!("the sky fell")), 3);
        assert_eq!(guarded(|| Err(Failure::Stopped)), 130);
    }
}
