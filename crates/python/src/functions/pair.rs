//! Jobs of two images, which may be in memory.

use super::{caller, job};
use crate::arguments::Given;
use crate::error;
use crate::image::labels;
use crate::result::{Found, Result};
use crate::work::{Failure, run};
use pyo3::prelude::*;
use std::sync::Arc;
use voxalign_image::{LabelMap, Volume};
use voxalign_jobs::OfPair;
use voxalign_jobs::machine::Machine;
use voxalign_jobs::pair::{Held, HeldImage};
use voxalign_options::text;

/// Does a job of two images.
pub(super) fn call<J: OfPair + Send + 'static>(
    py: Python<'_>,
    mut given: Given,
) -> PyResult<Py<PyAny>> {
    if given.dry_run || !given.is_in_memory() {
        return job::call::<J>(py, given);
    }
    let held = held(&mut given)?;
    let kept = job::kept(&mut given)?;
    let (job, machine) = (given.job::<J>()?, given.machine);
    let caller = caller(J::NAME, &given);
    let found = run(py, machine.threads, &given.watcher, move |teller| {
        job.check_options().map_err(Failure::Options)?;
        job.check(&caller, teller)?;
        let starting = Machine::starting(machine, J::AUTO).map_err(Failure::Device)?;
        let pair = job.paths().read_beside(held, teller)?;
        let inputs = job.given(pair, &caller, teller)?;
        let machine = starting.wait().map_err(Failure::Device)?;
        machine.explain(teller);
        Ok(Found::of(job.find(&machine, inputs, &caller, teller)?))
    })?;
    Ok(Py::new(py, Result::new(found, kept)?)?.into_any())
}

/// The images in memory.
fn held(given: &mut Given) -> PyResult<Held> {
    for (one, other) in [("fixed_labels", "moving_labels"), ("moving_labels", "fixed_labels")] {
        if given.images.contains_key(one) && !given.images.contains_key(other) {
            return Err(error::option(text!(
                "`fixed_labels` and `moving_labels` go together; give both in memory, or both as files"
            )));
        }
    }
    let mut image = |name: &str| given.images.remove(name);
    let mask = |image: Option<HeldImage>| -> PyResult<Option<Volume<f32>>> {
        // One that nobody else has is not copied.
        let own = |held: HeldImage| Arc::try_unwrap(held.image).or_else(|image| image.try_clone());
        image.map(own).transpose().map_err(error::of)
    };
    let map = |image: Option<HeldImage>| -> PyResult<Option<LabelMap>> {
        image.as_ref().map(labels).transpose()
    };
    Ok(Held {
        fixed: image("fixed"),
        moving: image("moving"),
        fixed_mask: mask(image("fixed_mask"))?,
        moving_mask: mask(image("moving_mask"))?,
        fixed_labels: map(image("fixed_labels"))?,
        moving_labels: map(image("moving_labels"))?,
    })
}
