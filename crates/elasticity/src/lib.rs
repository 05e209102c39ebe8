//! Tetrahedral meshes and linear elasticity with finite elements, on the host in double precision.
//!
//! | module | contents |
//! |---|---|
//! | [`boxes`] | boxes of cells, each cut into six tetrahedra |
//! | [`quality`] | the shape of tetrahedra, and whether a mesh can be that of a body |
//! | [`locate`] | the tetrahedron that holds a point, and the weights of its corners there |
//!
//! Units are mm, kg and s: forces are in mN, stresses and moduli in kPa (mN/mm²), energies in µJ (mN mm), densities in kg/mm³.

pub mod boxes;
pub mod error;
pub mod locate;
pub mod quality;

pub use boxes::TetraBox;
pub use error::{ElasticityError, Result};
pub use locate::Located;
pub use quality::{Quality, check};
