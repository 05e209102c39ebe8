//! Surfaces of labels and images: isosurfaces, smoothing, decimation, and measures of meshes.
//!
//! [`isosurface`] gives closed surfaces of manifolds for any input; [`smoothed`] and [`decimated`] keep them so. Of an
//! image of two dimensions [`outlines`] gives closed lines. All of it is in world space, RAS mm, and has the same bits for any number of threads.
//!
//! ```
//! use voxalign_image::{Grid, Volume};
//! use voxalign_surface::{Figures, decimated, isosurface, smoothed};
//!
//! # fn main() -> Result<(), voxalign_image::ImageError> {
//! // A ball of 8 mm, on a grid of 1 x 1 x 2 mm.
//! let grid = Grid::axis_aligned([24, 24, 12], [1.0, 1.0, 2.0])?;
//! let ball = Volume::from_fn(grid, |x, y, z| {
//!     let [x, y, z] = [x as f32 - 11.5, y as f32 - 11.5, 2.0 * (z as f32 - 5.5)];
//!     8.0 - (x * x + y * y + z * z).sqrt()
//! });
//! let surface = isosurface(&ball, 0.0)?;
//! let figures = Figures::of(&surface)?;
//! assert!(figures.is_closed_manifold() && figures.genus == Some(0));
//! let volume = 4.0 / 3.0 * std::f64::consts::PI * 8f64.powi(3);
//! assert!((figures.volume_mm3.unwrap_or(0.0) / volume - 1.0).abs() < 0.02);
//!
//! let fewer = decimated(&smoothed(&surface, 5)?, 400)?;
//! assert!(fewer.faces().len() <= 400 && Figures::of(&fewer)?.is_closed_manifold());
//! # Ok(())
//! # }
//! ```

mod cases;
mod decimate;
mod figures;
mod isosurface;
mod outlines;
mod region;
mod smooth;
mod voxels;

pub use decimate::decimated;
pub use figures::Figures;
pub use isosurface::isosurface;
pub use outlines::outlines;
pub use region::Region;
pub use smooth::smoothed;
pub use voxels::{fill_cavities, keep_largest};
