//! Finite differences on the GPU.

use super::{Cuda, CudaBuffer};
use crate::Dims;
use crate::error::Result;
use crate::ops::Stencil;

impl Stencil for Cuda {
    fn gradient(
        &self,
        _src: &CudaBuffer<f32>,
        _dims: Dims,
        _spacing: [f64; 3],
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("gradients"))
    }

    fn jacobian_determinant(
        &self,
        _field: &CudaBuffer<f32>,
        _dims: Dims,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("Jacobian determinants"))
    }
}
