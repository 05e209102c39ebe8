//! The safeguard against folds and extreme changes of volume.

use super::measures::stays_inside;
use crate::error::Result;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer, Dims, IDENTITY};

/// The least and the most that volumes may change, as determinants of the Jacobian. Beyond them the
/// inverse is too coarsely sampled to be consistent.
const VOLUMES: (f64, f64) = (0.2, 5.0);
/// The most rounds.
const ROUNDS: usize = 60;
/// Voxels around such a place that are smoothed with it.
const REACH: usize = 3;

/// Smooths a displacement field near voxels where it changes volumes to less than a fifth or to more
/// than five times, and nowhere else, until there are none (or a number of rounds is over); the
/// voxels that were touched, summed over the rounds.
///
/// # Errors
/// What fails on the device.
pub fn mend<D: Device>(device: &D, field: &mut D::Buffer<f32>, dims: Dims) -> Result<usize> {
    let (smallest, largest) = VOLUMES;
    let n = dims.iter().product::<usize>();
    let mut jacobian = device.alloc::<f32>(n)?;
    let mut touched = 0;
    for _ in 0..ROUNDS {
        device.jacobian_determinant(field, dims, &mut jacobian)?;
        let ends = device.reduce(&[&jacobian], &[Reduction::Min(0), Reduction::Max(0)])?;
        if ends[0] >= smallest && ends[1] <= largest {
            break;
        }
        let near = x(0).lt(param(0)).max(x(0).gt(param(1)));
        let mut mask = device.alloc::<f32>(n)?;
        device.eval(&near, &[&jacobian], &[smallest as f32, largest as f32], None, &mut mask)?;
        touched += smooth_near(device, field, dims, mask)?;
    }
    Ok(touched)
}

/// The largest inverse-consistency error that is usually left as it is, voxels.
pub const ERROR: f64 = 0.4;
/// The most rounds of smoothing for consistency.
const REPAIRS: usize = 20;

/// Inverts a field, and where going there and back misses by more than `error` voxels, because
/// the inverse changes too fast to be interpolated, smooths the field and inverts it again; the
/// voxels that were touched, summed over the rounds. `inverse` is the start, and gets the inverse.
///
/// # Errors
/// What fails on the device.
pub fn invert_consistently<D: Device>(
    device: &D,
    field: &mut D::Buffer<f32>,
    dims: Dims,
    inverse: &mut D::Buffer<f32>,
    error: f64,
) -> Result<usize> {
    let n = dims.iter().product::<usize>();
    let mut touched = 0;
    for round in 0..=REPAIRS {
        device.invert_field(field, dims, Inversion::default(), inverse)?;
        if round == REPAIRS {
            break;
        }
        let mut off = device.alloc::<f32>(3 * n)?;
        device.compose_fields(inverse, dims, &IDENTITY, field, dims, &mut off)?;
        let mut mask = device.alloc::<f32>(n)?;
        device.field_lengths(&off, [1.0; 3], &mut mask)?;
        drop(off);
        // Beyond the grid the inverse is not known.
        let inside = stays_inside(device, field, dims)?;
        device.eval_in_place(&(x(0) * x(1)), &mut mask, &[&inside], &[], None)?;
        drop(inside);
        if device.reduce(&[&mask], &[Reduction::Max(0)])?[0] <= error {
            break;
        }
        device.eval_in_place(&x(0).gt(param(0)), &mut mask, &[], &[error as f32], None)?;
        touched += smooth_near(device, field, dims, mask)?;
    }
    Ok(touched)
}

/// Smooths a field around the voxels where `mask` is 1, fading over a few voxels; the voxels touched.
fn smooth_near<D: Device>(
    device: &D,
    field: &mut D::Buffer<f32>,
    dims: Dims,
    mask: D::Buffer<f32>,
) -> Result<usize> {
    let mut mask = mask;
    let mut wide = device.alloc::<f32>(mask.len())?;
    device.box_mean(&mask, dims, [REACH; 3], &mut wide)?;
    device.eval(&x(0).gt(param(0)), &[&wide], &[1e-6], None, &mut mask)?;
    let touched = device.reduce(&[&mask], &[Reduction::Sum(0)])?[0] as usize;
    device.gaussian(&mask, dims, [1.0; 3], GaussianMethod::Recursive, &mut wide)?;
    let mut smooth = device.alloc::<f32>(field.len())?;
    device.gaussian(field, dims, [1.0; 3], GaussianMethod::Recursive, &mut smooth)?;
    device.blend_fields(Some(&smooth), &wide, field)?;
    Ok(touched)
}
