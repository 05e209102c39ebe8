//! Jobs of files.

use super::caller;
use crate::arguments::Given;
use crate::result::{Found, Result};
use crate::work::{Failure, Teller, run};
use crate::{error, json};
use pyo3::prelude::*;
use serde_json::Value;
use tempfile::TempDir;
use voxalign_jobs::machine::{Machine, MachineOptions};
use voxalign_jobs::{Caller, Error, Job};
use voxalign_options::text;

/// Does a job of files.
pub(super) fn call<J: Job + Send + 'static>(
    py: Python<'_>,
    mut given: Given,
) -> PyResult<Py<PyAny>> {
    if given.dry_run {
        return planned::<J>(py, &given);
    }
    done(py, &mut given, |job: &J, machine, caller, teller| {
        let starting = Machine::starting(machine, J::AUTO).map_err(Failure::Device)?;
        let inputs = job.read(caller, teller)?;
        let machine = starting.wait().map_err(Failure::Device)?;
        machine.explain(teller);
        Ok(Found::of(job.find(&machine, inputs, caller, teller)?))
    })
}

/// Checks a job of files, which `work` does, and gives its result.
pub(super) fn done<J: Job + Send + 'static>(
    py: Python<'_>,
    given: &mut Given,
    work: impl FnOnce(&J, MachineOptions, &Caller, &Teller) -> std::result::Result<Found, Failure>
    + Send
    + 'static,
) -> PyResult<Py<PyAny>> {
    let kept = kept(given)?;
    let (job, machine) = (given.job::<J>()?, given.machine);
    if let Some(what) = job.missing() {
        return Err(error::option(format!("{what} is missing; give it by its name")));
    }
    let caller = caller(J::NAME, given);
    let found = run(py, machine.threads, &given.watcher, move |teller| {
        job.check_options().map_err(Failure::Options)?;
        job.check(&caller, teller)?;
        work(&job, machine, &caller, teller)
    })?;
    Ok(Py::new(py, Result::new(found, kept)?)?.into_any())
}

/// Tells what a job of files would read and write, and how much memory it would need.
pub(super) fn planned<J: Job + Send + 'static>(
    py: Python<'_>,
    given: &Given,
) -> PyResult<Py<PyAny>> {
    if given.is_in_memory() {
        return Err(error::option(text!("`dry_run` is for inputs that are files; leave it out")));
    }
    let job = given.job::<J>()?;
    if let Some(what) = job.missing() {
        return Err(error::option(format!("{what} is missing; give it by its name")));
    }
    let caller = caller(J::NAME, given);
    let plan = run(py, given.machine.threads, &given.watcher, move |teller| {
        job.check_options().map_err(Failure::Options)?;
        let plan = job.plan(&caller, teller)?;
        serde_json::to_value(plan).map_err(|e| Error::Internal(e.to_string()).into())
    })?;
    Ok(json::to_python(py, &plan)?.unbind())
}

/// A folder for the results where none is given, which goes with them.
pub(super) fn kept(given: &mut Given) -> PyResult<Option<TempDir>> {
    if given.options.contains_key("output") {
        return Ok(None);
    }
    let folder = tempfile::Builder::new().prefix("voxalign-").tempdir();
    let folder = folder.map_err(|e| {
        error::input(format!("no folder can be made for the results: {e}; give `output`"))
    })?;
    let output = folder.path().join("result");
    given.options.insert("output".to_owned(), Value::String(output.to_string_lossy().into()));
    Ok(Some(folder))
}
