//! The evolution itself: the force of an image, and the front under it, or the fronts between several regions, on a device.

use super::options::{EdgeOptions, Force as Kind, Init, MixtureOptions, ObjectKind};
use super::preset::{self, Prepared};
use super::settings::Settings;
use super::start::Start;
use super::values::Iterations;
use crate::error::{Error, Result};
use crate::listener::Listener;
use std::time::Instant;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Grid, Volume, memory};
use voxalign_options::Choice as _;
use voxalign_register::Event;
use voxalign_report::segment::{ClassRecord, HistoryRecord};
use voxalign_segment::device::{
    DeviceEvolution, Form, LabelState, Labelling, Movement, evolve_labels, evolve_watched,
};
use voxalign_segment::{
    ChanVese, EdgeStop, Edges, Ending, GeodesicRegions, Lattice, Likelihoods, Limit, MeanCurvature,
    MeanIntensities, Mixture, Options, PartitionOptions, Ranges, SegmentError, Smoothing, Speed,
    two_means,
};

/// The least limit on iterations where the force changes, as the bound is none of them then: those of real images rested after 435 at most.
const CHANGING: usize = 500;

/// Images of more voxels are looked at after every few iterations only, as that brings the set to the host.
const SEEN_EACH: usize = 1 << 20;
/// After how many.
const SEEN_EVERY: usize = 4;

/// What moves fronts, and how.
pub(super) struct Moving<'a> {
    lattice: &'a Lattice,
    /// What moves it first, until it rests, where the usual force has nothing to go by at the start.
    first: Option<Box<dyn Movement + 'a>>,
    by: By<'a>,
    options: Options,
    /// The weight of the curvature, of several regions.
    curvature: f64,
    /// Whether it is the same at each iteration, as the bound on them has it.
    is_static: bool,
    iterations: Iterations,
    /// The parameters of the force as they are used.
    pub(super) parameters: serde_json::Map<String, serde_json::Value>,
    /// The mixture that was fitted.
    pub(super) classes: Vec<ClassRecord>,
}

/// A force between two regions, or scores of several.
enum By<'a> {
    Force(Box<dyn Movement + 'a>),
    /// Scores, after others under which labels come to rest first, where there are such.
    Scores(Option<Box<dyn Labelling + 'a>>, Box<dyn Labelling + 'a>),
}

/// Labels that have evolved.
#[derive(Debug, Clone)]
pub(super) struct Evolved {
    pub(super) labels: Vec<u8>,
    pub(super) iterations: usize,
    pub(super) limit: usize,
    pub(super) smoothing_iterations: usize,
    pub(super) ending: &'static str,
    pub(super) period: Option<usize>,
    pub(super) history: HistoryRecord,
}

/// Is told the labels at the start and after each iteration, by the numbers of voxels.
pub(super) type Watch<'w> = dyn FnMut(usize, &dyn Fn(usize) -> u8) + 'w;

/// The mean and the variance of an image.
fn variance(values: &[f32]) -> f64 {
    let all = values.len() as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / all;
    values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / all
}

impl<'a> Moving<'a> {
    /// Without a force.
    fn begun(
        lattice: &'a Lattice,
        grid: &Grid,
        settings: &Settings,
        iterations: Iterations,
    ) -> Self {
        let sigma = settings.sigma(grid);
        let evolution = &settings.evolution;
        let smoothing = (evolution.smooth > 0).then_some(Smoothing {
            every: evolution.smooth_every,
            iterations: evolution.smooth,
            sigma,
        });
        let (_, spacing) = Settings::spacing(grid);
        Self {
            lattice,
            first: None,
            by: By::Force(Box::new(MeanCurvature)),
            options: Options { sigma, spacing, smoothing, ..Options::default() },
            curvature: 0.0,
            is_static: false,
            iterations,
            parameters: serde_json::Map::new(),
            classes: Vec::new(),
        }
    }

    /// By what a preset has made of an image.
    pub(super) fn by_preset(
        lattice: &'a Lattice,
        prepared: &'a Prepared,
        settings: &Settings,
    ) -> Result<Self> {
        let iterations = match settings.evolution.iterations {
            Iterations::Auto => Iterations::Most(preset::ITERATIONS),
            most => most,
        };
        let force = Speed::new(lattice, prepared.speed.data())?;
        let force = force.with_curvature(prepared.curvature)?;
        let mut parameters = prepared.parameters.clone();
        let grid = prepared.speed.grid();
        parameters.insert("connectivity".into(), lattice.neighbourhood().count().into());
        parameters.insert("sigma".into(), settings.sigma(grid).into());
        Ok(Self {
            by: By::Force(Box::new(force)),
            parameters,
            classes: prepared.classes.clone(),
            ..Self::begun(lattice, grid, settings, iterations)
        })
    }

    /// By the force of an image, or of a field of one's own.
    pub(super) fn new(
        lattice: &'a Lattice,
        image: &'a Volume<f32>,
        speed: Option<&'a Volume<f32>>,
        settings: &Settings,
    ) -> Result<Self> {
        let (grid, evolution) = (image.grid(), &settings.evolution);
        let (least, _) = Settings::spacing(grid);
        let parameters = settings.force.as_json();
        let begun = Self::begun(lattice, grid, settings, evolution.iterations);
        let mut made = Self { parameters, ..begun };
        let values = image.data();
        let several = evolution.regions > 2;
        match settings.force {
            Kind::MeanCurvature => {}
            Kind::ChanVese(of) => {
                let curvature = of.curvature.unwrap_or(least);
                made.parameters.insert("curvature".into(), curvature.into());
                let weight = curvature * variance(values);
                if several {
                    made.curvature = weight;
                    let scores = MeanIntensities::new(lattice, values)?;
                    // All labels of a dense start have the same mean.
                    let means = Ranges::of(values, evolution.regions).ok().map(|r| r.means);
                    let means = means.filter(|_| matches!(settings.init, Init::Dense(_)));
                    let first = means.map(|means| scores.clone().with_means(&means)).transpose()?;
                    let first = first.map(|first| Box::new(first) as Box<dyn Labelling>);
                    made.by = By::Scores(first, Box::new(scores));
                    for name in ["inside", "outside", "object"] {
                        made.parameters.remove(name);
                    }
                } else {
                    let weights = [of.inside, of.outside];
                    let force = ChanVese::new(lattice, values, weight, weights)?;
                    // Both sides of a dense start have the same mean.
                    let means = match (settings.init, of.object) {
                        (Init::Dense(_), ObjectKind::Brighter) => two_means(values),
                        (Init::Dense(_), ObjectKind::Darker) => {
                            two_means(values).map(|[high, low]| [low, high])
                        }
                        _ => None,
                    };
                    if let Some(means) = means {
                        made.first = Some(Box::new(force.clone().with_means(means)?));
                    }
                    made.by = By::Force(Box::new(force.with_object(of.object.into())));
                }
            }
            Kind::GeodesicRegions(of) => {
                let curvature = of.curvature.unwrap_or(least);
                made.parameters.insert("curvature".into(), curvature.into());
                made.mixture(image, &of, curvature, evolution.regions)?;
            }
            Kind::Edge(of) => {
                let stop = made.stop(image, of.edges)?;
                made.by = By::Force(Box::new(Edges::new(stop, of.pressure)?));
            }
            Kind::Speed => {
                let speed = speed.ok_or_else(|| Error::Internal("no speed".to_owned()))?;
                made.by = By::Force(Box::new(Speed::new(lattice, speed.data())?));
                made.is_static = true;
            }
        }
        Ok(made)
    }

    /// By a mixture that is fitted to the whole image.
    fn mixture(
        &mut self,
        image: &'a Volume<f32>,
        of: &MixtureOptions,
        curvature: f64,
        regions: usize,
    ) -> Result<()> {
        self.is_static = curvature == 0.0;
        let classes = of.classes.unwrap_or(regions);
        let mixture = Mixture::fit(image.data(), classes)?;
        let is_object = |class: usize| match of.object_classes.is_empty() {
            true => class == classes,
            false => of.object_classes.contains(class),
        };
        let label = |class: usize| match regions {
            2 => i32::from(is_object(class)),
            _ => class as i32 - 1,
        };
        let record = |(i, c): (usize, &voxalign_segment::Component)| ClassRecord {
            class: i + 1,
            weight: c.weight,
            mean: c.mean,
            deviation: c.deviation,
            label: label(i + 1),
        };
        self.classes = mixture.components().iter().enumerate().map(record).collect();
        self.parameters.insert("classes".into(), classes.into());
        if regions > 2 {
            let each = (0..classes).map(|i| mixture.part(&[i]));
            let each = each.collect::<voxalign_segment::Result<Vec<_>>>()?;
            let scores = Likelihoods::new(self.lattice, image.data(), each)?;
            self.by = By::Scores(None, Box::new(scores));
            self.curvature = curvature;
            for name in ["object_classes", "edge_sigma", "contrast"] {
                self.parameters.remove(name);
            }
            return Ok(());
        }
        let of_object = |inside: bool| {
            let numbers: Vec<usize> = (0..classes).filter(|i| is_object(i + 1) == inside).collect();
            mixture.part(&numbers)
        };
        let numbers: Vec<usize> = (1..=classes).filter(|c| is_object(*c)).collect();
        self.parameters.insert("object_classes".into(), numbers.into());
        let parts = [of_object(true)?, of_object(false)?];
        let stop = self.stop(image, of.edges)?;
        // Of a balance of 1 / (1 + w) the logarithms weigh 1 and the curvature w.
        let balance = 1.0 / (1.0 + curvature);
        let values = image.data();
        let force =
            GeodesicRegions::new(self.lattice, values, [&parts[0], &parts[1]], stop, balance)?;
        self.by = By::Force(Box::new(force));
        Ok(())
    }

    /// The edges of the image.
    fn stop(&mut self, image: &Volume<f32>, of: EdgeOptions) -> Result<EdgeStop> {
        let (least, spacing) = Settings::spacing(image.grid());
        let sigma = of.edge_sigma.unwrap_or(least);
        let contrast = match of.contrast {
            Some(contrast) => contrast,
            None => EdgeStop::usual_contrast(self.lattice, image.data(), sigma, spacing)?,
        };
        self.parameters.insert("edge_sigma".into(), sigma.into());
        self.parameters.insert("contrast".into(), contrast.into());
        Ok(EdgeStop::new(self.lattice, image.data(), sigma, contrast, spacing)?)
    }

    /// Lets fronts evolve from a start; `watch` sees them move.
    pub(super) fn run(
        &mut self,
        device: &AnyDevice,
        start: &Start,
        watch: &mut Watch<'_>,
        listener: &dyn Listener,
    ) -> Result<Evolved> {
        let limit = match self.iterations {
            Iterations::Auto if self.is_static => start.record.bound,
            Iterations::Auto => start.record.bound.max(CHANGING),
            Iterations::Most(most) => most,
        };
        let began = Instant::now();
        let (index, count, share) = (0, 1, 1.0);
        let (name, counts, value) = ("front", "iterations", "voxels inside");
        listener.event(&Event::StageStart { index, count, name, counts, value, share });
        let tell = Tell { limit, listener, watch };
        let evolved = match &self.by {
            By::Force(force) => {
                let forces = self.first.as_deref().into_iter().chain([&**force]);
                two(device, self.lattice, start, forces, &self.options, tell)
            }
            By::Scores(first, scores) => {
                let options = PartitionOptions {
                    iterations: Some(limit),
                    curvature: self.curvature,
                    sigma: self.options.sigma,
                    spacing: self.options.spacing,
                };
                let all = first.as_deref().into_iter().chain([&**scores]);
                several(device, self.lattice, start, all, &options, tell)
            }
        }?;
        let size = |at: Option<&usize>| at.copied().unwrap_or(0) as f64;
        listener.event(&Event::StageEnd {
            name,
            evaluations: evolved.iterations,
            start: size(evolved.history.size.first()),
            best: size(evolved.history.size.last()),
            seconds: began.elapsed().as_secs_f64(),
        });
        Ok(evolved)
    }
}

/// Tells of the front before each iteration, and stops where that is asked for.
struct Tell<'t, 'w> {
    limit: usize,
    listener: &'t dyn Listener,
    watch: &'t mut Watch<'w>,
}

impl Tell<'_, '_> {
    fn tell(
        &mut self,
        iteration: usize,
        size: usize,
        label: &dyn Fn(usize) -> u8,
    ) -> voxalign_segment::Result<()> {
        if self.listener.stop() {
            return Err(SegmentError::Stopped);
        }
        (self.watch)(iteration, label);
        let (done, what) = (iteration as f64 / self.limit.max(1) as f64, "");
        let (done, evaluations) = (done.min(1.0), iteration);
        self.listener.event(&Event::Step { done, evaluations, best: size as f64, what });
        Ok(())
    }
}

/// The name of an ending, and the period of one that repeats, of so many iterations each.
fn ending_of(ending: Ending, each: usize) -> (&'static str, Option<usize>) {
    match ending {
        Ending::Steady => ("steady", None),
        Ending::Vanished => ("vanished", None),
        Ending::Filled => ("filled", None),
        Ending::Repeating { period } => ("repeating", Some(period * each)),
        Ending::Limit => ("limit", None),
    }
}

/// Two regions, by one force after the other, each until the front rests.
fn two<'f>(
    device: &AnyDevice,
    lattice: &Lattice,
    start: &Start,
    forces: impl Iterator<Item = &'f (dyn Movement + 'f)>,
    options: &Options,
    mut tell: Tell<'_, '_>,
) -> Result<Evolved> {
    let limit = tell.limit;
    let every = if lattice.len() > SEEN_EACH { SEEN_EVERY } else { 1 };
    let mut set = memory::collected(start.labels.iter().map(|l| *l != 0))?;
    let mut all: Option<DeviceEvolution> = None;
    for force in forces {
        let done = all.as_ref().map_or(0, |a| a.iterations);
        if matches!(all.as_ref().map(|a| a.ending), Some(Ending::Vanished | Ending::Filled)) {
            break;
        }
        let motion = force.motion()?;
        let mut watch = |iteration: usize, set: &[bool]| {
            let size = set.iter().filter(|s| **s).count();
            tell.tell(done + iteration, size, &|point| u8::from(set[point]))
        };
        let options = Options { limit: Limit::Iterations(limit.saturating_sub(done)), ..*options };
        let form = Form::Tiles;
        let found =
            evolve_watched(device, lattice, &set, &motion, &options, form, every, &mut watch)?;
        set.copy_from_slice(&found.set);
        all = Some(match all {
            None => found,
            Some(before) => after(before, found),
        });
    }
    let found = all.ok_or_else(|| Error::Internal("no force".to_owned()))?;
    // With smoothing a period is of rounds, each of some iterations by the force.
    let each = options.smoothing.map_or(1, |s| s.every);
    let (ending, period) = ending_of(found.ending, each);
    let all = &found.history;
    let history = HistoryRecord {
        size: all.iter().map(|s| s.size).collect(),
        inner: all.iter().map(|s| s.inner).collect(),
        outer: all.iter().map(|s| s.outer).collect(),
        energy: all.iter().map(|s| s.energy).collect(),
        inwards: all.iter().map(|s| s.switched.inwards).collect(),
        outwards: all.iter().map(|s| s.switched.outwards).collect(),
    };
    Ok(Evolved {
        labels: memory::collected(found.set.iter().map(|s| u8::from(*s)))?,
        iterations: found.iterations,
        limit,
        smoothing_iterations: found.smoothing_iterations,
        ending,
        period,
        history,
    })
}

/// An evolution that went on from where another ended. The state between them is that of the second force, after what the first one did.
fn after(before: DeviceEvolution, mut found: DeviceEvolution) -> DeviceEvolution {
    let mut history = before.history;
    if let (Some(last), Some(first)) = (history.pop(), found.history.first_mut()) {
        first.switched = last.switched;
    }
    history.append(&mut found.history);
    DeviceEvolution {
        iterations: before.iterations + found.iterations,
        smoothing_iterations: before.smoothing_iterations + found.smoothing_iterations,
        history,
        ..found
    }
}

/// Several regions, under one kind of scores after the other, each until the labels rest.
fn several<'f>(
    device: &AnyDevice,
    lattice: &Lattice,
    start: &Start,
    all: impl Iterator<Item = &'f (dyn Labelling + 'f)>,
    options: &PartitionOptions,
    mut tell: Tell<'_, '_>,
) -> Result<Evolved> {
    let limit = tell.limit;
    let every = if lattice.len() > SEEN_EACH { SEEN_EVERY } else { 1 };
    let mut labels = memory::copied(&start.labels)?;
    let most = usize::from(labels.iter().copied().max().unwrap_or(0)) + 1;
    let (mut history, mut done, mut ending) = (Vec::<LabelState>::new(), 0, Ending::Steady);
    for scores in all {
        let mut watch = |iteration: usize, labels: &[u8]| {
            let size = labels.iter().filter(|l| **l != 0).count();
            tell.tell(done + iteration, size, &|point| labels[point])
        };
        let options = PartitionOptions { iterations: Some(limit.saturating_sub(done)), ..*options };
        let fits = scores.fits(most)?;
        let mut found =
            evolve_labels(device, lattice, &labels, &fits, &options, every, &mut watch)?;
        // The state between them is that of the second scores, after what the first ones did.
        if let (Some(last), Some(first)) = (history.pop(), found.history.first_mut()) {
            first.took = last.took;
        }
        history.append(&mut found.history);
        (done, ending, labels) = (done + found.iterations, found.ending, found.labels);
    }
    let (ending, period) = ending_of(ending, 1);
    let history = HistoryRecord {
        size: history.iter().map(|s| s.size).collect(),
        inner: Vec::new(),
        outer: Vec::new(),
        energy: history.iter().map(|s| Some(s.energy)).collect(),
        inwards: history.iter().map(|s| s.took[0]).collect(),
        outwards: history.iter().map(|s| s.took[1]).collect(),
    };
    let (iterations, smoothing_iterations) = (done, 0);
    Ok(Evolved { labels, iterations, limit, smoothing_iterations, ending, period, history })
}

/// Puts labels in the order of the means of an image, 0 for the lowest; labels without a voxel come last. Gives the new label of each.
pub(super) fn ordered(labels: &mut [u8], image: &[f32], regions: usize) -> Vec<u8> {
    let (mut sums, mut counts) = (vec![0.0; regions], vec![0usize; regions]);
    for (label, value) in labels.iter().zip(image) {
        let label = usize::from(*label);
        sums[label] += f64::from(*value);
        counts[label] += 1;
    }
    let mean = |l: usize| match counts[l] {
        0 => f64::INFINITY,
        n => sums[l] / n as f64,
    };
    let mut order: Vec<usize> = (0..regions).collect();
    order.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
    let mut new = vec![0; regions];
    for (rank, label) in order.into_iter().enumerate() {
        new[label] = rank as u8;
    }
    labels.iter_mut().for_each(|l| *l = new[usize::from(*l)]);
    new
}

/// The voxels of an image, with the neighbours that fronts have.
pub(super) fn lattice(grid: &Grid, settings: &Settings) -> Result<Lattice> {
    Ok(Lattice::new(grid.dims(), settings.neighbourhood(grid)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_the_order_of_their_means() {
        let mut labels = [0, 1, 3, 3, 1];
        let new = ordered(&mut labels, &[9.0, 5.0, 1.0, 2.0, 6.0], 4);
        assert_eq!((labels, new), ([2, 1, 0, 0, 1], vec![2, 1, 3, 0]));
    }
}
