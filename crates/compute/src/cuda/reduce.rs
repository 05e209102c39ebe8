//! Reductions on the GPU.

use super::{Cuda, CudaBuffer};
use crate::error::Result;
use crate::ops::Reduce;
use crate::ops::reduce::Reduction;

impl Reduce for Cuda {
    fn reduce(&self, _inputs: &[&CudaBuffer<f32>], _what: &[Reduction]) -> Result<Vec<f64>> {
        Err(self.unsupported("reductions"))
    }

    fn reduce_into(
        &self,
        _inputs: &[&CudaBuffer<f32>],
        _what: &[Reduction],
        _out: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        Err(self.unsupported("reductions"))
    }
}
