//! The stub file of the module, `python/voxalign/_native.pyi`, which is written from the declaration of the options by `tools/python.sh stubs`.

use crate::functions;
use pyo3::prelude::*;
use voxalign_python_macros::guarded;

/// What is in it besides functions of jobs.
const CLASSES: &str = include_str!("stubs/classes.pyi");

/// The text of the stub file.
#[guarded]
#[pyfunction]
#[pyo3(name = "_stubs")]
pub(crate) fn stubs() -> String {
    let functions: Vec<_> = functions::all().iter().map(|f| f.declared.stub()).collect();
    format!("{CLASSES}\n{}", functions.join("\n"))
}
