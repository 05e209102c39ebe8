//! Tetrahedral meshes and linear elasticity with finite elements, on the host in double precision.
//!
//! | module | contents |
//! |---|---|
//! | [`boxes`] | boxes of cells, each cut into six tetrahedra |
//! | [`fit`] | meshes of masks, in whole cells of a box |
//! | [`quality`] | the shape of tetrahedra, and whether a mesh can be that of a body |
//! | [`locate`] | the tetrahedron that holds a point, and the weights of its corners there |
//!
//! Units are mm, kg and s: forces are in mN, stresses and moduli in kPa (mN/mm²), energies in µJ (mN mm), densities in kg/mm³.

pub mod boxes;
pub mod error;
pub mod fit;
pub mod locate;
pub mod quality;

pub use boxes::TetraBox;
pub use error::{ElasticityError, Result};
pub use fit::{Fitted, fitted};
pub use locate::{Bins, Located};
pub use quality::{Quality, check};

#[cfg(test)]
mod tests {
    use voxalign_image::Vector3;

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
