//! Transforms between world spaces.
//!
//! A transform maps points of the fixed world to points of the moving world (RAS+ mm): the
//! direction in which the moving image is resampled onto the fixed grid. Points that belong to the
//! moving image are carried into the fixed world by the inverse.

mod displacement;
mod parameters;

pub use displacement::{Displacement, Residuals};
pub use parameters::AffineParameters;

use crate::affine::Affine;
use crate::error::{ImageError, Result};
use crate::field::VectorField;
use crate::grid::Grid;
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};

/// A rotation about a centre followed by a translation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rigid {
    /// The rotation.
    pub rotation: UnitQuaternion<f64>,
    /// The point that the rotation leaves in place, mm.
    pub centre: Vector3<f64>,
    /// The translation after it, mm.
    pub translation: Vector3<f64>,
}

impl Rigid {
    /// The same map as an affine.
    #[must_use]
    pub fn to_affine(&self) -> Affine {
        let matrix = *self.rotation.to_rotation_matrix().matrix();
        Affine::about(matrix, self.centre, self.translation)
    }

    /// The inverse map, about the image of the centre.
    #[must_use]
    pub fn inverse(&self) -> Rigid {
        Rigid {
            rotation: self.rotation.inverse(),
            centre: self.centre + self.translation,
            translation: -self.translation,
        }
    }
}

/// A rotation and one scale about a centre followed by a translation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similarity {
    /// The rigid part.
    pub rigid: Rigid,
    /// The length scale factor; positive.
    pub scale: f64,
}

impl Similarity {
    /// The same map as an affine.
    #[must_use]
    pub fn to_affine(&self) -> Affine {
        let matrix = *self.rigid.rotation.to_rotation_matrix().matrix() * self.scale;
        Affine::about(matrix, self.rigid.centre, self.rigid.translation)
    }

    /// The inverse map, about the image of the centre.
    ///
    /// # Errors
    /// [`ImageError::Singular`] for a scale that is not a positive number.
    pub fn inverse(&self) -> Result<Similarity> {
        if self.scale > 0.0 && self.scale.is_finite() {
            Ok(Similarity { rigid: self.rigid.inverse(), scale: 1.0 / self.scale })
        } else {
            let affine = self.to_affine();
            Err(ImageError::Singular { rows: affine.rows(), determinant: affine.determinant() })
        }
    }
}

/// A map from fixed world to moving world.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Transform {
    /// Rotation and translation.
    Rigid(Rigid),
    /// Rotation, one scale and translation.
    Similarity(Similarity),
    /// Any affine map.
    Affine(Affine),
    /// A field of displacements.
    Displacement(Displacement),
    /// Several transforms; a fixed point goes through the first, then the next.
    Composite(Vec<Transform>),
}

macro_rules! from_parts {
    ($($part:ident),+) => {$(
        impl From<$part> for Transform {
            fn from(part: $part) -> Self {
                Transform::$part(part)
            }
        }
    )+};
}
from_parts!(Affine, Rigid, Similarity, Displacement);

/// A part of a transform that is applied to many points.
enum Step<'t> {
    Affine(Affine),
    Displacement(&'t Displacement),
}

impl Step<'_> {
    fn apply(&self, point: Vector3<f64>) -> Vector3<f64> {
        match self {
            Step::Affine(t) => t.apply(point),
            Step::Displacement(t) => t.apply(point),
        }
    }
}

impl Transform {
    /// The transform that moves nothing.
    #[must_use]
    pub fn identity() -> Self {
        Transform::Affine(Affine::identity())
    }

    /// The moving world position of a fixed world position.
    #[must_use]
    pub fn apply(&self, point: Vector3<f64>) -> Vector3<f64> {
        match self {
            Transform::Rigid(t) => t.to_affine().apply(point),
            Transform::Similarity(t) => t.to_affine().apply(point),
            Transform::Affine(t) => t.apply(point),
            Transform::Displacement(t) => t.apply(point),
            Transform::Composite(parts) => parts.iter().fold(point, |p, t| t.apply(p)),
        }
    }

    /// The transform that does `self` first and `next` after it; affine parts are merged.
    #[must_use]
    pub fn then(&self, next: &Transform) -> Transform {
        Transform::Composite(vec![self.clone(), next.clone()]).simplified()
    }

    /// The same map with nested composites flattened and neighbouring linear parts merged.
    #[must_use]
    pub fn simplified(self) -> Transform {
        fn push(parts: &mut Vec<Transform>, t: Transform) {
            match t {
                Transform::Composite(inner) => inner.into_iter().for_each(|i| push(parts, i)),
                _ => match (parts.last().map(Transform::to_affine), t.to_affine()) {
                    (Some(Ok(before)), Ok(after)) => {
                        parts.pop();
                        parts.push(Transform::Affine(before.then(&after)));
                    }
                    _ => parts.push(t),
                },
            }
        }
        let mut parts = Vec::new();
        push(&mut parts, self);
        match parts.len() {
            0 => Transform::identity(),
            1 => parts.swap_remove(0),
            _ => Transform::Composite(parts),
        }
    }

    /// The map as an affine.
    ///
    /// # Errors
    /// [`ImageError::NotAffine`] where it holds a displacement field.
    pub fn to_affine(&self) -> Result<Affine> {
        match self {
            Transform::Rigid(t) => Ok(t.to_affine()),
            Transform::Similarity(t) => Ok(t.to_affine()),
            Transform::Affine(t) => Ok(*t),
            Transform::Displacement(_) => Err(ImageError::NotAffine),
            Transform::Composite(parts) => parts
                .iter()
                .try_fold(Affine::identity(), |before, t| Ok(before.then(&t.to_affine()?))),
        }
    }

    /// The inverse map, from moving world to fixed world. That of a field is a field on the same grid:
    /// see [`Displacement::inverse`].
    ///
    /// # Errors
    /// [`ImageError::Singular`] for a linear part without inverse,
    /// [`ImageError::NotInvertible`] for a field that folds.
    pub fn inverse(&self) -> Result<Transform> {
        Ok(match self {
            Transform::Rigid(t) => Transform::Rigid(t.inverse()),
            Transform::Similarity(t) => Transform::Similarity(t.inverse()?),
            Transform::Affine(t) => Transform::Affine(t.inverse()?),
            Transform::Displacement(t) => Transform::Displacement(t.inverse()?),
            Transform::Composite(parts) => Transform::Composite(
                parts.iter().rev().map(Transform::inverse).collect::<Result<_>>()?,
            ),
        })
    }

    /// The fixed world position that this transform maps to the given moving one, and the residual in mm of undoing
    /// the fields on the way to it; for points, more accurate than the [`inverse`](Self::inverse) of a field, which
    /// is known at its voxels only, and faster.
    ///
    /// # Errors
    /// [`ImageError::Singular`] for a linear part without inverse.
    pub fn apply_inverse(&self, point: Vector3<f64>) -> Result<(Vector3<f64>, f64)> {
        match self {
            Transform::Displacement(t) => Ok(t.apply_inverse(point)),
            Transform::Composite(parts) => {
                parts.iter().rev().try_fold((point, 0.0), |(p, left), t| {
                    let (p, more) = t.apply_inverse(p)?;
                    Ok((p, left + more))
                })
            }
            linear => Ok((linear.to_affine()?.inverse()?.apply(point), 0.0)),
        }
    }

    /// The displacements of this transform at the voxels of a grid of the fixed world, mm;
    /// [`try_sampled`](Self::try_sampled) where memory may run out.
    #[must_use]
    pub fn sampled(&self, grid: &Grid) -> VectorField {
        let parts = self.steps();
        VectorField::from_world_fn(grid.clone(), |p| parts.iter().fold(p, |q, t| t.apply(q)) - p)
    }

    /// The displacements of this transform at the voxels of a grid of the fixed world, mm.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_sampled(&self, grid: &Grid) -> Result<VectorField> {
        let parts = self.steps();
        let displaced = |p| parts.iter().fold(p, |q, t| t.apply(q)) - p;
        VectorField::try_from_world_fn(grid.clone(), displaced)
    }

    /// The parts one after the other, neighbouring linear ones merged: once, not for every voxel.
    fn steps(&self) -> Vec<Step<'_>> {
        fn push<'t>(parts: &mut Vec<Step<'t>>, t: &'t Transform) {
            match (t, t.to_affine()) {
                (Transform::Composite(inner), _) => inner.iter().for_each(|i| push(parts, i)),
                (Transform::Displacement(field), _) => parts.push(Step::Displacement(field)),
                (_, Ok(after)) => match parts.last_mut() {
                    Some(Step::Affine(before)) => *before = before.then(&after),
                    _ => parts.push(Step::Affine(after)),
                },
                // No other kind has no matrix.
                (_, Err(_)) => {}
            }
        }
        let mut parts = Vec::new();
        push(&mut parts, self);
        parts
    }

    /// Largest and mean distance in mm between the given points of the fixed world and where this
    /// transform and then `inverse` carry them: the inverse-consistency error. Zero without points.
    #[must_use]
    pub fn inverse_consistency(
        &self,
        inverse: &Transform,
        points: &[Vector3<f64>],
    ) -> InverseConsistency {
        let mut error = InverseConsistency { mean: 0.0, largest: 0.0 };
        for &p in points {
            let d = (inverse.apply(self.apply(p)) - p).norm();
            error.mean += d / points.len() as f64;
            error.largest = error.largest.max(d);
        }
        error
    }
}

/// The inverse-consistency error of a transform and its inverse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InverseConsistency {
    /// Mean distance, mm.
    pub mean: f64,
    /// Largest distance, mm.
    pub largest: f64,
}

/// The proper rotation closest to a matrix in the Frobenius norm, by its singular value
/// decomposition; for a positive determinant the rotation of the polar decomposition. The identity for
/// a matrix that has no decomposition, as one of numbers that are not finite.
#[must_use]
pub fn nearest_rotation(matrix: &Matrix3<f64>) -> Rotation3<f64> {
    let svd = matrix.svd(true, true);
    let (Some(u), Some(mut v_t)) = (svd.u, svd.v_t) else {
        return Rotation3::identity();
    };
    if (u * v_t).determinant() < 0.0 {
        let smallest = svd.singular_values.imin();
        v_t.row_mut(smallest).neg_mut();
    }
    Rotation3::from_matrix_unchecked(u * v_t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rigid() -> Rigid {
        Rigid {
            rotation: UnitQuaternion::from_euler_angles(0.3, -0.5, 1.0),
            centre: Vector3::new(10.0, 20.0, 30.0),
            translation: Vector3::new(1.0, -2.0, 3.0),
        }
    }

    fn field(amplitude: f64) -> Displacement {
        let grid = Grid::axis_aligned([32, 28, 24], [2.0, 2.0, 2.5]).unwrap();
        Displacement::new(VectorField::from_world_fn(grid, |w| {
            Vector3::new((w[1] / 9.0).sin(), (w[2] / 11.0).cos(), (w[0] / 10.0).sin()) * amplitude
        }))
    }

    #[test]
    fn every_linear_transform_has_its_inverse() {
        let points = [Vector3::new(5.0, -7.0, 90.0), Vector3::new(0.0, 0.0, 0.0)];
        let similarity = Similarity { rigid: rigid(), scale: 1.3 };
        let affine = Affine::from_rows([[1.1, 0.2, 0., 4.], [0., 0.9, 0.1, 5.], [0., 0., 1.2, 6.]]);
        for t in [
            Transform::Rigid(rigid()),
            Transform::Similarity(similarity),
            Transform::Affine(affine),
            Transform::Composite(vec![Transform::Rigid(rigid()), Transform::Affine(affine)]),
        ] {
            let e = t.inverse_consistency(&t.inverse().unwrap(), &points);
            assert!(e.largest < 1e-10, "{t:?}: {e:?}");
        }
        let zero = Similarity { rigid: rigid(), scale: 0.0 };
        assert!(zero.inverse().is_err());
    }

    #[test]
    fn composites_apply_first_to_last() {
        let shift = Transform::Affine(Affine::translation(Vector3::new(1.0, 0.0, 0.0)));
        let double = Transform::Affine(Affine::new(Matrix3::identity() * 2.0, Vector3::zeros()));
        let both = shift.then(&double);
        assert_eq!(both.apply(Vector3::zeros()), Vector3::new(2.0, 0.0, 0.0));
        assert!(matches!(both, Transform::Affine(_)));
        let nested = Transform::Composite(vec![
            Transform::Composite(vec![shift.clone(), Transform::Displacement(field(1.0))]),
            Transform::Composite(vec![double.clone(), shift]),
        ]);
        let flat = nested.clone().simplified();
        let Transform::Composite(parts) = &flat else { panic!("{flat:?}") };
        assert_eq!(parts.len(), 3);
        let p = Vector3::new(20.0, 21.0, 22.0);
        assert!((flat.apply(p) - nested.apply(p)).norm() < 1e-12);
        assert_eq!(nested.to_affine(), Err(ImageError::NotAffine));
    }

    #[test]
    fn displacement_inverse_is_consistent() {
        let t = Transform::Displacement(field(2.0));
        let inverse = t.inverse().unwrap();
        let points: Vec<_> = (0..200)
            .map(|i| {
                let i = i as f64;
                Vector3::new(12.0 + i % 37.0, 12.0 + i % 29.0, 14.0 + i % 23.0)
            })
            .collect();
        let e = t.inverse_consistency(&inverse, &points);
        assert!(e.largest < 0.05, "{e:?}");
    }

    #[test]
    fn folding_fields_are_not_invertible() {
        assert!(matches!(
            Transform::Displacement(field(40.0)).inverse(),
            Err(ImageError::NotInvertible { .. })
        ));
    }

    /// A point of the moving image goes to the fixed world through the inverse, to the voxel of the resampled image
    /// that shows it.
    #[test]
    fn points_go_through_the_inverse() {
        let t = Transform::Rigid(rigid());
        let in_fixed = Vector3::new(3.0, 4.0, 5.0);
        let in_moving = t.apply(in_fixed);
        assert!((t.inverse().unwrap().apply(in_moving) - in_fixed).norm() < 1e-12);
    }

    #[test]
    fn nearest_rotation_is_proper() {
        let r = nearest_rotation(&Matrix3::from_diagonal(&Vector3::new(-1.0, 2.0, 3.0)));
        assert!((r.matrix().determinant() - 1.0).abs() < 1e-12);
        let q = Rotation3::from_euler_angles(0.1, 0.2, 0.3);
        let near = nearest_rotation(&(q.matrix() * 2.0));
        assert!((near.matrix() - q.matrix()).norm() < 1e-12);
    }
}
