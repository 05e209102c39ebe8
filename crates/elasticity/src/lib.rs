//! Tetrahedral meshes and linear elasticity with finite elements, on the host in double precision.
//!
//! | module | contents |
//! |---|---|
//! | [`boxes`] | boxes of cells, each cut into six tetrahedra |
//! | [`fit`] | meshes of masks, in whole cells of a box |
//! | [`snap`] | meshes of masks whose surface is moved to that of the mask |
//! | [`quality`] | the shape of tetrahedra, and whether a mesh can be that of a body |
//! | [`locate`] | the tetrahedron that holds a point, and the weights of its corners there |
//! | [`material`] | materials, one for all or one a label |
//! | [`element`] | gradients, stiffness and mass of a linear tetrahedron |
//! | [`sparse`] | matrices over the vertices of a mesh |
//! | [`assembly`] | bodies, their matrices, and where they are held |
//! | [`factor`] | direct solutions, and bodies at rest under forces |
//! | [`newmark`] | bodies in motion |
//! | [`strain`] | strain, stress and change of volume |
//!
//! Units are mm, kg and s: forces are in mN, stresses and moduli in kPa (mN/mm²), energies in µJ (mN mm), densities in kg/mm³.
//!
//! ```
//! use voxalign_elasticity::{Body, Fixed, Material, Materials, TetraBox, equilibrium};
//! use voxalign_image::{Grid, Vector3};
//!
//! # fn main() -> Result<(), voxalign_elasticity::ElasticityError> {
//! // A cube of 10 mm that stands on its lowest face and is pulled at a corner.
//! let mesh = TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3])?)?.mesh()?;
//! let body = Body::new(mesh, &Materials::Uniform(Material::new(1000.0, 0.3, 1000.0)?))?;
//! let fixed = Fixed::whose(body.mesh(), |x| x.z == 0.0)?;
//! let mut forces = vec![Vector3::zeros(); 27];
//! forces[26] = Vector3::new(1.0, 0.5, -0.25);
//! let displacements = equilibrium(&body, &fixed, &[Vector3::zeros(); 27], &forces)?;
//! assert!((displacements[26].x - 0.8295).abs() < 1e-4);
//! # Ok(())
//! # }
//! ```

pub mod assembly;
pub mod boxes;
pub mod cut;
pub mod element;
pub mod error;
pub mod factor;
pub mod fit;
pub mod locate;
pub mod material;
pub mod newmark;
pub mod quality;
pub mod snap;
pub mod sparse;
pub mod spectrum;
pub mod strain;

pub use assembly::{Body, Fixed};
pub use boxes::TetraBox;
pub use cut::Cut;
pub use element::Element;
pub use error::{ElasticityError, Result};
pub use factor::{Factor, equilibrium};
pub use fit::{Fitted, fitted};
pub use locate::{Bins, Located};
pub use material::{Material, Materials};
pub use newmark::{Motion, Newmark, State, Step};
pub use quality::{Quality, check};
pub use snap::snapped;
pub use sparse::{Pattern, Sparse, dot};
pub use strain::LeastRatio;

#[cfg(test)]
mod tests {
    use crate::{Body, Material, Materials, TetraBox};
    use voxalign_image::{Grid, Vector3};

    /// A cube of 10 mm in 2 x 2 x 2 cells, of 1000 Pa, 0.3 and 1000 kg/m³.
    pub(crate) fn cube() -> Body {
        let mesh =
            TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3]).unwrap()).unwrap().mesh().unwrap();
        Body::new(mesh, &Materials::Uniform(Material::new(1000.0, 0.3, 1000.0).unwrap())).unwrap()
    }

    /// Numbers for tests, the same every time.
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        /// From -1 to 1.
        pub(crate) fn number(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }

        pub(crate) fn vector(&mut self) -> Vector3<f64> {
            Vector3::from_fn(|_, _| self.number())
        }
    }
}
