//! Measurements of the Fourier transforms.

use super::Bench;
use crate::device::Device;
use crate::error::{ComputeError, Result, voxels};
use crate::ops::fourier::spectrum_len;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let (n, numbers) = (voxels("dims", dims)?, spectrum_len(dims)?);
    let src = bench.image()?;
    let mut spectrum = device.alloc(numbers)?;
    // A machine without the library has the other operators nevertheless.
    match device.forward(&src, dims, &mut spectrum) {
        Err(ComputeError::Unavailable { .. }) => return Ok(()),
        other => other?,
    }
    bench.measure("fourier", "forward", 4 * (n + numbers), || {
        device.forward(&src, dims, &mut spectrum)
    })?;
    let factors = device.upload_vec(vec![1.0; numbers / 2])?;
    bench.measure("fourier", "scale spectrum", 10 * numbers, || {
        device.scale_spectrum(&mut spectrum, dims, &factors)
    })?;
    let mut out = device.alloc(n)?;
    bench.measure("fourier", "inverse", 4 * (n + numbers), || {
        device.inverse(&mut spectrum, dims, &mut out)
    })
}
