//! Jobs that follow a sequence where `stream` is given.

use super::job;
use crate::arguments::Given;
use crate::result::Found;
use crate::work::{Failure, Teller};
use pyo3::prelude::*;
use serde::Serialize;
use voxalign_jobs::machine::Machine;
use voxalign_jobs::{Caller, Error, Job, elastic, pose};

/// A job of single images or of a sequence.
pub(super) trait Sequence: Job {
    /// Whether it is of a sequence.
    fn is_one(&self) -> bool;

    /// Follows it; each frame is told.
    fn follow(
        &self,
        machine: &Machine,
        caller: &Caller,
        teller: &Teller,
    ) -> std::result::Result<Found, Error>;
}

/// Tells a frame.
fn told(teller: &Teller, frame: &impl Serialize) -> std::result::Result<(), Error> {
    let frame = serde_json::to_value(frame).map_err(|e| Error::Internal(e.to_string()))?;
    teller.frame(frame);
    Ok(())
}

macro_rules! sequence {
    ($job:ty) => {
        impl Sequence for $job {
            fn is_one(&self) -> bool {
                self.is_sequence()
            }

            fn follow(
                &self,
                machine: &Machine,
                caller: &Caller,
                teller: &Teller,
            ) -> std::result::Result<Found, Error> {
                let done = self.track(machine, caller, teller, &mut |frame| told(teller, frame))?;
                Ok(Found::of(done))
            }
        }
    };
}

sequence!(elastic::Job);
sequence!(pose::Job);

/// Follows a sequence, or does what is done with single images.
pub(super) fn call<J: Sequence + Send + 'static>(
    py: Python<'_>,
    mut given: Given,
    single: fn(Python<'_>, Given) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    if given.dry_run || given.is_in_memory() || !given.job::<J>()?.is_one() {
        return single(py, given);
    }
    job::done(py, &mut given, |job: &J, machine, caller, teller| {
        let machine = Machine::start(machine, J::AUTO).map_err(Failure::Device)?;
        machine.explain(teller);
        Ok(job.follow(&machine, caller, teller)?)
    })
}

/// A body that the images move, or those of a sequence.
pub(super) fn elastic(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    call::<elastic::Job>(py, given, super::pair::call::<elastic::Job>)
}

/// The pose of a CT, or those of a sequence.
pub(super) fn pose(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    call::<pose::Job>(py, given, job::call::<pose::Job>)
}
