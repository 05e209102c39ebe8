//! Measurements of affine maps of points, as many as voxels.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let (points, mut out) = (bench.field()?, device.alloc(3 * n)?);
    let map = [[0.9, 0.1, 0.0, -90.0], [-0.1, 0.9, 0.02, -126.0], [0.0, 0.01, 1.1, -72.0]];
    bench.measure("points", "map points", 24 * n, || device.map_points(&map, &points, &mut out))?;
    bench.measure("points", "map covectors", 24 * n, || {
        device.map_covectors(&map, &points, &mut out)
    })?;
    let mut bounds = device.alloc(7)?;
    bench.measure("points", "bounds", 12 * n, || device.point_bounds(&points, &mut bounds))
}
