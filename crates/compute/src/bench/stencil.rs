//! Measurements of finite differences.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let src = bench.image()?;
    let mut field = device.alloc(3 * n)?;
    bench.measure("stencil", "gradient", 16 * n, || {
        device.gradient(&src, dims, [1.0, 1.0, 2.0], &mut field)
    })?;
    let mut out = device.alloc(n)?;
    bench.measure("stencil", "divergence", 16 * n, || {
        device.divergence(&field, dims, [1.0, 1.0, 2.0], &mut out)
    })?;
    bench.measure("stencil", "Laplacian", 8 * n, || {
        device.laplacian(&src, dims, [1.0, 1.0, 2.0], &mut out)
    })?;
    bench.measure("stencil", "Jacobian determinant", 16 * n, || {
        device.jacobian_determinant(&field, dims, &mut out)
    })
}
