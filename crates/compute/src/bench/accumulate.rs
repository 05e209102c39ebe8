//! Measurements of sums over many images.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let image = bench.image()?;
    let mut sums = device.alloc(n)?;
    let unit = f64::from(30).exp2();
    bench.measure("accumulate", "add an image", 20 * n, || {
        device.add_fixed(&image, unit, &mut sums)
    })?;
    let mut out = device.alloc(n)?;
    bench.measure("accumulate", "sums to an image", 12 * n, || {
        device.fixed_to_float(&sums, 1.0 / unit, &mut out)
    })
}
