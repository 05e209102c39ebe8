//! The inverse of a transform.

use super::JOB;
use super::convert::facts;
use crate::arguments::{Given, Link};
use crate::declared::{Own, Runs};
use crate::error;
use crate::transform::Transform;
use crate::work::{Failure, run};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_compute::cpu::Cpu;
use voxalign_jobs::chain::inverted;
use voxalign_jobs::files;
use voxalign_jobs::invert::Job;
use voxalign_options::text;

/// What is declared.
pub(super) const OWN: Own = Own {
    name: "invert",
    runs: Runs::Host,
    gives: (
        "Transform | dict[str, Any]",
        "The inverse; where it is written to `output`, how exact it is.",
    ),
    transforms: &["transform"],
    first: Some("transform"),
    ..JOB
};

/// The inverse, in memory or as a file.
pub(super) fn call(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    if given.path("output").is_some() {
        if given.is_in_memory() {
            return Err(error::option(text!(
                "`output` is for a transform that is a file; give none, and save() what comes back"
            )));
        }
        let job: Job = given.job()?;
        let found = run(py, given.machine.threads, &given.watcher, move |teller| {
            Ok::<_, Failure>(job.run(teller)?)
        })?;
        return facts(py, &found);
    }
    let job: Job = given.job()?;
    let link = match &given.transforms {
        Some(links) if links.len() == 1 => links[0].clone(),
        Some(_) => return Err(error::option(text!("`transform` is a list; compose() joins it"))),
        None => Link::Path(job.transform.display().to_string()),
    };
    let inverse = run(py, given.machine.threads, &given.watcher, move |teller| {
        let (map, name) = match link {
            Link::Held(map) => (map, "the transform".to_owned()),
            Link::Path(path) => {
                let grids = job.geometry.grids(teller)?;
                let map = files::transform(&PathBuf::from(&path), &grids.geometry(), teller)?;
                (Arc::new(map.simplified()), path)
            }
        };
        let device = Cpu::new(Some(rayon::current_num_threads()))?;
        Ok(inverted(&device, &map, &name, teller)?.0)
    })?;
    Ok(Py::new(py, Transform::from(inverse))?.into_any())
}
