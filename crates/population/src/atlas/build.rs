//! The construction of an atlas.

use super::cohort::{Cohort, Member, Steps, UNIT, parts};
use super::matching::{Greedy, Lddmm, Matching, Symmetric};
use super::options::{AtlasOptions, Sharpness};
use super::source::Source;
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::flow::Step;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Grid, VectorField, Volume};
use voxalign_register::diffeo::channel::{ChannelSimilarity, Moved};
use voxalign_register::diffeo::greedy::finest;
use voxalign_register::diffeo::measures::FieldMeasures;
use voxalign_register::diffeo::multiscale::{self, ScaleRecord};
use voxalign_register::diffeo::{Conclusion, DeformModel, calibrated, field_checks, to_world};
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
    /// The correlation of its first channel with the affine mean, and with the template.
    pub correlation: [f64; 2],
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
    options.check()?;
    let matching = options.matching.clone();
    let channels = source.load(0).map_or(1, |images| images.channels.len());
    let metric = ChannelSimilarity {
        similarity: options.similarity,
        weight: 1.0,
        radius: matching.radius,
        bins: matching.bins,
    };
    let metrics = vec![metric; channels];
    let run = Run { device, grid, source, options, progress };
    match matching.model {
        DeformModel::Greedy => run.with(Greedy::new(matching, metrics, grid), sink),
        DeformModel::Lddmm => run.with(Lddmm::new(matching, metrics, grid), sink),
        DeformModel::Symmetric => run.with(Symmetric::new(matching, metrics, grid), sink),
    }
}

/// The mean of the subjects after their affine maps, one image a channel.
pub(super) fn affine_mean<D: Device>(
    device: &D,
    grid: &Grid,
    source: &dyn Source,
) -> Result<Vec<D::Buffer<f32>>> {
    let (n, dims) = (grid.len(), grid.dims());
    let zero = device.alloc::<f32>(3 * n)?;
    let mut sums: Vec<D::Buffer<i64>> = Vec::new();
    let subjects = source.subjects();
    for (index, weight) in parts(subjects).into_iter().enumerate() {
        for (c, volume) in source.load(index)?.channels.iter().enumerate() {
            let image = calibrated(device, "subject's", volume)
                .map_err(|e| super::cohort::of_file(e, &source.label(index)))?;
            let image = image.at(device, finest(grid))?;
            let affine = &subjects[index].affine;
            let moved = Moved::without_values(device, image, grid, affine)?;
            let mut warped = device.alloc::<f32>(n)?;
            moved.warp_to(device, &zero, dims, &mut warped)?;
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

impl<D: Device> Run<'_, D> {
    fn with<M: Matching<D>>(&self, matching: M, sink: &mut dyn Sink) -> Result<Atlas> {
        let (device, grid) = (self.device, self.grid);
        let before = affine_mean(device, grid, self.source)?;
        let mut cohort = Cohort::new(device, grid, self.source, matching)?;
        let mut steps = Steps::new(self.options.centre);
        let (schedule, convergence) =
            (&self.options.matching.schedule, &self.options.matching.convergence);
        let scales =
            multiscale::run(&mut cohort, &mut steps, schedule, convergence, self.progress)?;
        let fields = self.settle(&mut cohort)?;
        self.conclude(cohort, fields, before, scales, sink)
    }

    /// The displacements of all subjects, without their mean.
    fn settle<M: Matching<D>>(&self, cohort: &mut Cohort<'_, D, M>) -> Result<Vec<D::Buffer<f32>>> {
        let (device, len) = (self.device, 3 * self.grid.len());
        let mut sums = device.alloc::<i64>(len)?;
        let mut fields = Vec::with_capacity(cohort.members.len());
        for member in &mut cohort.members {
            let field = cohort.matching.displacement(device, &mut member.state)?;
            device.add_fixed(&field, member.weight * UNIT, &mut sums)?;
            fields.push(field);
        }
        if !self.options.centre {
            return Ok(fields);
        }
        let back = cohort.back_to_mean(&sums)?;
        for field in &mut fields {
            let mut centred = device.alloc::<f32>(len)?;
            let step = Step { scale: [1.0; 3], limit: None };
            device.advance(field, &back, &step, self.grid.dims(), &mut centred)?;
            *field = centred;
        }
        Ok(fields)
    }

    /// The template of settled fields, and what each of them is.
    fn conclude<M: Matching<D>>(
        &self,
        mut cohort: Cohort<'_, D, M>,
        fields: Vec<D::Buffer<f32>>,
        before: Vec<D::Buffer<f32>>,
        scales: Vec<ScaleRecord>,
        sink: &mut dyn Sink,
    ) -> Result<Atlas> {
        let (device, grid) = (self.device, self.grid);
        let (n, dims) = (grid.len(), grid.dims());
        let mut log_sums = device.alloc::<i64>(n)?;
        let mut concluded = Vec::with_capacity(fields.len());
        cohort.clear()?;
        for (m, field) in fields.into_iter().enumerate() {
            let mut inverse = device.alloc::<f32>(3 * n)?;
            device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
            let end = Conclusion::new(device, grid, [field, inverse], false)?;
            let mut log = device.alloc::<f32>(n)?;
            device.eval(&x(0).max(1e-3).log(), &[&end.jacobian], &[], None, &mut log)?;
            device.add_fixed(&log, cohort.members[m].weight * UNIT, &mut log_sums)?;
            cohort.place(m, &end.fields[0])?;
            cohort.add(m)?;
            concluded.push(end);
        }
        cohort.average()?;
        let variance = self.variance(&cohort)?;
        let host = |b: &D::Buffer<f32>| -> Result<Volume<f32>> {
            Ok(Volume::new(grid.clone(), device.download(b)?)?)
        };
        let template = cohort.template.channels.iter().map(host).collect::<Result<Vec<_>>>()?;
        let affine_mean = before.iter().map(host).collect::<Result<Vec<_>>>()?;
        let mut log = device.alloc::<f32>(n)?;
        device.fixed_to_float(&log_sums, 1.0 / UNIT, &mut log)?;
        let ends =
            [cohort.sharpness_of(&before[0])?, cohort.sharpness_of(&cohort.template.channels[0])?];
        let zero = device.alloc::<f32>(3 * n)?;
        for (m, end) in concluded.into_iter().enumerate() {
            let correlations = {
                let member = &cohort.members[m];
                let after = correlation(device, &member.warped[0], &cohort.template.channels[0])?;
                let start = self.start(member, &zero, dims)?;
                [correlation(device, &start, &before[0])?, after]
            };
            let member = &cohort.members[m];
            let warped = member.warped.iter().map(host).collect::<Result<Vec<_>>>()?;
            let checks = field_checks(&end.measures, finest(grid));
            let [forward, inverse] = end.fields;
            sink.subject(Found {
                subject: member.index,
                forward: to_world(grid, device.into_host(forward)?)?,
                inverse: to_world(grid, device.into_host(inverse)?)?,
                jacobian: host(&end.jacobian)?,
                warped,
                measures: end.measures,
                mended: end.mended,
                correlation: correlations,
                verdict: Verdict::new(checks, Vec::new()),
            })?;
        }
        Ok(Atlas {
            template,
            affine_mean,
            variance,
            log_jacobian: host(&log)?,
            sharpness: cohort.sharpness,
            ends,
            scales,
        })
    }

    /// The first channel of a subject after its affine map.
    fn start<S>(
        &self,
        member: &Member<D, S>,
        zero: &D::Buffer<f32>,
        dims: voxalign_compute::Dims,
    ) -> Result<D::Buffer<f32>> {
        let (device, grid) = (self.device, self.grid);
        let loaded = self.source.load(member.index)?;
        let image = calibrated(device, "subject's", &loaded.channels[0])?;
        let image = image.at(device, finest(grid))?;
        let affine = &self.source.subjects()[member.index].affine;
        let moved = Moved::without_values(device, image, grid, affine)?;
        let mut warped = device.alloc::<f32>(grid.len())?;
        moved.warp_to(device, zero, dims, &mut warped)?;
        Ok(warped)
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
