//! Histogram-like sums over the overlap of two images, from which similarities are computed.
//!
//! All of them run over the *samples* of the fixed image (see [`SampleLayout`]): voxel `i` with
//! index `p` (voxels), bin `b`, value `x` and weight `v`. An affine map `A` (fixed index to moving
//! index) carries it to `q = A p`; there the moving image is interpolated linearly to `y`. Samples
//! with `q` outside the voxel centres of the moving image do not count. Those that count have the
//! weight `w = v m(q) a(q)`: `m` the moving mask, interpolated linearly; `a` the border weight, a
//! product over the axes of ramps that rise from 0 at the border to 1 at a given distance inside
//! (Jenkinson and Smith 2001, section 5.3 of Li et al. 2015), which keeps the sums continuous in
//! `A`.
//!
//! - **Binned sums** ([`Terms::Ratio`]): per bin `N = sum w`, `S1 = sum w y`, `S2 = sum w y^2`, the
//!   sums of the correlation ratio (eqs. 2 to 4 of Li et al. 2015). The samples of a bin are
//!   neighbours in memory, so that lanes and threads each sum into registers of their own and never
//!   meet in a bin (the *conflict-free* scheme of section 3.6, with its workload limit).
//! - **Moments** ([`Terms::Moments`]): per bin `sum w {1, x, y, x^2, y^2, x y}`, for differences
//!   and correlation.
//! - **Joint histogram**: rows are the bins of the fixed image, columns Parzen windows (cubic
//!   B-splines) over the values of the moving image.
//!
//! Each comes with its exact derivative in the twelve entries of `A`, in the same pass.

#[cfg(feature = "baselines")]
mod baselines;
mod layout;
mod scheme;

#[cfg(feature = "baselines")]
pub use baselines::{JointMethod, SchemeSettings, Schemes, Window, unsupported_joint};
pub use layout::{Binning, LayoutOptions, Run, SampleLayout};
pub use scheme::{JointScheme, Scheme};

use voxalign_compute_macros::forwarded;

use super::similarity::MAX_PAIR_ENTRIES;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};
use crate::{AffineMap, Dims};

/// The moving image as the operators see it.
#[derive(Debug)]
#[forwarded]
pub struct MovingView<'a, D: Memory> {
    /// Values, x fastest.
    pub values: &'a D::Buffer<f32>,
    /// Weights between 0 and 1 on the same grid. Where interpolation gives more than [`MOST_MASK`] or less than 0
    /// they are clamped, and next to one that is infinite or NaN nothing counts: to refuse such masks would hold up
    /// the device at every evaluation.
    pub mask: Option<&'a D::Buffer<f32>>,
    /// Sizes, voxels; x and y at least 2.
    pub dims: Dims,
    /// Width of the border weighting along each axis, voxels; 0 for none.
    pub border: [f64; 3],
}

impl<D: Memory> MovingView<'_, D> {
    /// The weight at a distance `d` from the border, along each axis: `min(1, derivative d + offset)`, as
    /// `(derivative, offset)`.
    pub(crate) fn ramps(&self) -> [(f32, f32); 3] {
        [0, 1, 2].map(|a| {
            let width = self.border[a] as f32;
            let is_flat = a == 2 && self.dims[2] == 1;
            if width > 0.0 && !is_flat { (1.0 / width, 0.0) } else { (0.0, 1.0) }
        })
    }
}

/// The most that a mask counts: 1, and room for what smoothing may leave above it. Counters in fixed point
/// have room for it.
pub const MOST_MASK: f32 = 1.25;

/// The sums of each bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Terms {
    /// `1, y, y^2`.
    Ratio,
    /// `1, x, y, x^2, y^2, x y`.
    Moments,
}

impl Terms {
    /// Number of sums a bin.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Terms::Ratio => 3,
            Terms::Moments => 6,
        }
    }
}

/// The columns of a joint histogram: Parzen windows over the values of the moving image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParzenBins {
    /// Value at the centre of column [`ParzenBins::MARGIN`].
    pub low: f32,
    /// Value at the centre of column `count - 1 - MARGIN`.
    pub high: f32,
    /// Number of columns, at least 2 + 2 * MARGIN.
    pub count: usize,
}

impl ParzenBins {
    /// Columns at either end that only catch the tails of the windows.
    pub const MARGIN: usize = 2;

    /// Columns a value unit.
    #[must_use]
    pub fn per_value(&self) -> f32 {
        (self.count - 1 - 2 * Self::MARGIN) as f32 / (self.high - self.low)
    }

    /// # Errors
    /// For too few or too many columns, or an empty range.
    pub fn check(&self) -> Result<()> {
        if self.count < 2 + 2 * Self::MARGIN || self.count > 1 << 16 {
            return Err(ComputeError::argument(
                "Parzen columns",
                self.count,
                "between 6 and 65536",
            ));
        }
        let span = self.high - self.low;
        if !(span > 0.0 && span.is_finite()) {
            return Err(ComputeError::argument("Parzen range", span, "a positive number"));
        }
        Ok(())
    }
}

/// The number of values in each of some bins, and beyond them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCounts {
    /// Values below the lowest bin.
    pub below: u64,
    /// Values above the highest bin.
    pub above: u64,
    /// Values in each bin.
    pub counts: Vec<u64>,
}

impl ValueCounts {
    /// All values that were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.below + self.above + self.counts.iter().sum::<u64>()
    }
}

/// The most voxels of a moving image.
pub const MAX_MOVING: usize = i32::MAX as usize;

/// The most bins of [`Histogram::value_counts`].
pub const MAX_VALUE_BINS: usize = 1 << 16;

/// Checks the arguments of [`Histogram::value_counts`], given the numbers of values and weights.
///
/// # Errors
/// As [`Histogram::value_counts`].
pub fn check_value_counts(
    values: usize,
    weights: Option<usize>,
    low: f32,
    high: f32,
    bins: usize,
) -> Result<()> {
    if let Some(found) = weights {
        check_len("weights", values, found)?;
    }
    if bins == 0 || bins > MAX_VALUE_BINS {
        return Err(ComputeError::argument("bins", bins, "between 1 and 65536"));
    }
    if !(low.is_finite() && high.is_finite() && low < high) {
        let found = format!("{low} to {high}");
        return Err(ComputeError::argument("range of values", found, "finite and not empty"));
    }
    Ok(())
}

/// The error of a device that has not a scheme.
#[must_use]
pub fn unsupported_scheme(device: &str, scheme: Scheme) -> ComputeError {
    ComputeError::Unsupported {
        device: device.into(),
        what: format!("the histogram scheme {}", scheme.name()),
        remedy: "use conflict_free, or a GPU",
    }
}

/// Checks weights, given the least finite one and the number that are infinite or NaN.
///
/// A weight that is not a number is another whole number at each SIMD level, and a negative one wraps in
/// counters without sign: operators refuse both where they see the weights first, in a pass over them that
/// they make anyway.
///
/// # Errors
/// Unless all are finite and none is negative.
pub fn check_weights(what: &'static str, least: f64, not_finite: u64) -> Result<()> {
    let expected = "finite and not negative";
    if not_finite > 0 {
        let found = format!("infinite or not a number at {not_finite} voxels");
        return Err(ComputeError::argument(what, found, expected));
    }
    if least < 0.0 { Err(ComputeError::argument(what, least, expected)) } else { Ok(()) }
}

/// Checks the moving image and the maps of the operators of [`Histogram`].
///
/// # Errors
/// Buffers whose length is not that of their sizes, sizes below 2 along x or y, more than
/// [`MAX_MOVING`] voxels, maps or border widths that are not finite.
pub fn check_moving<D: Memory>(moving: &MovingView<'_, D>, maps: &[AffineMap]) -> Result<()> {
    let dims: Dims = moving.dims;
    let count = dims
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|_| dims[0] >= 2 && dims[1] >= 2 && dims[2] >= 1)
        .ok_or(ComputeError::Dims { what: "moving image", dims })?;
    if count > MAX_MOVING {
        return Err(ComputeError::argument(
            "sizes of the moving image",
            format!("{dims:?}"),
            "at most 2^31 - 1 voxels in all; use a coarser image",
        ));
    }
    check_len("moving image", count, moving.values.len())?;
    if let Some(mask) = moving.mask {
        check_len("moving mask", count, mask.len())?;
    }
    if maps.iter().flatten().flatten().any(|v| !v.is_finite()) {
        return Err(ComputeError::argument("map", "not finite", "twelve finite numbers"));
    }
    if moving.border.iter().any(|b| !(b.is_finite() && *b >= 0.0)) {
        return Err(ComputeError::argument(
            "border width",
            format!("{:?}", moving.border),
            "finite and not negative",
        ));
    }
    Ok(())
}

/// Checks the columns of a joint histogram and the number of its entries, which it gives.
///
/// # Errors
/// As [`ParzenBins::check`]; more than [`MAX_PAIR_ENTRIES`] entries.
pub(crate) fn check_joint(bins: usize, columns: &ParzenBins) -> Result<usize> {
    columns.check()?;
    let entries = bins.saturating_mul(columns.count);
    if entries > MAX_PAIR_ENTRIES {
        return Err(ComputeError::argument("bins x columns", entries, "at most 2^24"));
    }
    Ok(entries)
}

/// Checks that samples have what the sums are made of: moments need their values.
///
/// # Errors
/// If they have not.
pub(crate) fn check_terms(terms: Terms, have_values: bool) -> Result<()> {
    if terms == Terms::Moments && !have_values {
        return Err(ComputeError::argument("samples", "without values", "samples with values"));
    }
    Ok(())
}

/// Checks the tables of [`Histogram::joint_gradient`].
///
/// # Errors
/// Another number of tables than maps, or of entries than the joint histogram has.
pub fn check_tables(
    bins: usize,
    columns: &ParzenBins,
    maps: &[AffineMap],
    tables: &[Vec<f64>],
) -> Result<()> {
    check_len("tables", maps.len(), tables.len())?;
    tables.iter().try_for_each(|t| check_len("table", bins * columns.count, t.len()))
}

/// The samples of a fixed image in the memory of a device.
pub trait SampleSet: Send + Sync {
    /// Number of samples.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of bins.
    fn bins(&self) -> usize;
    /// Sum of the samples' weights; without weights their number.
    fn total_weight(&self) -> f64;
}

/// The sums of one map (`bins x terms`, bin slowest), and the derivative of a function of them in
/// the map's twelve entries (row by row, x first).
pub type SumsAndGradient = (Vec<f64>, [f64; 12]);

/// Histogram-like sums over the overlap of two images. See the [module](self) for the mathematics.
///
/// A moving image has at most [`MAX_MOVING`] (2^31 - 1) voxels: places in it are counted in 32 bits. A larger one
/// is refused with [`ComputeError::Argument`] by every operator that takes one, before anything is done; use a
/// coarser image. The fixed image, and what [`value_counts`](Self::value_counts) counts, may be larger; on a GPU
/// schemes other than `ConflictFree` and `Direct` take fixed images of at most 2^32 - 1 voxels.
#[forwarded]
pub trait Histogram: Memory {
    /// The samples of a fixed image in the memory of the device.
    type Samples: SampleSet;

    /// Preferred number of maps at once: fewer leave the device idle, more need more
    /// memory. Only a hint; every operator takes any number.
    fn batch(&self) -> usize {
        256
    }

    /// Groups the samples of a fixed image that is on the device: all voxels whose weight (if
    /// given) is above 0. `values` has `dims` voxels, `weights` as many; the values of samples must
    /// be finite. The samples are those of [`SampleLayout::new`]; their order is the device's own.
    ///
    /// # Errors
    /// Lengths that disagree, no bins, no workload, sizes over 2^32, weights that are negative or not
    /// finite, memory that runs out.
    fn group_samples(
        &self,
        values: &Self::Buffer<f32>,
        dims: Dims,
        weights: Option<&Self::Buffer<f32>>,
        options: &LayoutOptions,
    ) -> Result<Self::Samples>;

    /// Counts the finite values whose weight (if given) is above 0, in `bins` equal bins over
    /// `low..=high`: value `v` belongs to bin `(f64(v) - f64(low)) * (bins / (f64(high) -
    /// f64(low)))`, rounded down, at most `bins - 1`. Values below `low` and above `high` are
    /// counted apart.
    ///
    /// # Errors
    /// Weights of another number than the values, a range that is empty or not finite, no bins or
    /// more than [`MAX_VALUE_BINS`].
    fn value_counts(
        &self,
        values: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        low: f32,
        high: f32,
        bins: usize,
    ) -> Result<ValueCounts>;

    /// Binned sums of every map: `bins x terms` each, bin slowest.
    ///
    /// # Errors
    /// Buffers whose length is not that of their sizes, sizes below 2 along x or y, a moving image of more
    /// than [`MAX_MOVING`] voxels ([`ComputeError::Argument`]), maps that are not finite, moments of samples
    /// without values.
    fn binned_sums(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>>;

    /// Binned sums of every map, and the derivative, in the map's twelve entries, of a function of
    /// these sums. `derivatives(i, sums)` gives the derivative of that function in each of the sums of
    /// map `i` (`bins x terms` numbers); it may be called from any thread, once for every map.
    ///
    /// # Errors
    /// As [`Histogram::binned_sums`], and derivatives of another number than the sums.
    fn binned_gradient(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
        derivatives: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
    ) -> Result<Vec<SumsAndGradient>>;

    /// Joint histograms of every map: `bins x columns`, bin slowest, sums of weights.
    ///
    /// # Errors
    /// As [`Histogram::binned_sums`]; a scheme that the device has not.
    fn joint_histogram(
        &self,
        scheme: JointScheme,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>>;

    /// For every map the derivative, in its twelve entries, of a function of the joint histogram
    /// whose derivative in each of the histogram's entries is given in `tables`.
    ///
    /// # Errors
    /// As [`Histogram::binned_sums`], and tables of another size than the histogram.
    fn joint_gradient(
        &self,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
        tables: &[Vec<f64>],
    ) -> Result<Vec<[f64; 12]>>;
}
