//! The program `voxalign`, which is in the module as well: a script of the package runs it.

use pyo3::prelude::*;
use std::ffi::OsString;
use voxalign_cli::Invoked;
use voxalign_python_macros::guarded;

/// Runs the program with these arguments, its name first, and gives its exit code; `starts` is what would start it anew. It
/// takes the process' signals, and is for a process of its own.
#[guarded]
#[pyfunction]
pub(crate) fn program(py: Python<'_>, arguments: Vec<OsString>, starts: Vec<OsString>) -> u8 {
    py.detach(|| voxalign_cli::main(Invoked { arguments, starts }))
}
