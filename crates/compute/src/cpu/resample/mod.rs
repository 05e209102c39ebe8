//! Resampling on the CPU.

mod fields;
pub(super) mod flat;
mod labels;
pub(super) mod position;
pub(super) mod sample;
mod spline;
pub(super) mod warp;

use super::{Cpu, CpuBuffer};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{Result, check_len, voxels};
use crate::ops::Resample;
use crate::ops::resample::{
    Interpolation, LabelInterpolation, check_compose, check_resample_field, check_warp,
};
use crate::{AffineMap, Dims};
use position::Geometry;

impl Cpu {
    /// Warps by the map and the field, if there is one.
    #[allow(clippy::too_many_arguments)]
    fn warp(
        &self,
        src: &CpuBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: Option<&CpuBuffer<f32>>,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let field_len = field.map(DeviceBuffer::len);
        check_warp((src.len(), src_dims), map, field_len, (out.len(), out_dims))?;
        let geometry = Geometry::new(src_dims, map);
        let coefficients = if interpolation == Interpolation::Cubic {
            let mut copy = self.upload(src.as_slice())?;
            spline::prefilter(self, copy.as_mut_slice(), src_dims);
            Some(copy)
        } else {
            None
        };
        let src = coefficients.as_ref().unwrap_or(src).as_slice();
        let field = field.map(|f| warp::components(f.as_slice()));
        let kind = sample::kind(interpolation);
        warp::warp(self, src, &geometry, field, out_dims, kind, outside, out.as_mut_slice());
        Ok(())
    }
}

impl Resample for Cpu {
    fn warp_affine(
        &self,
        src: &CpuBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.warp(src, src_dims, map, None, out_dims, interpolation, outside, out)
    }

    fn warp_field(
        &self,
        src: &CpuBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: &CpuBuffer<f32>,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.warp(src, src_dims, map, Some(field), out_dims, interpolation, outside, out)
    }

    fn warp_labels(
        &self,
        src: &CpuBuffer<i32>,
        src_dims: Dims,
        map: &AffineMap,
        field: Option<&CpuBuffer<f32>>,
        out_dims: Dims,
        rule: LabelInterpolation,
        outside: i32,
        out: &mut CpuBuffer<i32>,
    ) -> Result<()> {
        let field_len = field.map(DeviceBuffer::len);
        check_warp((src.len(), src_dims), map, field_len, (out.len(), out_dims))?;
        let geometry = Geometry::new(src_dims, map);
        let field = field.map(|f| warp::components(f.as_slice()));
        let (src, out) = (src.as_slice(), out.as_mut_slice());
        labels::warp(self, src, &geometry, field, out_dims, rule, outside, out);
        Ok(())
    }

    fn compose_fields(
        &self,
        outer: &CpuBuffer<f32>,
        outer_dims: Dims,
        map: &AffineMap,
        inner: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let inverse =
            check_compose((outer.len(), outer_dims), map, (inner.len(), dims), out.len())?;
        let geometry = Geometry::new(outer_dims, map);
        let (outer, inner) = (outer.as_slice(), Some(inner.as_slice()));
        fields::compose(self, outer, &geometry, &inverse, inner, dims, out.as_mut_slice());
        Ok(())
    }

    fn resample_field(
        &self,
        field: &CpuBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let inverse = check_resample_field((field.len(), src_dims), map, (out.len(), out_dims))?;
        let geometry = Geometry::new(src_dims, map);
        let src = field.as_slice();
        fields::compose(self, src, &geometry, &inverse, None, out_dims, out.as_mut_slice());
        Ok(())
    }

    fn bspline_prefilter(&self, data: &mut CpuBuffer<f32>, dims: Dims) -> Result<()> {
        check_len("data", voxels("sizes", dims)?, data.len())?;
        spline::prefilter(self, data.as_mut_slice(), dims);
        Ok(())
    }
}
