//! Resampling on the GPU.

use super::{Cuda, CudaBuffer};
use crate::error::Result;
use crate::ops::Resample;
use crate::ops::resample::{Interpolation, LabelRule};
use crate::{AffineMap, Dims};

impl Resample for Cuda {
    fn warp_affine(
        &self,
        _src: &CudaBuffer<f32>,
        _src_dims: Dims,
        _map: &AffineMap,
        _out_dims: Dims,
        _interpolation: Interpolation,
        _outside: f32,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("resampling"))
    }

    fn warp_field(
        &self,
        _src: &CudaBuffer<f32>,
        _src_dims: Dims,
        _map: &AffineMap,
        _field: &CudaBuffer<f32>,
        _out_dims: Dims,
        _interpolation: Interpolation,
        _outside: f32,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("resampling"))
    }

    fn warp_labels(
        &self,
        _src: &CudaBuffer<i32>,
        _src_dims: Dims,
        _map: &AffineMap,
        _field: Option<&CudaBuffer<f32>>,
        _out_dims: Dims,
        _rule: LabelRule,
        _outside: i32,
        _out: &mut CudaBuffer<i32>,
    ) -> Result<()> {
        Err(self.unsupported("resampling of labels"))
    }

    fn compose_fields(
        &self,
        _outer: &CudaBuffer<f32>,
        _outer_dims: Dims,
        _map: &AffineMap,
        _inner: &CudaBuffer<f32>,
        _dims: Dims,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("composition of fields"))
    }

    fn resample_field(
        &self,
        _field: &CudaBuffer<f32>,
        _src_dims: Dims,
        _map: &AffineMap,
        _out_dims: Dims,
        _out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        Err(self.unsupported("resampling of fields"))
    }

    fn bspline_prefilter(&self, _data: &mut CudaBuffer<f32>, _dims: Dims) -> Result<()> {
        Err(self.unsupported("spline coefficients"))
    }
}
