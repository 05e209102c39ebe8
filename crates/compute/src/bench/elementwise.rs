//! Measurements of fused elementwise operations.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::elementwise::{param, x};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let images = [bench.image()?, bench.image()?, bench.image()?, bench.image()?];
    let [a, b, c, d] = &images;
    let mut out = device.alloc(n)?;
    let sum = x(0) + x(1);
    bench.measure("elementwise", "a + b", 12 * n, || {
        device.eval(&sum, &[a, b], &[], None, &mut out)
    })?;
    let step = x(0) - param(0) * x(1);
    bench.measure("elementwise", "a - t b, in place", 12 * n, || {
        device.eval_in_place(&step, &mut out, &[b], &[1e-3], None)
    })?;
    let blend = (x(0) * param(0) + x(1) * param(1) + x(2) * param(2) + x(3) * param(3))
        .clamp(param(4), param(5));
    let weights = [0.1, 0.2, 0.3, 0.4, -50.0, 50.0];
    bench.measure("elementwise", "clamped weighted sum of four", 20 * n, || {
        device.eval(&blend, &[a, b, c, d], &weights, None, &mut out)
    })?;
    let gauss = (-(x(0) - x(1)).square() * param(0)).exp();
    bench.measure("elementwise", "exp(-t (a - b)^2)", 12 * n, || {
        device.eval(&gauss, &[a, b], &[1e-3], None, &mut out)
    })
}
