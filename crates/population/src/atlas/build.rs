//! The construction of an atlas.

use super::cohort::{Cohort, Member, Steps, UNIT, calibrated_channels, onto, parts};
use super::matching::{Greedy, Lddmm, Matching, Symmetric};
use super::options::{AtlasOptions, Sharpness};
use super::source::{Source, check_subjects};
use crate::error::{PopulationError, Result};
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::flow::Step;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Grid, VectorField, Volume};
use voxalign_register::diffeo::channel::ChannelSimilarity;
use voxalign_register::diffeo::greedy::finest;
use voxalign_register::diffeo::measures::FieldMeasures;
use voxalign_register::diffeo::multiscale::{self, ScaleRecord};
use voxalign_register::diffeo::{Conclusion, DeformModel, field_checks, to_world};
use voxalign_register::{Progress, Verdict};

/// An atlas.
#[derive(Debug, Clone, PartialEq)]
pub struct Atlas {
    /// The mean of the subjects after their deformation, calibrated to 0 to 1, one image a channel.
    pub template: Vec<Volume<f32>>,
    /// The mean of the subjects after their affine maps alone.
    pub affine_mean: Vec<Volume<f32>>,
    /// The weighted variance of the first channel over the subjects, calibrated units squared.
    pub variance: Volume<f32>,
    /// The weighted mean over the subjects of the natural logarithm of the Jacobian determinants: 0
    /// everywhere for an atlas without bias.
    pub log_jacobian: Volume<f32>,
    /// For each subject the correlation of its first channel with the affine mean, after its affine map,
    /// and with the template, after its deformation.
    pub correlations: Vec<[f64; 2]>,
    /// How sharp the template was before each iteration, and after the last one of each scale.
    pub sharpness: Vec<Sharpness>,
    /// Entropy and gradient energy of the mean after affine maps, and of the template.
    pub ends: [Sharpness; 2],
    /// The scales, coarse to fine; energies are weighted means over the subjects.
    pub scales: Vec<ScaleRecord>,
}

/// What was found for a subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its number among those of the source.
    pub subject: usize,
    /// The displacement `u`, mm: a point `x` of the atlas is at `A(x + u(x))` in the subject.
    pub forward: VectorField,
    /// The displacement `w` that takes it back: a point `y` of the subject is at `p + w(p)` in the
    /// atlas, with `p = A⁻¹ y`.
    pub inverse: VectorField,
    /// The determinant of the Jacobian of `x + u(x)`.
    pub jacobian: Volume<f32>,
    /// Its images on the grid of the atlas, calibrated.
    pub warped: Vec<Volume<f32>>,
    /// Numbers of the fields.
    pub measures: FieldMeasures,
    /// Voxels near extreme changes of volume that were smoothed at the end, summed over rounds.
    pub mended: usize,
    /// Whether its deformation can be used.
    pub verdict: Verdict,
}

/// Takes what is found for each subject, in the order of the source.
pub trait Sink {
    /// Takes a result, which is not kept afterwards.
    ///
    /// # Errors
    /// What ends the construction.
    fn subject(&mut self, found: Found) -> Result<()>;
}

impl<F: FnMut(Found) -> Result<()>> Sink for F {
    fn subject(&mut self, found: Found) -> Result<()> {
        self(found)
    }
}

/// Builds the atlas of the subjects of a source on a grid.
///
/// # Errors
/// Options that cannot be used; fewer than two subjects; images that cannot be read, are constant, or
/// have values that are not finite; memory that runs out; a stop asked for by the listener.
pub fn build<D: Device>(
    device: &D,
    grid: &Grid,
    source: &dyn Source,
    options: &AtlasOptions,
    progress: &dyn Progress,
    sink: &mut dyn Sink,
) -> Result<Atlas> {
    let run = Run::new(device, grid, source, options, progress)?;
    let (metrics, matching) = (run.metrics()?, options.matching.clone());
    match matching.model {
        DeformModel::Greedy => run.with(Greedy::new(matching, metrics, grid), sink),
        DeformModel::Lddmm => run.with(Lddmm::new(matching, metrics, grid), sink),
        DeformModel::Symmetric => run.with(Symmetric::new(matching, metrics, grid), sink),
    }
}

/// Where the time of the iterations goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Seconds to bring the subjects to the device, calibrated.
    pub load: f64,
    /// The scales, with their seconds.
    pub scales: Vec<ScaleRecord>,
}

/// The iterations of [`build`] alone, for measurements: nothing is made of what they find.
///
/// # Errors
/// As [`build`].
pub fn iterate<D: Device>(
    device: &D,
    grid: &Grid,
    source: &dyn Source,
    options: &AtlasOptions,
    progress: &dyn Progress,
) -> Result<Times> {
    let run = Run::new(device, grid, source, options, progress)?;
    let (metrics, matching) = (run.metrics()?, options.matching.clone());
    match matching.model {
        DeformModel::Greedy => only(run.iterate(Greedy::new(matching, metrics, grid))),
        DeformModel::Lddmm => only(run.iterate(Lddmm::new(matching, metrics, grid))),
        DeformModel::Symmetric => only(run.iterate(Symmetric::new(matching, metrics, grid))),
    }
}

/// The first of two.
fn only<A, B>(both: Result<(A, B)>) -> Result<A> {
    both.map(|(first, _)| first)
}

/// The mean of the subjects after their affine maps, one image a channel.
pub(super) fn affine_mean<D: Device>(
    device: &D,
    grid: &Grid,
    source: &dyn Source,
) -> Result<Vec<D::Buffer<f32>>> {
    let n = grid.len();
    let zero = device.alloc::<f32>(3 * n)?;
    let mut sums: Vec<D::Buffer<i64>> = Vec::new();
    let subjects = source.subjects();
    for (index, weight) in parts(subjects).into_iter().enumerate() {
        let images = calibrated_channels(device, &source.load(index)?, &source.label(index))?;
        for (c, image) in images.iter().enumerate() {
            let warped = onto(device, image, grid, &subjects[index].affine, &zero)?;
            if sums.len() == c {
                sums.push(device.alloc(n)?);
            }
            device.add_fixed(&warped, weight * UNIT, &mut sums[c])?;
        }
    }
    let mean = |sums: &D::Buffer<i64>| -> Result<D::Buffer<f32>> {
        let mut mean = device.alloc::<f32>(n)?;
        device.fixed_to_float(sums, 1.0 / UNIT, &mut mean)?;
        Ok(mean)
    };
    sums.iter().map(mean).collect()
}

struct Run<'a, D: Device> {
    device: &'a D,
    grid: &'a Grid,
    source: &'a dyn Source,
    options: &'a AtlasOptions,
    progress: &'a dyn Progress,
}

impl<'a, D: Device> Run<'a, D> {
    fn new(
        device: &'a D,
        grid: &'a Grid,
        source: &'a dyn Source,
        options: &'a AtlasOptions,
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        options.check()?;
        check_subjects(source.subjects())?;
        Ok(Self { device, grid, source, options, progress })
    }

    /// A similarity for each channel.
    fn metrics(&self) -> Result<Vec<ChannelSimilarity>> {
        let channels = self.source.load(0)?.channels.len();
        let metric = ChannelSimilarity {
            similarity: self.options.similarity,
            weight: 1.0,
            radius: self.options.matching.radius,
            bins: self.options.matching.bins,
        };
        Ok(vec![metric; channels])
    }

    /// Reads the subjects and makes all iterations.
    fn iterate<M: Matching<D>>(&self, matching: M) -> Result<(Times, Cohort<'a, D, M>)> {
        let began = Instant::now();
        let mut cohort = Cohort::new(self.device, self.grid, self.source, matching)?;
        self.device.synchronize()?;
        let load = began.elapsed().as_secs_f64();
        let mut steps = Steps::new(self.options.centre);
        let (schedule, convergence) =
            (&self.options.matching.schedule, &self.options.matching.convergence);
        let scales =
            multiscale::run(&mut cohort, &mut steps, schedule, convergence, self.progress)?;
        Ok((Times { load, scales }, cohort))
    }

    fn with<M: Matching<D>>(&self, matching: M, sink: &mut dyn Sink) -> Result<Atlas> {
        let before = affine_mean(self.device, self.grid, self.source)?;
        let (times, cohort) = self.iterate(matching)?;
        self.conclude(cohort, before, times.scales, sink)
    }

    /// Settles the fields, hands on what was found for each subject, and makes the template of that.
    fn conclude<M: Matching<D>>(
        &self,
        mut cohort: Cohort<'_, D, M>,
        before: Vec<D::Buffer<f32>>,
        scales: Vec<ScaleRecord>,
        sink: &mut dyn Sink,
    ) -> Result<Atlas> {
        let (device, grid) = (self.device, self.grid);
        let n = grid.len();
        let host = |b: &D::Buffer<f32>| -> Result<Volume<f32>> {
            Ok(Volume::new(grid.clone(), device.download(b)?)?)
        };
        let back = if self.options.centre { Some(cohort.back_to_mean()?) } else { None };
        let mut log_sums = device.alloc::<i64>(n)?;
        cohort.clear()?;
        for m in 0..cohort.members.len() {
            if self.progress.stop() {
                return Err(PopulationError::Stopped);
            }
            let state = &mut cohort.members[m].state;
            let mut field = cohort.matching.displacement(device, state)?;
            if let Some(back) = &back {
                let mut centred = device.alloc::<f32>(3 * n)?;
                let step = Step { scale: [1.0; 3], limit: None };
                device.advance(&field, back, &step, grid.dims(), &mut centred)?;
                field = centred;
            }
            let mut inverse = device.alloc::<f32>(3 * n)?;
            device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
            let end = Conclusion::new(device, grid, [field, inverse], false)?;
            let mut log = device.alloc::<f32>(n)?;
            device.eval(&x(0).max(1e-3).log(), &[&end.jacobian], &[], None, &mut log)?;
            device.add_fixed(&log, cohort.members[m].weight * UNIT, &mut log_sums)?;
            drop(log);
            cohort.place(m, &end.fields[0])?;
            cohort.add(m)?;
            let member = &cohort.members[m];
            let checks = field_checks(&end.measures, finest(grid));
            let [forward, inverse] = end.fields;
            sink.subject(Found {
                subject: member.index,
                forward: to_world(grid, device.into_host(forward)?)?,
                inverse: to_world(grid, device.into_host(inverse)?)?,
                jacobian: Volume::new(grid.clone(), device.into_host(end.jacobian)?)?,
                warped: member.warped.iter().map(host).collect::<Result<Vec<_>>>()?,
                measures: end.measures,
                mended: end.mended,
                verdict: Verdict::new(checks, Vec::new()),
            })?;
        }
        cohort.average()?;
        let mut log = device.alloc::<f32>(n)?;
        device.fixed_to_float(&log_sums, 1.0 / UNIT, &mut log)?;
        let template = &cohort.template.channels;
        let mut correlations = Vec::with_capacity(cohort.members.len());
        for member in &cohort.members {
            let after = correlation(device, &member.warped[0], &template[0])?;
            correlations.push([correlation(device, &self.start(member)?, &before[0])?, after]);
        }
        Ok(Atlas {
            template: template.iter().map(host).collect::<Result<Vec<_>>>()?,
            affine_mean: before.iter().map(host).collect::<Result<Vec<_>>>()?,
            variance: self.variance(&cohort)?,
            log_jacobian: host(&log)?,
            correlations,
            ends: [cohort.sharpness_of(&before[0])?, cohort.sharpness_of(&template[0])?],
            sharpness: cohort.sharpness,
            scales,
        })
    }

    /// The first channel of a subject after its affine map.
    fn start<S>(&self, member: &Member<D, S>) -> Result<D::Buffer<f32>> {
        let (device, grid) = (self.device, self.grid);
        let zero = device.alloc::<f32>(3 * grid.len())?;
        let mut loaded = self.source.load(member.index)?;
        loaded.channels.truncate(1);
        let images = calibrated_channels(device, &loaded, &self.source.label(member.index))?;
        let affine = &self.source.subjects()[member.index].affine;
        onto(device, &images[0], grid, affine, &zero)
    }

    /// The weighted variance of the first channel over the subjects.
    fn variance<M: Matching<D>>(&self, cohort: &Cohort<'_, D, M>) -> Result<Volume<f32>> {
        let (device, n) = (self.device, self.grid.len());
        let mut sums = device.alloc::<i64>(n)?;
        let mut square = device.alloc::<f32>(n)?;
        let mean = &cohort.template.channels[0];
        for member in &cohort.members {
            let difference = x(0) - x(1);
            let squared = difference.clone() * difference;
            device.eval(&squared, &[&member.warped[0], mean], &[], None, &mut square)?;
            device.add_fixed(&square, member.weight * UNIT, &mut sums)?;
        }
        device.fixed_to_float(&sums, 1.0 / UNIT, &mut square)?;
        Ok(Volume::new(self.grid.clone(), device.into_host(square)?)?)
    }
}

/// Pearson's correlation of two images over all voxels; 0 where one is constant.
fn correlation<D: Device>(device: &D, a: &D::Buffer<f32>, b: &D::Buffer<f32>) -> Result<f64> {
    use Reduction::{Dot, Sum, SumSquares};
    let n = voxalign_compute::DeviceBuffer::len(a) as f64;
    let sums =
        device.reduce(&[a, b], &[Sum(0), Sum(1), SumSquares(0), SumSquares(1), Dot(0, 1)])?;
    let covariance = sums[4] - sums[0] * sums[1] / n;
    let spread = (sums[2] - sums[0] * sums[0] / n) * (sums[3] - sums[1] * sums[1] / n);
    Ok(if spread > 0.0 { covariance / spread.sqrt() } else { 0.0 })
}
