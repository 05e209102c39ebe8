//! Several transforms as one.

use super::JOB;
use super::convert::facts;
use crate::arguments::{Given, Link};
use crate::declared::{Own, Runs};
use crate::error;
use crate::transform::Transform;
use crate::work::{Failure, Teller, run};
use pyo3::prelude::*;
use voxalign_compute::cpu::Cpu;
use voxalign_jobs::chain::Chain;
use voxalign_jobs::compose::Job;
use voxalign_jobs::files::{self, Grids};
use voxalign_jobs::{Error, chain};
use voxalign_options::text;

/// What is declared.
pub(super) const OWN: Own = Own {
    name: "compose",
    runs: Runs::Host,
    gives: (
        "Transform | dict[str, Any]",
        "The composition; where it is written to `output`, whether it is one matrix.",
    ),
    transforms: &["transform"],
    first: Some("transform"),
    ..JOB
};

/// The composition, in memory or as a file.
pub(super) fn call(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    let job: Job = given.job()?;
    if given.path("output").is_some() {
        if given.is_in_memory() {
            return Err(error::option(text!(
                "`output` is for transforms that are files; give none, and save() what comes back"
            )));
        }
        let done = run(py, given.machine.threads, &given.watcher, move |teller| {
            Ok::<_, Failure>(job.run(teller)?)
        })?;
        return facts(py, &done);
    }
    let links = given.transforms.unwrap_or_else(|| {
        job.transforms.iter().map(|link| Link::Path(link.to_string())).collect()
    });
    if links.is_empty() {
        return Err(error::option(text!("`transform` is missing: give the transforms to compose")));
    }
    let whole = run(py, given.machine.threads, &given.watcher, move |teller| {
        let grids = job.geometry.grids(teller)?;
        let device = Cpu::new(Some(rayon::current_num_threads()))?;
        Ok(chain_of(&links, &grids, &Grids::default(), teller)?.into_transform(&device, teller)?)
    })?;
    Ok(Py::new(py, Transform::from(whole))?.into_any())
}

/// A chain of transforms that are in memory or in files.
pub(super) fn chain_of(
    links: &[Link],
    given: &Grids,
    usual: &Grids,
    teller: &Teller,
) -> Result<Chain, Error> {
    let paths = links.iter().filter_map(|link| match link {
        Link::Path(path) => Some(path.parse::<chain::Link>().map_err(Error::input)),
        Link::Held(_) => None,
    });
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    if paths.len() == links.len() {
        return Chain::load(&paths, given, usual, teller);
    }
    let mut chain = Chain::default();
    for link in links {
        match link {
            Link::Held(map) => chain.push("a transform in memory", (**map).clone(), false),
            Link::Path(path) => {
                let link: chain::Link = path.parse().map_err(Error::input)?;
                let map = files::transform(&link.path, &given.geometry(), teller)?;
                chain.push(path.as_str(), map, link.inverse);
            }
        }
    }
    Ok(chain)
}
