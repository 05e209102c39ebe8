//! Sums over the devices of one process.

use rayon::prelude::*;

use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

/// Numbers that a thread adds at a time.
const PIECE: usize = 1 << 16;

/// A way to sum over devices of one process.
pub trait DeviceSums<D: Memory>: Send + Sync {
    /// A description of how it is done; and if that is not the best way, why.
    fn name(&self) -> String;

    /// Adds the buffers of all devices, one of each in the order of the devices and all equally
    /// long, place by place; every one of them then holds the sum. Sums that leave the range of `i64`
    /// wrap around.
    ///
    /// # Errors
    /// Buffers that are not one of each device and of one length; what a device says.
    fn all_reduce_sum(&self, devices: &[D], buffers: &mut [&mut D::Buffer<i64>]) -> Result<()>;
}

/// Sums through the memory of the host, which every device can do.
#[derive(Debug, Clone, Default)]
pub struct HostSums {
    why: Option<String>,
}

impl HostSums {
    /// Sums through the host because there is no better way.
    pub fn because(why: impl Into<String>) -> Self {
        Self { why: Some(why.into()) }
    }
}

/// Checks that there is one buffer of each device and that all have one length, which it gives.
///
/// # Errors
/// [`ComputeError::Length`] if it is not so.
pub(crate) fn check_buffers<D: Memory>(
    devices: &[D],
    buffers: &[&mut D::Buffer<i64>],
) -> Result<usize> {
    check_len("buffers to be summed, one of each device", devices.len(), buffers.len())?;
    let len = buffers.first().map_or(0, |b| b.len());
    buffers.iter().try_for_each(|b| check_len("a buffer to be summed", len, b.len()))?;
    Ok(len)
}

impl<D: Memory> DeviceSums<D> for HostSums {
    fn name(&self) -> String {
        match &self.why {
            Some(why) => format!("through the host: {why}"),
            None => "through the host".into(),
        }
    }

    fn all_reduce_sum(&self, devices: &[D], buffers: &mut [&mut D::Buffer<i64>]) -> Result<()> {
        let len = check_buffers(devices, buffers)?;
        if devices.len() < 2 || len == 0 {
            return Ok(());
        }
        let mut sum = devices[0].download(buffers[0])?;
        let mut other = crate::host::zeroed(len)?;
        for (device, buffer) in devices.iter().zip(&*buffers).skip(1) {
            device.download_into(buffer, &mut other)?;
            add(&mut sum, &other);
        }
        devices
            .iter()
            .zip(buffers)
            .try_for_each(|(device, buffer)| device.upload_into(buffer, &sum))
    }
}

/// Adds numbers place by place.
fn add(sum: &mut [i64], other: &[i64]) {
    sum.par_chunks_mut(PIECE).zip(other.par_chunks(PIECE)).for_each(|(sum, other)| {
        for (sum, value) in sum.iter_mut().zip(other) {
            *sum = sum.wrapping_add(*value);
        }
    });
}

/// The error of a device that is missing.
pub(super) fn no_device() -> ComputeError {
    ComputeError::argument("the number of devices of a rank", 0, "at least 1")
}
