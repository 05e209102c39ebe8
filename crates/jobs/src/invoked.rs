//! How the program was called, which records of its runs say: by the arguments of the process, or by those that a process
//! of another name, such as an interpreter, gave it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

/// A call of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoked {
    /// The name of the program, and its arguments.
    pub arguments: Vec<OsString>,
    /// What starts it once more, before its arguments; empty where that is the executable of the process.
    pub starts: Vec<OsString>,
}

static KEPT: OnceLock<Invoked> = OnceLock::new();

impl Invoked {
    /// Of this process.
    pub fn of_process() -> Self {
        Self { arguments: env::args_os().collect(), starts: Vec::new() }
    }

    /// Keeps the call, the first one of a process, and gives its arguments.
    pub fn keep(self) -> Vec<OsString> {
        KEPT.get_or_init(|| self).arguments.clone()
    }
}

/// The name of the program, and its arguments.
pub fn arguments() -> Vec<OsString> {
    KEPT.get().cloned().unwrap_or_else(Invoked::of_process).arguments
}

/// The same as text, for records.
pub fn command() -> Vec<String> {
    arguments().iter().map(|a| a.to_string_lossy().into_owned()).collect()
}

/// The program once more, which takes its arguments.
///
/// # Errors
/// Where the executable of the process cannot be told.
pub fn again() -> io::Result<Command> {
    match KEPT.get().map(|kept| &*kept.starts) {
        Some([first, others @ ..]) => {
            let mut command = Command::new(first);
            command.args(others);
            Ok(command)
        }
        _ => Ok(Command::new(env::current_exe()?)),
    }
}
