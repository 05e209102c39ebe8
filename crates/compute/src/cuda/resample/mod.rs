//! Resampling on the GPU.

mod spline;

use std::sync::LazyLock;

use super::tiles::Tiles;
use super::{Arg, Cuda, CudaBuffer, Plain, Program};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len, voxels};
use crate::ops::Resample;
use crate::ops::resample::{Interpolation, LabelRule, check_map, check_source, inverse_linear};
use crate::{AffineMap, Dims};

static IMAGES: LazyLock<Program> =
    LazyLock::new(|| Program::new("resample", include_str!("../kernels/resample.cu")));
static LABELS: LazyLock<Program> =
    LazyLock::new(|| Program::new("labels", include_str!("../kernels/labels.cu")));
static FIELDS: LazyLock<Program> =
    LazyLock::new(|| Program::new("fields", include_str!("../kernels/fields.cu")));

/// The most slices of a tile: the kernels have room for the frames of so many.
const SLICES: usize = 8;

/// A source and the map to it, as the kernels have it: with its axes in an order in which the first
/// is longer than one voxel, if any is. As axes of size 1 take no part in the order in memory, this
/// only renames the others.
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

    /// The geometry of a source; sizes and map are checked.
    fn new(dims: Dims, map: &AffineMap) -> Result<Self> {
        check_source(dims)?;
        check_map(map)?;
        let (mut dims, mut map) = (dims, *map);
        for _ in 0..2 {
            if dims[0] == 1 {
                dims.rotate_left(1);
                map.rotate_left(1);
            }
        }
        let steps = [1, dims[0], dims[0] * dims[1]];
        let strides = [0, 1, 2].map(|a| if dims[a] > 1 { steps[a] as u32 } else { 0 });
        Ok(Self { map, dims: dims.map(|n| n as u32), strides })
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
        let geometry = Geometry::new(src_dims, map)?;
        check_lengths(src.len(), src_dims, field, out_dims, out.len())?;
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

    /// `out = inner + L⁻¹ outer(map (id + inner))`, where no `inner` is zero.
    fn compose(
        &self,
        outer: &CudaBuffer<f32>,
        outer_dims: Dims,
        map: &AffineMap,
        inner: Option<&CudaBuffer<f32>>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let geometry = Geometry::new(outer_dims, map)?;
        let inverse = inverse_linear(map)?.map(|row| row.map(|m| m as f32));
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

/// Checks the lengths of buffers against the sizes.
fn check_lengths(
    src: usize,
    src_dims: Dims,
    field: Option<&CudaBuffer<f32>>,
    out_dims: Dims,
    out: usize,
) -> Result<()> {
    check_len("source", voxels("source sizes", src_dims)?, src)?;
    let n = voxels("output sizes", out_dims)?;
    check_len("output", n, out)?;
    field.map_or(Ok(()), |field| check_len("field", 3 * n, field.len()))
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
        rule: LabelRule,
        outside: i32,
        out: &mut CudaBuffer<i32>,
    ) -> Result<()> {
        let geometry = Geometry::new(src_dims, map)?;
        check_lengths(src.len(), src_dims, field, out_dims, out.len())?;
        let (tiles, shape) = Tiles::new(self, out_dims, SLICES)?;
        let kernel = match (field.is_some(), rule) {
            (false, LabelRule::Nearest) => "labels_affine_nearest",
            (false, LabelRule::Majority) => "labels_affine_majority",
            (true, LabelRule::Nearest) => "labels_field_nearest",
            (true, LabelRule::Majority) => "labels_field_majority",
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
        check_source(outer_dims)?;
        inverse_linear(map)?;
        check_len("outer field", 3 * voxels("outer sizes", outer_dims)?, outer.len())?;
        let n = voxels("sizes", dims)?;
        check_len("inner field", 3 * n, inner.len())?;
        check_len("output", 3 * n, out.len())?;
        self.compose(outer, outer_dims, map, Some(inner), dims, out)
    }

    fn resample_field(
        &self,
        field: &CudaBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        out_dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_source(src_dims)?;
        inverse_linear(map)?;
        check_len("field", 3 * voxels("source sizes", src_dims)?, field.len())?;
        check_len("output", 3 * voxels("output sizes", out_dims)?, out.len())?;
        self.compose(field, src_dims, map, None, out_dims, out)
    }

    fn bspline_prefilter(&self, data: &mut CudaBuffer<f32>, dims: Dims) -> Result<()> {
        check_len("data", voxels("sizes", dims)?, data.len())?;
        spline::prefilter(self, data, dims)
    }
}
