//! Published methods for binned sums and joint histograms, for comparison with the
//! [default](crate::ops::histogram::Scheme::default).

pub(in crate::cuda) mod joint;
pub(in crate::cuda) mod sums;
pub(in crate::cuda) mod ungrouped;

use super::CudaSamples;
use crate::AffineMap;
use crate::cuda::Cuda;
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::Histogram;
use crate::ops::histogram::{
    JointMethod, JointScheme, MovingView, ParzenBins, Scheme, SchemeSettings, Schemes, Terms,
    check_joint, check_moving, check_terms, unsupported_joint,
};

use ungrouped::Target;
pub(super) use ungrouped::Ungrouped;

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
                        "an explicit number of blocks or threads with the scheme {}",
                        scheme.name()
                    ),
                    remedy: "leave it out: they follow from the samples and the workload",
                });
            }
            return self.binned_sums(terms, scheme, samples, moving, maps);
        }
        check_moving(moving, maps)?;
        check_terms(terms, samples.values.is_some())?;
        let target = Target::new(self, moving)?;
        let (ungrouped, bins) = (samples.ungrouped(self)?, samples.bins);
        sums::sums(self, terms, scheme, settings, ungrouped, bins, &target, maps)
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
        joint::histograms(self, method, ungrouped, bins, &target, columns, maps)
    }
}
