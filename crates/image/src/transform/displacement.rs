//! Displacement fields as transforms.

use crate::error::{ImageError, Result};
use crate::field::VectorField;
use nalgebra::Vector3;

/// `x -> x + u(x)` with `u` in world millimetres, interpolated linearly; outside the field's
/// grid points stay where they are, as ITK does.
#[derive(Debug, Clone, PartialEq)]
pub struct Displacement {
    field: VectorField,
}

/// Iterations of the fixed-point inversion.
const ITERATIONS: usize = 50;
/// Accuracy of the inversion at which a voxel counts as done, as a part of the smallest spacing.
const TOLERANCE: f64 = 1e-3;

impl Displacement {
    /// A transform from a field of world displacements in mm.
    #[must_use]
    pub fn new(field: VectorField) -> Self {
        Self { field }
    }

    /// The field.
    #[must_use]
    pub fn field(&self) -> &VectorField {
        &self.field
    }

    /// The image of a point.
    #[must_use]
    pub fn apply(&self, point: Vector3<f64>) -> Vector3<f64> {
        point + self.field.sample(point).unwrap_or_else(Vector3::zeros)
    }

    /// The inverse on the same grid, by the fixed-point iteration `v(y) <- -u(y + v(y))`, which
    /// converges where the displacement's gradient is below 1 in norm (Chen et al. 2008); a voxel
    /// whose error grows takes half steps. Beyond the border the field is continued by its border
    /// values, so that the inverse stays smooth up to the border of its grid.
    ///
    /// # Errors
    /// [`ImageError::NotInvertible`] where more than one voxel in a thousand does not converge.
    pub fn inverse(&self) -> Result<Displacement> {
        let grid = self.field.grid();
        let [nx, ny, nz] = grid.dims();
        let spacing = grid.spacing();
        let used = if grid.is_2d() { &spacing[..2] } else { &spacing[..] };
        let tolerance = TOLERANCE * used.iter().fold(f64::MAX, |a, &b| a.min(b));
        let mut inverse = VectorField::zeros(grid.clone());
        let mut unconverged = 0;
        let mut largest: f64 = 0.0;
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    let i = (z * ny + y) * nx + x;
                    let target = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
                    let (v, error) = self.invert_point(target, tolerance);
                    inverse.set(i, v);
                    if error > tolerance {
                        unconverged += 1;
                        largest = largest.max(error);
                    }
                }
            }
        }
        if unconverged * 1000 > grid.len() {
            return Err(ImageError::NotInvertible { iterations: ITERATIONS, unconverged, largest });
        }
        Ok(Displacement { field: inverse })
    }

    /// The displacement at `target` of the inverse map, and the error left, mm.
    fn invert_point(&self, target: Vector3<f64>, tolerance: f64) -> (Vector3<f64>, f64) {
        let mut v = Vector3::zeros();
        let mut step = 1.0;
        let mut best = (v, f64::MAX);
        for _ in 0..ITERATIONS {
            let residual = v + self.field.sample_clamped(target + v);
            let error = residual.norm();
            if error < best.1 {
                best = (v, error);
            } else {
                v = best.0;
                step *= 0.5;
            }
            if best.1 <= tolerance {
                break;
            }
            let residual = v + self.field.sample_clamped(target + v);
            v -= residual * step;
        }
        best
    }
}
