//! Images, points and meshes through transforms.

use super::JOB;
use super::compose::chain_of;
use super::convert::facts;
use crate::arguments::{Given, Link};
use crate::declared::Own;
use crate::error;
use crate::image::{Image, labels};
use crate::work::{Failure, Teller, run};
use pyo3::prelude::*;
use std::path::PathBuf;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Grid, LabelMap, Transform, Volume};
use voxalign_io::image::read_info;
use voxalign_jobs::Error;
use voxalign_jobs::apply::{self, Job};
use voxalign_jobs::files::{self, Grids};
use voxalign_jobs::machine::{Auto, Machine};
use voxalign_jobs::options::Interpolation;
use voxalign_jobs::pair::HeldImage;
use voxalign_options::{Text, text};

/// What is declared.
pub(super) const OWN: Own = Own {
    name: "apply",
    gives: (
        "Image | dict[str, Any]",
        "The image on the grid of the reference; where something is written to `output`, what that is: a result that shows \
         nothing of the input is not `met`.",
    ),
    images: &["input", "reference"],
    stay: &["input", "reference"],
    transforms: &["transform"],
    first: Some("input"),
    ..JOB
};

/// Carries an input, in memory or from file to file.
pub(super) fn call(py: Python<'_>, given: Given) -> PyResult<Py<PyAny>> {
    if given.path("output").is_none() {
        return in_memory(py, given);
    }
    if given.is_in_memory() {
        return Err(error::option(text!(
            "`output` is for inputs that are files; give none, and save() what comes back"
        )));
    }
    let (job, machine): (Job, _) = (given.job()?, given.machine);
    let done = run(py, machine.threads, &given.watcher, move |teller| {
        let machine = Machine::start(machine, Auto::Cpu).map_err(Failure::Device)?;
        Ok(job.run(&machine, teller)?)
    })?;
    if !done.met {
        PyErr::warn(py, &py.get_type::<error::VoxalignWarning>(), ELSEWHERE, 1)?;
    }
    facts(py, &done)
}

/// What is said where a result shows nothing of its input.
const ELSEWHERE: &std::ffi::CStr =
    c"nothing of the input lies where the transform and the reference are, so that the result means nothing";

/// An image in memory or in a file, and the dimensions of files on its grid.
enum Source {
    Held(Box<HeldImage>),
    File(PathBuf),
}

impl Source {
    fn of(given: &mut Given, name: &str) -> PyResult<Self> {
        match (given.images.remove(name), given.path(name)) {
            (Some(image), _) => Ok(Self::Held(Box::new(image))),
            (None, Some(path)) => Ok(Self::File(path.into())),
            (None, None) => Err(error::option(Text::option(name).and(" is missing: an image"))),
        }
    }

    fn image(self, teller: &Teller) -> Result<HeldImage, Error> {
        match self {
            Self::Held(image) => Ok(*image),
            Self::File(path) => Ok(files::image_with_info(&path, teller)?.into()),
        }
    }
}

/// Resamples an image.
fn in_memory(py: Python<'_>, mut given: Given) -> PyResult<Py<PyAny>> {
    given.only(&["input", "reference", "transform", "interpolation", "outside"])?;
    let input = Source::of(&mut given, "input")?;
    let reference = Source::of(&mut given, "reference")?;
    let (job, machine): (Job, _) = (given.job()?, given.machine);
    let links = given.transforms.unwrap_or_else(|| {
        job.transforms.iter().map(|link| Link::Path(link.to_string())).collect()
    });
    let interpolation = job.interpolation.unwrap_or_default();
    let outside = job.outside.map(|o| o.0);
    // Labels that are in memory are whole numbers, or an error that is told first.
    let map = match (&input, interpolation) {
        (Source::Held(image), Interpolation::Label) => Some(labels(image)?),
        _ => None,
    };
    let outside_label = match outside {
        _ if interpolation != Interpolation::Label => 0,
        None => 0,
        Some(value) if value.fract() == 0.0 && value.abs() < 16_777_216.0 => value as i32,
        Some(value) => {
            return Err(error::option(text!(
                "`outside` is {value}; give a whole number for labels"
            )));
        }
    };
    let (carried, dimensions) = run(py, machine.threads, &given.watcher, move |teller| {
        let machine = Machine::start(machine, Auto::Cpu).map_err(Failure::Device)?;
        let (reference, dimensions) = header(reference)?;
        let device = &machine.device;
        if interpolation == Interpolation::Label {
            let map = match (map, input) {
                (Some(map), _) => map,
                (None, Source::File(path)) => files::labels(&path, teller)?,
                (None, Source::Held(_)) => {
                    return Err(Error::Internal("no image was read".into()).into());
                }
            };
            let transform = whole(&links, [&reference, map.grid()], teller)?;
            let done =
                apply::labels(device, &map, &reference, &transform, interpolation, outside_label)?;
            return Ok((Carried::Labels(done), dimensions));
        }
        let image = input.image(teller)?;
        let transform = whole(&links, [&reference, image.image.grid()], teller)?;
        let done =
            apply::image(device, &*image.image, &reference, &transform, interpolation, outside)?;
        Ok((Carried::Image(done), dimensions))
    })?;
    let held = match carried {
        Carried::Image(image) => HeldImage::from(image),
        Carried::Labels(map) => HeldImage::try_from(map).map_err(error::of)?,
    };
    let held = HeldImage { dimensions, ..held };
    Ok(Py::new(py, Image::from(held))?.into_any())
}

/// What was carried.
enum Carried {
    Image(Volume<f32>),
    Labels(LabelMap),
}

/// The grid of the reference, and the dimensions of files on it.
fn header(reference: Source) -> Result<(Grid, usize), Error> {
    match reference {
        Source::Held(image) => Ok((image.image.grid().clone(), image.dimensions)),
        Source::File(path) => {
            let info = read_info(&path)?;
            Ok((info.grid, info.dimensions))
        }
    }
}

/// The chain as one transform between these grids.
fn whole(links: &[Link], [fixed, moving]: [&Grid; 2], teller: &Teller) -> Result<Transform, Error> {
    let usual = Grids { fixed: Some(fixed.clone()), moving: Some(moving.clone()) };
    let device = Cpu::new(Some(rayon::current_num_threads()))?;
    chain_of(links, &Grids::default(), &usual, teller)?.into_transform(&device, teller)
}
