//! The operator families: traits with the mathematics in their docs, one file for each family.
//!
//! | family | operators |
//! |---|---|
//! | [`Elementwise`] | an [expression](expression::Expr) over several inputs, in one pass |
//! | [`Values`] | values taken over from the memory of others, of any type and order; counts of pairs, and in slices |
//! | [`Reduce`] | sums, dot products, extremes, several in one pass |
//! | [`Resample`] | images, labels and fields between their voxels, by a map or a field; composition |
//! | [`Stencil`] | gradient, divergence, Laplacian, Jacobian determinant |
//! | [`Filter`] | Gaussians and means over boxes |
//! | [`Fourier`] | real transforms and sine transforms of any size |
//! | [`Front`] | level-set fronts: tiles that can change, signs of forces, iterations of tiles and of whole sets |
//! | [`Regions`] | labels of several regions: sums, shares about points, scans under scores |
//! | [`Elastic`] | the elastic operator: products, relaxation, its inverse in frequencies |
//! | [`Flow`] | steps along velocities, inverses and norms of displacement fields, forces |
//! | [`Similarity`] | local correlation and joint histograms of two images on one grid, with derivatives |
//! | [`Histogram`] | sums over the overlap of two images under an affine map, with derivatives |
//! | [`Joint`] | joint histograms of blocks of images in whole numbers, the same in any decomposition, with derivatives |
//! | [`Sort`] | stable sorts of keys and pairs |
//! | [`Accumulate`] | sums over many images in fixed point |
//! | [`Splat`] | interpolation at points, linear or cubic, and its exact adjoint |
//! | [`Simplices`] | centres and measures of the elements of curves and surfaces, and their derivative |
//! | [`Points`] | affine maps of points and covectors, displacements that carry them, forces at them |
//! | [`Pairwise`] | sums over all pairs of points by a kernel of their distance |
//! | [`Raycast`] | line integrals and maxima through a volume, their derivative in the pose, and the adjoint |
//! | [`Sparse`] | products of sparse and dense matrices, their assembly, and their diagonal as a preconditioner |
//! | [`Tetrahedra`] | samples in meshes of tetrahedra, values carried between nodes and samples, covectors at samples, ratios of volumes, strain |
//!
//! A trait says for each operator the formula, the lengths of buffers, what is beyond the border and
//! the errors. A naive `f64` version of each is in `voxalign-conformance`, against which every backend
//! is checked. The free functions beside a trait check the arguments of its operators: a backend
//! calls them first, so that all backends refuse the same input with the same words.
//!
//! Operators are methods of the device, so a trait has to be in scope; with `D: Device` all are:
//!
//! ```
//! use voxalign_compute::ops::expression::x;
//! use voxalign_compute::ops::reduce::Reduction;
//! use voxalign_compute::{Device, DeviceBuffer, Result, cpu::Cpu};
//!
//! /// The largest difference of two images from their mean.
//! fn half_difference<D: Device>(device: &D, a: &[f32], b: &[f32]) -> Result<f64> {
//!     let (a, b) = (device.upload(a)?, device.upload(b)?);
//!     let mut out = device.alloc(a.len())?;
//!     device.eval(&((x(0) - x(1)) * 0.5), &[&a, &b], &[], None, &mut out)?;
//!     Ok(device.reduce(&[&out], &[Reduction::MaxAbs(0)])?[0])
//! }
//!
//! let cpu = Cpu::new(None)?;
//! assert_eq!(half_difference(&cpu, &[1.0, 2.0], &[5.0, 2.0])?, 2.0);
//! // Buffers of different lengths are an error, not a panic.
//! assert!(half_difference(&cpu, &[1.0, 2.0], &[5.0]).is_err());
//! # Ok::<(), voxalign_compute::ComputeError>(())
//! ```

pub mod accumulate;
pub mod elastic;
pub mod elementwise;
pub mod expression;
pub mod filter;
pub mod flow;
pub mod fourier;
pub mod front;
pub(crate) mod functions;
pub mod histogram;
pub mod joint;
pub(crate) mod linear;
pub mod pairwise;
pub mod points;
pub mod raycast;
pub mod reduce;
pub mod regions;
pub mod resample;
pub mod similarity;
pub mod simplices;
pub mod sort;
pub mod sparse;
pub mod splat;
pub mod stencil;
pub mod tetrahedra;
pub mod values;

pub use accumulate::Accumulate;
pub use elastic::Elastic;
pub use elementwise::Elementwise;
pub use filter::Filter;
pub use flow::Flow;
pub use fourier::Fourier;
pub use front::Front;
pub use histogram::Histogram;
pub use joint::Joint;
pub use pairwise::Pairwise;
pub use points::Points;
pub use raycast::Raycast;
pub use reduce::Reduce;
pub use regions::Regions;
pub use resample::Resample;
pub use similarity::Similarity;
pub use simplices::Simplices;
pub use sort::{Sort, SortKey};
pub use sparse::Sparse;
pub use splat::{Splat, SplatScheme};
pub use stencil::Stencil;
pub use tetrahedra::Tetrahedra;
pub use values::Values;
