//! How fast the forces of slices change where a body moves.

use super::OnScale;
use crate::error::Result;
use crate::model::elastic::body::vectors;
use crate::model::elastic::coupling::{Coupled, Sampled, variance};
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::{AffineMap, Device};
use voxalign_elasticity::Pattern;
use voxalign_image::{Matrix3, memory};

/// Moves the components of covectors on by one.
const NEXT: AffineMap = [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]];

/// Where the slices are now: of the energy times a pressure, kPa, whose curvature in the value of a pixel is known or that of a squared difference; `whole` where forces are
/// those of the energy.
///
/// # Errors
/// Memory that runs out.
pub(super) fn coupled<D: Device>(
    device: &D,
    on: &OnScale<D>,
    (warped, weights): (&D::Buffer<f32>, &D::Buffer<f32>),
    (curvature, whole): (Option<f64>, bool),
    pressure: f64,
    pattern: &Pattern,
) -> Result<Coupled> {
    let n = on.located.count();
    let mut root = device.alloc(n)?;
    device.eval(&x(0).max(0.0).sqrt(), &[weights], &[], None, &mut root)?;
    let (mut gradient, mut next) = (device.alloc(3 * n)?, device.alloc(3 * n)?);
    on.covectors(device, &root, &mut gradient)?;
    device.map_covectors(&NEXT, &gradient, &mut next)?;
    let factor = match curvature {
        Some(curvature) => curvature,
        // As of a squared difference of values whose variance is 1.
        None => 2.0 / variance(device, warped, Some(weights))?.max(f64::MIN_POSITIVE),
    };
    let mut blocks = memory::filled(on.mesh.vertices, Matrix3::zeros())?;
    let mut product = device.alloc(3 * n)?;
    let mut sums = device.alloc(3 * on.mesh.vertices)?;
    for (other, shift) in [(&gradient, 0), (&next, 1)] {
        device.eval(&(x(0) * x(1)), &[&gradient, other], &[], None, &mut product)?;
        let (placed, lists) = (on.located.placed(&on.mesh), on.located.gather(&on.mesh));
        device.to_nodes(&placed, Some(lists), &product, &mut sums)?;
        let sums = vectors(&device.download(&sums)?);
        for (block, s) in blocks.iter_mut().zip(&sums) {
            for a in 0..3 {
                let b = (a + shift) % 3;
                block[(a, b)] = factor * s[a];
                block[(b, a)] = block[(a, b)];
            }
        }
    }
    let sampled = Sampled {
        unit: pressure * on.unit,
        voxel: on.pixels.spacing,
        whole,
        learns: curvature.is_none(),
    };
    Coupled::of(blocks, sampled, pattern)
}
