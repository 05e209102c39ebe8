//! Selection of a device at run time by a user's request.
//!
//! Algorithms are generic over [`Device`](crate::Device) and know no backend. A program that chooses
//! at run time opens a [`DeviceChoice`]: what comes out is a device, too, which forwards each call to the one
//! behind it. Buffers are used with the device that made them; others are refused.
//!
//! ```
//! use voxalign_compute::ops::reduce::Reduction;
//! use voxalign_compute::select::DeviceChoice;
//! use voxalign_compute::{Device, Result};
//!
//! fn sum<D: Device>(device: &D, values: &[f32]) -> Result<f64> {
//!     let values = device.upload(values)?;
//!     Ok(device.reduce(&[&values], &[Reduction::Sum(0)])?[0])
//! }
//!
//! let choice: DeviceChoice = "cpu".parse().unwrap();
//! let device = choice.open(Some(2))?;
//! assert_eq!(sum(&device, &[1.0, 2.0, 4.0])?, 7.0);
//! # Ok::<(), voxalign_compute::ComputeError>(())
//! ```

mod any;

pub use any::{AnyBuffer, AnyRayVolume, AnySamples};
pub(crate) use any::{Backend, Behind, behind};

use crate::cpu::Cpu;
use crate::cuda::{self, Cuda, GpuInfo};
use crate::error::{ComputeError, Result};
use std::fmt;
use std::str::FromStr;

/// The user's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The first GPU that can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU of a number, or the first that can be used.
    Cuda(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |n: &str| n.bytes().all(|b| b.is_ascii_digit()).then(|| n.parse().ok())?;
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => match text.strip_prefix("cuda:").and_then(number) {
                Some(n) => Ok(Self::Cuda(Some(n))),
                None => Err("use auto, cpu, cuda or cuda:N with N the number of a GPU, such as \
                             cuda:0"
                    .into()),
            },
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(n)) => write!(f, "cuda:{n}"),
        }
    }
}

impl DeviceChoice {
    /// The GPU of a number; without one the CPU.
    #[must_use]
    pub fn of_gpu(number: Option<usize>) -> Self {
        number.map_or(Self::Cpu, |n| Self::Cuda(Some(n)))
    }

    /// Opens the device; `threads` are those of the CPU, `None` for all.
    ///
    /// # Errors
    /// [`ComputeError::Unavailable`] where a GPU that was asked for cannot be used (`Auto` takes the
    /// CPU then); a thread pool that cannot be made.
    pub fn open(self, threads: Option<usize>) -> Result<AnyDevice> {
        Ok(match self {
            Self::Cpu => AnyDevice::Cpu(Cpu::new(threads)?),
            Self::Cuda(Some(n)) => AnyDevice::Cuda(Cuda::new(n)?),
            Self::Cuda(None) => AnyDevice::Cuda(first_gpu()?),
            Self::Auto => match first_gpu() {
                Ok(gpu) => AnyDevice::Cuda(gpu),
                Err(_) => AnyDevice::Cpu(Cpu::new(threads)?),
            },
        })
    }
}

/// A device of any backend.
#[derive(Debug, Clone)]
pub enum AnyDevice {
    /// The CPU.
    Cpu(Cpu),
    /// A GPU.
    Cuda(Cuda),
}

impl AnyDevice {
    /// Its name in [`DeviceChoice`].
    #[must_use]
    pub fn choice(&self) -> DeviceChoice {
        match self {
            Self::Cpu(_) => DeviceChoice::Cpu,
            Self::Cuda(gpu) => DeviceChoice::Cuda(gpu.info().map(|i| i.ordinal)),
        }
    }

    /// Facts about the GPU, where it is one.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuInfo> {
        match self {
            Self::Cpu(_) => None,
            Self::Cuda(gpu) => gpu.info(),
        }
    }
}

/// The first GPU that can be used.
///
/// # Errors
/// [`ComputeError::Unavailable`]: that of the first GPU that cannot be used, or that there is none.
pub fn first_gpu() -> Result<Cuda> {
    let mut first = None;
    for ordinal in 0..cuda::gpu_count()? {
        match Cuda::new(ordinal) {
            Ok(gpu) => return Ok(gpu),
            Err(e) => first = first.or(Some(e)),
        }
    }
    Err(first.unwrap_or_else(|| ComputeError::Unavailable {
        backend: "cuda",
        reason: "there is no GPU".into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(None)),
            ("cuda:0", DeviceChoice::Cuda(Some(0))),
            ("cuda:12", DeviceChoice::Cuda(Some(12))),
        ] {
            assert_eq!(text.parse(), Ok(choice));
            assert_eq!(choice.to_string(), text);
        }
        for bad in ["", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "cuda0", "cpu:0"] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
        let huge = "cuda:99999999999999999999999";
        assert!(huge.parse::<DeviceChoice>().is_err());
    }

    #[test]
    fn auto_always_opens() {
        let device = DeviceChoice::Auto.open(Some(1)).unwrap();
        assert_eq!(device.gpu().is_some(), device.choice() != DeviceChoice::Cpu);
        assert!(DeviceChoice::Cuda(Some(4096)).open(None).is_err());
    }
}
