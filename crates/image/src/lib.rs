//! Images and transforms as plain data, with explicit geometry.
//!
//! World space is RAS+ millimetres (x to the patient's right, y to the front, z up), as in NIfTI.
//! A [`Grid`] is the dimensions of an image plus the affine from voxel index to world; the centre
//! of the first voxel has index (0, 0, 0). A two-dimensional image has depth 1. A [`Transform`]
//! maps fixed world points to moving world points, the direction in which images are resampled;
//! point sets and meshes that are to move *with* the moving image go through its inverse.

pub mod affine;
pub mod error;
pub mod field;
pub mod grid;
pub mod points;
pub mod transform;
pub mod volume;

pub use affine::Affine;
pub use error::ImageError;
pub use field::VectorField;
pub use grid::Grid;
pub use nalgebra::{Matrix3, Matrix4, Vector3};
pub use points::PointSet;
pub use transform::{AffineParameters, Displacement, Residuals, Rigid, Similarity, Transform};
pub use volume::{LabelMap, Volume};
