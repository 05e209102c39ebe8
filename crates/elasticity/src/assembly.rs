//! Elastic bodies: their stiffness and mass, and where they are held.

use crate::element::Element;
use crate::error::{ElasticityError, Result};
use crate::material::{Material, Materials};
use crate::quality::check;
use crate::sparse::{Pattern, Sparse};
use nalgebra::Matrix3;
use std::sync::Arc;
use voxalign_image::{TetraMesh, Vector3, memory};

/// Vertices whose distances from a line are below this part of their extent are on it.
const ON_A_LINE: f64 = 1e-9;

/// A mesh at rest with its materials, and all that follows from both.
#[derive(Debug, Clone)]
pub struct Body {
    mesh: TetraMesh,
    elements: Vec<Element>,
    materials: Vec<Material>,
    pattern: Arc<Pattern>,
}

impl Body {
    /// A body of a mesh in one part.
    ///
    /// # Errors
    /// Those of [`check`] for a mesh that cannot be that of a body, those of [`Materials::of`], and those of [`Pattern::new`].
    pub fn new(mesh: TetraMesh, materials: &Materials) -> Result<Self> {
        check(&mesh)?;
        let materials = materials.of(&mesh)?;
        let all = (0..mesh.tetrahedra().len()).map(|e| Element::of(mesh.corners(e)));
        let elements = memory::collected(all)?;
        let pattern = Arc::new(Pattern::new(&mesh)?);
        Ok(Self { mesh, elements, materials, pattern })
    }

    /// The mesh at rest.
    #[must_use]
    pub fn mesh(&self) -> &TetraMesh {
        &self.mesh
    }

    /// The shape of each tetrahedron.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The material of each tetrahedron.
    #[must_use]
    pub fn materials(&self) -> &[Material] {
        &self.materials
    }

    /// Which vertices share a tetrahedron.
    #[must_use]
    pub fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// The stiffness matrix, mN/mm: symmetric to the bit and positive semi-definite, with the six motions of a rigid body as
    /// what it maps to 0.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn stiffness(&self) -> Result<Sparse<Matrix3<f64>>> {
        Sparse::assembled(&self.pattern, Matrix3::zeros(), |e, i, j| {
            self.elements[e].stiffness(i, j, &self.materials[e])
        })
    }

    /// The consistent mass matrix, kg, whose entries count for each component.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn consistent_mass(&self) -> Result<Sparse<f64>> {
        Sparse::assembled(&self.pattern, 0.0, |e, i, j| {
            self.elements[e].consistent_mass(i, j, &self.materials[e])
        })
    }

    /// The lumped mass of each vertex, kg: the sums of the rows of the consistent mass matrix.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn lumped_mass(&self) -> Result<Vec<f64>> {
        self.of_corners(|e| self.elements[e].lumped_mass(&self.materials[e]))
    }

    /// The volume that each vertex stands for, mm³: a quarter of that of its tetrahedra.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn vertex_volumes(&self) -> Result<Vec<f64>> {
        self.of_corners(|e| self.elements[e].volume / 4.0)
    }

    fn of_corners(&self, part: impl Fn(usize) -> f64) -> Result<Vec<f64>> {
        let mut sums = memory::zeroed(self.mesh.vertices().len())?;
        for (e, corners) in self.mesh.tetrahedra().iter().enumerate() {
            corners.iter().for_each(|&i| sums[i as usize] += part(e));
        }
        Ok(sums)
    }
}

/// Which vertices of a mesh are fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    mask: Vec<bool>,
}

impl Fixed {
    /// None: the body is free.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn none(mesh: &TetraMesh) -> Result<Self> {
        Ok(Self { mask: memory::filled(mesh.vertices().len(), false)? })
    }

    /// Those with these numbers.
    ///
    /// # Errors
    /// [`ElasticityError::NoVertex`] for a number that is that of no vertex, [`ElasticityError::OutOfMemory`].
    pub fn vertices(mesh: &TetraMesh, numbers: &[u32]) -> Result<Self> {
        let mut fixed = Self::none(mesh)?;
        let vertices = fixed.mask.len();
        for &number in numbers {
            let place = fixed.mask.get_mut(number as usize);
            *place.ok_or(ElasticityError::NoVertex { number, vertices })? = true;
        }
        Ok(fixed)
    }

    /// Those whose place at rest, mm, fulfils a condition, such as that of being in a box.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn whose(mesh: &TetraMesh, condition: impl Fn(&Vector3<f64>) -> bool) -> Result<Self> {
        Ok(Self { mask: memory::collected(mesh.vertices().iter().map(condition))? })
    }

    /// Those of all tetrahedra with a label, such as that of bone.
    ///
    /// # Errors
    /// [`ElasticityError::NoLabel`] where no tetrahedron has it, [`ElasticityError::OutOfMemory`].
    pub fn label(mesh: &TetraMesh, label: i32) -> Result<Self> {
        let mut fixed = Self::none(mesh)?;
        let of_label = mesh.tetrahedra().iter().zip(mesh.labels()).filter(|(_, l)| **l == label);
        of_label.flat_map(|(corners, _)| corners).for_each(|&i| fixed.mask[i as usize] = true);
        if fixed.is_free() {
            return Err(ElasticityError::NoLabel { label });
        }
        Ok(fixed)
    }

    /// Those of this or the other.
    ///
    /// # Panics
    /// Where they are of meshes with different numbers of vertices.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        assert_eq!(self.mask.len(), other.mask.len(), "the vertices of one mesh");
        self.mask.iter_mut().zip(&other.mask).for_each(|(a, b)| *a |= b);
        self
    }

    /// Whether each vertex is.
    #[must_use]
    pub fn mask(&self) -> &[bool] {
        &self.mask
    }

    /// Whether none is.
    #[must_use]
    pub fn is_free(&self) -> bool {
        !self.mask.contains(&true)
    }

    /// Makes the vectors of fixed vertices 0.
    pub fn clear(&self, vectors: &mut [Vector3<f64>]) {
        let held = vectors.iter_mut().zip(&self.mask).filter(|(_, fixed)| **fixed);
        held.for_each(|(vector, _)| *vector = Vector3::zeros());
    }

    /// Checks that a body can move nowhere as a whole: three vertices that are not on a line are fixed.
    ///
    /// # Errors
    /// [`ElasticityError::Loose`].
    pub fn check_holds(&self, mesh: &TetraMesh) -> Result<()> {
        let places =
            || mesh.vertices().iter().zip(&self.mask).filter(|(_, f)| **f).map(|(v, _)| *v);
        let loose = || ElasticityError::Loose { fixed: places().count() };
        let first = places().next().ok_or_else(loose)?;
        let far = |v: &Vector3<f64>| (v - first).norm();
        let second = places().max_by(|a, b| far(a).total_cmp(&far(b))).ok_or_else(loose)?;
        let along = second - first;
        let off = |v: Vector3<f64>| (v - first).cross(&along).norm();
        if places().any(|v| off(v) > ON_A_LINE * along.norm_squared()) {
            Ok(())
        } else {
            Err(loose())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TetraBox;
    use crate::sparse::dot;
    use crate::tests::{Random, cube};
    use nalgebra::DMatrix;
    use voxalign_image::Grid;

    fn dense(matrix: &Sparse<Matrix3<f64>>) -> DMatrix<f64> {
        let n = matrix.pattern().vertices();
        DMatrix::from_fn(3 * n, 3 * n, |r, c| {
            matrix.get(r / 3, c / 3).map_or(0.0, |block| block[(r % 3, c % 3)])
        })
    }

    /// Numbers of an independent implementation (with numpy).
    #[test]
    fn stiffness_and_mass_of_a_cube_are_known() {
        let body = cube();
        let k = dense(&body.stiffness().unwrap());
        for (r, c, expected) in [
            (0, 0, 3.525641025641024),
            (0, 1, 0.0),
            (39, 39, 21.15384615384615),
            (39, 40, -3.205128205128204),
            (39, 78, 0.0),
            (40, 78, -0.801282051282051),
            (0, 3, -2.243589743589743),
            (0, 39, 0.0),
            (1, 39, -0.801282051282051),
        ] {
            assert!((k[(r, c)] - expected).abs() < 1e-12 * 21.0, "{r} {c} {}", k[(r, c)]);
        }
        assert!((k.trace() / 507.6923076923076 - 1.0).abs() < 1e-12);
        assert!((k.norm() / 83.00291991251838 - 1.0).abs() < 1e-12);
        assert_eq!(body.pattern().columns().len(), 223);
        let lumped = body.lumped_mass().unwrap();
        for (i, expected) in [(0, 3.125e-5), (13, 1.25e-4), (26, 3.125e-5)] {
            assert!((lumped[i] / expected - 1.0).abs() < 1e-12);
        }
        assert!((lumped.iter().sum::<f64>() / 1e-3 - 1.0).abs() < 1e-12);
        let m = body.consistent_mass().unwrap();
        for (r, c, expected) in [(0, 0, 1.25e-5), (13, 13, 5e-5), (0, 13, 6.25e-6)] {
            assert!((m.get(r, c).unwrap() / expected - 1.0).abs() < 1e-12);
        }
        // Rows of the consistent mass are the lumped one.
        let ones = vec![Vector3::repeat(1.0); 27];
        for (row, lumped) in m.product(&ones).unwrap().iter().zip(&lumped) {
            assert!((row.x - lumped).abs() < 1e-18);
        }
    }

    #[test]
    fn stiffness_is_symmetric_and_knows_the_motions_of_a_rigid_body() {
        let body = cube();
        let stiffness = body.stiffness().unwrap();
        let k = dense(&stiffness);
        assert_eq!(k, k.transpose());
        let mut values: Vec<f64> = k.symmetric_eigenvalues().iter().copied().collect();
        values.sort_by(f64::total_cmp);
        assert!(values[..6].iter().all(|v| v.abs() < 1e-12), "{:?}", &values[..7]);
        assert!((values[6] / 7.820377971563e-1 - 1.0).abs() < 1e-10);
        assert!((values[80] / 34.60722639222 - 1.0).abs() < 1e-10);
        for motion in 0..6 {
            let axis = Vector3::from_fn(|r, _| f64::from(u8::from(r == motion % 3)));
            let of = |x: &Vector3<f64>| if motion < 3 { axis } else { axis.cross(x) };
            let u: Vec<_> = body.mesh().vertices().iter().map(of).collect();
            let forces = stiffness.product(&u).unwrap();
            assert!(forces.iter().all(|f| f.amax() < 1e-12 * 34.6 * 10.0));
        }
        // The product is that of the dense matrix.
        let mut random = Random(4);
        let u: Vec<_> = (0..27).map(|_| random.vector()).collect();
        let flat = DMatrix::from_fn(81, 1, |r, _| u[r / 3][r % 3]);
        let (dense, sparse) = (&k * flat, stiffness.product(&u).unwrap());
        assert!((0..81).all(|r| (dense[(r, 0)] - sparse[r / 3][r % 3]).abs() < 1e-12 * 34.6));
        assert!(dot(&u, &sparse) > 0.0);
    }

    #[test]
    fn blocks_list_their_tetrahedra_in_order() {
        let body = cube();
        let (pattern, tetrahedra) = (body.pattern(), body.mesh().tetrahedra());
        let mut terms = 0;
        for row in 0..27 {
            let blocks = pattern.rows()[row]..pattern.rows()[row + 1];
            assert!(pattern.columns()[blocks.clone()].is_sorted_by(|a, b| a < b));
            for block in blocks {
                assert!(pattern.terms(block).is_sorted_by(|a, b| a < b));
                for &term in pattern.terms(block) {
                    let [e, i, j] = [term / 16, term / 4 % 4, term % 4].map(|n| n as usize);
                    assert_eq!(tetrahedra[e][i] as usize, row);
                    assert_eq!(tetrahedra[e][j], pattern.columns()[block]);
                    terms += 1;
                }
            }
        }
        assert_eq!(terms, 16 * 48);
        assert_eq!(pattern.block(0, 26), None);
        assert_eq!(pattern.block(27, 0), None);
    }

    #[test]
    fn fixed_vertices_have_rows_of_the_identity() {
        let body = cube();
        let fixed = Fixed::vertices(body.mesh(), &[0, 13]).unwrap();
        let (mut k, before) = (body.stiffness().unwrap(), body.stiffness().unwrap());
        k.fix(fixed.mask());
        for row in 0..27 {
            for column in 0..27 {
                let is_held = [0, 13].contains(&row) || [0, 13].contains(&column);
                let expected = if is_held && row == column {
                    Some(Matrix3::identity())
                } else if is_held {
                    before.get(row, column).map(|_| Matrix3::zeros())
                } else {
                    before.get(row, column)
                };
                assert_eq!(k.get(row, column), expected);
            }
        }
    }

    #[test]
    fn what_cannot_be_fixed_is_said() {
        let grid = Grid::axis_aligned([3; 3], [5.0; 3]).unwrap();
        let mesh = TetraBox::new(grid).unwrap().mesh().unwrap();
        let loose = |fixed: &Fixed| fixed.check_holds(&mesh).unwrap_err();
        assert_eq!(loose(&Fixed::none(&mesh).unwrap()), ElasticityError::Loose { fixed: 0 });
        let line = Fixed::vertices(&mesh, &[0, 13, 26]).unwrap();
        assert_eq!(loose(&line), ElasticityError::Loose { fixed: 3 });
        let held = line.or(&Fixed::vertices(&mesh, &[1]).unwrap());
        held.check_holds(&mesh).unwrap();
        let error = Fixed::vertices(&mesh, &[27]).unwrap_err();
        assert_eq!(error, ElasticityError::NoVertex { number: 27, vertices: 27 });
        let labelled =
            mesh.clone().with_labels((0..48).map(|e| i32::from(e < 6)).collect()).unwrap();
        let bone = Fixed::label(&labelled, 1).unwrap();
        assert_eq!(bone.mask().iter().filter(|f| **f).count(), 8);
        assert_eq!(Fixed::label(&labelled, 9).unwrap_err(), ElasticityError::NoLabel { label: 9 });
        let bottom = Fixed::whose(&mesh, |x| x.z == 0.0).unwrap();
        assert_eq!(bottom.mask().iter().filter(|f| **f).count(), 9);
    }
}
