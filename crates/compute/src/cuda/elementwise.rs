//! Fused expressions on the GPU.

use super::{Cuda, CudaBuffer};
use crate::error::Result;
use crate::ops::Elementwise;
use crate::ops::expression::Expr;

impl Elementwise for Cuda {
    fn eval(
        &self,
        _expr: &Expr,
        _inputs: &[&CudaBuffer<f32>],
        _params: &[f32],
        _scalars: Option<&CudaBuffer<f64>>,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("elementwise expressions"))
    }

    fn eval_in_place(
        &self,
        _expr: &Expr,
        _io: &mut CudaBuffer<f32>,
        _inputs: &[&CudaBuffer<f32>],
        _params: &[f32],
        _scalars: Option<&CudaBuffer<f64>>,
    ) -> Result<()> {
        Err(self.unsupported("elementwise expressions"))
    }
}
