//! Images and transforms as plain data, with explicit geometry.
//!
//! | type | what it holds |
//! |---|---|
//! | [`Grid`] | the sizes of an image and the affine from voxel index to world |
//! | [`Volume`], [`LabelMap`] | one value for each voxel of a grid |
//! | [`VectorField`] | one vector for each voxel: displacements |
//! | [`PointSet`] | points of the world, with further columns of text |
//! | [`Mesh`] | surfaces and curves of the world, with values at their vertices |
//! | [`TetraMesh`] | bodies of the world in tetrahedra, with values at their vertices and in the tetrahedra |
//! | [`Transform`] | a map from the fixed world to the moving world, linear or not |
//! | [`XrayGeometry`] | the source and the detector of an X-ray image |
//!
//! Files are read and written by `voxalign-io`; what is computed on the values of images
//! (resampling, smoothing) is in `voxalign-compute`.
//!
//! # Conventions
//!
//! - World space is RAS+ millimetres (x to the patient's right, y to the front, z up), as in NIfTI.
//! - Index (0, 0, 0) is the *centre* of the first voxel. Axes may be oblique, flipped and of different
//!   spacing. A two-dimensional image has depth 1.
//! - Values are one array with x fastest: voxel `(x, y, z)` has the linear index
//!   `x + nx (y + ny z)`. A field has all x, then all y, then all z components.
//! - A transform maps fixed points to moving points, the direction in which images are resampled.
//!   Points that are to move *with* the moving image go through its inverse.
//! - Angles are radians. Coordinates are `f64`; values and the components of fields are `f32`.
//!
//! # Example
//!
//! ```
//! use voxalign_image::{AffineParameters, Grid, Transform, Vector3, Volume};
//!
//! # fn main() -> Result<(), voxalign_image::ImageError> {
//! // 64 x 64 x 32 voxels of 1 x 1 x 2 mm; the first voxel's centre is the world's origin.
//! let grid = Grid::axis_aligned([64, 64, 32], [1.0, 1.0, 2.0])?;
//! assert_eq!(grid.index_to_world(Vector3::new(10.0, 20.0, 5.0)), Vector3::new(10.0, 20.0, 10.0));
//! assert_eq!(grid.orientation(), "RAS");
//! let image = Volume::from_fn(grid.clone(), |x, y, z| (x + 2 * y + 3 * z) as f32);
//! assert_eq!(image.get(1, 1, 1), Some(&6.0));
//!
//! // A quarter turn about the middle of the image, then 3 mm to the right.
//! let turn = AffineParameters {
//!     rotation: Vector3::new(0.0, 0.0, std::f64::consts::FRAC_PI_2),
//!     translation: Vector3::new(3.0, 0.0, 0.0),
//!     ..AffineParameters::identity(grid.centre())
//! };
//! let transform = Transform::Affine(turn.to_affine());
//!
//! // Where a point of the fixed image is in the moving image, and the way back.
//! let fixed = grid.centre() + Vector3::new(10.0, 0.0, 0.0);
//! let moving = transform.apply(fixed);
//! assert!((moving - grid.centre() - Vector3::new(3.0, 10.0, 0.0)).norm() < 1e-9);
//! assert!((transform.inverse()?.apply(moving) - fixed).norm() < 1e-9);
//!
//! // The same map as displacements in mm on the grid, as a registration leaves it.
//! let field = transform.sampled(&grid);
//! assert_eq!(field.data().len(), 3 * grid.len());
//! # Ok(())
//! # }
//! ```

pub mod affine;
mod average;
pub mod elsewhere;
pub mod error;
pub mod field;
pub mod grid;
pub mod memory;
pub mod mesh;
pub mod points;
pub mod tetra;
pub mod transform;
pub mod view;
pub mod volume;
pub mod xray;

pub use affine::{Affine, Index, World};
pub use elsewhere::Elsewhere;
pub use error::ImageError;
pub use field::VectorField;
pub use grid::Grid;
pub use mesh::{Mesh, VertexData};
pub use nalgebra::{Matrix3, Matrix3x4, Matrix4, Rotation3, UnitQuaternion, Vector3};
pub use points::PointSet;
pub use tetra::TetraMesh;
pub use transform::{AffineParameters, Displacement, Residuals, Rigid, Similarity, Transform};
pub use view::ImageView;
pub use volume::{LabelMap, Volume};
pub use xray::{CArm, Gantry, XrayGeometry};
