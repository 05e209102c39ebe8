//! Measurements of what takes values over, and counts them.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::values::{Number, Strided};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let [nx, ny, nz] = dims.map(|n| n as isize);
    let (bytes, mut out) = (device.alloc::<u8>(4 * n)?, device.alloc::<f32>(n)?);
    for (name, steps) in
        [("values, x first", [1, nx, nx * ny]), ("values, z first", [ny * nz, nz, 1])]
    {
        let at = Strided { number: Number::F32, first: 0, steps };
        bench.measure("values", name, 8 * n, || device.values_of(&bytes, &at, dims, &mut out))?;
    }
    drop((bytes, out));
    let image = bench.image()?;
    bench.measure("values", "counts of pairs", 8 * n, || {
        device.pair_counts(&image, &image, None, [[-200.0, 200.0]; 2], 64).map(drop)
    })?;
    bench.measure("values", "counts in slices", 4 * n, || {
        device.slice_counts(&image, dims, 0.5).map(drop)
    })
}
