//! Strain and stress in the tetrahedra of a body, and their volumes.
//!
//! Strains are small ones, in the order xx, yy, zz, yz, zx, xy, with engineering shears: `ε_yz = ∂v/∂z + ∂w/∂y`. So a rotation by an angle θ
//! has a strain of the order of θ²/2, and its stress.

use crate::assembly::Body;
use crate::error::Result;
use crate::material::Material;
use nalgebra::Matrix3;
use rayon::prelude::*;
use voxalign_image::{Vector3, memory, tetra};

/// Tetrahedra that a thread does at a time, at least.
const ELEMENTS: usize = 1024;

/// The strain of a displacement with this gradient.
#[must_use]
pub fn strain(gradient: &Matrix3<f64>) -> [f64; 6] {
    let shear = |a: usize, b: usize| gradient[(a, b)] + gradient[(b, a)];
    let g = |a: usize| gradient[(a, a)];
    [g(0), g(1), g(2), shear(1, 2), shear(2, 0), shear(0, 1)]
}

/// The stress of a strain, kPa, in the same order.
#[must_use]
pub fn stress(strain: &[f64; 6], material: &Material) -> [f64; 6] {
    let [lambda, mu] = material.lame_kpa();
    let volumetric = lambda * (strain[0] + strain[1] + strain[2]);
    std::array::from_fn(|a| if a < 3 { volumetric + 2.0 * mu * strain[a] } else { mu * strain[a] })
}

/// The equivalent stress of R. von Mises (1913), kPa: 0 where the stress is that of a pressure.
#[must_use]
pub fn von_mises(stress: &[f64; 6]) -> f64 {
    let [x, y, z, yz, zx, xy] = *stress;
    let normal = (x - y).powi(2) + (y - z).powi(2) + (z - x).powi(2);
    (0.5 * normal + 3.0 * (yz * yz + zx * zx + xy * xy)).sqrt()
}

/// The tetrahedron that lost most of its volume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeastRatio {
    /// Its volume over that at rest; below 0 where it is inverted, and NaN where it is nowhere.
    pub ratio: f64,
    /// Its number, the lowest of several.
    pub tetrahedron: usize,
}

impl LeastRatio {
    /// Of the volumes of all tetrahedra over those at rest.
    #[must_use]
    pub fn of(ratios: &[f64]) -> Self {
        let mut least = Self { ratio: f64::INFINITY, tetrahedron: 0 };
        for (tetrahedron, &ratio) in ratios.iter().enumerate() {
            if ratio.is_nan() {
                return Self { ratio, tetrahedron };
            }
            if ratio < least.ratio {
                least = Self { ratio, tetrahedron };
            }
        }
        least
    }
}

impl Body {
    /// The strain of each tetrahedron for a displacement of each vertex, mm.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`](crate::ElasticityError::OutOfMemory).
    ///
    /// # Panics
    /// Where a vertex has no displacement; so do the others here.
    pub fn strains(&self, displacements: &[Vector3<f64>]) -> Result<Vec<[f64; 6]>> {
        self.each(|e| self.strain(e, displacements))
    }

    /// The equivalent stress of each tetrahedron, kPa, for a displacement of each vertex, mm.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`](crate::ElasticityError::OutOfMemory).
    pub fn von_mises(&self, displacements: &[Vector3<f64>]) -> Result<Vec<f64>> {
        let of = |e: usize| stress(&self.strain(e, displacements), &self.materials()[e]);
        self.each(|e| von_mises(&of(e)))
    }

    /// The volume of each tetrahedron over that at rest, for a displacement of each vertex, mm; not above 0 where it is inverted.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`](crate::ElasticityError::OutOfMemory).
    pub fn volume_ratios(&self, displacements: &[Vector3<f64>]) -> Result<Vec<f64>> {
        self.each(|e| {
            let corners = self.mesh().tetrahedra()[e]
                .map(|i| self.mesh().vertices()[i as usize] + displacements[i as usize]);
            tetra::volume(corners) / self.elements()[e].volume
        })
    }

    /// The tetrahedron that lost most of its volume.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`](crate::ElasticityError::OutOfMemory).
    pub fn least_ratio(&self, displacements: &[Vector3<f64>]) -> Result<LeastRatio> {
        Ok(LeastRatio::of(&self.volume_ratios(displacements)?))
    }

    fn strain(&self, e: usize, displacements: &[Vector3<f64>]) -> [f64; 6] {
        let corners = self.mesh().tetrahedra()[e].map(|i| displacements[i as usize]);
        strain(&self.elements()[e].displacement_gradient(corners))
    }

    fn each<T: Send>(&self, of: impl Fn(usize) -> T + Sync + Send) -> Result<Vec<T>> {
        let all = (0..self.elements().len()).into_par_iter().with_min_len(ELEMENTS);
        Ok(memory::par_collected(all.map(of))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Random, cube};

    #[test]
    fn a_homogeneous_strain_is_found_and_its_energy() {
        let body = cube();
        let gradient = Matrix3::new(0.02, 0.05, 0.0, 0.0, -0.03, 0.04, 0.01, 0.0, 0.03);
        let u: Vec<_> = body.mesh().vertices().iter().map(|x| gradient * x).collect();
        let expected = [0.02, -0.03, 0.03, 0.04, 0.01, 0.05];
        for found in body.strains(&u).unwrap() {
            assert!((0..6).all(|a| (found[a] - expected[a]).abs() < 1e-15), "{found:?}");
        }
        let s = stress(&expected, &body.materials()[0]);
        let density: f64 = s.iter().zip(expected).map(|(s, e)| s * e).sum();
        let energy = 0.5 * crate::dot(&u, &body.stiffness().unwrap().product(&u).unwrap());
        assert!((energy / (0.5 * 1000.0 * density) - 1.0).abs() < 1e-12);
        let determinant = (Matrix3::identity() + gradient).determinant();
        for ratio in body.volume_ratios(&u).unwrap() {
            assert!((ratio - determinant).abs() < 1e-13);
        }
    }

    #[test]
    fn pressure_has_no_equivalent_stress_and_tension_its_own() {
        assert_eq!(von_mises(&[3.0, 3.0, 3.0, 0.0, 0.0, 0.0]), 0.0);
        assert_eq!(von_mises(&[0.0, -2.0, 0.0, 0.0, 0.0, 0.0]), 2.0);
        assert!((von_mises(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0]) - 3f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn the_worst_tetrahedron_is_named() {
        let body = cube();
        let mut random = Random(1);
        let mut u: Vec<_> = body.mesh().vertices().iter().map(|_| random.vector() * 0.01).collect();
        u[26] = Vector3::new(-6.0, 0.0, 0.0);
        let least = body.least_ratio(&u).unwrap();
        assert!(least.ratio < 0.0 && body.mesh().tetrahedra()[least.tetrahedron].contains(&26));
        u[0] = Vector3::repeat(f64::NAN);
        assert!(body.least_ratio(&u).unwrap().ratio.is_nan());
    }
}
