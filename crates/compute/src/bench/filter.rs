//! Measurements of the filters.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::filter::GaussianMethod;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let src = bench.image()?;
    let mut out = device.alloc(n)?;
    // Each axis is a pass that reads and writes the image.
    let passes = dims.iter().filter(|&&d| d > 1).count();
    let recursive = [1.0, 2.0, 4.0, 8.0, 10.0].map(|sigma| (GaussianMethod::Recursive, sigma));
    for (method, sigma) in recursive.into_iter().chain([(GaussianMethod::Fir, 1.0)]) {
        bench.measure(
            "filter",
            format!("gaussian {method:?} sigma {sigma}"),
            8 * passes * n,
            || device.gaussian(&src, dims, [sigma; 3], method, &mut out),
        )?;
    }
    for axis in 0..3 {
        let mut sigma = [0.0; 3];
        sigma[axis] = 4.0;
        bench.measure("filter", format!("gaussian Recursive axis {axis}"), 8 * n, || {
            device.gaussian(&src, dims, sigma, GaussianMethod::Recursive, &mut out)
        })?;
    }
    let field = bench.field()?;
    let mut smooth = device.alloc(3 * n)?;
    for (method, sigma) in [
        (GaussianMethod::Recursive, 1.73),
        (GaussianMethod::Narrow, 1.73),
        (GaussianMethod::Narrow, 0.7),
        (GaussianMethod::Fir, 0.7),
    ] {
        let bytes = 24 * passes * n;
        let name = format!("gaussian {method:?} of a field, sigma {sigma}");
        bench.measure("filter", name, bytes, || {
            device.gaussian(&field, dims, [sigma; 3], method, &mut smooth)
        })?;
    }
    drop((field, smooth));
    for radius in [2, 4, 16] {
        bench.measure("filter", format!("box mean radius {radius}"), 8 * passes * n, || {
            device.box_mean(&src, dims, [radius; 3], &mut out)
        })?;
    }
    Ok(())
}
