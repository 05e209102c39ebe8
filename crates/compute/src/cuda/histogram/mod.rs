//! Histogram-like sums on the GPU.
//!
//! The samples of the fixed image are grouped on the device: tiles of 2^14 voxels, sorted by bin. A
//! block of threads takes one tile under one map. It brings the part of the moving image that the
//! tile's samples can fall on to shared memory, with whole lines, and samples it there; where that
//! does not fit, it reads the image itself, with the same result. Every thread takes a few dozen
//! samples that follow each other, almost always of one bin, and sums in registers: no two threads
//! meet in a bin. Partial sums have places of their own and are added in a fixed order, in double
//! precision; the joint histograms are counted in fixed point. All results are the same at every run.

#[cfg(feature = "baselines")]
pub(super) mod baselines;
mod counts;
pub(super) mod group;
pub(super) mod joint;
mod sampler;
pub(super) mod sums;

use super::{Cuda, CudaBuffer};
use crate::AffineMap;
use crate::Dims;
use crate::error::Result;
use crate::ops::Histogram;
#[cfg(feature = "baselines")]
use crate::ops::histogram::{JointMethod, SchemeSettings, Schemes};
use crate::ops::histogram::{
    JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme, SumsAndGradient, Terms, ValueCounts,
};

pub use group::CudaSamples;
pub(in crate::cuda) use joint::Columns;

/// Bytes of partial results that are held at once; more maps are taken in turns.
const SCRATCH: usize = 512 << 20;
/// The most blocks along the second axis of a grid.
const MOST_MAPS: usize = 65535;

/// The number of maps evaluated at once, each of which needs `bytes` of partial results.
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
        match scheme {
            Scheme::ConflictFree | Scheme::Direct => {
                sums::sums(self, terms, scheme == Scheme::Direct, samples, moving, maps)
            }
            #[cfg(feature = "baselines")]
            _ => {
                let settings = SchemeSettings::default();
                self.binned_sums_with(terms, scheme, &settings, samples, moving, maps)
            }
        }
    }

    fn binned_gradient(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
        derivatives: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
    ) -> Result<Vec<SumsAndGradient>> {
        let made: Option<Vec<Vec<f64>>> = match scheme {
            Scheme::ConflictFree | Scheme::Direct => None,
            // The scheme makes the sums; the pass that makes the derivative is common to all.
            #[cfg(feature = "baselines")]
            _ => Some(self.binned_sums(terms, scheme, samples, moving, maps)?),
        };
        let (direct, made) = (scheme == Scheme::Direct, made.as_deref());
        sums::gradient(self, terms, direct, samples, moving, maps, derivatives, made)
    }

    fn joint_histogram(
        &self,
        scheme: JointScheme,
        samples: &CudaSamples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        match scheme {
            JointScheme::Default => joint::histogram(self, samples, moving, columns, maps),
            #[cfg(feature = "baselines")]
            _ => {
                let method = JointMethod { scheme, ..JointMethod::default() };
                self.joint_histogram_with(&method, samples, moving, columns, maps)
            }
        }
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
