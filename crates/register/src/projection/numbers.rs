//! The six parameters of a pose: rotation and translation of the CT in the room.

use crate::error::Result;
use voxalign_image::{Affine, AffineParameters, Vector3};

/// How a pose, a rigid map from the room to the world of the CT, rotates and translates the CT in the room relative
/// to its own world: rotated about x, y and z, in that order, through `centre`, a point of the CT in its own world,
/// mm; then translated.
#[must_use]
pub fn motion_of(pose: &Affine, centre: Vector3<f64>) -> AffineParameters {
    AffineParameters::from_affine(&back(pose), centre)
}

/// The pose of such a motion (the inverse of [`motion_of`]): angles, radians, about x, y and z through `centre`, and mm.
///
/// # Errors
/// Numbers that are not finite.
pub fn pose_of(
    centre: Vector3<f64>,
    rotation: Vector3<f64>,
    translation: Vector3<f64>,
) -> Result<Affine> {
    let moved = AffineParameters { rotation, translation, ..AffineParameters::identity(centre) };
    Ok(moved.to_affine().inverse()?)
}

/// The six numbers of the motion of the CT in the room from one pose to another: mm of the place in the room that `centre` has at the
/// first, and radians about the axes of the room through it.
pub(super) fn between(from: &Affine, to: &Affine, centre: Vector3<f64>) -> [f64; 6] {
    let place = back(from).apply(centre);
    let AffineParameters { translation: t, rotation: r, .. } =
        AffineParameters::from_affine(&from.then(&back(to)), place);
    [t.x, t.y, t.z, r.x, r.y, r.z]
}

/// The inverse of a rigid map.
fn back(map: &Affine) -> Affine {
    let turn = map.matrix.transpose();
    Affine::new(turn, -(turn * map.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_the_pose_and_come_back() {
        let centre = Vector3::new(40.0, -90.0, 700.0);
        let rotation = Vector3::new(0.2, -0.3, 2.4);
        let translation = Vector3::new(8.0, -6.0, 11.0);
        let pose = pose_of(centre, rotation, translation).unwrap();
        let found = motion_of(&pose, centre);
        assert!((found.rotation - rotation).norm() < 1e-12);
        assert!((found.translation - translation).norm() < 1e-9);
        // The centre is where it was moved to, however the CT is turned.
        assert!((pose.inverse().unwrap().apply(centre) - centre - translation).norm() < 1e-9);
        // Further by a millimetre and a tenth of a radian, about where it is.
        let further = AffineParameters {
            rotation: Vector3::new(0.0, 0.1, 0.0),
            translation: Vector3::new(0.0, 0.0, 1.0),
            ..AffineParameters::identity(centre + translation)
        };
        let other = further.to_affine().inverse().unwrap().then(&pose);
        let by = between(&pose, &other, centre);
        let expected = [0.0, 0.0, 1.0, 0.0, 0.1, 0.0];
        assert!(by.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{by:?}");
    }
}
