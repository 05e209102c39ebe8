//! The 3x4 affine map of points.

use crate::error::{ImageError, Result};
use nalgebra::{Matrix3, Matrix4, Vector3};
use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;

/// Points of a world: RAS+ millimetres.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {}

/// Places of a grid: voxels along its axes, 0 at the centre of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {}

/// An affine map of points, `x -> matrix x + offset`, whose type says which kind of space it maps from and to:
/// between two [worlds](World) unless said otherwise, or from or to the [indices of a grid](Index). Maps that do
/// not compose do not compile:
///
/// ```
/// use voxalign_image::{Affine, Grid, Index, Vector3};
///
/// let fixed = Grid::axis_aligned([4, 4, 4], [2.0; 3])?;
/// let moving = Grid::axis_aligned([8, 8, 8], [1.0; 3])?;
/// let between: Affine = Affine::translation(Vector3::new(1.0, 0.0, 0.0));
/// let places: Affine<Index, Index> = fixed.to_world().then(&between).then(moving.to_index());
/// assert_eq!(places.apply(Vector3::new(1.0, 0.0, 0.0)), Vector3::new(3.0, 0.0, 0.0));
/// # Ok::<(), voxalign_image::ImageError>(())
/// ```
///
/// ```compile_fail
/// # use voxalign_image::{Affine, Grid, Vector3};
/// # let fixed = Grid::axis_aligned([4, 4, 4], [2.0; 3]).unwrap();
/// # let between: Affine = Affine::translation(Vector3::new(1.0, 0.0, 0.0));
/// let wrong = between.then(fixed.to_world()); // a point of a world is no place of a grid
/// ```
pub struct Affine<A = World, B = World> {
    /// The linear part.
    pub matrix: Matrix3<f64>,
    /// Where the origin goes.
    pub offset: Vector3<f64>,
    spaces: PhantomData<fn(A) -> B>,
}

impl<A, B> Clone for Affine<A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, B> Copy for Affine<A, B> {}

impl<A, B> PartialEq for Affine<A, B> {
    fn eq(&self, other: &Self) -> bool {
        self.matrix == other.matrix && self.offset == other.offset
    }
}

impl<A, B> Debug for Affine<A, B> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let (matrix, offset) = (&self.matrix, &self.offset);
        f.debug_struct("Affine").field("matrix", matrix).field("offset", offset).finish()
    }
}

impl<A, B> Default for Affine<A, B> {
    fn default() -> Self {
        Self::identity()
    }
}

impl<A, B> Affine<A, B> {
    /// The map that moves nothing.
    #[must_use]
    pub fn identity() -> Self {
        Self::new(Matrix3::identity(), Vector3::zeros())
    }

    /// A pure translation.
    #[must_use]
    pub fn translation(offset: Vector3<f64>) -> Self {
        Self::new(Matrix3::identity(), offset)
    }

    /// A linear map about a centre: `x -> matrix (x - centre) + centre + translation`.
    #[must_use]
    pub fn about(matrix: Matrix3<f64>, centre: Vector3<f64>, translation: Vector3<f64>) -> Self {
        Self::new(matrix, centre + translation - matrix * centre)
    }

    /// From linear part and offset.
    #[must_use]
    pub fn new(matrix: Matrix3<f64>, offset: Vector3<f64>) -> Self {
        Self { matrix, offset, spaces: PhantomData }
    }

    /// From the rows of a 3x4 matrix.
    #[must_use]
    pub fn from_rows(rows: [[f64; 4]; 3]) -> Self {
        Self::new(Matrix3::from_fn(|r, c| rows[r][c]), Vector3::from_fn(|r, _| rows[r][3]))
    }

    /// The rows of the 3x4 matrix.
    #[must_use]
    pub fn rows(&self) -> [[f64; 4]; 3] {
        let mut rows = [[0.0; 4]; 3];
        for (r, row) in rows.iter_mut().enumerate() {
            for (c, value) in row.iter_mut().take(3).enumerate() {
                *value = self.matrix[(r, c)];
            }
            row[3] = self.offset[r];
        }
        rows
    }

    /// The homogeneous 4x4 matrix.
    #[must_use]
    pub fn to_homogeneous(&self) -> Matrix4<f64> {
        let mut m = Matrix4::identity();
        m.fixed_view_mut::<3, 3>(0, 0).copy_from(&self.matrix);
        m.fixed_view_mut::<3, 1>(0, 3).copy_from(&self.offset);
        m
    }

    /// From a homogeneous 4x4 matrix; its last row is taken as (0, 0, 0, 1).
    #[must_use]
    pub fn from_homogeneous(m: &Matrix4<f64>) -> Self {
        let (matrix, offset) = (m.fixed_view::<3, 3>(0, 0), m.fixed_view::<3, 1>(0, 3));
        Self::new(matrix.into_owned(), offset.into_owned())
    }

    /// Where a point goes.
    #[must_use]
    pub fn apply(&self, point: Vector3<f64>) -> Vector3<f64> {
        self.matrix * point + self.offset
    }

    /// The map that does `self` first and `next` after it.
    #[must_use]
    pub fn then<C>(&self, next: &Affine<B, C>) -> Affine<A, C> {
        Affine::new(next.matrix * self.matrix, next.matrix * self.offset + next.offset)
    }

    /// The inverse map.
    ///
    /// # Errors
    /// [`ImageError::Singular`] where the linear part cannot be inverted: its determinant is at most
    /// 1e-10 of the product of the lengths of its columns. [`ImageError::NotFinite`] where an entry is
    /// infinite or not a number.
    pub fn inverse(&self) -> Result<Affine<B, A>> {
        if !self.is_finite() {
            return Err(ImageError::NotFinite { rows: self.rows() });
        }
        let determinant = self.matrix.determinant();
        let size = self.matrix.column_iter().map(|c| c.norm()).product::<f64>();
        let singular = || ImageError::Singular { rows: self.rows(), determinant };
        if size <= 0.0 || determinant.abs() <= 1e-10 * size {
            return Err(singular());
        }
        let matrix = self.matrix.try_inverse().ok_or_else(singular)?;
        let inverse = Affine::new(matrix, -(matrix * self.offset));
        if inverse.is_finite() { Ok(inverse) } else { Err(singular()) }
    }

    /// Whether all entries are finite numbers.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.matrix.iter().chain(self.offset.iter()).all(|v| v.is_finite())
    }

    /// Determinant of the linear part: the volume scale factor, negative for a reflection.
    #[must_use]
    pub fn determinant(&self) -> f64 {
        self.matrix.determinant()
    }

    /// The largest distance between where `self` and `other` carry the given points, in the unit of the
    /// world they are carried to; 0 without points.
    #[must_use]
    pub fn largest_distance(&self, other: &Self, points: &[Vector3<f64>]) -> f64 {
        points.iter().map(|&p| (self.apply(p) - other.apply(p)).norm()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_affine() -> impl Strategy<Value = Affine> {
        (prop::array::uniform9(-0.2..0.2f64), prop::array::uniform3(-50.0..50.0f64)).prop_map(
            |(m, t)| {
                Affine::new(Matrix3::identity() + Matrix3::from_row_slice(&m), Vector3::from(t))
            },
        )
    }

    proptest! {
        #[test]
        fn inverse_undoes(a in any_affine(), p in prop::array::uniform3(-100.0..100.0f64)) {
            let p = Vector3::from(p);
            let back = a.inverse().unwrap().apply(a.apply(p));
            prop_assert!((back - p).norm() < 1e-9);
        }

        #[test]
        fn then_is_one_after_the_other(
            a in any_affine(), b in any_affine(), p in prop::array::uniform3(-100.0..100.0f64)
        ) {
            let p = Vector3::from(p);
            prop_assert!((a.then(&b).apply(p) - b.apply(a.apply(p))).norm() < 1e-9);
        }
    }

    #[test]
    fn singular_and_nan_are_errors() {
        let flat: Affine =
            Affine::from_rows([[1., 0., 0., 0.], [0., 1., 0., 0.], [0., 1., 0., 0.]]);
        assert!(matches!(flat.inverse(), Err(ImageError::Singular { .. })));
        let mut nan: Affine = Affine::identity();
        nan.offset[1] = f64::NAN;
        assert!(matches!(nan.inverse(), Err(ImageError::NotFinite { .. })));
    }

    #[test]
    fn homogeneous_round_trip() {
        let a: Affine = Affine::from_rows([[1., 2., 3., 4.], [0., 5., 6., 7.], [0., 0., 8., 9.]]);
        assert_eq!(Affine::from_homogeneous(&a.to_homogeneous()), a);
        assert_eq!(Affine::from_rows(a.rows()), a);
    }
}
