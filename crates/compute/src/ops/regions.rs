//! Several regions of an image at once: a label for each point, of which fronts between any two may move.
//!
//! Each label has a score at each point, and a point that has a neighbour of another label may take that label where its score is higher. An iteration
//! is a [`scan`](Regions::label_scan) for each label, all under the scores of the labels with which the iteration began; what a scan looks at are the labels with
//! which it begins. With two labels that is an iteration of a [front](super::front), whose force is the difference of both scores.
//!
//! A score is a number in double precision: minus the squared distance of the value of the point from the mean of the label, or a number that is given for the point, and
//! besides, where fronts are to be short, a weight times the share of the points around that have the label, by a Gaussian.
//!
//! ```
//! use voxalign_compute::ops::Regions;
//! use voxalign_compute::ops::front::{Layout, Units};
//! use voxalign_compute::ops::regions::Scores;
//! use voxalign_compute::{Memory, cpu::Cpu};
//!
//! // A line with three values, and a label for each of them that has a point or two.
//! let cpu = Cpu::new(None)?;
//! let layout = Layout::new([9, 1, 1], 1)?;
//! let image = cpu.upload(&[1.0f32, 1.0, 1.0, 5.0, 5.0, 5.0, 9.0, 9.0, 9.0])?;
//! let mut labels = cpu.upload(&[0u8, 0, 1, 1, 1, 1, 1, 1, 2])?;
//! let mut next = cpu.alloc(9)?;
//! for _ in 0..4 {
//!     let units = Units { offset: 0.0, scale: 1.0, squares: 1.0 };
//!     let mut sums = cpu.alloc(2 * 3)?;
//!     cpu.label_sums(&image, &labels, units, &mut sums)?;
//!     let sums = cpu.into_host(sums)?;
//!     let means: Vec<f64> = sums.chunks(2).map(|s| s[1] as f64 / s[0] as f64).collect();
//!     let means = cpu.upload(&means)?;
//!     let (image, means) = (Some(&image), Some(&means));
//!     let scores = Scores { image, means, given: None, shares: None, weight: 0.0 };
//!     let mut changed = cpu.alloc(1)?;
//!     for label in [2, 1, 0] {
//!         cpu.label_scan(&layout, &scores, label, &labels, &mut next, &mut changed)?;
//!         std::mem::swap(&mut labels, &mut next);
//!     }
//! }
//! assert_eq!(cpu.into_host(labels)?, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
//! # Ok::<(), voxalign_compute::ComputeError>(())
//! ```

use voxalign_compute_macros::forwarded;

use super::front::{Axis, Layout, Units, check_radius, check_units, radius_of};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

/// The most labels.
pub const MOST_LABELS: usize = 256;

/// Scores of labels.
#[derive(Debug)]
#[forwarded]
pub struct Scores<'a, D: Memory> {
    /// Values of the points, which fit labels by the squared distance from their means.
    pub image: Option<&'a D::Buffer<f32>>,
    /// Where there is an image, a mean for each label.
    pub means: Option<&'a D::Buffer<f64>>,
    /// Where there is none: how well labels fit, a number for each point, label after label.
    pub given: Option<&'a D::Buffer<f32>>,
    /// Shares of the points around a point, label after label.
    pub shares: Option<&'a D::Buffer<f32>>,
    /// Their weight.
    pub weight: f64,
}

/// Weights of a Gaussian along the three axes, cut at three standard deviations, of sum 1 each.
#[derive(Debug)]
pub struct Weights<D: Memory> {
    pub(crate) radius: [usize; 3],
    pub(crate) values: D::Buffer<f32>,
}

impl<D: Memory> Weights<D> {
    /// A standard deviation, in the unit of the spacing of the points.
    ///
    /// # Errors
    /// As of [`Gaussian::new`](super::front::Gaussian::new).
    pub fn new(device: &D, layout: &Layout, sigma: f64, spacing: [f64; 3]) -> Result<Self> {
        let axes = Axis::of(layout, sigma, spacing)?;
        let values: Vec<f32> =
            axes.iter().flat_map(|axis| axis.weights.iter().map(|w| *w as f32)).collect();
        Ok(Self { radius: radius_of(&axes), values: device.upload_vec(values)? })
    }

    /// The same, to be used.
    #[must_use]
    pub fn around(&self) -> Around<'_, D> {
        Around { radius: self.radius, values: &self.values }
    }
}

/// Weights that are lent.
#[derive(Debug)]
#[forwarded]
pub struct Around<'a, D: Memory> {
    /// The points that they reach along each axis.
    pub radius: [usize; 3],
    /// Those along x, then y, then z.
    pub values: &'a D::Buffer<f32>,
}

/// Updates of labels; see the [module](self).
///
/// Buffers of labels have one number a point, x fastest. Everything that is counted is a whole number, and every score is that of one order of
/// operations, so that all devices give the same bits.
///
/// # Errors
/// All operators: wrong lengths; more than [`MOST_LABELS`] labels.
#[forwarded]
pub trait Regions: Memory {
    /// How many points each label has, and the sum of their values in [`Units`], label after label. There are half as many labels as `sums` has numbers; points of others do
    /// not count.
    ///
    /// # Errors
    /// As said at [`Regions`]; units that are not above 0.
    fn label_sums(
        &self,
        image: &Self::Buffer<f32>,
        labels: &Self::Buffer<u8>,
        units: Units,
        sums: &mut Self::Buffer<i64>,
    ) -> Result<()>;

    /// The Gaussian share of the points around each that have a label, 0 to 1, at the place of that label in `shares`. Beyond a border the label of the border continues.
    /// Terms are added in rising order, along x, then y, then z, in single precision. `scratch` has a number for each point.
    ///
    /// # Errors
    /// As said at [`Regions`]; weights that are not of this layout.
    fn label_shares(
        &self,
        layout: &Layout,
        around: &Around<'_, Self>,
        label: u8,
        labels: &Self::Buffer<u8>,
        scratch: &mut Self::Buffer<f32>,
        shares: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Writes to `next` the labels after a scan: a point of another label that has a neighbour of `label` takes it where its score is higher than that of its own. Adds
    /// how many did to `changed`, one number.
    ///
    /// # Errors
    /// As said at [`Regions`]; a weight that is not a number; `label` beyond those of the scores. Points whose label is beyond them stay as they are.
    fn label_scan(
        &self,
        layout: &Layout,
        scores: &Scores<'_, Self>,
        label: u8,
        labels: &Self::Buffer<u8>,
        next: &mut Self::Buffer<u8>,
        changed: &mut Self::Buffer<i64>,
    ) -> Result<()>;
}

/// Checks the arguments of [`Regions::label_sums`], with the lengths of its buffers; the number of labels.
pub(crate) fn check_sums(units: &Units, [image, labels, sums]: [usize; 3]) -> Result<usize> {
    check_units(units)?;
    check_len("image", labels, image)?;
    let count = sums / 2;
    if sums % 2 == 1 || count == 0 || count > MOST_LABELS {
        return Err(ComputeError::argument("sums", sums, "two for each of 1 to 256 labels"));
    }
    Ok(count)
}

/// Checks the arguments of [`Regions::label_shares`], with the lengths of its buffers.
pub(crate) fn check_shares(
    layout: &Layout,
    radius: [usize; 3],
    label: u8,
    [values, labels, scratch, shares]: [usize; 4],
) -> Result<()> {
    check_radius("radius of weights", layout, radius)?;
    check_len("weights", radius.iter().map(|r| 2 * r + 1).sum(), values)?;
    check_len("labels", layout.points(), labels)?;
    check_len("scratch", layout.points(), scratch)?;
    check_of_labels("shares", layout, label, shares).map(|_| ())
}

/// Checks the arguments of [`Regions::label_scan`], with the lengths of its buffers; the number of labels.
pub(crate) fn check_scan<D: Memory>(
    layout: &Layout,
    scores: &Scores<'_, D>,
    label: u8,
    [labels, next, changed]: [usize; 3],
) -> Result<usize> {
    check_len("labels", layout.points(), labels)?;
    check_len("next labels", layout.points(), next)?;
    check_len("counter", 1, changed)?;
    let count = match (scores.image, scores.means, scores.given) {
        (Some(image), Some(means), None) => {
            check_len("image", layout.points(), image.len())?;
            let count = means.len();
            if count <= usize::from(label) || count > MOST_LABELS {
                return Err(ComputeError::argument("means", count, "one for each label"));
            }
            count
        }
        (None, None, Some(given)) => check_of_labels("scores", layout, label, given.len())?,
        _ => {
            let (what, is) = ("scores", "not of one kind");
            let expected = "an image with means, or what is given";
            return Err(ComputeError::argument(what, is, expected));
        }
    };
    if let Some(shares) = scores.shares {
        check_len("shares", count * layout.points(), shares.len())?;
        if !scores.weight.is_finite() {
            return Err(ComputeError::argument(
                "weight of shares",
                scores.weight,
                "a finite number",
            ));
        }
    }
    Ok(count)
}

/// The number of labels that a buffer has a number for at each point, one of which is `label`.
fn check_of_labels(what: &'static str, layout: &Layout, label: u8, len: usize) -> Result<usize> {
    let count = len / layout.points().max(1);
    if !len.is_multiple_of(layout.points().max(1))
        || count <= usize::from(label)
        || count > MOST_LABELS
    {
        let expected = "a number for each label and point";
        return Err(ComputeError::argument(what, len, expected));
    }
    Ok(count)
}
