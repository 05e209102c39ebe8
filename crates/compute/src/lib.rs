//! Compute devices, their buffers, and the operators that registration is made of.
//!
//! The crate is a matrix. A row is a family of operators: the trait and its mathematics are in
//! [`ops`], one file a family. A column is a backend: [`cpu`] needs nothing installed, [`cuda`] a
//! GPU with its driver. Algorithms
//! are generic over [`device::Device`], so that data stays on the device from upload to result.
//!
//! Every operator gives the same bits for any number of threads, over runs, and on every SIMD level
//! of a backend. Every error names what was wrong; no bad input reaches a panic.

// Loops over axes and lanes index several small arrays at once.
#![allow(clippy::needless_range_loop)]

pub mod bench;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod error;
pub mod ops;
pub mod select;

pub use device::{Device, DeviceBuffer, Element, Memory, MemoryInfo};
pub use error::{ComputeError, Result};

/// Sizes of a grid along x, y and z, in voxels; x is fastest in memory. A 2D image has `z == 1`.
pub type Dims = [usize; 3];

/// An affine map from an index of the output grid to an index of the input grid, both in voxels:
/// the rows give x, y and z of the input, the last column is the offset.
pub type AffineMap = [[f64; 4]; 3];

/// The map that carries every index to itself.
pub const IDENTITY: AffineMap = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
