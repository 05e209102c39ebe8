//! Sums over many images on the GPU.

use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Accumulate;
use crate::ops::accumulate::check_accumulate;

kernels! { ACCUMULATE = "accumulate/accumulate.cu";
    fn add_fixed[256](image: &[f32], factor: f64, n: u64, sums: &mut [i64]);
    fn fixed_to_float[256](sums: &[i64], factor: f64, n: u64, out: &mut [f32]);
}

impl Accumulate for Cuda {
    fn add_fixed(
        &self,
        image: &CudaBuffer<f32>,
        factor: f64,
        sums: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let n = image.len();
        check_accumulate(n, factor, sums.len())?;
        if n == 0 {
            return Ok(());
        }
        let shape = Shape::covering(n, 256);
        // SAFETY: both buffers have `n` numbers.
        unsafe { ACCUMULATE.add_fixed(self, shape, image, factor, n as u64, sums) }
    }

    fn fixed_to_float(
        &self,
        sums: &CudaBuffer<i64>,
        factor: f64,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = out.len();
        check_accumulate(n, factor, sums.len())?;
        if n == 0 {
            return Ok(());
        }
        let shape = Shape::covering(n, 256);
        // SAFETY: both buffers have `n` numbers.
        unsafe { ACCUMULATE.fixed_to_float(self, shape, sums, factor, n as u64, out) }
    }
}
