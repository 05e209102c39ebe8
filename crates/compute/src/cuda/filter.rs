//! Gaussian and box filters on the GPU.

use super::{Cuda, CudaBuffer};
use crate::Dims;
use crate::error::Result;
use crate::ops::Filter;
use crate::ops::filter::Method;

impl Filter for Cuda {
    fn gaussian(
        &self,
        _src: &CudaBuffer<f32>,
        _dims: Dims,
        _sigma: [f64; 3],
        _method: Method,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("Gaussian smoothing"))
    }

    fn box_mean(
        &self,
        _src: &CudaBuffer<f32>,
        _dims: Dims,
        _radius: [usize; 3],
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("box means"))
    }
}
