//! Histogram-like sums on the GPU.
//!
//! The samples of the fixed image are grouped on the device: tiles of 2^14 voxels, sorted by bin. A
//! block of threads takes one tile under one map. It brings the part of the moving image that the
//! tile's samples can fall on to shared memory, with whole lines, and samples it there; where that
//! does not fit, it reads the image itself, with the same result. Every thread takes a few dozen
//! samples that follow each other, almost always of one bin, and sums in registers: no two threads
//! meet in a bin. Partial sums have places of their own and are added in a fixed order, in double
//! precision; the joint histograms are counted in fixed point. All results are the same at every run.

pub(super) mod baselines;
mod counts;
pub(super) mod group;
pub(super) mod joint;
mod sampler;
pub(super) mod schemes;
pub(super) mod sums;
pub(super) mod ungrouped;

use super::{Cuda, CudaBuffer};
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::Histogram;
use crate::ops::histogram::{
    JointMethod, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme, SchemeSettings,
    Schemes, SumsAndGradient, Terms, ValueCounts, check_joint, check_moving, check_terms,
    unsupported_joint,
};
use crate::{AffineMap, Dims};

pub use group::CudaSamples;
pub(in crate::cuda) use joint::Columns;
use ungrouped::Target;

/// Bytes of partial results that are held at once; more maps are taken in turns.
const SCRATCH: usize = 512 << 20;
/// The most blocks along the second axis of a grid.
const MOST_MAPS: usize = 65535;

/// How many maps are taken at once, each of which needs `bytes` of partial results.
fn at_once(bytes: usize) -> usize {
    (SCRATCH / bytes.max(1)).clamp(1, MOST_MAPS)
}

impl Histogram for Cuda {
    type Samples = CudaSamples;

    fn batch(&self) -> usize {
        4096
    }

    fn group_samples(
        &self,
        values: &CudaBuffer<f32>,
        dims: Dims,
        weights: Option<&CudaBuffer<f32>>,
        options: &LayoutOptions,
    ) -> Result<CudaSamples> {
        group::group(self, values, dims, weights, options)
    }

    fn value_counts(
        &self,
        values: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        low: f32,
        high: f32,
        bins: usize,
    ) -> Result<ValueCounts> {
        counts::value_counts(self, values, weights, low, high, bins)
    }

    fn binned_sums(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        let settings = SchemeSettings::default();
        self.binned_sums_with(terms, scheme, &settings, samples, moving, maps)
    }

    fn binned_gradient(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
        slopes: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
    ) -> Result<Vec<SumsAndGradient>> {
        if matches!(scheme, Scheme::ConflictFree | Scheme::Direct) {
            let direct = scheme == Scheme::Direct;
            return sums::gradient(self, terms, direct, samples, moving, maps, slopes, None);
        }
        // The scheme makes the sums; the pass that makes the derivative is common to all.
        let sums = self.binned_sums(terms, scheme, samples, moving, maps)?;
        sums::gradient(self, terms, false, samples, moving, maps, slopes, Some(&sums))
    }

    fn joint_histogram(
        &self,
        scheme: JointScheme,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        if scheme == JointScheme::Default {
            return joint::histogram(self, samples, moving, columns, maps);
        }
        let method = JointMethod { scheme, ..JointMethod::default() };
        self.joint_histogram_with(&method, samples, moving, columns, maps)
    }

    fn joint_gradient(
        &self,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
        tables: &[Vec<f64>],
    ) -> Result<Vec<[f64; 12]>> {
        joint::gradient(self, samples, moving, columns, maps, tables)
    }
}

impl Schemes for Cuda {
    fn binned_sums_with(
        &self,
        terms: Terms,
        scheme: Scheme,
        settings: &SchemeSettings,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        if matches!(scheme, Scheme::ConflictFree | Scheme::Direct) {
            if *settings != SchemeSettings::default() {
                return Err(ComputeError::Unsupported {
                    device: self.name(),
                    what: format!(
                        "a choice of blocks and threads with the scheme {}",
                        scheme.name()
                    ),
                    remedy: "leave it out: they follow from the samples and the workload",
                });
            }
            return sums::sums(self, terms, scheme == Scheme::Direct, samples, moving, maps);
        }
        check_moving(moving, maps)?;
        check_terms(terms, samples.values.is_some())?;
        let target = Target::new(self, moving)?;
        let (ungrouped, bins) = (samples.ungrouped(self)?, samples.bins);
        schemes::sums(self, terms, scheme, settings, ungrouped, bins, &target, maps)
    }

    fn joint_histogram_with(
        &self,
        method: &JointMethod,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        if method.scheme == JointScheme::Default {
            if *method != JointMethod::default() {
                return Err(unsupported_joint(&self.name(), method));
            }
            return self.joint_histogram(method.scheme, samples, moving, columns, maps);
        }
        check_moving(moving, maps)?;
        check_joint(samples.bins, columns)?;
        let target = Target::new(self, moving)?;
        let (ungrouped, bins) = (samples.ungrouped(self)?, samples.bins);
        baselines::joint(self, method, ungrouped, bins, &target, columns, maps)
    }
}
