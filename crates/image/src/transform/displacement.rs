//! Displacement fields as transforms.

use crate::error::{ImageError, Result};
use crate::field::VectorField;
use nalgebra::{Matrix3, Vector3};

/// `x -> x + u(x)` with `u` in world millimetres, interpolated linearly; outside the field's
/// grid points stay where they are, as ITK does.
#[derive(Debug, Clone, PartialEq)]
pub struct Displacement {
    field: VectorField,
}

/// How exact an inverse is: the residuals `|v + u(y + v)|` of its displacements `v`, or the distances
/// of a [round trip](Displacement::round_trip), mm.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Residuals {
    /// The mean over all voxels, mm.
    pub mean: f64,
    /// The largest, mm.
    pub largest: f64,
    /// The tolerance of residuals, mm.
    pub tolerance: f64,
    /// Voxels over it.
    pub unconverged: usize,
}

/// Newton steps at most.
const ITERATIONS: usize = 50;
/// Accuracy of the inversion at which a voxel counts as converged, as a fraction of the smallest spacing.
const TOLERANCE: f64 = 1e-4;
/// The smallest part of a step that is tried.
const SMALLEST_STEP: f64 = 1.0 / 256.0;
/// Relative to a map that moves nothing, the determinant below which Newton's step is not used.
const SMALLEST_DETERMINANT: f64 = 0.02;
/// An inverse fails if more than one voxel in this many does not converge.
const UNCONVERGED: usize = 1000;

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

    /// The field, taken out.
    #[must_use]
    pub fn into_field(self) -> VectorField {
        self.field
    }

    /// The moving world position of a fixed world position, mm.
    #[must_use]
    pub fn apply(&self, point: Vector3<f64>) -> Vector3<f64> {
        point + self.field.sample(point).unwrap_or_else(Vector3::zeros)
    }

    /// The point that [`apply`](Self::apply) maps to the given one, and its residual, mm. Found as the
    /// displacements of [`inverse`](Self::inverse); points outside the grid stay where they are.
    #[must_use]
    pub fn apply_inverse(&self, point: Vector3<f64>) -> (Vector3<f64>, f64) {
        let index = self.field.grid().world_to_index(point);
        if !self.field.grid().contains_index(index) {
            return (point, 0.0);
        }
        let solver = Solver::new(&self.field);
        let found = solver.solve(index, Vector3::zeros());
        (point + solver.matrix * found.offset, found.error)
    }

    /// The inverse on the same grid: at each voxel `y` the displacement `v` with `v + u(y + v) = 0`.
    ///
    /// Newton's method with the derivative of the interpolation, which the fixed-point iteration
    /// `v <- -u(y + v)` (M. Chen et al., "A simple fixed-point approach to invert a deformation
    /// field", Medical Physics 35(1), 2008) stands in for where the field folds or nearly does; steps
    /// that do not make the residual smaller are halved. Beyond the border the field is continued by
    /// its border values, so that the inverse stays smooth up to the border of its grid. The result
    /// has the same bits for any number of threads.
    ///
    /// # Errors
    /// [`ImageError::NotInvertible`] where more than one voxel in a thousand does not converge;
    /// [`ImageError::OutOfMemory`].
    pub fn inverse(&self) -> Result<Displacement> {
        let (inverse, residuals) = self.inverse_with_residuals()?;
        residuals.check(self.field.grid().len())?;
        Ok(inverse)
    }

    /// The [`inverse`](Self::inverse), however exact it is, and how exact that is.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn inverse_with_residuals(&self) -> Result<(Displacement, Residuals)> {
        self.solved(VectorField::try_zeros(self.field.grid().clone())?, true)
    }

    /// As [`inverse_with_residuals`](Self::inverse_with_residuals), from a start that is nearly the inverse: its
    /// displacements *in voxels*, unlike those of other fields, on the grid of this field. A start of other sizes
    /// is ignored.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn inverse_near(&self, start: VectorField) -> Result<(Displacement, Residuals)> {
        if start.data().len() != self.field.data().len() {
            return self.inverse_with_residuals();
        }
        self.solved(start, false)
    }

    /// The residual in mm at which a voxel of an inverse is exact enough: 1/10000 of the smallest
    /// spacing.
    #[must_use]
    pub fn tolerance(&self) -> f64 {
        tolerance(&self.field)
    }

    /// The inverse, written over its start, or from `neighbours`.
    fn solved(
        &self,
        mut inverse: VectorField,
        neighbours: bool,
    ) -> Result<(Displacement, Residuals)> {
        let grid = self.field.grid();
        let [nx, ny, _] = grid.dims();
        let solver = Solver::new(&self.field);
        let rows = inverse.fill_rows(|row, out| {
            let mut of_row = Residuals::default();
            let mut start = Vector3::zeros();
            for x in 0..nx {
                let index = Vector3::new(x as f64, (row % ny) as f64, (row / ny) as f64);
                if !neighbours {
                    start = out.get(x);
                }
                let found = solver.solve(index, start);
                // Neighbours go nearly the same way.
                start = found.offset;
                let stored = out.set(x, solver.matrix * found.offset);
                // Rounded to what is stored, it is the residual of the result.
                let (u, _) = self.field.sample_index(index + solver.back * stored);
                of_row.add((stored + u).norm(), solver.tolerance);
            }
            of_row
        })?;
        let mut all = Residuals { tolerance: solver.tolerance, ..Residuals::default() };
        for row in rows {
            all.mean += row.mean;
            all.largest = all.largest.max(row.largest);
            all.unconverged += row.unconverged;
        }
        all.mean /= grid.len() as f64;
        Ok((Displacement { field: inverse }, all))
    }

    /// The inverse-consistency error at the voxels of this field's grid, mm: their distance from where they were
    /// after this transform and then `inverse`. Voxels that this transform moves out of the grid of `inverse`,
    /// where it is not known, are left out. More than the `tolerance` in mm means folds, where several points end
    /// at one; [`Residuals::unconverged`] counts such voxels.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn round_trip(&self, inverse: &Displacement, tolerance: f64) -> Result<Residuals> {
        let grid = self.field.grid();
        let [nx, ny, nz] = grid.dims();
        let rows = crate::field::par_rows(ny * nz, |row| {
            let mut of_row = (Residuals::default(), 0usize);
            for x in 0..nx {
                let index = Vector3::new(x as f64, (row % ny) as f64, (row / ny) as f64);
                let there = grid.index_to_world(index) + self.field.get(row * nx + x);
                if let Some(back) = inverse.field.sample(there) {
                    of_row.0.add((there + back - grid.index_to_world(index)).norm(), tolerance);
                    of_row.1 += 1;
                }
            }
            of_row
        })?;
        let mut all = Residuals { tolerance, ..Residuals::default() };
        let mut count = 0;
        for (row, n) in rows {
            all.mean += row.mean;
            all.largest = all.largest.max(row.largest);
            all.unconverged += row.unconverged;
            count += n;
        }
        all.mean /= count.max(1) as f64;
        Ok(all)
    }
}

impl Residuals {
    /// Whether few enough voxels are over the tolerance for the result to be an inverse.
    ///
    /// # Errors
    /// [`ImageError::NotInvertible`] where more than one of the `voxels` in a thousand are.
    pub fn check(&self, voxels: usize) -> Result<()> {
        if self.unconverged * UNCONVERGED <= voxels {
            return Ok(());
        }
        Err(ImageError::NotInvertible {
            iterations: ITERATIONS,
            unconverged: self.unconverged,
            largest: self.largest,
        })
    }

    /// Counts one; the mean is a sum until it is divided.
    fn add(&mut self, residual: f64, tolerance: f64) {
        self.mean += residual;
        self.largest = self.largest.max(residual);
        self.unconverged += usize::from(residual > tolerance);
    }
}

/// The residual in mm at which an inversion is done.
fn tolerance(field: &VectorField) -> f64 {
    let grid = field.grid();
    let spacing = grid.spacing();
    let used = if grid.is_2d() { &spacing[..2] } else { &spacing[..] };
    TOLERANCE * used.iter().fold(f64::MAX, |a, &b| a.min(b))
}

/// Solves `L w + u(i + w) = 0` for `w` in voxels, with `L` from voxels to mm.
struct Solver<'a> {
    field: &'a VectorField,
    /// L.
    matrix: Matrix3<f64>,
    /// Its inverse.
    back: Matrix3<f64>,
    tolerance: f64,
    /// The determinant of the derivative below which it is not trusted.
    smallest: f64,
}

/// A solution.
#[derive(Clone, Copy)]
struct Solution {
    /// In voxels.
    offset: Vector3<f64>,
    /// The residual, mm.
    error: f64,
}

/// A place on the way to it.
struct State {
    offset: Vector3<f64>,
    residual: Vector3<f64>,
    derivative: Matrix3<f64>,
    error: f64,
}

impl<'a> Solver<'a> {
    fn new(field: &'a VectorField) -> Self {
        let grid = field.grid();
        let matrix = grid.to_world().matrix;
        Self {
            field,
            matrix,
            back: grid.to_index().matrix,
            tolerance: tolerance(field),
            smallest: SMALLEST_DETERMINANT * matrix.determinant().abs(),
        }
    }

    /// From a start; where that leads nowhere, from no displacement.
    fn solve(&self, index: Vector3<f64>, start: Vector3<f64>) -> Solution {
        let first = self.descend(index, start);
        if first.error <= self.tolerance || start == Vector3::zeros() {
            return first;
        }
        let second = self.descend(index, Vector3::zeros());
        if second.error < first.error { second } else { first }
    }

    fn descend(&self, index: Vector3<f64>, start: Vector3<f64>) -> Solution {
        let mut state = self.at(index, start);
        for _ in 0..ITERATIONS {
            if state.error <= self.tolerance {
                break;
            }
            let fixed_point = self.back * state.residual;
            let newton = self.newton(&state);
            let next = newton
                .and_then(|step| self.shorter(index, &state, step))
                .or_else(|| self.shorter(index, &state, fixed_point));
            match next {
                Some(next) => state = next,
                None => break,
            }
        }
        Solution { offset: state.offset, error: state.error }
    }

    fn at(&self, index: Vector3<f64>, offset: Vector3<f64>) -> State {
        let (u, derivative) = self.field.sample_index(index + offset);
        let residual = self.matrix * offset + u;
        State { offset, residual, derivative: self.matrix + derivative, error: residual.norm() }
    }

    fn newton(&self, state: &State) -> Option<Vector3<f64>> {
        let d = state.derivative;
        // The sign of L's determinant is that of the handedness of the grid.
        if d.determinant() * self.matrix.determinant().signum() < self.smallest {
            return None;
        }
        d.try_inverse().map(|inverse| inverse * state.residual)
    }

    /// The step, halved until the residual shrinks.
    fn shorter(&self, index: Vector3<f64>, state: &State, step: Vector3<f64>) -> Option<State> {
        let mut part = 1.0;
        while part >= SMALLEST_STEP {
            let next = self.at(index, state.offset - step * part);
            if next.error < state.error {
                return Some(next);
            }
            part *= 0.5;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Affine, Grid};
    use nalgebra::Rotation3;

    /// An oblique, anisotropic, left-handed grid about the origin.
    fn oblique() -> Grid {
        let turn = Rotation3::from_euler_angles(0.3, -0.2, 0.4);
        let matrix = turn.matrix() * Matrix3::from_diagonal(&Vector3::new(-1.0, 1.5, 2.5));
        let middle = Vector3::new(20.0, 15.0, 10.0);
        Grid::new([41, 31, 21], Affine::new(matrix, -(matrix * middle))).unwrap()
    }

    fn wave(grid: Grid, amplitude: f64, length: f64) -> Displacement {
        Displacement::new(VectorField::from_world_fn(grid, |w| {
            // Nothing moves at the border.
            let fade = (1.0 - (w.norm() / 18.0).powi(2)).max(0.0).powi(2);
            let wave = |a: usize, phase: f64| (w[a] / length + phase).sin();
            Vector3::new(wave(1, 0.3), wave(2, 1.0), wave(0, 2.0)) * amplitude * fade
        }))
    }

    #[test]
    fn an_inverse_has_small_residuals_on_any_grid() {
        let forward = wave(oblique(), 3.0, 5.0);
        let (inverse, residuals) = forward.inverse_with_residuals().unwrap();
        assert_eq!(residuals.unconverged, 0);
        assert!(residuals.largest <= 1e-4 && residuals.mean > 0.0, "{residuals:?}");
        // At the voxels of the inverse the residual is what is said; between those of both, the
        // interpolations differ.
        let mut largest: f64 = 0.0;
        let grid = forward.field().grid();
        for i in 0..grid.len() {
            let [nx, ny, _] = grid.dims();
            let index = [i % nx, i / nx % ny, i / nx / ny].map(|v| v as f64);
            let p = grid.index_to_world(Vector3::from(index));
            let v = inverse.field().get(i);
            largest = largest.max((v + forward.field().sample_clamped(p + v)).norm());
        }
        assert!((largest - residuals.largest).abs() < 1e-9, "{largest} {residuals:?}");
        let round_trip = forward.round_trip(&inverse, 0.4).unwrap();
        assert!(
            round_trip.largest < 0.5 && round_trip.mean < 0.02 && round_trip.unconverged < 9,
            "{round_trip:?}"
        );
    }

    #[test]
    fn newton_inverts_where_the_fixed_point_iteration_does_not_contract() {
        // Along x the derivative of the displacement goes up to 2.5: the volume grows 3.5-fold.
        let grid = Grid::axis_aligned([81, 5, 5], [0.5, 1.0, 1.0]).unwrap();
        let field = VectorField::from_world_fn(grid, |w| {
            Vector3::new(2.5 * (w[0] - 20.0) / (1.0 + (0.3 * (w[0] - 20.0)).powi(2)), 0.0, 0.0)
        });
        let (_, residuals) = Displacement::new(field).inverse_with_residuals().unwrap();
        assert_eq!(residuals.unconverged, 0, "{residuals:?}");
    }

    #[test]
    fn the_same_bits_with_any_number_of_threads() {
        let forward = wave(oblique(), 4.0, 4.0);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| forward.inverse_with_residuals().unwrap())
        };
        let one = with(1);
        for threads in [2, 3, 7] {
            assert!(with(threads) == one);
        }
    }

    #[test]
    fn points_go_back() {
        let forward = wave(oblique(), 3.0, 5.0);
        for i in 0..100 {
            let i = f64::from(i);
            let p = Vector3::new(i % 17.0 - 8.0, i % 13.0 - 6.0, i % 11.0 - 5.0);
            let (back, error) = forward.apply_inverse(forward.apply(p));
            assert!(error < 1e-4 && (back - p).norm() < 1e-3, "{p} {back} {error}");
        }
        let outside = Vector3::new(500.0, 0.0, 0.0);
        assert_eq!(forward.apply_inverse(outside), (outside, 0.0));
    }

    #[test]
    fn folds_are_told() {
        let forward = wave(oblique(), 30.0, 3.0);
        let (_, residuals) = forward.inverse_with_residuals().unwrap();
        assert!(residuals.unconverged > 100 && residuals.largest > 0.5, "{residuals:?}");
        assert!(forward.inverse().is_err());
    }
}
