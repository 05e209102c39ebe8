//! Scores of how well two things agree.

use super::JOB;
use super::compose::chain_of;
use super::convert::facts;
use crate::arguments::{Given, Link};
use crate::declared::{Own, Runs};
use crate::error;
use crate::image::labels;
use crate::work::{Failure, Teller, run};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::Arc;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{LabelMap, Volume};
use voxalign_io::names::LabelNames;
use voxalign_jobs::compare::{Job, NamedOverlap, Scores, transforms};
use voxalign_jobs::files::{self, Grids};
use voxalign_jobs::pair::HeldImage;
use voxalign_options::{Text, text};
use voxalign_register::compare::{OverlapRule, compare_images, compare_labels};

/// What is declared.
pub(super) const OWN: Own = Own {
    name: "compare",
    runs: Runs::Host,
    gives: ("dict[str, Any]", "The scores, of each kind that was compared."),
    images: &["fixed", "warped", "mask"],
    transforms: &["transforms"],
    ..JOB
};

/// Compares.
pub(super) fn call(py: Python<'_>, mut given: Given) -> PyResult<Py<PyAny>> {
    let job: Job = given.job()?;
    let threads = given.machine.threads;
    if !given.is_in_memory() {
        let scores = run(py, threads, &given.watcher, move |teller| {
            job.check_options().map_err(Failure::Options)?;
            Ok(job.run(teller)?)
        })?;
        return facts(py, &scores);
    }
    let scores = match given.transforms.take() {
        Some(links) => of_transforms(py, &mut given, job, links)?,
        None => of_images(py, &mut given, job)?,
    };
    facts(py, &scores)
}

/// Options that are for this alone of what is in memory.
fn only(given: &Given, used: &[&str]) -> PyResult<()> {
    given.only(&[&["fixed", "warped", "mask"], used].concat())
}

/// An image that was given, in memory or as a file.
enum Of {
    Held(Box<HeldImage>),
    File(String),
}

impl Of {
    fn named(given: &mut Given, name: &str) -> Option<Self> {
        let held = given.images.remove(name).map(|held| Self::Held(Box::new(held)));
        held.or_else(|| given.path(name).map(|path| Self::File(path.to_owned())))
    }

    fn image(self, teller: &Teller) -> Result<Arc<Volume<f32>>, voxalign_jobs::Error> {
        match self {
            Self::Held(held) => Ok(held.image),
            Self::File(path) => Ok(files::image(Path::new(&path), teller)?.into()),
        }
    }
}

/// Two label maps, of which those in memory are known.
enum Maps {
    Held(Box<LabelMap>),
    File(String),
}

impl Maps {
    fn of(image: Of) -> PyResult<Self> {
        match image {
            Of::Held(image) => labels(&image).map(|map| Self::Held(Box::new(map))),
            Of::File(path) => Ok(Self::File(path)),
        }
    }

    fn read(self, teller: &Teller) -> Result<LabelMap, voxalign_jobs::Error> {
        match self {
            Self::Held(map) => Ok(*map),
            Self::File(path) => files::labels(Path::new(&path), teller),
        }
    }
}

fn of_images(py: Python<'_>, given: &mut Given, job: Job) -> PyResult<Scores> {
    let mut needed = |name: &str| {
        let missing = || error::option(Text::option(name).and(" is missing: an image"));
        Of::named(given, name).ok_or_else(missing)
    };
    let (fixed, warped) = (needed("fixed")?, needed("warped")?);
    let mask = Of::named(given, "mask");
    if !job.labels {
        only(given, &["bins"])?;
        return run(py, given.machine.threads, &given.watcher, move |teller| {
            let mask = mask.map(|mask| mask.image(teller)).transpose()?;
            let (fixed, warped) = (fixed.image(teller)?, warped.image(teller)?);
            let bins = usize::from(job.bins.unwrap_or(64));
            let images = compare_images(&fixed, &warped, mask.as_deref(), bins)?;
            Ok(Scores { images: Some(images), ..Scores::default() })
        });
    }
    only(given, &["labels", "min_voxels", "smallest_label"])?;
    let (fixed, warped) = (Maps::of(fixed)?, Maps::of(warped)?);
    run(py, given.machine.threads, &given.watcher, move |teller| {
        let mask = mask.map(|mask| mask.image(teller)).transpose()?;
        let rule = OverlapRule {
            min_voxels: job.min_voxels,
            smallest_label: job.smallest_label,
            only: None,
        };
        let (fixed, warped) = (fixed.read(teller)?, warped.read(teller)?);
        let found = compare_labels(&fixed, &warped, mask.as_deref(), &rule)?;
        let labels = Some(NamedOverlap::new(found, &LabelNames::default()));
        Ok(Scores { labels, ..Scores::default() })
    })
}

fn of_transforms(
    py: Python<'_>,
    given: &mut Given,
    job: Job,
    links: Vec<Link>,
) -> PyResult<Scores> {
    if links.len() != 2 || given.path("fixed").is_some() || given.images.contains_key("fixed") {
        return Err(error::option(text!("`transforms` are two, and are compared alone")));
    }
    let mask = Of::named(given, "mask");
    only(given, &["fixed_geometry", "moving_geometry"])?;
    run(py, given.machine.threads, &given.watcher, move |teller| {
        let (grids, mask) =
            (job.geometry.grids(teller)?, mask.map(|mask| mask.image(teller)).transpose()?);
        let device = Cpu::new(Some(rayon::current_num_threads()))?;
        let load = |link: &Link| {
            chain_of(std::slice::from_ref(link), &grids, &Grids::default(), teller)?
                .into_transform(&device, teller)
        };
        let [a, b] = [load(&links[0])?, load(&links[1])?];
        let scores = transforms(&a, &b, grids.fixed.as_ref(), mask.as_deref())?;
        Ok(Scores { transforms: Some(scores), ..Scores::default() })
    })
}
