//! Vector fields.

use crate::error::{ImageError, Result};
use crate::grid::Grid;
use nalgebra::Vector3;

/// A field of 3-vectors on a grid: all x, then all y, then all z components, each x fastest.
///
/// As a displacement field the vectors are world (RAS+) millimetres.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorField {
    grid: Grid,
    data: Vec<f32>,
}

impl VectorField {
    /// A field from its grid and its `3 * grid.len()` components.
    ///
    /// # Errors
    /// [`ImageError::LengthMismatch`] where the number of components is not that of the grid.
    pub fn new(grid: Grid, data: Vec<f32>) -> Result<Self> {
        let expected = grid.len() * 3;
        if data.len() != expected {
            return Err(ImageError::LengthMismatch { expected, found: data.len() });
        }
        Ok(Self { grid, data })
    }

    /// A field of zeros.
    #[must_use]
    pub fn zeros(grid: Grid) -> Self {
        let data = vec![0.0; grid.len() * 3];
        Self { grid, data }
    }

    /// A field whose vectors are a function of the world position of each voxel.
    pub fn from_world_fn(grid: Grid, mut f: impl FnMut(Vector3<f64>) -> Vector3<f64>) -> Self {
        let mut field = Self::zeros(grid);
        let [nx, ny, nz] = field.grid.dims();
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    let index = Vector3::new(x as f64, y as f64, z as f64);
                    let v = f(field.grid.index_to_world(index));
                    field.set((z * ny + y) * nx + x, v);
                }
            }
        }
        field
    }

    /// The geometry.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// All components: x, then y, then z.
    #[must_use]
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// All components for writing.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// Grid and components.
    #[must_use]
    pub fn into_parts(self) -> (Grid, Vec<f32>) {
        (self.grid, self.data)
    }

    /// The vector of the voxel with linear index `i`; zero outside the grid.
    #[must_use]
    pub fn get(&self, i: usize) -> Vector3<f64> {
        let n = self.grid.len();
        if i >= n {
            return Vector3::zeros();
        }
        Vector3::from_fn(|c, _| f64::from(self.data[c * n + i]))
    }

    /// Sets the vector of the voxel with linear index `i`; ignored outside the grid.
    pub fn set(&mut self, i: usize, v: Vector3<f64>) {
        let n = self.grid.len();
        if i < n {
            for c in 0..3 {
                self.data[c * n + i] = v[c] as f32;
            }
        }
    }

    /// The vector at a world position by trilinear interpolation; `None` outside the field.
    ///
    /// Between the outermost voxel centres and the outer faces the border value holds.
    #[must_use]
    pub fn sample(&self, world: Vector3<f64>) -> Option<Vector3<f64>> {
        self.grid
            .contains_index(self.grid.world_to_index(world))
            .then(|| self.sample_clamped(world))
    }

    /// The vector at a world position by trilinear interpolation; outside the field the vector of
    /// the nearest border position.
    #[must_use]
    pub fn sample_clamped(&self, world: Vector3<f64>) -> Vector3<f64> {
        let p = self.grid.world_to_index(world);
        let dims = self.grid.dims();
        let n = self.grid.len();
        let mut low = [0usize; 3];
        let mut high = [0usize; 3];
        let mut fraction = [0.0; 3];
        for a in 0..3 {
            let c = p[a].clamp(0.0, dims[a] as f64 - 1.0);
            low[a] = (c.floor() as usize).min(dims[a] - 1);
            high[a] = (low[a] + 1).min(dims[a] - 1);
            fraction[a] = c - low[a] as f64;
        }
        let mut sum = Vector3::zeros();
        for corner in 0..8 {
            let mut weight = 1.0;
            let mut at = [0usize; 3];
            for a in 0..3 {
                let up = corner >> a & 1 == 1;
                weight *= if up { fraction[a] } else { 1.0 - fraction[a] };
                at[a] = if up { high[a] } else { low[a] };
            }
            if weight > 0.0 {
                let i = (at[2] * dims[1] + at[1]) * dims[0] + at[0];
                for c in 0..3 {
                    sum[c] += weight * f64::from(self.data[c * n + i]);
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_fields_are_sampled_exactly() {
        let grid = Grid::axis_aligned([5, 6, 7], [1.0, 2.0, 0.5]).unwrap();
        let f = VectorField::from_world_fn(grid, |w| Vector3::new(w[0] * 2.0, w[1] - w[2], 1.0));
        let p = Vector3::new(1.3, 4.4, 2.2);
        let v = f.sample(p).unwrap();
        assert!((v - Vector3::new(2.6, 2.2, 1.0)).norm() < 1e-5);
        assert!(f.sample(Vector3::new(-0.6, 0.0, 0.0)).is_none());
        assert!(f.sample(Vector3::new(-0.4, 0.0, 0.0)).is_some());
    }
}
