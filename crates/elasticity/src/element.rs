//! Linear tetrahedra: the displacement is linear in each, so that its gradient, strain and stress are constant there.

use crate::material::Material;
use voxalign_image::{Matrix3, Vector3, tetra};

/// What the stiffness, the mass and the strain of a tetrahedron follow from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Element {
    /// The gradients of the shape functions of the four corners, 1/mm; their sum is 0.
    pub gradients: [Vector3<f64>; 4],
    /// Volume, mm³.
    pub volume: f64,
}

impl Element {
    /// Of the tetrahedron with these corners, mm, whose volume has to be above 0.
    #[must_use]
    pub fn of(corners: [Vector3<f64>; 4]) -> Self {
        let volume = tetra::volume(corners);
        let [u, v, w] = [1, 2, 3].map(|i| corners[i] - corners[0]);
        let [b, c, d] = [v.cross(&w), w.cross(&u), u.cross(&v)].map(|n| n / (6.0 * volume));
        Self { gradients: [-(b + c + d), b, c, d], volume }
    }

    /// The block of the stiffness matrix for the displacement of corner `j` and the force on corner `i`, mN/mm:
    /// `V (lambda g_i g_jᵀ + mu g_j g_iᵀ + mu (g_i · g_j) 1)`. That for `i` and `j` exchanged is its transpose, to the bit.
    ///
    /// # Panics
    /// Where `i` or `j` is above 3.
    #[must_use]
    pub fn stiffness(&self, i: usize, j: usize, material: &Material) -> Matrix3<f64> {
        let [lambda, mu] = material.lame_kpa();
        let (a, b) = (self.gradients[i], self.gradients[j]);
        let dot = mu * a.dot(&b);
        Matrix3::from_fn(|r, c| {
            let shear = mu * (b[r] * a[c]) + if r == c { dot } else { 0.0 };
            self.volume * (lambda * (a[r] * b[c]) + shear)
        })
    }

    /// The entry of the consistent mass matrix for the corners `i` and `j`, kg, the same for each component:
    /// `rho V / 20`, and twice that for `i = j`.
    #[must_use]
    pub fn consistent_mass(&self, i: usize, j: usize, material: &Material) -> f64 {
        let once = material.density_kg_mm3() * self.volume / 20.0;
        if i == j { 2.0 * once } else { once }
    }

    /// The mass that each corner has of a lumped mass matrix, kg: a quarter of that of the tetrahedron.
    #[must_use]
    pub fn lumped_mass(&self, material: &Material) -> f64 {
        material.density_kg_mm3() * self.volume / 4.0
    }

    /// The gradient of the displacement, in rows its components and in columns the axes, from the displacements of the corners, mm.
    #[must_use]
    pub fn displacement_gradient(&self, displacements: [Vector3<f64>; 4]) -> Matrix3<f64> {
        let terms = displacements.iter().zip(&self.gradients);
        terms.map(|(u, g)| u * g.transpose()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;
    use nalgebra::{SMatrix, SVector};

    type Strain = SMatrix<f64, 6, 12>;

    /// The strains xx, yy, zz, yz, zx, xy by the displacements of the corners, as textbooks have it.
    fn strain_matrix(e: &Element) -> Strain {
        let mut b = Strain::zeros();
        for (i, g) in e.gradients.iter().enumerate() {
            let [x, y, z] = [g.x, g.y, g.z];
            let rows = [[x, 0., 0.], [0., y, 0.], [0., 0., z], [0., z, y], [z, 0., x], [y, x, 0.]];
            for (r, row) in rows.iter().enumerate() {
                (0..3).for_each(|c| b[(r, 3 * i + c)] = row[c]);
            }
        }
        b
    }

    fn elasticity(material: &Material) -> SMatrix<f64, 6, 6> {
        let [lambda, mu] = material.lame_kpa();
        let mut d = SMatrix::zeros();
        for r in 0..3 {
            (0..3).for_each(|c| d[(r, c)] = lambda);
            d[(r, r)] += 2.0 * mu;
            d[(r + 3, r + 3)] = mu;
        }
        d
    }

    #[test]
    fn blocks_are_those_of_the_textbook() {
        let mut random = Random(2);
        let material = Material::new(2500.0, 0.37, 1100.0).unwrap();
        for _ in 0..50 {
            let mut corners: [Vector3<f64>; 4] = std::array::from_fn(|_| random.vector() * 5.0);
            if tetra::volume(corners) < 0.0 {
                corners.swap(0, 1);
            }
            let e = Element::of(corners);
            if e.volume < 1.0 {
                continue;
            }
            // Shape functions are 1 at their corner and 0 at the others.
            for i in 0..4 {
                for j in 0..4 {
                    let expected = f64::from(i == j) - f64::from(i == 0);
                    let value = e.gradients[i].dot(&(corners[j] - corners[0]));
                    assert!(
                        (value - expected).abs() < 1e-12 || i == 0 && j == 0 && value == 0.0,
                        "{i} {j} {value}"
                    );
                }
            }
            let b = strain_matrix(&e);
            let whole = e.volume * b.transpose() * elasticity(&material) * b;
            let largest = whole.amax();
            for i in 0..4 {
                for j in 0..4 {
                    let block = e.stiffness(i, j, &material);
                    let expected = whole.fixed_view::<3, 3>(3 * i, 3 * j);
                    assert!((block - expected).amax() < 1e-12 * largest);
                    assert_eq!(block, e.stiffness(j, i, &material).transpose());
                }
            }
            // Of an affine displacement the gradient is found.
            let gradient = Matrix3::from_fn(|_, _| random.number());
            let found = e.displacement_gradient(corners.map(|x| gradient * x));
            assert!((found - gradient).amax() < 1e-10);
            let stretch = SVector::<f64, 12>::from_fn(|r, _| (gradient * corners[r / 3])[r % 3]);
            let strain = b * stretch;
            assert!((strain[3] - gradient[(1, 2)] - gradient[(2, 1)]).abs() < 1e-10);
        }
    }

    #[test]
    fn masses_add_up() {
        let material = Material::new(1.0, 0.0, 1000.0).unwrap();
        let e = Element { gradients: [Vector3::zeros(); 4], volume: 60.0 };
        for i in 0..4 {
            let row: f64 = (0..4).map(|j| e.consistent_mass(i, j, &material)).sum();
            assert!((row - e.lumped_mass(&material)).abs() < 1e-18);
        }
        assert!((4.0 * e.lumped_mass(&material) - 60e-6).abs() < 1e-18);
    }
}
