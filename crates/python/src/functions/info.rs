//! What files hold.

use super::{JOB, caller};
use crate::arguments::Given;
use crate::declared::{Own, Runs};
use crate::work::{Failure, run};
use crate::{error, json};
use pyo3::prelude::*;
use serde_json::Value;
use voxalign_jobs::info::Job;

/// What is declared.
pub(super) const OWN: Own = Own {
    name: "info",
    runs: Runs::Host,
    gives: ("list[dict[str, Any]]", "What each file holds, and what is unusual about it as `odd`."),
    ..JOB
};

/// The facts of all files.
pub(super) fn call(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    let job: Job = given.job()?;
    let caller = caller("info", &given);
    let facts = run(py, given.machine.threads, &given.watcher, move |teller| {
        let facts = job.run(&caller, teller)?;
        Ok::<_, Failure>(serde_json::to_value(facts))
    })?;
    let facts: Value = facts.map_err(|e| error::internal(&e.to_string()))?;
    Ok(json::to_python(py, &facts)?.unbind())
}
