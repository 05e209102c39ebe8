//! What bodies are made of.

use crate::error::{ElasticityError, Result};
use voxalign_image::{TetraMesh, memory};

/// Poisson's ratio above which linear tetrahedra are much stiffer than the material.
const LOCKING: f64 = 0.45;

/// An isotropic linear elastic material.
///
/// ```
/// use voxalign_elasticity::Material;
///
/// # fn main() -> Result<(), voxalign_elasticity::ElasticityError> {
/// let tissue = Material::new(1000.0, 0.3, 1000.0)?;
/// let [lambda, mu] = tissue.lame_kpa();
/// assert!((mu - 1.0 / 2.6).abs() < 1e-15 && (lambda - 0.3 / (1.3 * 0.4)).abs() < 1e-15);
/// assert!(Material::new(1000.0, 0.5, 1000.0).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Material {
    young_pa: f64,
    poisson: f64,
    density_kg_m3: f64,
}

impl Material {
    /// From Young's modulus, Pa, Poisson's ratio, and the density, kg/m³.
    ///
    /// # Errors
    /// [`ElasticityError::Material`] for a modulus or a density that is not above 0, and for a ratio that is not above -1 and
    /// below 0.5.
    pub fn new(young_pa: f64, poisson: f64, density_kg_m3: f64) -> Result<Self> {
        let above_0 = |value: f64| value > 0.0 && value.is_finite();
        let wrong = |what, value, remedy| Err(ElasticityError::Material { what, value, remedy });
        if !above_0(young_pa) {
            return wrong("Young's modulus", young_pa, "give a number above 0, in Pa");
        }
        if !(poisson > -1.0 && poisson < 0.5) {
            return wrong(
                "Poisson's ratio",
                poisson,
                "give a number above -1 and below 0.5, such as 0.45",
            );
        }
        if !above_0(density_kg_m3) {
            return wrong("density", density_kg_m3, "give a number above 0, in kg/m³");
        }
        Ok(Self { young_pa, poisson, density_kg_m3 })
    }

    /// Young's modulus, kPa.
    #[must_use]
    pub fn young_kpa(&self) -> f64 {
        self.young_pa / 1e3
    }

    /// Poisson's ratio.
    #[must_use]
    pub fn poisson(&self) -> f64 {
        self.poisson
    }

    /// Density, kg/mm³.
    #[must_use]
    pub fn density_kg_mm3(&self) -> f64 {
        self.density_kg_m3 / 1e9
    }

    /// Lamé's constants lambda and mu, kPa.
    #[must_use]
    pub fn lame_kpa(&self) -> [f64; 2] {
        let (e, nu) = (self.young_kpa(), self.poisson);
        [e * nu / ((1.0 + nu) * (1.0 - 2.0 * nu)), e / (2.0 * (1.0 + nu))]
    }

    /// Whether it is so nearly incompressible that linear tetrahedra make it much stiffer than it is (volumetric locking): above
    /// a ratio of 0.45.
    #[must_use]
    pub fn locks(&self) -> bool {
        self.poisson > LOCKING
    }
}

/// The materials of a mesh: one for all of it, or one a label.
#[derive(Debug, Clone, PartialEq)]
pub enum Materials {
    /// One for all tetrahedra, whatever their labels.
    Uniform(Material),
    /// One for each label, in any order.
    ByLabel(Vec<(i32, Material)>),
}

impl Materials {
    /// The material of each tetrahedron. Tetrahedra of a mesh without labels have the label 0.
    ///
    /// # Errors
    /// [`ElasticityError::RepeatedLabel`] where a label has two materials, [`ElasticityError::NoMaterial`] where that of a
    /// tetrahedron has none, [`ElasticityError::OutOfMemory`].
    pub fn of(&self, mesh: &TetraMesh) -> Result<Vec<Material>> {
        let count = mesh.tetrahedra().len();
        let table = match self {
            Self::Uniform(material) => return Ok(memory::filled(count, *material)?),
            Self::ByLabel(table) => table,
        };
        let mut sorted = table.clone();
        sorted.sort_by_key(|row| row.0);
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ElasticityError::RepeatedLabel { label: pair[0].0 });
        }
        let label = |e: usize| mesh.labels().get(e).copied().unwrap_or(0);
        let mut materials = memory::room(count)?;
        for e in 0..count {
            let Ok(row) = sorted.binary_search_by_key(&label(e), |row| row.0) else {
                let label_of_it = label(e);
                let count = (0..count).filter(|&other| label(other) == label_of_it).count();
                return Err(ElasticityError::NoMaterial { label: label_of_it, count });
            };
            materials.push(sorted[row].1);
        }
        Ok(materials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TetraBox;
    use voxalign_image::Grid;

    #[test]
    fn impossible_numbers_name_the_value_and_the_remedy() {
        for (bad, says) in [
            (Material::new(0.0, 0.3, 1000.0), "Young's modulus 0"),
            (Material::new(f64::NAN, 0.3, 1000.0), "Young's modulus NaN"),
            (Material::new(1.0, 0.5, 1000.0), "Poisson's ratio 0.5"),
            (Material::new(1.0, -1.0, 1000.0), "Poisson's ratio -1"),
            (Material::new(1.0, 0.3, -2.0), "density -2"),
        ] {
            let message = bad.unwrap_err().to_string();
            assert!(message.contains(says) && message.contains("give a number above"), "{message}");
        }
        assert!(Material::new(1.0, 0.49, 1.0).unwrap().locks());
        assert!(!Material::new(1.0, 0.45, 1.0).unwrap().locks());
    }

    #[test]
    fn every_label_needs_one_material() {
        let mesh =
            TetraBox::new(Grid::axis_aligned([2; 3], [5.0; 3]).unwrap()).unwrap().mesh().unwrap();
        let [soft, stiff] = [1e3, 1e6].map(|young| Material::new(young, 0.3, 1000.0).unwrap());
        let table = Materials::ByLabel(vec![(7, stiff), (2, soft)]);
        let labelled = mesh.clone().with_labels(vec![2, 7, 2, 2, 7, 2]).unwrap();
        assert_eq!(table.of(&labelled).unwrap(), [soft, stiff, soft, soft, stiff, soft]);
        assert_eq!(Materials::Uniform(soft).of(&labelled).unwrap(), [soft; 6]);
        let error = table.of(&mesh).unwrap_err();
        assert_eq!(error, ElasticityError::NoMaterial { label: 0, count: 6 });
        let twice = Materials::ByLabel(vec![(2, stiff), (7, soft), (2, soft)]);
        assert_eq!(twice.of(&labelled).unwrap_err(), ElasticityError::RepeatedLabel { label: 2 });
    }
}
