//! Histogram-like sums over the overlap of two images: what similarities are made of.
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

mod layout;

pub use layout::{Binning, LayoutOptions, Run, SampleLayout};

use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::{AffineMap, Dims};

/// The moving image as the operators see it.
#[derive(Debug)]
pub struct MovingView<'a, D: Memory> {
    /// Values, x fastest.
    pub values: &'a D::Buffer<f32>,
    /// Weights between 0 and 1 on the same grid.
    pub mask: Option<&'a D::Buffer<f32>>,
    /// Sizes, voxels; x and y at least 2.
    pub dims: Dims,
    /// Width of the border weighting along each axis, voxels; 0 for none.
    pub border: [f64; 3],
}

/// What is summed in each bin.
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

/// How the binned sums are made. All schemes give the same sums but for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheme {
    /// Samples grouped by bin; sums in registers.
    #[default]
    ConflictFree,
    /// Every sample adds to the counters of its bin, in double precision: the check of the other.
    Direct,
}

/// The sums of one map.
#[derive(Debug, Clone, PartialEq)]
pub struct BinnedSums {
    /// `bins x terms`, bin slowest.
    pub sums: Vec<f64>,
    /// Their derivatives, `bins x terms x 12`: in the rows of the affine map, x first.
    pub gradient: Option<Vec<f64>>,
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

/// Histogram-like sums over the overlap of two images. See the [module](self) for the mathematics.
pub trait Histogram: Memory {
    /// The samples of a fixed image in the memory of the device.
    type Samples: Send + Sync;

    /// Brings samples to the device.
    ///
    /// # Errors
    /// If memory is short.
    fn prepare_samples(&self, layout: SampleLayout) -> Result<Self::Samples>;

    /// Binned sums of every map, with their derivatives where `gradient` is set.
    ///
    /// # Errors
    /// Buffers whose length is not that of their sizes, sizes below 2 along x or y, maps that are
    /// not finite, moments of samples without values.
    fn binned_sums(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
        gradient: bool,
    ) -> Result<Vec<BinnedSums>>;

    /// Joint histograms of every map: `bins x columns`, bin slowest, sums of weights.
    ///
    /// # Errors
    /// As [`Histogram::binned_sums`].
    fn joint_histogram(
        &self,
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
