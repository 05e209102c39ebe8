//! Registration of one pair of images.
//!
//! [`linear::register_affine`] finds a rigid, similarity or affine map and needs no start,
//! [`diffeo::register_deformable`] a deformation that can be undone, after an affine map. Both take
//! images and options, run on any [`Device`](voxalign_compute::Device), tell a [`Progress`] what they
//! do, and end with a [`Verdict`]. [`compare`] scores alignments, whoever made them.
//!
//! A registration is made of orthogonal parts: a [similarity](mod@similarity), a
//! transform model with its schedule of scales ([`linear`], [`model`], [`diffeo`]) and an optimiser
//! ([`search`](mod@search), [`model::solver`]).
//!
//! # Conventions
//!
//! - The fixed image stays; the moving image is brought onto it. A result maps fixed world to moving
//!   world (RAS+ mm), the direction in which the moving image is resampled onto the fixed grid.
//! - Similarities are costs or energies: they are minimised.
//! - Masks and weights are images on the grid of their image; voxels above 0 count.
//! - Angles are radians. Fields are displacements in mm in results, and in voxels of their grid on
//!   the device.
//! - A result has the same bits for any number of threads. Between a CPU and a GPU it differs in
//!   rounding.
//! - A bad result is no error: look at the verdict. Errors ([`RegisterError`]) are for input that
//!   cannot be registered.
//!
//! # Example
//!
//! ```
//! use voxalign_compute::cpu::Cpu;
//! use voxalign_image::{Affine, AffineParameters, Grid, Vector3, Volume};
//! use voxalign_register::diffeo::{DeformInput, Matching, register_deformable};
//! use voxalign_register::linear::{AffineInput, AffineOptions, Search, register_affine};
//! use voxalign_register::similarity::Ssd;
//! use voxalign_register::Silent;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A head with a ball in it, 4 mm voxels; `place` says where a point of the image is in the head.
//! let head = |ball: Vector3<f64>, place: Affine| {
//!     let grid = Grid::axis_aligned([32, 32, 24], [4.0; 3]).unwrap();
//!     Volume::from_fn(grid.clone(), |x, y, z| {
//!         let p = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
//!         let p = place.apply(p) - grid.centre();
//!         let edge = |r: f64| 1.0 / (1.0 + (8.0 * (r - 1.0)).exp());
//!         let skin = (p[0] / 40.0).powi(2) + (p[1] / 48.0).powi(2) + (p[2] / 32.0).powi(2);
//!         (100.0 * edge(skin.sqrt()) + 60.0 * edge((p - ball).norm() / 16.0)) as f32
//!     })
//! };
//! let ball = Vector3::new(10.0, 14.0, 4.0);
//! let fixed = head(ball, Affine::identity());
//! let centre = fixed.grid().centre();
//! let truth = AffineParameters {
//!     rotation: Vector3::new(0.0, 0.1, 0.2),
//!     translation: Vector3::new(6.0, -4.0, 3.0),
//!     ..AffineParameters::identity(centre)
//! };
//! let truth = truth.to_affine();
//! let device = Cpu::new(None)?;
//!
//! // A rigid registration, from the start that the images' centres of mass and axes give.
//! let moving = head(ball, truth.inverse()?);
//! let input = AffineInput::new(&fixed, &moving);
//! let options = AffineOptions { dof: 6, search: Search::Local, ..AffineOptions::default() };
//! let found = register_affine(&device, &input, &options, &Silent)?;
//! assert!(found.verdict.good, "{}", found.verdict.summary());
//! let error = found.transform.largest_distance(&truth, &fixed.grid().corners());
//! assert!(error < 0.5, "{error} mm");
//!
//! // A deformable registration goes on from there, where the ball has moved within the head.
//! let shift = Vector3::new(0.0, -8.0, 0.0);
//! let moving = head(ball + shift, truth.inverse()?);
//! let input = DeformInput::new(&fixed, &moving, Ssd {}.into(), found.transform);
//! let deformed = register_deformable(&device, &input, &Matching::default(), &Silent)?;
//! assert!(deformed.verdict.good, "{}", deformed.verdict.summary());
//! let error = deformed.transform().apply(centre + ball) - truth.apply(centre + ball + shift);
//! assert!(error.norm() < 1.0, "{error} mm");
//! assert_eq!(deformed.measures.folded, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! - Ha (2011): L. K. Ha, *High performance multiscale image processing framework on multi-GPUs with
//!   applications to unbiased diffeomorphic atlas construction*, PhD thesis, University of Utah.
//! - Li et al. (2015): A. Li, A. Kumar, Y. Ha, H. Corporaal, *Correlation ratio based volume image
//!   registration on GPUs*, Microprocessors and Microsystems.
//! - Jenkinson and Smith (2001): *A global optimisation method for robust affine registration of brain
//!   images*, Medical Image Analysis 5(2); Jenkinson et al. (2002): M. Jenkinson, P. Bannister,
//!   M. Brady, S. Smith, *Improved optimization for the robust and accurate linear registration and
//!   motion correction of brain images*, NeuroImage 17(2).
//! - Beg et al. (2005): M. F. Beg, M. Miller, A. Trouvé, L. Younes, *Computing large deformation metric
//!   mappings via geodesic flows of diffeomorphisms*, International Journal of Computer Vision 61(2).
//! - Studholme et al. (1999): C. Studholme, D. Hill, D. Hawkes, *An overlap invariant entropy measure
//!   of 3D medical image alignment*, Pattern Recognition 32(1).

pub mod attachment;
pub mod carry;
pub mod compare;
pub mod diffeo;
pub mod error;
pub mod evidence;
pub mod fields;
pub mod fit;
pub mod fit_shapes;
pub mod limits;
pub mod linear;
pub mod measures;
pub mod metric;
pub mod model;
pub mod multiscale;
pub mod numbers;
pub mod progress;
pub mod projection;
pub mod random;
pub mod resample;
pub mod scores;
pub mod search;
pub mod similarity;
pub mod there;
pub mod verdict;

pub use error::{RegisterError, Result, Role};
pub use progress::{Event, Progress, Silent};
pub use verdict::{Check, Remedy, Verdict};
pub use voxalign_options::Choice;
