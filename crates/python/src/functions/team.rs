//! Jobs that several devices of this process do together.

use super::{caller, job, pair};
use crate::arguments::Given;
use crate::error;
use crate::result::{Found, Result};
use crate::work::{Failure, run};
use pyo3::prelude::*;
use voxalign_compute::comm::Communicator;
use voxalign_jobs::{Job, affine, atlas, team};

/// A registration, of images that are spread over devices where that is asked for.
pub(super) fn affine(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    if given.dry_run || given.is_in_memory() {
        return pair::call::<affine::Job>(py, given);
    }
    let job = given.job::<affine::Job>()?;
    match job.is_distributed() {
        true => call::<affine::Job>(py, given, job.distributed.gpus),
        false => pair::call::<affine::Job>(py, given),
    }
}

/// An atlas.
pub(super) fn atlas(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    match given.dry_run {
        true => job::call::<atlas::Job>(py, given),
        false => {
            let gpus = given.team.gpus;
            call::<atlas::Job>(py, given, gpus)
        }
    }
}

/// Does a job of files on all devices, or on so many GPUs.
fn call<J: Job + Send + 'static>(
    py: Python<'_>,
    mut given: Given,
    gpus: Option<usize>,
) -> PyResult<Py<PyAny>> {
    let kept = job::kept(&mut given)?;
    let (job, machine) = (given.job::<J>()?, given.machine);
    if let Some(what) = job.missing() {
        return Err(error::option(format!("{what} is missing; give it by its name")));
    }
    let caller = caller(J::NAME, &given);
    let found = run(py, machine.threads, &given.watcher, move |teller| {
        job.check_options().map_err(Failure::Options)?;
        job.check(&caller, teller)?;
        let machine =
            team::start(machine, gpus, &Communicator::single(), teller).map_err(Failure::Device)?;
        let inputs = job.read(&caller, teller)?;
        Ok(Found::of(&job.find(&machine, inputs, &caller, teller)?))
    })?;
    Ok(Py::new(py, Result::new(found, kept)?)?.into_any())
}
