//! Operators that measure and compare methods for binned sums and joint histograms.

use voxalign_compute_macros::forwarded;

use super::{Histogram, JointScheme, MovingView, ParzenBins, Scheme, Terms};
use crate::AffineMap;
use crate::error::{ComputeError, Result};

/// The columns that a value of the moving image counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Window {
    /// Four, by a cubic B-spline.
    #[default]
    Cubic,
    /// The nearest.
    Counts,
}

/// Blocks and threads of a scheme on a GPU; what is not given the device chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SchemeSettings {
    /// Blocks a map.
    pub blocks: Option<usize>,
    /// Threads a block: a multiple of 32, at most 1024.
    pub threads: Option<usize>,
}

/// How a joint histogram is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct JointMethod {
    /// The scheme.
    pub scheme: JointScheme,
    /// The windows; the default scheme has cubic ones only.
    pub window: Window,
    /// Blocks and threads.
    pub settings: SchemeSettings,
}

/// The error of a device that has not a method for joint histograms.
#[must_use]
pub fn unsupported_joint(device: &str, method: &JointMethod) -> ComputeError {
    ComputeError::Unsupported {
        device: device.into(),
        what: match (method.scheme, method.window) {
            (JointScheme::Default, Window::Counts) => "a joint histogram of plain counts".into(),
            (JointScheme::Default, Window::Cubic) => {
                "an explicit number of blocks or threads".into()
            }
            (scheme, _) => format!("the joint histogram scheme {}", scheme.name()),
        },
        remedy: "use the default scheme with cubic windows, or a GPU with another scheme",
    }
}

/// Settings of the caller's choice that only measurements and comparisons of schemes use, and no algorithm.
#[forwarded]
pub trait Schemes: Histogram {
    /// As [`Histogram::binned_sums`], with blocks and threads of the caller's choice.
    ///
    /// # Errors
    /// As [`Histogram::binned_sums`], settings that the scheme or the device cannot have.
    fn binned_sums_with(
        &self,
        terms: Terms,
        scheme: Scheme,
        settings: &SchemeSettings,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        if *settings != SchemeSettings::default() {
            return Err(ComputeError::Unsupported {
                device: self.name(),
                what: "an explicit number of blocks or threads".into(),
                remedy: "leave it out, or use a GPU",
            });
        }
        self.binned_sums(terms, scheme, samples, moving, maps)
    }

    /// As [`Histogram::joint_histogram`], by a method of the caller's choice.
    ///
    /// # Errors
    /// As [`Histogram::joint_histogram`], methods and settings that the device cannot have.
    fn joint_histogram_with(
        &self,
        method: &JointMethod,
        samples: &Self::Samples,
        moving: &MovingView<'_, Self>,
        columns: &ParzenBins,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        if *method != (JointMethod { scheme: method.scheme, ..JointMethod::default() }) {
            return Err(unsupported_joint(&self.name(), method));
        }
        self.joint_histogram(method.scheme, samples, moving, columns, maps)
    }
}
