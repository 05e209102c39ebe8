//! Displacements of a middle, one after the other, on the grid of an image.

use crate::error::Result;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::{AffineMap, Device, Dims};

/// The displacement `first`, then `second`, both on the middle, on another grid.
///
/// # Errors
/// What fails on the device.
pub(super) fn through<D: Device>(
    device: &D,
    first: &D::Buffer<f32>,
    second: &D::Buffer<f32>,
    middle: Dims,
    map: &AffineMap,
    dims: Dims,
) -> Result<D::Buffer<f32>> {
    let n: usize = dims.iter().product();
    let mut inner = device.alloc::<f32>(3 * n)?;
    device.resample_field(first, middle, map, dims, &mut inner)?;
    let mut out = device.alloc::<f32>(3 * n)?;
    device.compose_fields(second, middle, map, &inner, dims, &mut out)?;
    Ok(out)
}

/// As [`through`], where the first displacement undoes another one, which is given with it: at the
/// voxels of the other grid it is [settled], not interpolated.
///
/// # Errors
/// What fails on the device.
pub(super) fn way<D: Device>(
    device: &D,
    (undo, done): (&D::Buffer<f32>, &D::Buffer<f32>),
    second: &D::Buffer<f32>,
    middle: Dims,
    map: &AffineMap,
    dims: Dims,
) -> Result<D::Buffer<f32>> {
    let n: usize = dims.iter().product();
    let mut inner = device.alloc::<f32>(3 * n)?;
    device.resample_field(undo, middle, map, dims, &mut inner)?;
    settled(device, done, middle, map, dims, &mut inner)?;
    let mut out = device.alloc::<f32>(3 * n)?;
    device.compose_fields(second, middle, map, &inner, dims, &mut out)?;
    Ok(out)
}

/// Steps of [`settled`].
const STEPS: usize = 4;

/// Brings displacements on another grid that nearly undo `field` nearer to it, `w ← w − (w + u(x + w))`,
/// and keeps at each voxel what misses least.
fn settled<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    middle: Dims,
    map: &AffineMap,
    dims: Dims,
    inverse: &mut D::Buffer<f32>,
) -> Result<()> {
    let n: usize = dims.iter().product();
    let (mut rest, mut next) = (device.alloc::<f32>(3 * n)?, device.alloc::<f32>(3 * n)?);
    let (mut off, mut off_next) = (device.alloc::<f32>(n)?, device.alloc::<f32>(n)?);
    let mut better = device.alloc::<f32>(n)?;
    device.compose_fields(field, middle, map, inverse, dims, &mut rest)?;
    device.field_lengths(&rest, [1.0; 3], &mut off)?;
    for _ in 0..STEPS {
        device.eval(&(x(0) - x(1)), &[&*inverse, &rest], &[], None, &mut next)?;
        device.compose_fields(field, middle, map, &next, dims, &mut rest)?;
        device.field_lengths(&rest, [1.0; 3], &mut off_next)?;
        device.eval(&x(0).lt(x(1)), &[&off_next, &off], &[], None, &mut better)?;
        device.blend_fields(Some(&next), &better, inverse)?;
        device.compose_fields(field, middle, map, inverse, dims, &mut rest)?;
        device.field_lengths(&rest, [1.0; 3], &mut off)?;
    }
    Ok(())
}
