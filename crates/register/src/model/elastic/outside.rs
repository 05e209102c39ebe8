//! The displacement outside of a mesh.

use super::body::{DeviceMesh, Places};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::filter::GaussianMethod;

/// The standard deviation of the Gaussian by which a displacement falls off outside of a mesh, mm: at twice that it is a twentieth of what it
/// is at a flat border, at thrice nothing.
pub const FALL_OFF_MM: f64 = 10.0;

/// Weights below this are those of no neighbour inside.
const LEAST: f32 = 1e-6;

/// Continues a field outside of a mesh: near it with the mean of what is inside around there, farther away less and less
/// of it. Finer and finer means between what is inside and the continuation make it continuous at the border.
///
/// # Errors
/// Memory that runs out.
pub(super) fn extend<D: Device>(
    device: &D,
    (mesh, places): (&DeviceMesh<D>, &Places<D>),
    field: &mut D::Buffer<f32>,
) -> Result<()> {
    let grid = &places.grid;
    let (dims, spacing, n) = (grid.dims(), grid.spacing(), grid.len());
    let smallest = spacing.into_iter().fold(f64::MAX, f64::min);
    // 1 in the mesh, else 0, for each component.
    let mut thrice = device.alloc::<f32>(3 * n)?;
    let ones = device.upload(&vec![1.0f32; 3 * mesh.vertices])?;
    device.to_samples(&places.placed(mesh), &ones, &mut thrice)?;
    let sigmas = |width: f64| [0, 1, 2].map(|a| if dims[a] > 1 { width / spacing[a] } else { 0.0 });
    let wide = sigmas(FALL_OFF_MM);
    // 0 outside, as the mesh has no displacement there.
    device.eval_in_place(&select(x(1).gt(0.5), x(0), 0.0), field, &[&thrice], &[], None)?;
    let mut smooth = device.alloc::<f32>(3 * n)?;
    let mut weights = device.alloc::<f32>(3 * n)?;
    device.gaussian(field, dims, wide, GaussianMethod::Recursive, &mut smooth)?;
    device.gaussian(&thrice, dims, wide, GaussianMethod::Recursive, &mut weights)?;
    // The mean times what is 1 where half of the neighbours are inside, and falls off from there.
    let mean = x(1) / x(2).max(param(0));
    let part = (x(2) * 2.0).min(1.0);
    let outside = select(x(3).gt(0.5), x(0), mean * part);
    device.eval_in_place(&outside, field, &[&smooth, &weights, &thrice], &[LEAST], None)?;
    drop(weights);
    let mut width = FALL_OFF_MM / 2.0;
    let keep = select(x(2).gt(0.5), x(0), x(1));
    while width >= 0.5 * smallest {
        for _ in 0..2 {
            device.gaussian(field, dims, sigmas(width), GaussianMethod::Recursive, &mut smooth)?;
            device.eval_in_place(&keep, field, &[&smooth, &thrice], &[], None)?;
        }
        width /= 2.0;
    }
    Ok(())
}
