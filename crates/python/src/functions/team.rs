//! Jobs that several devices of this process do together.

use super::{job, pair};
use crate::arguments::Given;
use crate::result::Found;
use crate::work::Failure;
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
    job::done(py, &mut given, move |job: &J, machine, caller, teller| {
        let machine =
            team::start(machine, gpus, &Communicator::single(), teller).map_err(Failure::Device)?;
        let inputs = job.read(caller, teller)?;
        Ok(Found::of(job.find(&machine, inputs, caller, teller)?))
    })
}
