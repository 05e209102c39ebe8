//! The work itself, of what is in memory.

use super::evolve::{Evolved, lattice, ordered};
use super::held::held_out;
use super::options::Options;
use super::settings::Settings;
use super::stage::Stage;
use super::start::{Masks, map};
use super::{judge, regions};
use crate::error::{Error, Result};
use crate::listener::{Listener, Quiet, check};
use crate::pair::{label_names, optional_image};
use crate::run::Clock;
use std::collections::BTreeMap;
use std::path::Path;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Grid, LabelMap, Volume};
use voxalign_options::{Choice as _, Text, text};
use voxalign_register::Verdict;
use voxalign_report::Fronts;
use voxalign_report::segment::{SegmentFound, TidiedRecord};
use voxalign_segment::{Lattice, Ranges, dice, explained};

/// An image in regions.
#[derive(Debug, Clone)]
pub struct Segmented {
    /// The label of each voxel, 0 for the background.
    pub labels: LabelMap,
    /// What was found, as records have it.
    pub found: SegmentFound,
    /// Whether it can be used, and why.
    pub verdict: Verdict,
}

/// Segments an image in memory. Files that the options name, such as masks, are read.
///
/// # Errors
/// Options that cannot be or do not go with the image, files that cannot be read or are on another grid, values that are not finite, a start without a
/// front, [`Error::Stopped`].
pub fn segment(
    device: &AnyDevice,
    image: &Volume<f32>,
    options: &Options,
    listener: &dyn Listener,
) -> Result<Segmented> {
    let settings = options.settings()?;
    let files = Files::read(options, image.grid(), listener)?;
    finite(Path::new("the image"), image)?;
    let work = Work { device, image, settings: &settings, files: &files, listener };
    let mut fronts = Fronts::new(image);
    Ok(work.done(&mut fronts, &mut Clock::start())?.0)
}

/// What options name.
#[derive(Debug, Default)]
pub(super) struct Files {
    speed: Option<Volume<f32>>,
    pub(super) prior: Option<Volume<f32>>,
    pub(super) initial: Option<Volume<f32>>,
    names: BTreeMap<i32, String>,
}

impl Files {
    /// Reads them; images have to be on the grid of the one that is segmented.
    pub(super) fn read(options: &Options, grid: &Grid, listener: &dyn Listener) -> Result<Self> {
        let on_grid = |path, option: &str| -> Result<Option<Volume<f32>>> {
            let found = optional_image(path, option, listener)?;
            match found.as_ref().map(Volume::grid).filter(|found| !same(found, grid)) {
                None => Ok(found),
                Some(other) => Err(Error::input(
                    Text::option(option).and(text!(
                        ": it is on another grid ({other}) than the image ({grid}); bring it onto that grid first: `voxalign apply -i FILE -r IMAGE \
                         --interpolation nearest -o FILE_ON_IMAGE`"
                    )),
                )),
            }
        };
        let speed = on_grid(&options.speed, "speed")?;
        if let (Some(speed), Some(path)) = (&speed, &options.speed) {
            finite(path, speed).map_err(|e| e.at(text!("`speed`")))?;
        }
        Ok(Self {
            speed,
            prior: on_grid(&options.prior_mask, "prior_mask")?,
            initial: on_grid(&options.initial_mask, "initial_mask")?,
            names: label_names(&options.label_names, listener)?,
        })
    }
}

/// Whether two grids have the same voxels.
fn same(a: &Grid, b: &Grid) -> bool {
    let least = b.spacing().into_iter().fold(f64::INFINITY, f64::min);
    a.dims() == b.dims() && a.approx_eq(b, 0.01 * least)
}

/// Refuses values that are not finite.
pub(super) fn finite(path: &Path, image: &Volume<f32>) -> Result<()> {
    let Some(first) = image.data().iter().position(|v| !v.is_finite()) else { return Ok(()) };
    let count = image.data().iter().filter(|v| !v.is_finite()).count();
    let [nx, ny, _] = image.dims();
    let place = [first % nx, first / nx % ny, first / (nx * ny)];
    let value = image.data()[first];
    Err(Error::input(text!(
        "'{}': {count} voxels are NaN or infinite, the first of them ({value}) at {place:?}; replace them first: `voxalign convert IN OUT --replace-nan 0`",
        path.display()
    )))
}

/// What is segmented, and how.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) device: &'a AnyDevice,
    pub(super) image: &'a Volume<f32>,
    pub(super) settings: &'a Settings,
    pub(super) files: &'a Files,
    pub(super) listener: &'a dyn Listener,
}

/// The parameters of the force as they were used.
type Used = serde_json::Map<String, serde_json::Value>;

impl Work<'_> {
    /// Does it; gives also the parameters of the force as they were used.
    pub(super) fn done(&self, fronts: &mut Fronts, clock: &mut Clock) -> Result<(Segmented, Used)> {
        let Self { device, image, settings, files, listener } = *self;
        let grid = image.grid();
        let lattice = lattice(grid, settings)?;
        let regions = settings.evolution.regions;
        check(listener)?;
        let masks = Masks { prior: files.prior.as_ref(), initial: files.initial.as_ref() };
        let stage = Stage::new(image, files.speed.as_ref(), masks, settings)?;
        let begin = stage.start(false)?.ok_or_else(|| Error::Internal("no start".to_owned()))?;
        let mut moving = stage.moving()?;
        clock.lap("prepare");
        let mut watch = |iteration, label: &dyn Fn(usize) -> u8| {
            fronts.add(iteration, |voxel| label(stage.point(voxel)));
        };
        let evolved = moving.run(device, &begin, &mut watch, listener)?;
        clock.lap("evolve");
        let other = match stage.start(true) {
            Ok(Some(other)) => {
                let evolved = moving.run(device, &other, &mut |_, _| {}, &Quiet(listener))?;
                Some(self.finished(stage.labels(evolved.labels)?, &lattice)?.labels)
            }
            Ok(None) => None,
            // A start that is moved may have no voxel of a small mask.
            Err(error) if error.is_of_input() => None,
            Err(error) => return Err(error),
        };
        clock.lap("other start");
        let Evolved { labels, iterations, limit, smoothing_iterations, ending, period, history } =
            evolved;
        let labels = stage.labels(labels)?;
        fronts.end(iterations, |voxel| labels[voxel]);
        let connected = stage.connected(&labels)?;
        let explained = explained(image.data(), &labels);
        let by_ranges = Ranges::of(image.data(), regions).ok().map(|r| r.explained);
        let Finished { labels, new, tidied } = self.finished(labels, &lattice)?;
        fronts.rename(&new);
        let agreement = other.map(|other| dice(&labels, &other)).transpose()?;
        let mut classes = std::mem::take(&mut moving.classes);
        if regions > 2 {
            for class in &mut classes {
                let label = usize::try_from(class.label).ok().and_then(|l| new.get(l));
                class.label = label.map_or(class.label, |l| i32::from(*l));
            }
        }
        let mut regions =
            regions::measured(&lattice, grid, image.data(), &labels, regions, &files.names)?;
        if let (Some(object), None) = (settings.preset.object(), files.names.get(&1)) {
            regions.iter_mut().filter(|r| r.label == 1).for_each(|r| r.name = Some(object.into()));
        }
        if settings.looks_at_image() {
            let held = held_out(self, &moving.parameters)?;
            for (region, held) in regions.iter_mut().skip(1).zip(held) {
                if let Some(evidence) = &mut region.evidence {
                    evidence.held_out = Some(held);
                }
            }
        }
        let preset = stage.record(&labels, connected)?;
        let force = preset.as_ref().map_or(settings.force.name(), |p| &p.name).to_owned();
        let found = SegmentFound {
            force,
            preset,
            start: begin.record,
            iterations,
            limit,
            smoothing_iterations,
            ending: ending.to_owned(),
            period,
            classes,
            regions,
            explained,
            explained_by_ranges: explained.and(by_ranges),
            tidied,
            agreement,
            history,
        };
        let verdict = judge::verdict(&found, settings);
        clock.lap("measure");
        let labels = map(grid, &labels)?;
        Ok((Segmented { labels, found, verdict }, moving.parameters))
    }

    /// Labels in their order, and tidied.
    fn finished(&self, mut labels: Vec<u8>, lattice: &Lattice) -> Result<Finished> {
        let Self { image, settings, .. } = *self;
        let regions = settings.evolution.regions;
        let new = match regions {
            2 => vec![0, 1],
            _ => ordered(&mut labels, image.data(), regions),
        };
        let tidied = regions::tidied(lattice, image.grid(), &mut labels, regions, &settings.tidy)?;
        Ok(Finished { labels, new, tidied })
    }
}

/// Labels as they are given.
struct Finished {
    labels: Vec<u8>,
    /// The new number of each label that evolved.
    new: Vec<u8>,
    tidied: Option<TidiedRecord>,
}
