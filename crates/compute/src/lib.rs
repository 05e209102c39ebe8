//! Compute devices, their buffers, and the operators that registration is made of.
//!
//! The crate is a matrix. A row is a family of operators: the trait and its mathematics are in
//! [`ops`], one file a family. A column is a backend: [`cpu`] needs nothing installed, [`cuda`] a
//! GPU with its driver. [`Memory`] makes, fills and reads the buffers of a device; [`Device`] is
//! that and all families. Algorithms are generic over [`Device`], so that data stays on the device
//! from upload to result and the compiler specialises every backend.
//!
//! # Conventions
//!
//! - An image is a buffer of `f32` beside its sizes ([`Dims`]), x fastest. A vector field over `n`
//!   voxels is one buffer of `3 n` elements: all x, then all y, then all z components. A 2D image
//!   has depth 1, and every operator takes it.
//! - Operators know voxels, not the world: displacements are in voxels of their own grid, maps are
//!   index to index ([`AffineMap`]). Where lengths matter the spacing is an argument.
//! - Outputs are buffers that the caller made; what they held before does not matter, unless the
//!   operator says that it is in place, adds, or takes a start.
//! - What is beyond the border, each operator says.
//!
//! # The same bits
//!
//! Every operator gives the same bits for any number of threads, over runs, and on every SIMD level
//! of the CPU; on a GPU at every run. The exceptions are the [schemes](ops::histogram::Scheme) that
//! say so. A GPU and the CPU agree to rounding, and in many operators in every bit.
//!
//! # Errors
//!
//! Lengths and values are checked before anything is written: [`ComputeError`] names the argument
//! and what would be accepted, and no bad input reaches a panic. A GPU works behind the caller's back,
//! so that what fails there may be reported by a later call.
//!
//! # Example
//!
//! ```
//! use voxalign_compute::ops::filter::GaussianMethod;
//! use voxalign_compute::ops::reduce::Reduction;
//! use voxalign_compute::ops::resample::Interpolation;
//! use voxalign_compute::{Device, Dims, Result, cpu::Cpu};
//!
//! /// The mean squared difference of an image, smoothed, and itself moved by `shift` voxels.
//! fn difference<D: Device>(device: &D, image: &[f32], dims: Dims, shift: [f64; 3]) -> Result<f64> {
//!     let src = device.upload(image)?;
//!     let mut smooth = device.alloc(src_len(dims))?;
//!     device.gaussian(&src, dims, [1.5; 3], GaussianMethod::Recursive, &mut smooth)?;
//!     // Index of the output to index of the input.
//!     let map = [
//!         [1.0, 0.0, 0.0, shift[0]],
//!         [0.0, 1.0, 0.0, shift[1]],
//!         [0.0, 0.0, 1.0, shift[2]],
//!     ];
//!     let mut moved = device.alloc(src_len(dims))?;
//!     device.warp_affine(&smooth, dims, &map, dims, Interpolation::Linear, 0.0, &mut moved)?;
//!     let sum = device.reduce(&[&smooth, &moved], &[Reduction::SumSquaredDifference(0, 1)])?;
//!     Ok(sum[0] / src_len(dims) as f64)
//! }
//!
//! # fn src_len(dims: Dims) -> usize { dims.iter().product() }
//! # fn main() -> Result<()> {
//! let dims = [20, 16, 12];
//! let image: Vec<f32> = (0..src_len(dims)).map(|i| (i % 7) as f32).collect();
//! let (one, two) = (Cpu::new(Some(1))?, Cpu::new(Some(2))?);
//! let found = difference(&one, &image, dims, [0.5, 0.0, -0.25])?;
//! assert!(found > 0.0);
//! assert_eq!(found.to_bits(), difference(&two, &image, dims, [0.5, 0.0, -0.25])?.to_bits());
//! assert_eq!(difference(&one, &image, dims, [0.0; 3])?, 0.0);
//!
//! let wrong = difference(&one, &image, [20, 16, 13], [0.0; 3]).unwrap_err();
//! assert_eq!(wrong.to_string(), "source: expected 4160 elements, found 3840");
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! "Ha (2011)" is L. K. Ha, *High performance multiscale image processing framework on multi-GPUs
//! with applications to unbiased diffeomorphic atlas construction*, PhD thesis, University of Utah;
//! "Li et al. (2015)" is A. Li, A. Kumar, Y. Ha, H. Corporaal, *Correlation ratio based volume image
//! registration on GPUs*, Microprocessors and Microsystems. Others are named in full.

// Loops over axes and lanes index several small arrays at once.
#![allow(clippy::needless_range_loop)]

pub mod bench;
pub mod comm;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod error;
pub mod host;
pub mod ops;
pub mod select;

pub use device::{Device, DeviceBuffer, Element, Memory, MemoryInfo, Transfer};
pub use error::{ComputeError, Result};
pub use host::{Arriving, HostBuffer, HostMemory, Kept, Queue};

/// Sizes of a grid along x, y and z, in voxels; x is fastest in memory. A 2D image has `z == 1`.
pub type Dims = [usize; 3];

/// An affine map from an index of the output grid to an index of the input grid, both in voxels:
/// the rows give x, y and z of the input, the last column is the offset.
pub type AffineMap = [[f64; 4]; 3];

/// The map that carries every index to itself.
pub const IDENTITY: AffineMap = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
