//! Decomposition of an affine map into translation, rotation, scales and shears.

use crate::affine::Affine;
use nalgebra::{Matrix3, Rotation3, Vector3};

/// Translation, rotation, scales and shears of an affine map about a centre:
/// `x -> R S K (x - centre) + centre + translation`.
///
/// `R = Rz(rz) Ry(ry) Rx(rx)`, `S` the diagonal of the scales and `K` the upper triangular matrix
/// of the shears with ones on its diagonal. Every invertible affine map has exactly one such form
/// with positive scales (up to the usual ambiguity of Euler angles at `ry` = 90 degrees); a
/// reflection gets a negative third scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AffineParameters {
    /// The point about which the linear part acts, mm.
    pub centre: Vector3<f64>,
    /// Translation of the centre, mm.
    pub translation: Vector3<f64>,
    /// Rotation angles about the x, y and z axes, radians.
    pub rotation: Vector3<f64>,
    /// Factors along the x, y and z axes.
    pub scale: Vector3<f64>,
    /// Shears xy, xz and yz.
    pub shear: Vector3<f64>,
}

impl AffineParameters {
    /// The parameters of the identity about a centre.
    #[must_use]
    pub fn identity(centre: Vector3<f64>) -> Self {
        Self {
            centre,
            translation: Vector3::zeros(),
            rotation: Vector3::zeros(),
            scale: Vector3::repeat(1.0),
            shear: Vector3::zeros(),
        }
    }

    /// The affine map.
    #[must_use]
    pub fn to_affine(&self) -> Affine {
        let r = self.rotation_matrix();
        let k = self.shear;
        let shear = Matrix3::new(1.0, k[0], k[1], 0.0, 1.0, k[2], 0.0, 0.0, 1.0);
        let matrix = r * Matrix3::from_diagonal(&self.scale) * shear;
        Affine::about(matrix, self.centre, self.translation)
    }

    /// The rotation matrix `Rz Ry Rx`.
    #[must_use]
    pub fn rotation_matrix(&self) -> Matrix3<f64> {
        let r = self.rotation;
        *Rotation3::from_euler_angles(r[0], r[1], r[2]).matrix()
    }

    /// The total rotation angle, radians.
    #[must_use]
    pub fn angle(&self) -> f64 {
        Rotation3::from_matrix_unchecked(self.rotation_matrix()).angle()
    }

    /// The parts of an affine map about a centre, by a QR decomposition. Of a map that cannot be
    /// inverted a scale is 0, and the shears that belong to it are 0 too.
    #[must_use]
    pub fn from_affine(affine: &Affine, centre: Vector3<f64>) -> Self {
        let translation = affine.apply(centre) - centre;
        let qr = affine.matrix.qr();
        let mut q = qr.q();
        let mut r = qr.r();
        for i in 0..3 {
            if r[(i, i)] < 0.0 {
                q.column_mut(i).neg_mut();
                r.row_mut(i).neg_mut();
            }
        }
        if q.determinant() < 0.0 {
            q.column_mut(2).neg_mut();
            r.row_mut(2).neg_mut();
        }
        let scale = r.diagonal();
        let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        let shear = Vector3::new(
            ratio(r[(0, 1)], scale[0]),
            ratio(r[(0, 2)], scale[0]),
            ratio(r[(1, 2)], scale[1]),
        );
        let (rx, ry, rz) = Rotation3::from_matrix_unchecked(q).euler_angles();
        Self { centre, translation, rotation: Vector3::new(rx, ry, rz), scale, shear }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_and_map_agree(
            t in prop::array::uniform3(-30.0..30.0f64),
            r in prop::array::uniform3(-1.4..1.4f64),
            s in prop::array::uniform3(0.5..2.0f64),
            k in prop::array::uniform3(-0.3..0.3f64),
            c in prop::array::uniform3(-90.0..90.0f64),
        ) {
            let p = AffineParameters {
                centre: c.into(),
                translation: t.into(),
                rotation: r.into(),
                scale: s.into(),
                shear: k.into(),
            };
            let q = AffineParameters::from_affine(&p.to_affine(), p.centre);
            prop_assert!((q.translation - p.translation).norm() < 1e-9);
            prop_assert!((q.rotation - p.rotation).norm() < 1e-9);
            prop_assert!((q.scale - p.scale).norm() < 1e-9);
            prop_assert!((q.shear - p.shear).norm() < 1e-9);
        }
    }

    #[test]
    fn a_reflection_has_a_negative_scale() {
        let mirror = Affine::new(
            Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.0)),
            Vector3::new(1.0, 2.0, 3.0),
        );
        let p = AffineParameters::from_affine(&mirror, Vector3::new(4.0, 5.0, 6.0));
        assert!(p.scale[2] < 0.0 && p.scale[0] > 0.0 && p.scale[1] > 0.0);
        assert!((p.to_affine().matrix - mirror.matrix).norm() < 1e-12);
        assert!((p.to_affine().offset - mirror.offset).norm() < 1e-12);
    }
}
