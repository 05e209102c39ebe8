//! Measurements of point maps, with one point per voxel, and of fields that move ten points and are pushed by
//! them.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::points::{Bounds, Carriage};
use crate::ops::splat::{Beyond, Lattice};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let (points, mut out) = (bench.field()?, device.alloc(3 * n)?);
    let map = [[0.9, 0.1, 0.0, -90.0], [-0.1, 0.9, 0.02, -126.0], [0.0, 0.01, 1.1, -72.0]];
    bench.measure("points", "map points", 24 * n, || device.map_points(&map, &points, &mut out))?;
    bench.measure("points", "map covectors", 24 * n, || {
        device.map_covectors(&map, &points, &mut out)
    })?;
    let mut bounds = device.alloc(7)?;
    bench.measure("points", "bounds", 12 * n, || device.point_bounds(&points, &mut bounds))?;
    let lattice = Lattice::linear(bench.dims, Beyond::Nearest);
    let carriage = Carriage { field: &points, lattice, scale: [1.0; 3], map };
    let (count, near) = (10, |i: usize| (bench.dims[i / 10] * (3 + i % 10)) as f32 / 15.0);
    let at = device.upload_vec((0..3 * count).map(near).collect())?;
    let (ones, mut there) = (device.upload_vec(vec![1.0; 3 * count])?, device.alloc(3 * count)?);
    bench.measure("points", "carry ten", 24 * count, || {
        device.carry_points(&carriage, &at, &mut there)
    })?;
    let push = Bounds { factors: [1.0; 3], step: 0.5, pace: Some(1.0), share: 1.0, stiffness: 1.0 };
    bench.measure("points", "push by ten", 60 * count, || {
        device.push_points(&carriage, &at, &ones, &ones, &ones, &[push], &mut [&mut out])
    })
}
