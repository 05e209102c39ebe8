//! The geometry of an image.

use crate::affine::{Affine, Index, World};
use crate::error::{ImageError, Result};
use nalgebra::{Matrix3, Vector3};
use std::fmt;

/// Dimensions of an image and the affine from voxel index to world (RAS+ mm).
///
/// Index (0, 0, 0) is the centre of the first voxel. Oblique, anisotropic and flipped axes are
/// normal. A two-dimensional image has depth 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    dims: [usize; 3],
    to_world: Affine<Index, World>,
    to_index: Affine<World, Index>,
}

impl Grid {
    /// A grid from its sizes and its index-to-world affine.
    ///
    /// # Errors
    /// [`ImageError::EmptyAxis`] for an axis without voxels, [`ImageError::TooLarge`] for more voxels
    /// than can be addressed, [`ImageError::NotFinite`] or [`ImageError::Singular`] for an affine that is
    /// not finite or cannot be inverted.
    pub fn new(dims: [usize; 3], to_world: Affine<Index, World>) -> Result<Self> {
        if dims.contains(&0) {
            return Err(ImageError::EmptyAxis { dims });
        }
        dims.iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n <= isize::MAX as usize / 16)
            .ok_or(ImageError::TooLarge { dims })?;
        if !to_world.is_finite() {
            return Err(ImageError::NotFinite { rows: to_world.rows() });
        }
        let to_index = to_world.inverse()?;
        Ok(Self { dims, to_world, to_index })
    }

    /// An axis-aligned RAS+ grid with the given spacing whose first voxel is at the origin.
    ///
    /// # Errors
    /// As [`Grid::new`].
    pub fn axis_aligned(dims: [usize; 3], spacing: [f64; 3]) -> Result<Self> {
        let matrix = Matrix3::from_diagonal(&Vector3::from(spacing));
        Self::new(dims, Affine::new(matrix, Vector3::zeros()))
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.dims
    }

    /// Number of voxels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Never: a grid has at least one voxel. (For symmetry with [`Grid::len`].)
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the image is one slice.
    #[must_use]
    pub fn is_2d(&self) -> bool {
        self.dims[2] == 1
    }

    /// The affine from voxel index to world mm.
    #[must_use]
    pub fn to_world(&self) -> &Affine<Index, World> {
        &self.to_world
    }

    /// The affine from world mm to voxel index.
    #[must_use]
    pub fn to_index(&self) -> &Affine<World, Index> {
        &self.to_index
    }

    /// World position of a (fractional) index, also outside of the grid.
    #[must_use]
    pub fn index_to_world(&self, index: Vector3<f64>) -> Vector3<f64> {
        self.to_world.apply(index)
    }

    /// Fractional index of a world position, also outside of the grid.
    #[must_use]
    pub fn world_to_index(&self, world: Vector3<f64>) -> Vector3<f64> {
        self.to_index.apply(world)
    }

    /// Distance of neighbouring voxel centres along each axis, mm.
    #[must_use]
    pub fn spacing(&self) -> [f64; 3] {
        std::array::from_fn(|c| self.to_world.matrix.column(c).norm())
    }

    /// Unit vectors of the voxel axes in world space, as columns.
    #[must_use]
    pub fn direction(&self) -> Matrix3<f64> {
        let spacing = self.spacing();
        Matrix3::from_fn(|r, c| self.to_world.matrix[(r, c)] / spacing[c])
    }

    /// World position of the first voxel's centre.
    #[must_use]
    pub fn origin(&self) -> Vector3<f64> {
        self.to_world.offset
    }

    /// World position of the middle of the image.
    #[must_use]
    pub fn centre(&self) -> Vector3<f64> {
        self.index_to_world(Vector3::from_fn(|a, _| (self.dims[a] as f64 - 1.0) / 2.0))
    }

    /// Volume of one voxel, mm^3.
    #[must_use]
    pub fn voxel_volume(&self) -> f64 {
        self.to_world.determinant().abs()
    }

    /// Extent along each axis, outer face to outer face, mm.
    #[must_use]
    pub fn extent(&self) -> [f64; 3] {
        let spacing = self.spacing();
        std::array::from_fn(|a| spacing[a] * self.dims[a] as f64)
    }

    /// World positions of the eight corner voxels' centres.
    #[must_use]
    pub fn corners(&self) -> [Vector3<f64>; 8] {
        std::array::from_fn(|k| {
            self.index_to_world(Vector3::from_fn(|a, _| {
                if k >> a & 1 == 1 { self.dims[a] as f64 - 1.0 } else { 0.0 }
            }))
        })
    }

    /// Three letters for the direction of each axis, such as `RAS` or `LPS`: the world direction that each axis is
    /// closest to.
    #[must_use]
    pub fn orientation(&self) -> String {
        let direction = self.direction();
        let mut best = ([0, 1, 2], f64::MIN);
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let sum = (0..3).map(|axis| direction[(order[axis], axis)].abs()).sum::<f64>();
            if sum > best.1 + 1e-9 {
                best = (order, sum);
            }
        }
        (0..3)
            .map(|axis| {
                let world = best.0[axis];
                let letters = [['L', 'R'], ['P', 'A'], ['I', 'S']][world];
                letters[usize::from(direction[(world, axis)] > 0.0)]
            })
            .collect()
    }

    /// Largest angle, in radians, between a voxel axis and the world axis it is closest to.
    #[must_use]
    pub fn obliqueness(&self) -> f64 {
        let direction = self.direction();
        (0..3).map(|c| direction.column(c).amax().clamp(-1.0, 1.0).acos()).fold(0.0, f64::max)
    }

    /// Largest deviation, in radians, of the angle between two voxel axes from a right angle.
    #[must_use]
    pub fn skewness(&self) -> f64 {
        let d = self.direction();
        [(0, 1), (0, 2), (1, 2)]
            .iter()
            .map(|&(a, b)| d.column(a).dot(&d.column(b)).clamp(-1.0, 1.0).asin().abs())
            .fold(0.0, f64::max)
    }

    /// Whether voxel axes form a right-handed system (positive determinant): what FSL calls
    /// "neurological" storage.
    #[must_use]
    pub fn is_right_handed(&self) -> bool {
        self.to_world.determinant() > 0.0
    }

    /// Whether a fractional index lies within the outer faces of the voxels: from -½ to n - ½ along
    /// each axis, both included.
    #[must_use]
    pub fn contains_index(&self, index: Vector3<f64>) -> bool {
        (0..3).all(|a| index[a] >= -0.5 && index[a] <= self.dims[a] as f64 - 0.5)
    }

    /// The grid over the same field of view with about the given spacing in mm along each axis.
    ///
    /// Outer faces stay where they are as nearly as whole voxels allow, and the centre stays
    /// exactly. Axes of size 1 are kept. The spacing is exactly the one asked for on other axes.
    ///
    /// # Errors
    /// [`ImageError::TooLarge`] for a spacing that is not a positive number, or so small that the voxels
    /// cannot be addressed.
    pub fn with_spacing(&self, spacing: [f64; 3]) -> Result<Grid> {
        let old = self.spacing();
        let mut dims = self.dims;
        let mut matrix = self.to_world.matrix;
        for a in 0..3 {
            if self.dims[a] == 1 {
                continue;
            }
            if !(spacing[a] > 0.0 && spacing[a].is_finite()) {
                return Err(ImageError::Spacing { spacing });
            }
            let count = (self.dims[a] as f64 * old[a] / spacing[a] - 1e-6).ceil();
            if count > 1e15 {
                return Err(ImageError::TooLarge { dims: self.dims });
            }
            dims[a] = (count as usize).max(1);
            let factor = spacing[a] / old[a];
            matrix.column_mut(a).scale_mut(factor);
        }
        let middle = Vector3::from_fn(|a, _| (dims[a] as f64 - 1.0) / 2.0);
        Grid::new(dims, Affine::new(matrix, self.centre() - matrix * middle))
    }

    /// The same grid seen through a world transform: `world` becomes `transform(world)`.
    ///
    /// # Errors
    /// As [`Grid::new`].
    pub fn moved(&self, transform: &Affine) -> Result<Grid> {
        Grid::new(self.dims, self.to_world.then(transform))
    }

    /// Whether sizes agree and all corners are within `tolerance` mm of each other.
    #[must_use]
    pub fn approx_eq(&self, other: &Grid, tolerance: f64) -> bool {
        self.dims == other.dims
            && self.corners().iter().zip(other.corners()).all(|(a, b)| (a - b).norm() <= tolerance)
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.dims;
        let [sx, sy, sz] = self.spacing();
        let o = self.origin();
        write!(
            f,
            "{x}x{y}x{z} voxels of {sx:.4}x{sy:.4}x{sz:.4} mm, {}, origin ({:.3}, {:.3}, {:.3})",
            self.orientation(),
            o[0],
            o[1],
            o[2]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oblique() -> Grid {
        let r = nalgebra::Rotation3::from_euler_angles(0.1, -0.2, 0.3);
        let m = r.matrix() * Matrix3::from_diagonal(&Vector3::new(-1.0, 2.0, 3.0));
        Grid::new([5, 6, 7], Affine::new(m, Vector3::new(1.0, 2.0, 3.0))).unwrap()
    }

    #[test]
    fn index_and_world_are_inverse() {
        let g = oblique();
        let p = Vector3::new(1.5, 2.25, -3.0);
        assert!((g.world_to_index(g.index_to_world(p)) - p).norm() < 1e-12);
        assert_eq!(g.len(), 210);
        let s = g.spacing();
        assert!((s[0] - 1.0).abs() + (s[1] - 2.0).abs() + (s[2] - 3.0).abs() < 1e-12);
        assert!(!g.is_right_handed());
        assert_eq!(g.orientation(), "LAS");
        assert!((g.voxel_volume() - 6.0).abs() < 1e-9);
        assert!(g.skewness() < 1e-9);
        assert!(g.obliqueness() > 0.2);
    }

    #[test]
    fn orientation_is_a_permutation_even_at_45_degrees() {
        let r = nalgebra::Rotation3::from_euler_angles(0.0, 0.0, std::f64::consts::FRAC_PI_4);
        let g = Grid::new([2, 2, 2], Affine::new(*r.matrix(), Vector3::zeros())).unwrap();
        let code = g.orientation();
        assert!(["RAS", "ALS"].contains(&code.as_str()), "{code}");
    }

    #[test]
    fn bad_grids_are_errors() {
        assert!(matches!(
            Grid::new([0, 1, 1], Affine::identity()),
            Err(ImageError::EmptyAxis { .. })
        ));
        assert!(matches!(
            Grid::new([usize::MAX, 2, 2], Affine::identity()),
            Err(ImageError::TooLarge { .. })
        ));
        assert!(matches!(
            Grid::axis_aligned([2, 2, 2], [1.0, 0.0, 1.0]),
            Err(ImageError::Singular { .. })
        ));
        assert!(matches!(
            Grid::axis_aligned([2, 2, 2], [1.0, f64::NAN, 1.0]),
            Err(ImageError::NotFinite { .. })
        ));
    }

    #[test]
    fn with_spacing_keeps_centre_and_view() {
        let g = oblique();
        let h = g.with_spacing([2.0, 2.0, 2.0]).unwrap();
        assert!((g.centre() - h.centre()).norm() < 1e-9);
        assert_eq!(h.dims(), [3, 6, 11]);
        assert_eq!(h.orientation(), g.orientation());
        let flat = Grid::axis_aligned([10, 10, 1], [1.0, 1.0, 5.0]).unwrap();
        assert_eq!(flat.with_spacing([2.0, 2.0, 2.0]).unwrap().dims(), [5, 5, 1]);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = g.with_spacing([bad, 1.0, 1.0]).unwrap_err();
            assert!(matches!(error, ImageError::Spacing { .. }), "{error}");
        }
        assert!(matches!(g.with_spacing([1e-300; 3]), Err(ImageError::TooLarge { .. })));
    }
}
