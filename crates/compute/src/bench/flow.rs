//! Measurements of flows of fields.

use super::Bench;
use crate::IDENTITY;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::flow::{Inversion, Limit, Step};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let (image, field) = (bench.image()?, bench.field()?);
    let mut out = device.alloc(3 * n)?;
    let mut norms = device.alloc(3)?;
    device.field_norms(&field, [1.0; 3], &mut norms)?;
    for (name, step) in [("half a voxel", 0.5), ("three voxels", 3.0)] {
        bench.measure("flow", format!("advance by {name}"), 36 * n, || {
            let limit = Limit { largest: &norms, index: 0, step, most: f64::INFINITY };
            let step = Step { scale: [1.0; 3], limit: Some(limit) };
            device.advance(&field, &field, &step, dims, &mut out)
        })?;
    }
    bench.measure("flow", "force", 20 * n, || {
        device.force(&image, &image, dims, [1.0, 1.0, 2.0], false, &mut out)
    })?;
    bench.measure("flow", "force, added", 32 * n, || {
        device.force(&image, &image, dims, [1.0, 1.0, 2.0], true, &mut out)
    })?;
    bench.measure("flow", "force, displaced", 32 * n, || {
        let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]];
        device.force_at(&image, &image, dims, &IDENTITY, &field, dims, &units, &mut out)
    })?;
    bench.measure("flow", "norms", 12 * n, || device.field_norms(&field, [1.0; 3], &mut norms))?;
    let mut lengths = device.alloc(n)?;
    bench.measure("flow", "lengths", 16 * n, || {
        device.field_lengths(&field, [1.0; 3], &mut lengths)
    })?;
    bench.measure("flow", "blend", 40 * n, || {
        device.blend_fields(Some(&field), &lengths, &mut out)
    })?;
    let mut two = device.alloc(2)?;
    bench.measure("flow", "energies", 12 * n, || {
        device.field_energies(&field, dims, [1.0; 3], [1.0, 1.0, 2.0], &mut two)
    })?;
    bench.measure("flow", "inverse, from zero", 36 * n, || {
        out = device.alloc(3 * n)?;
        device.invert_field(&field, dims, Inversion::default(), &mut out).map(|_| ())
    })?;
    let mut halves = device.alloc(3 * n)?;
    bench.measure("flow", "to half precision", 18 * n, || device.to_half(&field, &mut halves))?;
    bench.measure("flow", "from half precision", 18 * n, || device.to_single(&halves, &mut out))
}
