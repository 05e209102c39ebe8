//! Measurements of fused elementwise operations.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::elementwise::{Expr, param, x};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let images = (0..8).map(|_| bench.image()).collect::<Result<Vec<_>>>()?;
    let all: Vec<&D::Buffer<f32>> = images.iter().collect();
    let mut out = device.alloc(n)?;
    // Inputs are read and the output is written: so many images of four bytes a voxel.
    let bytes = |inputs: usize| 4 * n * (inputs + 1);
    let scaled = x(0) * param(0) + param(1);
    bench.measure("elementwise", "s a + t", bytes(1), || {
        device.eval(&scaled, &all[..1], &[0.5, 3.0], None, &mut out)
    })?;
    let sum = x(0) + x(1);
    bench.measure("elementwise", "a + b", bytes(2), || {
        device.eval(&sum, &all[..2], &[], None, &mut out)
    })?;
    let weights = [0.1, 0.2, 0.3, 0.4, 0.15, 0.25, 0.35, 0.45, -50.0, 50.0];
    let weighted = |inputs: usize| -> Expr {
        let sum = (1..inputs).fold(x(0) * param(0), |sum, i| sum + x(i) * param(i));
        sum.clamp(param(8), param(9))
    };
    for (inputs, name) in
        [(4, "clamped weighted sum of four"), (8, "clamped weighted sum of eight")]
    {
        let blend = weighted(inputs);
        bench.measure("elementwise", name, bytes(inputs), || {
            device.eval(&blend, &all[..inputs], &weights, None, &mut out)
        })?;
    }
    let gauss = (-(x(0) - x(1)).square() * param(0)).exp();
    bench.measure("elementwise", "exp(-t (a - b)^2)", bytes(2), || {
        device.eval(&gauss, &all[..2], &[1e-3], None, &mut out)
    })?;
    let power = x(0).abs().pow(param(0));
    bench.measure("elementwise", "|a|^t", bytes(1), || {
        device.eval(&power, &all[..1], &[0.7], None, &mut out)
    })?;
    // In place the first input is the output: read and written. The numbers stay within bounds,
    // so that many runs on the same data take the same time.
    let step = x(0) - param(0) * x(1);
    bench.measure("elementwise", "a - t b, in place", bytes(2), || {
        device.eval_in_place(&step, &mut out, &all[..1], &[1e-3], None)
    })?;
    for (inputs, name) in [
        (4, "clamped weighted sum of four, in place"),
        (8, "clamped weighted sum of eight, in place"),
    ] {
        let blend = weighted(inputs);
        bench.measure("elementwise", name, bytes(inputs), || {
            device.eval_in_place(&blend, &mut out, &all[1..inputs], &weights, None)
        })?;
    }
    Ok(())
}
