//! Several regions on a device: the iterations of a [`Partition`] by the operators of [`voxalign_compute::ops::regions`].

use std::borrow::Cow;

use voxalign_compute::Device;
use voxalign_compute::ops::front::{Layout, Units};
use voxalign_compute::ops::regions::{Scores as OnDevice, Weights};
use voxalign_image::memory;

use crate::error::{Result, finite, image, same_length};
use crate::evolution::{Ending, Repeats};
use crate::lattice::Lattice;
use crate::partition::{Likelihoods, MeanIntensities, Partition, PartitionOptions, Scores, names};

/// How well labels fit points, as devices take it.
#[derive(Debug, Clone, PartialEq)]
pub enum Fits<'a> {
    /// Minus the squared distance of the value of a point from the mean of the label.
    Means {
        /// One value a point.
        image: &'a [f32],
        /// A mean for each label, where they do not change; else they are those before each iteration.
        fixed: Option<&'a [f64]>,
    },
    /// A number for each point, label after label, that does not change; labels beyond them fit nowhere.
    Given(Cow<'a, [f32]>),
}

/// Scores that devices know.
pub trait Labelling {
    /// The scores of the labels 0 to one less than so many, as devices take them.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    fn fits(&self, labels: usize) -> Result<Fits<'_>>;
}

impl Labelling for MeanIntensities<'_> {
    fn fits(&self, _: usize) -> Result<Fits<'_>> {
        Ok(Fits::Means { image: self.values(), fixed: self.fixed() })
    }
}

impl Labelling for Likelihoods<'_> {
    fn fits(&self, labels: usize) -> Result<Fits<'_>> {
        let points = self.points().unwrap_or(0);
        let label = |l: usize| u8::try_from(l).unwrap_or(u8::MAX);
        // What fits nowhere has no number: it loses against all that do.
        let score = |i: usize| {
            let score = self.score(i % points, label(i / points)) as f32;
            if score.is_nan() { score } else { score.max(f32::MIN) }
        };
        Ok(Fits::Given(Cow::Owned(memory::collected((0..labels * points).map(score))?)))
    }
}

/// Labels before an iteration, and what the iteration before them did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelState {
    /// Points of other labels than 0.
    pub size: usize,
    /// Minus the sum of how well the labels fit, without the length of the fronts.
    pub energy: f64,
    /// Points that took another label, one above 0, and the label 0; those that took both count twice.
    pub took: [usize; 2],
}

/// Labels that have evolved on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct DevicePartition {
    /// One label a point.
    pub labels: Vec<u8>,
    /// How many iterations there were. One that would have changed nothing is not made.
    pub iterations: usize,
    /// Why it ended: [`Ending::Steady`], [`Ending::Repeating`] or [`Ending::Limit`].
    pub ending: Ending,
    /// The start, and what there was after each iteration.
    pub history: Vec<LabelState>,
}

/// Labels from a start, under scores, as by [`Partition::run`], but for what the [module](super) says of rounding. Calls `watch` with the number of iterations and the
/// labels at the start, and then after every so many iterations (at least 1).
///
/// # Errors
/// As of [`Partition::run`]; what the device refuses as [`SegmentError::Compute`](crate::SegmentError::Compute), such as a Gaussian that reaches too far; what `watch` says.
pub fn evolve_labels<D: Device>(
    device: &D,
    lattice: &Lattice,
    start: &[u8],
    fits: &Fits<'_>,
    options: &PartitionOptions,
    every: usize,
    watch: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
) -> Result<DevicePartition> {
    let points = lattice.len();
    options.check(lattice, start)?;
    let most = usize::from(start.iter().copied().max().unwrap_or(0)) + 1;
    match fits {
        Fits::Means { image: values, fixed } => {
            image(values, points)?;
            if let Some(fixed) = fixed {
                same_length("the means", fixed.len(), most)?;
            }
        }
        Fits::Given(values) => {
            same_length("the scores", values.len(), most * points)?;
            finite("the score", values)?;
        }
    }
    let limit = match options.iterations {
        Some(limit) => limit,
        None => Partition::bound(lattice, start)?,
    };
    let layout = Layout::new(lattice.dims(), lattice.neighbourhood().axes())?;
    let names = names(start);
    let weights = match options.curvature > 0.0 {
        true => Some(Weights::new(device, &layout, options.sigma, options.spacing)?),
        false => None,
    };
    let mut shares = match &weights {
        Some(_) => Some((device.alloc::<f32>(points)?, device.alloc::<f32>(most * points)?)),
        None => None,
    };
    let weight = options.weight_of_shares();
    let mut kept = Kept::of(fits, most);
    let (values, given) = match fits {
        Fits::Means { image, .. } => (Some(device.upload(image)?), None),
        Fits::Given(values) => (None, Some(device.upload(values)?)),
    };
    let mut labels = device.upload(start)?;
    let mut next = device.alloc::<u8>(points)?;
    let mut seen = memory::copied(start)?;
    let mut history = Vec::new();
    let (mut iterations, mut took) = (0usize, [0; 2]);
    let mut repeats = Repeats::new();
    let ending = loop {
        let (size, energy) = match &values {
            Some(values) => {
                let mut sums = device.alloc::<i64>(2 * most)?;
                device.label_sums(values, &labels, kept.units, &mut sums)?;
                kept.update(&device.into_host(sums)?)
            }
            None => kept.of_given(fits, &seen),
        };
        memory::push(&mut history, LabelState { size, energy, took })?;
        if iterations.is_multiple_of(every.max(1)) {
            watch(iterations, &seen)?;
        }
        let means = match &values {
            Some(_) => Some(device.upload(&kept.means)?),
            None => None,
        };
        if let (Some(weights), Some((scratch, shares))) = (&weights, &mut shares) {
            for &name in &names {
                let around = weights.around();
                device.label_shares(&layout, &around, name, &labels, scratch, shares)?;
            }
        }
        let scores = OnDevice {
            image: values.as_ref(),
            means: means.as_ref(),
            given: given.as_ref(),
            shares: shares.as_ref().map(|(_, shares)| shares),
            weight,
        };
        let mut changed = [device.upload(&[0i64])?, device.upload(&[0i64])?];
        for &name in &names {
            let changed = &mut changed[usize::from(name == 0)];
            device.label_scan(&layout, &scores, name, &labels, &mut next, changed)?;
            std::mem::swap(&mut labels, &mut next);
        }
        let of = |c: D::Buffer<i64>| -> Result<usize> {
            let counted = device.into_host(c)?;
            Ok(counted.first().map_or(0, |n| usize::try_from(*n).unwrap_or(0)))
        };
        let [up, down] = changed;
        let now = [of(up)?, of(down)?];
        // The last one is looked at, and not made.
        if now == [0; 2] {
            break Ending::Steady;
        }
        if iterations == limit {
            break Ending::Limit;
        }
        took = now;
        iterations += 1;
        device.download_into(&labels, &mut seen)?;
        if let Some(period) = repeats.period(memory::copied(&seen)?) {
            break Ending::Repeating { period };
        }
    };
    Ok(DevicePartition { labels: seen, iterations, ending, history })
}

/// What is known of labels between iterations.
struct Kept {
    units: Units,
    /// The mean of each label; one without points keeps its own.
    means: Vec<f64>,
    fixed: bool,
    /// The sum of the squares of all values about the offset of the units.
    squares: f64,
}

impl Kept {
    fn of(fits: &Fits<'_>, labels: usize) -> Self {
        let (values, fixed) = match fits {
            Fits::Means { image, fixed } => (*image, *fixed),
            Fits::Given(_) => (&[][..], None),
        };
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values
            .iter()
            .fold(ends, |(low, high), v| (low.min(f64::from(*v)), high.max(f64::from(*v))));
        let units = Units::between(low, high, values.len());
        let squares = values.iter().map(|v| (f64::from(*v) - units.offset).powi(2)).sum();
        let means = fixed.map_or_else(|| vec![0.0; labels], <[f64]>::to_vec);
        Self { units, means, fixed: fixed.is_some(), squares }
    }

    /// Means of counts and sums, label after label; the points of other labels than 0, and the energy.
    fn update(&mut self, sums: &[i64]) -> (usize, f64) {
        let (mut size, mut energy) = (0, self.squares);
        for (label, (mean, of)) in self.means.iter_mut().zip(sums.chunks_exact(2)).enumerate() {
            let count = of[0];
            if count == 0 {
                continue;
            }
            let own = self.units.mean(of[1], count);
            if !self.fixed {
                *mean = own;
            }
            // The sum of (v - c)² is that of v² and n (c² - 2 c m), m the mean of v, all about the offset.
            let [c, m] = [*mean, own].map(|v| v - self.units.offset);
            energy += count as f64 * c * (c - 2.0 * m);
            size += if label == 0 { 0 } else { usize::try_from(count).unwrap_or(0) };
        }
        (size, energy)
    }

    /// The same of scores that are given.
    fn of_given(&self, fits: &Fits<'_>, labels: &[u8]) -> (usize, f64) {
        let Fits::Given(scores) = fits else { return (0, 0.0) };
        let score = |(point, label): (usize, &u8)| {
            f64::from(scores[usize::from(*label) * labels.len() + point])
        };
        let fit: f64 = labels.iter().enumerate().map(score).sum();
        (labels.iter().filter(|l| **l != 0).count(), -fit)
    }
}
