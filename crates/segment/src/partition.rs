//! Several regions at once: a label for each point, of which fronts between any two may move.
//!
//! Each label has a score at each point, and a point that has a neighbour of another label may take that label where its score is higher. An iteration
//! is under the scores of the labels with which it begins. It has one scan for each label, the highest number first and the background 0 last: points with a
//! neighbour of that label, as the labels are when the scan begins, take it if its score is higher than that of their own. Of two labels that is
//! one iteration of [`Front::advance`](crate::Front::advance) with the difference of both scores as its force.

use crate::error::{Result, SegmentError, above, image, same_length};
use crate::evolution::{Ending, Repeats};
use crate::gaussian::Gaussian;
use crate::lattice::Lattice;
use crate::mixture::Mixture;
use voxalign_image::memory;

/// How well labels fit the points.
pub trait Scores {
    /// Takes note of the labels of all points, before each iteration.
    ///
    /// # Errors
    /// Of the kind.
    fn update(&mut self, labels: &[u8]) -> Result<()> {
        let _ = labels;
        Ok(())
    }

    /// How many points the scores are for, where they are for a number of them.
    fn points(&self) -> Option<usize> {
        None
    }

    /// How well a label fits a point, under the last [`Scores::update`]; the highest one fits best.
    fn score(&self, point: usize, label: u8) -> f64;
}

/// Regions that are each of one intensity: -(c - I)², c the mean intensity of the label, anew before each iteration (T. Chan and L. Vese 2001, for any
/// number of regions). A label without points keeps its mean.
#[derive(Debug, Clone)]
pub struct MeanIntensities<'a> {
    image: &'a [f32],
    means: Vec<f64>,
    /// How many means do not change, those of the first labels.
    fixed: usize,
}

impl<'a> MeanIntensities<'a> {
    /// An image.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NotFinite`], [`SegmentError::Constant`].
    pub fn new(lattice: &Lattice, values: &'a [f32]) -> Result<Self> {
        image(values, lattice.len())?;
        Ok(Self { image: values, means: vec![0.0; 256], fixed: 0 })
    }

    /// With means that do not change, of the labels from 0. Other labels keep the mean 0.
    ///
    /// # Errors
    /// [`SegmentError::Parameter`] for a mean that is not a finite number, [`SegmentError::Regions`] for more than 256.
    pub fn with_means(mut self, means: &[f64]) -> Result<Self> {
        if means.len() > 256 {
            return Err(SegmentError::Regions { regions: means.len(), most: 256 });
        }
        let remedy = "give a finite number";
        means.iter().try_for_each(|m| above("a mean", *m, f64::NEG_INFINITY, remedy))?;
        self.means[..means.len()].copy_from_slice(means);
        self.fixed = means.len();
        Ok(self)
    }

    /// The means that do not change, if there are such.
    pub(crate) fn fixed(&self) -> Option<&[f64]> {
        (self.fixed > 0).then(|| &self.means[..self.fixed])
    }

    /// The image.
    pub(crate) fn values(&self) -> &'a [f32] {
        self.image
    }

    /// The mean intensity of a label.
    #[must_use]
    pub fn mean(&self, label: u8) -> f64 {
        self.means[usize::from(label)]
    }
}

impl Scores for MeanIntensities<'_> {
    fn update(&mut self, labels: &[u8]) -> Result<()> {
        if self.fixed > 0 {
            return Ok(());
        }
        let (mut sums, mut counts) = ([0.0; 256], [0usize; 256]);
        for (value, label) in self.image.iter().zip(labels) {
            sums[usize::from(*label)] += f64::from(*value);
            counts[usize::from(*label)] += 1;
        }
        for (label, mean) in self.means.iter_mut().enumerate().filter(|(l, _)| counts[*l] > 0) {
            *mean = sums[label] / counts[label] as f64;
        }
        Ok(())
    }

    fn points(&self) -> Option<usize> {
        Some(self.image.len())
    }

    fn score(&self, point: usize, label: u8) -> f64 {
        -(self.mean(label) - f64::from(self.image[point])).powi(2)
    }
}

/// Regions whose intensities are mixtures of Gaussians: the logarithm of the density.
#[derive(Debug, Clone)]
pub struct Likelihoods<'a> {
    image: &'a [f32],
    mixtures: Vec<Mixture>,
}

impl<'a> Likelihoods<'a> {
    /// An image, and a mixture for each label from 0. A label without one fits nowhere.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NotFinite`], [`SegmentError::Constant`], [`SegmentError::Regions`] for more than 256.
    pub fn new(lattice: &Lattice, values: &'a [f32], mixtures: Vec<Mixture>) -> Result<Self> {
        image(values, lattice.len())?;
        if mixtures.len() > 256 {
            return Err(SegmentError::Regions { regions: mixtures.len(), most: 256 });
        }
        Ok(Self { image: values, mixtures })
    }
}

impl Scores for Likelihoods<'_> {
    fn points(&self) -> Option<usize> {
        Some(self.image.len())
    }

    fn score(&self, point: usize, label: u8) -> f64 {
        let mixture = self.mixtures.get(usize::from(label));
        mixture.map_or(f64::NEG_INFINITY, |m| m.log_density(f64::from(self.image[point])))
    }
}

/// How labels evolve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionOptions {
    /// After how many iterations it ends at the latest; where nothing is said after [`Partition::bound`], which are enough for scores that do not change,
    /// without curvature.
    pub iterations: Option<usize>,
    /// The weight μ of the curvature of all fronts.
    pub curvature: f64,
    /// The standard deviation of the Gaussian that the curvature is from, in the unit of the spacing.
    pub sigma: f64,
    /// Distances of the points along x, y, z.
    pub spacing: [f64; 3],
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self { iterations: None, curvature: 0.0, sigma: 3.0, spacing: [1.0; 3] }
    }
}

impl PartitionOptions {
    /// Checks them, and that a start of a lattice has fronts.
    pub(crate) fn check(&self, lattice: &Lattice, start: &[u8]) -> Result<()> {
        same_length("the start", start.len(), lattice.len())?;
        if start.iter().all(|l| *l == start[0]) {
            return Err(SegmentError::NoFront {
                inside: if start[0] == 0 { 0 } else { start.len() },
            });
        }
        let remedy = "give a number that is not below 0";
        above("the weight of the curvature", self.curvature, -f64::MIN_POSITIVE, remedy)
    }

    /// What the share of a label around a point adds to its score. Of two labels the difference of both shares is minus the mean side, which the curvature is a
    /// multiple of.
    pub(crate) fn weight_of_shares(&self) -> f64 {
        self.curvature * std::f64::consts::TAU.sqrt() / self.sigma
    }
}

/// Labels that have evolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// One label a point.
    pub labels: Vec<u8>,
    /// How many iterations there were. One that would have changed nothing is not made.
    pub iterations: usize,
    /// Why it ended: [`Ending::Steady`], [`Ending::Repeating`] or [`Ending::Limit`].
    pub ending: Ending,
    /// The bound on iterations that follows from the start.
    pub bound: usize,
}

impl Partition {
    /// Labels from a start, under scores.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NoFront`] where all points have one label, [`SegmentError::Parameter`],
    /// [`SegmentError::NotFinite`] for a score that is not a number, [`SegmentError::OutOfMemory`].
    pub fn run(
        lattice: &Lattice,
        start: &[u8],
        scores: &mut dyn Scores,
        options: &PartitionOptions,
    ) -> Result<Self> {
        same_length("the scores", scores.points().unwrap_or(lattice.len()), lattice.len())?;
        options.check(lattice, start)?;
        let gaussian = Gaussian::new(lattice, options.sigma, options.spacing)?;
        let bound = Self::bound(lattice, start)?;
        let limit = options.iterations.unwrap_or(bound);
        let names = names(start);
        let mut labels = memory::copied(start)?;
        let mut iterations = 0;
        let mut repeats = Repeats::new();
        let ending = loop {
            scores.update(&labels)?;
            let before = memory::copied(&labels)?;
            let score = Blended {
                scores: &*scores,
                gaussian: &gaussian,
                options,
                lattice,
                labels: &before,
            };
            let mut after = memory::copied(&labels)?;
            let mut changed = false;
            for &name in &names {
                let seen = memory::copied(&after)?;
                for (point, label) in after.iter_mut().enumerate().filter(|(_, l)| **l != name) {
                    let is_beside = lattice.neighbours(point).any(|p| seen[p] == name);
                    if is_beside && score.of(point, name)? > score.of(point, *label)? {
                        *label = name;
                        changed = true;
                    }
                }
            }
            if !changed {
                break Ending::Steady;
            }
            if iterations == limit {
                break Ending::Limit;
            }
            labels = after;
            iterations += 1;
            if let Some(period) = repeats.period(memory::copied(&labels)?) {
                break Ending::Repeating { period };
            }
        };
        Ok(Self { labels, iterations, ending, bound })
    }

    /// Whether no label was to be changed in the end.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.ending == Ending::Steady
    }

    /// A bound on the iterations from a start, for scores that do not change and are nowhere the same for two labels, if each connected part of where a label
    /// has the highest score has a point with that label: the most points of a connected part of what has not some label. Of two labels that is theorem 1
    /// ([`Bounds::max_region_size`](crate::Bounds::max_region_size)).
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::OutOfMemory`].
    pub fn bound(lattice: &Lattice, start: &[u8]) -> Result<usize> {
        let mut most = 0;
        for name in names(start) {
            let set = memory::collected(start.iter().map(|l| *l == name))?;
            let parts = crate::bounds::parts(lattice, &set)?;
            let sizes = parts.iter().filter(|p| !p.inside).map(|p| p.size);
            most = most.max(sizes.max().unwrap_or(0));
        }
        Ok(most)
    }
}

/// The labels that there are, the highest first.
pub(crate) fn names(labels: &[u8]) -> Vec<u8> {
    let mut is_there = [false; 256];
    labels.iter().for_each(|l| is_there[usize::from(*l)] = true);
    (0..=255).rev().filter(|n| is_there[usize::from(*n)]).collect()
}

/// Scores with the curvature of fronts.
struct Blended<'a> {
    scores: &'a dyn Scores,
    gaussian: &'a Gaussian,
    options: &'a PartitionOptions,
    lattice: &'a Lattice,
    labels: &'a [u8],
}

impl Blended<'_> {
    fn of(&self, point: usize, label: u8) -> Result<f64> {
        let mut value = self.scores.score(point, label);
        if self.options.curvature > 0.0 {
            let share = self.gaussian.share(self.lattice, point, |p| self.labels[p] == label);
            value += self.options.weight_of_shares() * share;
        }
        if value.is_nan() {
            return Err(SegmentError::NotFinite { what: "the score", value, index: point });
        }
        Ok(value)
    }
}

/// A start of squares (cubes) of a side in points whose labels, from 0 to one less than their number, follow one another along each axis.
///
/// # Errors
/// [`SegmentError::Parameter`] for a side of 0 or less than two labels, [`SegmentError::Regions`] for more than 256, or more than there are points,
/// [`SegmentError::OutOfMemory`].
pub fn patchwork(lattice: &Lattice, side: usize, labels: usize) -> Result<Vec<u8>> {
    above("the side of the squares", side as f64, 0.0, "give a number of points above 0")?;
    above("the number of labels", labels as f64, 1.0, "give at least 2")?;
    let most = lattice.len().min(256);
    if labels > most {
        return Err(SegmentError::Regions { regions: labels, most });
    }
    let label = |point| {
        let sum: usize = lattice.place(point).into_iter().map(|c| c / side).sum();
        (sum % labels) as u8
    };
    Ok(memory::collected((0..lattice.len()).map(label))?)
}
