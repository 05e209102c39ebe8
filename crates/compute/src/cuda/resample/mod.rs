//! Resampling on the GPU.

mod spline;

use std::sync::LazyLock;

use super::tiles::Tiles;
use super::{Arg, Cuda, CudaBuffer, Plain, Program};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len, voxels};
use crate::ops::Resample;
use crate::ops::resample::{
    Interpolation, LabelInterpolation, check_compose, check_resample_field, check_warp, in_order,
};
use crate::{AffineMap, Dims};

static IMAGES: LazyLock<Program> =
    LazyLock::new(|| Program::new("resample", include_str!("../kernels/resample.cu")));
static LABELS: LazyLock<Program> =
    LazyLock::new(|| Program::new("labels", include_str!("../kernels/labels.cu")));
static FIELDS: LazyLock<Program> =
    LazyLock::new(|| Program::new("fields", include_str!("../kernels/fields.cu")));

/// The most slices of a tile: the kernels have room for the frames of so many.
const SLICES: usize = 8;

/// A source and the map to it, as the kernels have it: with its axes [in order](in_order).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Geometry {
    map: AffineMap,
    dims: [u32; 3],
    /// The steps in memory along the axes; zero for an axis of size 1.
    strides: [u32; 3],
}

// SAFETY: twelve numbers of eight bytes, then six of four; as the structure of the kernels.
unsafe impl Plain for Geometry {}

/// What kernels need of the geometry at every voxel, as they have it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Source {
    /// The last voxel along each axis.
    last: [f32; 3],
    /// The last one that has another after it.
    last_cell: [f32; 3],
    linear: [[f32; 3]; 3],
    strides: [u32; 3],
}

// SAFETY: eighteen numbers of four bytes, as the structure of the kernels.
unsafe impl Plain for Source {}

impl Geometry {
    fn source(&self) -> Source {
        Source {
            last: self.dims.map(|n| (n - 1) as f32),
            last_cell: self.dims.map(|n| n.saturating_sub(2) as f32),
            linear: self.map.map(|row| [0, 1, 2].map(|b| row[b] as f32)),
            strides: self.strides,
        }
    }

    /// The geometry of a source whose sizes and map were checked.
    fn new(dims: Dims, map: &AffineMap) -> Self {
        let (dims, strides, map) = in_order(dims, map);
        Self { map, dims: dims.map(|n| n as u32), strides: strides.map(|s| s as u32) }
    }
}

impl Cuda {
    /// Warps by the map and the field, if there is one.
    #[allow(clippy::too_many_arguments)]
    fn warp(
        &self,
        src: &CudaBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: Option<&CudaBuffer<f32>>,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let field_len = field.map(DeviceBuffer::len);
        check_warp((src.len(), src_dims), map, field_len, (out.len(), out_dims))?;
        let geometry = Geometry::new(src_dims, map);
        let (tiles, shape) = Tiles::new(self, out_dims, SLICES)?;
        let made = match interpolation {
            // A cell needs two voxels along x.
            _ if src.len() == 1 => Some(spline::twice(self, src, 1)?),
            Interpolation::Cubic => Some(spline::coefficients(self, src, src_dims)?),
            _ => None,
        };
        let src = made.as_ref().unwrap_or(src);
        let kernel = match (field.is_some(), interpolation) {
            (false, Interpolation::Nearest) => "affine_nearest",
            (false, Interpolation::Linear) => "affine_linear",
            (false, _) => "affine_cubic",
            (true, Interpolation::Nearest) => "field_nearest",
            (true, Interpolation::Linear) => "field_linear",
            (true, _) => "field_cubic",
        };
        let (src, out): (Arg, Arg) = (src.into(), out.into());
        let (source, geometry) = (Arg::of(geometry.source()), Arg::of(geometry));
        let (tiles, outside) = (Arg::of(tiles), outside.into());
        // SAFETY: the parameters are those of the kernels with and without a field. Positions
        // are moved into the source, whose length is that of its sizes, and the field and the
        // output have the lengths of the output's sizes.
        unsafe {
            match field {
                None => {
                    let args = [src, geometry, source, tiles, outside, out];
                    self.launch(&IMAGES, kernel, shape, &args)
                }
                Some(field) => {
                    let args = [src, geometry, source, field.into(), tiles, outside, out];
                    self.launch(&IMAGES, kernel, shape, &args)
                }
            }
        }
    }

    /// `out = inner + L⁻¹ outer(map (id + inner))`, where no `inner` is zero, of arguments that were
    /// checked; `inverse` is `L⁻¹`.
    fn compose(
        &self,
        outer: &CudaBuffer<f32>,
        geometry: Geometry,
        inverse: [[f64; 3]; 3],
        inner: Option<&CudaBuffer<f32>>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let inverse = inverse.map(|row| row.map(|m| m as f32));
        let (tiles, shape) = Tiles::new(self, dims, SLICES)?;
        // A cell needs two voxels along x.
        let made = if outer.len() == 3 { Some(spline::twice(self, outer, 3)?) } else { None };
        let outer = made.as_ref().unwrap_or(outer);
        let kernel = if inner.is_some() { "compose_fields" } else { "resample_field" };
        let args = [
            outer.into(),
            ((outer.len() / 3) as u64).into(),
            Arg::of(geometry),
            Arg::of(geometry.source()),
            Arg::of(inverse),
            Arg::optional(inner),
            Arg::of(tiles),
            out.into(),
        ];
        // SAFETY: the parameters are those of the kernels. Positions are moved into the outer
        // grid; the lengths of the fields are three times those of their sizes.
        unsafe { self.launch(&FIELDS, kernel, shape, &args) }
    }
}

impl Resample for Cuda {
    fn warp_affine(
        &self,
        src: &CudaBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.warp(src, src_dims, map, None, out_dims, interpolation, outside, out)
    }

    fn warp_field(
        &self,
        src: &CudaBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: &CudaBuffer<f32>,
        out_dims: Dims,
        interpolation: Interpolation,
        outside: f32,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.warp(src, src_dims, map, Some(field), out_dims, interpolation, outside, out)
    }

    fn warp_labels(
        &self,
        src: &CudaBuffer<i32>,
        src_dims: Dims,
        map: &AffineMap,
        field: Option<&CudaBuffer<f32>>,
        out_dims: Dims,
        rule: LabelInterpolation,
        outside: i32,
        out: &mut CudaBuffer<i32>,
    ) -> Result<()> {
        let field_len = field.map(DeviceBuffer::len);
        check_warp((src.len(), src_dims), map, field_len, (out.len(), out_dims))?;
        let geometry = Geometry::new(src_dims, map);
        let (tiles, shape) = Tiles::new(self, out_dims, SLICES)?;
        let kernel = match (field.is_some(), rule) {
            (false, LabelInterpolation::Nearest) => "labels_affine_nearest",
            (false, LabelInterpolation::Majority) => "labels_affine_majority",
            (true, LabelInterpolation::Nearest) => "labels_field_nearest",
            (true, LabelInterpolation::Majority) => "labels_field_majority",
        };
        let args = [
            src.into(),
            Arg::of(geometry),
            Arg::of(geometry.source()),
            Arg::optional(field),
            Arg::of(tiles),
            outside.into(),
            out.into(),
        ];
        // SAFETY: the parameters are those of the kernels; those of affine maps read no field.
        // Lengths as in `warp`; cells of axes of size 1 have steps of zero.
        unsafe { self.launch(&LABELS, kernel, shape, &args) }
    }

    fn compose_fields(
        &self,
        outer: &CudaBuffer<f32>,
        outer_dims: Dims,
        map: &AffineMap,
        inner: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let inverse =
            check_compose((outer.len(), outer_dims), map, (inner.len(), dims), out.len())?;
        self.compose(outer, Geometry::new(outer_dims, map), inverse, Some(inner), dims, out)
    }

    fn resample_field(
        &self,
        field: &CudaBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let inverse = check_resample_field((field.len(), src_dims), map, (out.len(), out_dims))?;
        self.compose(field, Geometry::new(src_dims, map), inverse, None, out_dims, out)
    }

    fn bspline_prefilter(&self, data: &mut CudaBuffer<f32>, dims: Dims) -> Result<()> {
        check_len("data", voxels("sizes", dims)?, data.len())?;
        spline::prefilter(self, data, dims)
    }
}
