//! The rays of a view through the voxels of a CT.

use crate::error::Result;
use voxalign_compute::ops::raycast::{RayView, ViewDerivatives};
use voxalign_image::{Affine, Grid, Matrix3, Vector3, XrayGeometry};

/// The four places of a geometry.
fn places(view: &XrayGeometry) -> [Vector3<f64>; 4] {
    [view.source(), view.origin(), view.column(), view.row()]
}

/// The rays of a view through the voxels of `ct`, where `pose` maps the room to the world of the CT. Lengths are those of
/// the room.
#[must_use]
pub fn ray_view(view: &XrayGeometry, pose: &Affine, ct: &Grid) -> RayView {
    let in_voxels = pose.then(ct.to_index());
    let world = places(view);
    let [source, origin, column, row] = world;
    let places = [
        in_voxels.apply(source),
        in_voxels.apply(origin),
        in_voxels.matrix * column,
        in_voxels.matrix * row,
    ];
    RayView { places: places.map(Into::into), world: world.map(Into::into) }
}

/// Brings a derivative in the rays of a view to the twelve numbers of the pose (3x4, row by row).
///
/// # Errors
/// A view or a step that cannot be.
pub fn to_map(
    view: &XrayGeometry,
    pose: &Affine,
    ct: &Grid,
    step: f64,
    of_rays: &ViewDerivatives,
) -> Result<[f64; 12]> {
    let derivative = ray_view(view, pose, ct).derivative(ct.dims(), step, of_rays)?;
    let to_index: Matrix3<f64> = ct.to_index().matrix;
    let (mut linear, mut offset) = (Matrix3::zeros(), Vector3::zeros());
    for (number, (place, of_ray)) in places(view).iter().zip(derivative).enumerate() {
        let of_ray = to_index.transpose() * Vector3::from(of_ray);
        linear += of_ray * place.transpose();
        // Source and origin are points, the others are steps.
        if number < 2 {
            offset += of_ray;
        }
    }
    let mut rows = [0.0; 12];
    for r in 0..3 {
        for c in 0..3 {
            rows[4 * r + c] = linear[(r, c)];
        }
        rows[4 * r + 3] = offset[r];
    }
    Ok(rows)
}
