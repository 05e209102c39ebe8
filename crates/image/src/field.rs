//! Vector fields.

use crate::error::{ImageError, Result};
use crate::grid::Grid;
use crate::memory::{self, par_collected};
use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;

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

    /// A field of zeros; [`try_zeros`](Self::try_zeros) where memory may run out.
    #[must_use]
    pub fn zeros(grid: Grid) -> Self {
        let data = vec![0.0; grid.len() * 3];
        Self { grid, data }
    }

    /// A field of zeros.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_zeros(grid: Grid) -> Result<Self> {
        let data = memory::zeroed(grid.len().saturating_mul(3))?;
        Ok(Self { grid, data })
    }

    /// A copy.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self { grid: self.grid.clone(), data: memory::copied(&self.data)? })
    }

    /// A field whose vectors are a function of the world position of each voxel's centre, called in
    /// parallel; [`try_from_world_fn`](Self::try_from_world_fn) where memory may run out.
    pub fn from_world_fn(
        grid: Grid,
        f: impl Fn(Vector3<f64>) -> Vector3<f64> + Sync + Send,
    ) -> Self {
        let mut field = Self::zeros(grid);
        field.fill(f);
        field
    }

    /// A field whose vectors are a function of the world position of each voxel's centre, called in
    /// parallel.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_from_world_fn(
        grid: Grid,
        f: impl Fn(Vector3<f64>) -> Vector3<f64> + Sync + Send,
    ) -> Result<Self> {
        let mut field = Self::try_zeros(grid)?;
        field.fill(f);
        Ok(field)
    }

    fn fill(&mut self, f: impl Fn(Vector3<f64>) -> Vector3<f64> + Sync + Send) {
        let grid = self.grid.clone();
        self.rows_mut().for_each(|(row, mut out)| {
            let [nx, ny, _] = grid.dims();
            for x in 0..nx {
                let index = Vector3::new(x as f64, (row % ny) as f64, (row / ny) as f64);
                out.set(x, f(grid.index_to_world(index)));
            }
        });
    }

    /// Gives every row of voxels (along x) and its number to `f`, rows in parallel, and what `f`
    /// gives in the order of the rows.
    pub(crate) fn fill_rows<R: Send>(
        &mut self,
        f: impl Fn(usize, &mut Row<'_>) -> R + Sync + Send,
    ) -> Result<Vec<R>> {
        Ok(par_collected(self.rows_mut().map(|(row, mut out)| f(row, &mut out)))?)
    }

    /// All rows and their numbers.
    fn rows_mut(&mut self) -> impl IndexedParallelIterator<Item = (usize, Row<'_>)> {
        let nx = self.grid.dims()[0];
        let n = self.grid.len();
        let (x, rest) = self.data.split_at_mut(n);
        let (y, z) = rest.split_at_mut(n);
        let rows = x.par_chunks_mut(nx).zip(y.par_chunks_mut(nx)).zip(z.par_chunks_mut(nx));
        rows.enumerate().map(|(row, ((x, y), z))| (row, Row([x, y, z])))
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

    /// The vector at a world position by trilinear interpolation; `None` outside the field: beyond the
    /// outer faces of its voxels, or at a position that is not a number.
    ///
    /// Between the outermost voxel centres and the outer faces the border value holds.
    #[must_use]
    pub fn sample(&self, world: Vector3<f64>) -> Option<Vector3<f64>> {
        let p = self.grid.world_to_index(world);
        self.grid.contains_index(p).then(|| self.cell(p).value(self))
    }

    /// The vector at a world position by trilinear interpolation; outside the field the vector of
    /// the nearest border position.
    #[must_use]
    pub fn sample_clamped(&self, world: Vector3<f64>) -> Vector3<f64> {
        self.cell(self.grid.world_to_index(world)).value(self)
    }

    /// The vector at a position in voxels and its derivative by that position, column `a` along
    /// axis `a`; outside the field as [`sample_clamped`](Self::sample_clamped).
    pub(crate) fn sample_index(&self, p: Vector3<f64>) -> (Vector3<f64>, Matrix3<f64>) {
        self.cell(p).value_and_derivative(self)
    }

    /// The voxels around a position, which is moved to the nearest one within their centres.
    fn cell(&self, p: Vector3<f64>) -> Cell {
        let dims = self.grid.dims();
        let strides = [1, dims[0], dims[0] * dims[1]];
        let mut cell = Cell { low: 0, step: [0; 3], fraction: [0.0; 3] };
        for a in 0..3 {
            let last = dims[a] - 1;
            let c = p[a].clamp(0.0, last as f64);
            let low = (c as usize).min(last.saturating_sub(1));
            cell.low += low * strides[a];
            cell.fraction[a] = c - low as f64;
            // A field has no derivative beyond its border, nor across an axis of one voxel.
            if c == p[a] && last > 0 {
                cell.step[a] = strides[a];
            } else if cell.fraction[a] >= 1.0 {
                cell.low += strides[a];
                cell.fraction[a] = 0.0;
            }
        }
        cell
    }
}

/// The result of `f` for every row, in their order; rows in parallel.
pub(crate) fn par_rows<R: Send>(
    rows: usize,
    f: impl Fn(usize) -> R + Sync + Send,
) -> Result<Vec<R>> {
    Ok(par_collected((0..rows).into_par_iter().with_min_len(8).map(f))?)
}

/// A row of voxels of a field that is being made.
pub(crate) struct Row<'a>([&'a mut [f32]; 3]);

impl Row<'_> {
    /// The vector of voxel `x`.
    pub(crate) fn get(&self, x: usize) -> Vector3<f64> {
        Vector3::from_fn(|c, _| f64::from(self.0[c][x]))
    }

    /// Sets the vector of voxel `x`, and gives it as it is stored.
    pub(crate) fn set(&mut self, x: usize, v: Vector3<f64>) -> Vector3<f64> {
        for (c, component) in self.0.iter_mut().enumerate() {
            component[x] = v[c] as f32;
        }
        v.map(|c| f64::from(c as f32))
    }
}

/// The eight voxels around a position.
struct Cell {
    /// The linear index of the first.
    low: usize,
    /// The step to the next along each axis; 0 where there is none.
    step: [usize; 3],
    /// The position as a fraction of the way to it.
    fraction: [f64; 3],
}

impl Cell {
    fn corners(&self, component: &[f32]) -> [f64; 8] {
        std::array::from_fn(|i| {
            let at = |a: usize| if i >> a & 1 == 1 { self.step[a] } else { 0 };
            f64::from(component[self.low + at(0) + at(1) + at(2)])
        })
    }

    fn value(&self, field: &VectorField) -> Vector3<f64> {
        let [fx, fy, fz] = self.fraction;
        let n = field.grid.len();
        Vector3::from_fn(|c, _| {
            let v = self.corners(&field.data[c * n..(c + 1) * n]);
            let x = [0, 2, 4, 6].map(|i| v[i] + fx * (v[i + 1] - v[i]));
            let y = [0, 2].map(|i| x[i] + fy * (x[i + 1] - x[i]));
            y[0] + fz * (y[1] - y[0])
        })
    }

    fn value_and_derivative(&self, field: &VectorField) -> (Vector3<f64>, Matrix3<f64>) {
        let [fx, fy, fz] = self.fraction;
        let n = field.grid.len();
        let mut value = Vector3::zeros();
        let mut derivative = Matrix3::zeros();
        for c in 0..3 {
            let v = self.corners(&field.data[c * n..(c + 1) * n]);
            let dx = [0, 2, 4, 6].map(|i| v[i + 1] - v[i]);
            let x = [0, 1, 2, 3].map(|i| v[2 * i] + fx * dx[i]);
            let dy = [x[1] - x[0], x[3] - x[2]];
            let y = [x[0] + fy * dy[0], x[2] + fy * dy[1]];
            let mix = |a: f64, b: f64, f: f64| a + f * (b - a);
            value[c] = mix(y[0], y[1], fz);
            derivative[(c, 0)] = mix(mix(dx[0], dx[1], fy), mix(dx[2], dx[3], fy), fz);
            derivative[(c, 1)] = mix(dy[0], dy[1], fz);
            derivative[(c, 2)] = y[1] - y[0];
        }
        (value, derivative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_derivative_is_that_of_the_values() {
        let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 0.5]).unwrap();
        let f = VectorField::from_world_fn(grid.clone(), |w| {
            Vector3::new(w[0] * w[1], (w[2] * 3.0).sin() + w[0], w[1] * w[1])
        });
        for p in [[1.3, 2.4, 0.6], [0.0, 0.0, 0.0], [3.9, 2.9, 1.9], [2.5, -4.0, 7.0]] {
            let p = Vector3::from(p);
            let (value, derivative) = f.sample_index(p);
            assert!((value - f.sample_clamped(grid.index_to_world(p))).norm() < 1e-12);
            for a in 0..3 {
                let mut step = Vector3::zeros();
                step[a] = 1e-3;
                let difference = (f.sample_index(p + step).0 - value) / 1e-3;
                assert!((difference - derivative.column(a)).norm() < 1e-9, "{p} {a}");
            }
        }
        // The last voxel and a plane.
        assert_eq!(f.sample_index(Vector3::new(4.0, 3.0, 2.0)).0, f.get(59));
        let plane = Grid::axis_aligned([5, 4, 1], [1.0; 3]).unwrap();
        let f = VectorField::from_world_fn(plane, |w| w * 2.0);
        let (value, derivative) = f.sample_index(Vector3::new(1.5, 3.0, 0.3));
        assert_eq!(value, Vector3::new(3.0, 6.0, 0.0));
        assert_eq!(derivative, Matrix3::from_diagonal(&Vector3::new(2.0, 2.0, 0.0)));
    }

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
