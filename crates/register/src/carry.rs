//! Mapping points and meshes through chains of transforms.
//!
//! Points go through the exact inverse of a field, rather than through one that is known at its voxels only.
//!
//! ```
//! use voxalign_image::{Affine, Transform, Vector3};
//! use voxalign_register::carry::{PointMap, Step};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shift = Transform::Affine(Affine::translation(Vector3::new(5.0, 0.0, 0.0)));
//! // A point of the moving image goes to the fixed one by the inverse.
//! let map = PointMap::new(vec![Step::Backward(shift)]);
//! assert_eq!(map.apply(Vector3::new(1.0, 2.0, 3.0))?.position, Vector3::new(-4.0, 2.0, 3.0));
//! # Ok(())
//! # }
//! ```

use rayon::prelude::*;
use voxalign_image::{
    Displacement, Grid, ImageError, Matrix3, Mesh, Transform, Vector3, VertexData, memory,
};

/// One transform that points go through.
#[derive(Debug, Clone)]
pub enum Step {
    /// As it is: from the fixed to the moving world.
    Forward(Transform),
    /// By its inverse.
    Backward(Transform),
}

/// Carries points through one step after the other.
#[derive(Debug, Clone, Default)]
pub struct PointMap {
    steps: Vec<Step>,
}

/// Where a point went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    /// The position, mm.
    pub position: Vector3<f64>,
    /// The tolerance, mm: where a field folds, several points map to one.
    pub off: f64,
    /// Whether it met a displacement field beyond the field's grid, where nothing is moved.
    pub outside: bool,
}

/// A mesh that was carried.
#[derive(Debug, Clone)]
pub struct CarriedMesh {
    /// The mesh, with directions at its vertices carried along.
    pub mesh: Mesh,
    /// Where its vertices went, in their order.
    pub vertices: Vec<Carried>,
    /// Whether the map mirrors, so that the corners of the faces were put into the other order: their outside stays outside.
    pub mirrored: bool,
    /// Names of the arrays that were mapped as normals.
    pub normals: Vec<String>,
    /// Names of the arrays that were carried as vectors.
    pub vectors: Vec<String>,
}

impl PointMap {
    /// Steps in the order in which a point meets them.
    #[must_use]
    pub fn new(steps: Vec<Step>) -> Self {
        let mut flat = Vec::with_capacity(steps.len());
        for step in steps {
            flatten(step, &mut flat);
        }
        Self { steps: flat }
    }

    /// Where a point goes.
    ///
    /// # Errors
    /// [`ImageError::Singular`] for a linear part without inverse.
    pub fn apply(&self, point: Vector3<f64>) -> Result<Carried, ImageError> {
        let start = Carried { position: point, off: 0.0, outside: false };
        self.steps.iter().try_fold(start, |at, step| {
            let outside = at.outside || field(step).is_some_and(|f| !holds(f, at.position));
            Ok(match step {
                Step::Forward(t) => Carried { position: t.apply(at.position), outside, ..at },
                Step::Backward(t) => {
                    let (position, off) = t.apply_inverse(at.position)?;
                    Carried { position, off: at.off + off, outside }
                }
            })
        })
    }

    /// Where points go, in their order.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); [`ImageError::OutOfMemory`].
    pub fn carry(&self, points: &[Vector3<f64>]) -> Result<Vec<Carried>, ImageError> {
        let none = Carried { position: Vector3::zeros(), off: 0.0, outside: false };
        let mut carried = memory::filled(points.len(), none)?;
        carried.par_iter_mut().zip(points).try_for_each(|(to, from)| {
            *to = self.apply(*from)?;
            Ok::<(), ImageError>(())
        })?;
        Ok(carried)
    }

    /// Whether a displacement field is among the steps.
    #[must_use]
    pub fn has_field(&self) -> bool {
        self.steps.iter().any(|step| field(step).is_some())
    }

    /// The grid of the field that points meet first, where that is the first step: they are in its world as they come.
    #[must_use]
    pub fn first_grid(&self) -> Option<&Grid> {
        self.steps.first().and_then(field).map(|displacement| displacement.field().grid())
    }

    /// The derivative of the map at a point. For a field it is the derivative of its interpolation; beyond its
    /// grid, and where it has no inverse, the identity.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn jacobian(&self, point: Vector3<f64>) -> Result<Matrix3<f64>, ImageError> {
        let mut at = point;
        let mut all = Matrix3::identity();
        for step in &self.steps {
            let (next, own) = match step {
                Step::Forward(t) => (t.apply(at), derivative(t, at)),
                Step::Backward(t) => {
                    let (next, _) = t.apply_inverse(at)?;
                    let inverse = derivative(t, next).try_inverse();
                    (next, inverse.unwrap_or_else(Matrix3::identity))
                }
            };
            all = own * all;
            at = next;
        }
        Ok(all)
    }

    /// Whether the map reverses orientation at most of some of the points.
    fn mirrors(&self, points: &[Vector3<f64>]) -> Result<bool, ImageError> {
        const SOME: usize = 101;
        let step = points.len().div_ceil(SOME).max(1);
        let (mut all, mut reversed) = (0, 0);
        for point in points.iter().step_by(step) {
            all += 1;
            reversed += usize::from(self.jacobian(*point)?.determinant() < 0.0);
        }
        Ok(2 * reversed > all)
    }

    /// Carries a mesh: its vertices as points, and the directions at its vertices. Arrays whose names say that they
    /// are normals stay normal to the surface (by the inverse transposed derivative) and keep their length; other
    /// directions are mapped as vectors (by the derivative). Where the map mirrors, the faces are flipped, so that
    /// a closed surface keeps its outside.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); a position that is not finite; [`ImageError::OutOfMemory`].
    pub fn carry_mesh(&self, mesh: &Mesh) -> Result<CarriedMesh, ImageError> {
        let vertices = self.carry(mesh.vertices())?;
        let mut to = vertices.iter();
        let moved = mesh.map(|from| to.next().map_or(*from, |to| to.position))?;
        let mirrored = self.mirrors(mesh.vertices())?;
        let moved = if mirrored { moved.flipped() } else { moved };
        let (mut normals, mut vectors) = (Vec::new(), Vec::new());
        let mut data = Vec::with_capacity(mesh.data().len());
        for array in mesh.data() {
            let mut values = memory::copied(&array.values)?;
            if array.is_direction {
                let is_normal = array.name.to_ascii_lowercase().contains("normal");
                self.turn(mesh.vertices(), &mut values, is_normal)?;
                if is_normal { &mut normals } else { &mut vectors }.push(array.name.clone());
            }
            data.push(VertexData { name: array.name.clone(), values, ..*array });
        }
        Ok(CarriedMesh { mesh: moved.with_data(data)?, vertices, mirrored, normals, vectors })
    }

    /// Turns directions at points.
    fn turn(
        &self,
        points: &[Vector3<f64>],
        values: &mut [f32],
        normals: bool,
    ) -> Result<(), ImageError> {
        values.par_chunks_exact_mut(3).zip(points).try_for_each(|(one, point)| {
            let jacobian = self.jacobian(*point)?;
            let from = Vector3::from_fn(|axis, _| f64::from(one[axis]));
            let to = if normals { turned(&jacobian, from) } else { jacobian * from };
            for (value, to) in one.iter_mut().zip(to.iter()) {
                *value = *to as f32;
            }
            Ok(())
        })
    }
}

/// A normal after a map of this derivative, of the same length.
fn turned(jacobian: &Matrix3<f64>, normal: Vector3<f64>) -> Vector3<f64> {
    let [x, y, z] = [0, 1, 2].map(|i| jacobian.column(i).into_owned());
    // The inverse transposed derivative times the determinant.
    let across = y.cross(&z) * normal[0] + z.cross(&x) * normal[1] + x.cross(&y) * normal[2];
    let across = across * jacobian.determinant().signum();
    match across.norm() {
        size if size > 0.0 => across * (normal.norm() / size),
        _ => normal,
    }
}

/// Steps without chains in them.
fn flatten(step: Step, flat: &mut Vec<Step>) {
    match step {
        Step::Forward(Transform::Composite(parts)) => {
            parts.into_iter().for_each(|part| flatten(Step::Forward(part), flat));
        }
        Step::Backward(Transform::Composite(parts)) => {
            parts.into_iter().rev().for_each(|part| flatten(Step::Backward(part), flat));
        }
        other => flat.push(other),
    }
}

/// The field of a step.
fn field(step: &Step) -> Option<&Displacement> {
    match step {
        Step::Forward(Transform::Displacement(field))
        | Step::Backward(Transform::Displacement(field)) => Some(field),
        _ => None,
    }
}

/// Whether a point is within the grid of a field.
fn holds(displacement: &Displacement, point: Vector3<f64>) -> bool {
    let grid = displacement.field().grid();
    grid.contains_index(grid.world_to_index(point))
}

/// The derivative of a transform at a point.
fn derivative(transform: &Transform, point: Vector3<f64>) -> Matrix3<f64> {
    match transform {
        Transform::Displacement(displacement) => {
            let field = displacement.field();
            let Some(here) = field.sample(point) else { return Matrix3::identity() };
            let smallest = field.grid().spacing().iter().fold(f64::MAX, |a, &b| a.min(b));
            let h = 1e-3 * smallest;
            let mut all = Matrix3::identity();
            for axis in 0..3 {
                let step = Vector3::from_fn(|i, _| if i == axis { h } else { 0.0 });
                // At the border, to one side.
                let ends = [field.sample(point - step), field.sample(point + step)];
                let width = ends.iter().flatten().count() as f64 * h;
                if width > 0.0 {
                    let [low, high] = ends.map(|end| end.unwrap_or(here));
                    let column = all.column(axis) + (high - low) / width;
                    all.set_column(axis, &column);
                }
            }
            all
        }
        Transform::Composite(parts) => {
            let mut at = point;
            parts.iter().fold(Matrix3::identity(), |all, part| {
                let own = derivative(part, at);
                at = part.apply(at);
                own * all
            })
        }
        linear => linear.to_affine().map_or_else(|_| Matrix3::identity(), |affine| affine.matrix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, VectorField};

    fn wave() -> Transform {
        let grid = Grid::axis_aligned([30, 28, 26], [2.0, 2.5, 3.0]).unwrap();
        Transform::Displacement(Displacement::new(VectorField::from_world_fn(grid, |w| {
            Vector3::new((w[1] / 12.0).sin(), (w[2] / 15.0).cos(), (w[0] / 14.0).sin()) * 2.0
        })))
    }

    fn skew() -> Transform {
        Transform::Affine(Affine::from_rows([
            [1.1, 0.2, 0.0, 3.0],
            [-0.1, 0.9, 0.3, -2.0],
            [0.0, 0.1, 1.2, 1.0],
        ]))
    }

    fn mirror() -> Transform {
        Transform::Affine(Affine::from_rows([
            [-1.0, 0.0, 0.0, 50.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ]))
    }

    /// A ball of triangles with normals.
    fn ball(centre: Vector3<f64>, radius: f64) -> Mesh {
        let (rings, around) = (9, 14);
        let mut vertices = Vec::new();
        for ring in 0..=rings {
            let polar = std::f64::consts::PI * f64::from(ring) / f64::from(rings);
            for i in 0..around {
                let angle = std::f64::consts::TAU * f64::from(i) / f64::from(around);
                let [s, c] = [polar.sin(), polar.cos()];
                vertices.push(centre + Vector3::new(s * angle.cos(), s * angle.sin(), c) * radius);
            }
        }
        let index = |ring: i32, i: i32| (ring * around + i % around) as u32;
        let mut faces = Vec::new();
        for ring in 0..rings {
            for i in 0..around {
                let [a, b] = [index(ring, i), index(ring, i + 1)];
                let [c, d] = [index(ring + 1, i), index(ring + 1, i + 1)];
                faces.extend([[a, c, b], [b, c, d]]);
            }
        }
        let normals = vertices.iter().flat_map(|v| {
            let n = (v - centre) / radius;
            [n[0] as f32, n[1] as f32, n[2] as f32]
        });
        let directions = |name: &str, values: Vec<f32>| VertexData {
            name: name.into(),
            components: 3,
            values,
            is_direction: true,
        };
        let normals: Vec<f32> = normals.collect();
        let along = [0.0, 1.0, 0.0].repeat(vertices.len());
        let data = vec![directions("Normals", normals), directions("along", along)];
        Mesh::new(vertices, faces).unwrap().with_data(data).unwrap()
    }

    #[test]
    fn there_and_back() {
        let there = PointMap::new(vec![Step::Forward(Transform::Composite(vec![wave(), skew()]))]);
        let back = PointMap::new(vec![Step::Backward(skew()), Step::Backward(wave())]);
        let point = Vector3::new(21.3, 30.1, 28.7);
        let carried = there.apply(point).unwrap();
        assert_eq!(carried.position, skew().apply(wave().apply(point)));
        let home = back.apply(carried.position).unwrap();
        assert!((home.position - point).norm() < 1e-3 && home.off < 1e-3 && !home.outside);
        assert!(back.first_grid().is_none() && there.first_grid().is_some());
        assert!(back.has_field() && !PointMap::new(vec![Step::Forward(skew())]).has_field());
        // The derivatives undo each other, and are those of differences.
        let j = there.jacobian(point).unwrap();
        let product = back.jacobian(carried.position).unwrap() * j;
        assert!((product - Matrix3::identity()).norm() < 1e-3, "{product}");
        for axis in 0..3 {
            let step = Vector3::from_fn(|i, _| if i == axis { 1e-4 } else { 0.0 });
            let ends = [point + step, point - step].map(|p| there.apply(p).unwrap().position);
            assert!(((ends[0] - ends[1]) / 2e-4 - j.column(axis)).norm() < 1e-6);
        }
        for far in [Vector3::new(-9.0, 5.0, 5.0), Vector3::new(20.0, 20.0, 400.0)] {
            assert!(there.apply(far).unwrap().outside);
            assert_eq!(derivative(&wave(), far), Matrix3::identity());
        }
    }

    #[test]
    fn surfaces_keep_their_outside_and_normals_stand_on_them() {
        let mesh = ball(Vector3::new(25.0, 30.0, 35.0), 12.0);
        let volume = |mesh: &Mesh| mesh.without_degenerate().unwrap().0;
        let outside = |mesh: &Mesh| {
            // The signed volume below the faces, whatever the poles are made of.
            let centre =
                mesh.vertices().iter().sum::<Vector3<f64>>() / mesh.vertices().len() as f64;
            let one = |face: &[u32; 3]| {
                let [a, b, c] = face.map(|i| mesh.vertices()[i as usize] - centre);
                a.dot(&b.cross(&c)) / 6.0
            };
            volume(mesh).faces().iter().map(one).sum::<f64>()
        };
        assert!(outside(&mesh) > 0.0);
        for (steps, mirrored) in [
            (vec![Step::Forward(wave()), Step::Forward(skew())], false),
            (vec![Step::Forward(mirror()), Step::Forward(wave())], true),
            (vec![Step::Backward(wave()), Step::Backward(mirror())], true),
        ] {
            let carried = PointMap::new(steps).carry_mesh(&mesh).unwrap();
            assert_eq!(carried.mirrored, mirrored);
            assert!(outside(&carried.mesh) > 0.0);
            assert_eq!(
                (&carried.normals[..], &carried.vectors[..]),
                (&["Normals".to_owned()][..], &["along".to_owned()][..])
            );
            // On every face they stand nearly upright, as they did.
            let upright = |mesh: &Mesh| {
                let normal = |i: u32| {
                    let n = &mesh.data()[0].values[3 * i as usize..][..3];
                    Vector3::new(n[0], n[1], n[2]).cast::<f64>()
                };
                let mut smallest = 1.0f64;
                for face in volume(mesh).faces() {
                    let [a, b, c] = face.map(|i| mesh.vertices()[i as usize]);
                    let n = (b - a).cross(&(c - a)).normalize();
                    for &i in face {
                        smallest = smallest.min(n.dot(&normal(i)));
                        assert!((normal(i).norm() - 1.0).abs() < 1e-5);
                    }
                }
                smallest
            };
            assert!(upright(&carried.mesh) > upright(&mesh) - 0.1, "{}", upright(&carried.mesh));
        }
        // A vector goes along with the points around it.
        let moved = PointMap::new(vec![Step::Forward(skew())]).carry_mesh(&mesh).unwrap();
        let along = &moved.mesh.data()[1].values[..3];
        assert_eq!(along, [0.2f32, 0.9, 0.1]);
    }
}
