//! Files in other formats.

use super::{FACTS, JOB};
use crate::arguments::Given;
use crate::declared::{Own, Runs};
use crate::work::{Failure, run};
use crate::{error, json};
use pyo3::prelude::*;
use serde::Serialize;
use voxalign_jobs::convert::Job;

/// What is declared.
pub(super) const OWN: Own = Own { name: "convert", runs: Runs::Host, gives: FACTS, ..JOB };

/// Converts a file.
pub(super) fn call(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    let job: Job = given.job()?;
    let done = run(py, given.machine.threads, &given.watcher, move |teller| {
        Ok::<_, Failure>(job.run(teller)?)
    })?;
    facts(py, &done)
}

/// What a job says of its work, as a dict.
pub(super) fn facts(py: Python<'_>, done: &impl Serialize) -> PyResult<Py<PyAny>> {
    let done = serde_json::to_value(done).map_err(|e| error::internal(&e.to_string()))?;
    Ok(json::to_python(py, &done)?.unbind())
}
