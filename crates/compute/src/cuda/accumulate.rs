//! Sums over many images on the GPU.

use std::sync::LazyLock;

use super::{Cuda, CudaBuffer, Program, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Accumulate;
use crate::ops::accumulate::check_accumulate;

static ACCUMULATE: LazyLock<Program> =
    LazyLock::new(|| Program::new("accumulate", include_str!("kernels/accumulate.cu")));

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
        let args = [image.into(), factor.into(), (n as u64).into(), sums.into()];
        // SAFETY: the parameters are those of the kernel; both buffers have `n` numbers.
        unsafe { self.launch(&ACCUMULATE, "add_fixed", Shape::covering(n, 256), &args) }
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
        let args = [sums.into(), factor.into(), (n as u64).into(), out.into()];
        // SAFETY: the parameters are those of the kernel; both buffers have `n` numbers.
        unsafe { self.launch(&ACCUMULATE, "fixed_to_float", Shape::covering(n, 256), &args) }
    }
}
