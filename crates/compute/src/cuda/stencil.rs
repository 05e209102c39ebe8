//! Finite differences on the GPU.

use super::declare::{In, Out};
use super::tiles::Tiles;
use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Stencil;
use crate::ops::stencil::{check_determinant, check_divergence, check_gradient, check_laplacian};

kernels! { STENCIL = "stencil/stencil.cu";
    fn gradient[256](src: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn gradient_of_fours[256](src: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn divergence[256](field: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn divergence_of_fours[256](field: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn laplacian[256](src: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn laplacian_of_fours[256](src: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn jacobian_determinant[256](field: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn jacobian_determinant_of_fours[256](field: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
}

/// A kernel of these parameters.
type Difference = unsafe fn(&STENCIL, &Cuda, Shape, In<f32>, Tiles, Scales, Out<f32>) -> Result<()>;

/// The most slices of a tile; each tile reads one slice before and one after its own.
pub(super) const SLICES: usize = 16;
/// The same for threads that have four voxels, of which there are fewer.
pub(super) const SLICES_OF_FOURS: usize = 4;

plain! {
    /// The factors of differences along each axis, as the kernels have them.
    pub(super) struct Scales {
        /// Between the ends of an axis.
        middle: [f32; 3],
        /// At the first and the last voxel.
        end: [f32; 3],
    }
}

impl Scales {
    /// Those of the gradient, rounded as on the CPU.
    pub(super) fn new(dims: Dims, spacing: [f64; 3]) -> Self {
        let inverse = spacing.map(|h| 1.0 / h);
        let end = |a: usize| if dims[a] > 1 { 1.0 } else { 0.0 };
        Self {
            middle: inverse.map(|v| (0.5 * v) as f32),
            end: [0, 1, 2].map(|a| (end(a) * inverse[a]) as f32),
        }
    }
}

impl Cuda {
    /// Runs a kernel from `src` to `out`, of whose lengths it is known that they fit the kernel.
    /// `kernels` are those for one and for four voxels a thread.
    fn stencil(
        &self,
        kernels: [Difference; 2],
        src: &CudaBuffer<f32>,
        dims: Dims,
        scales: Scales,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let fours = dims[0].is_multiple_of(4);
        let (tiles, shape) = match fours {
            true => Tiles::of_fours(self, dims, SLICES_OF_FOURS)?,
            false => Tiles::new(self, dims, SLICES)?,
        };
        let kernel = kernels[usize::from(fours)];
        // SAFETY: the kernels stay within the grid, for which the callers have checked the lengths;
        // fours begin at multiples of 16 bytes.
        unsafe { kernel(&STENCIL, self, shape, src.into(), tiles, scales, out.into()) }
    }
}

impl Stencil for Cuda {
    fn gradient(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_gradient(src.len(), dims, spacing, out.len())?;
        let kernels = [STENCIL::gradient, STENCIL::gradient_of_fours];
        self.stencil(kernels, src, dims, Scales::new(dims, spacing), out)
    }

    fn divergence(
        &self,
        field: &CudaBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_divergence(field.len(), dims, spacing, out.len())?;
        let kernels = [STENCIL::divergence, STENCIL::divergence_of_fours];
        self.stencil(kernels, field, dims, Scales::new(dims, spacing), out)
    }

    fn laplacian(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let factors = check_laplacian(src.len(), dims, spacing, out.len())?;
        let kernels = [STENCIL::laplacian, STENCIL::laplacian_of_fours];
        self.stencil(kernels, src, dims, Scales { middle: factors, end: factors }, out)
    }

    fn jacobian_determinant(
        &self,
        field: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_determinant(field.len(), dims, out.len())?;
        let kernels = [STENCIL::jacobian_determinant, STENCIL::jacobian_determinant_of_fours];
        self.stencil(kernels, field, dims, Scales::new(dims, [1.0; 3]), out)
    }
}
