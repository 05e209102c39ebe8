//! Resampling on the GPU.

pub(super) mod spline;

use super::declare::{In, Out};
use super::tiles::Tiles;
use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len, voxels};
use crate::ops::Resample;
use crate::ops::resample::{
    Interpolation, LabelInterpolation, check_compose, check_resample_field, check_warp, in_order,
};
use crate::{AffineMap, Dims};

kernels! { IMAGES = "resample/resample.cu";
    fn affine_nearest[256](src: &[f32], g: Geometry, s: Source, tiles: Tiles, outside: f32,
        out: &mut [f32]);
    fn affine_linear[256](src: &[f32], g: Geometry, s: Source, tiles: Tiles, outside: f32,
        out: &mut [f32]);
    fn affine_cubic[256](src: &[f32], g: Geometry, s: Source, tiles: Tiles, outside: f32,
        out: &mut [f32]);
    fn field_nearest[256](src: &[f32], g: Geometry, s: Source, field: &[f32], tiles: Tiles, outside: f32,
        out: &mut [f32]);
    fn field_linear[256](src: &[f32], g: Geometry, s: Source, field: &[f32], tiles: Tiles, outside: f32,
        out: &mut [f32]);
    fn field_cubic[256](src: &[f32], g: Geometry, s: Source, field: &[f32], tiles: Tiles, outside: f32,
        out: &mut [f32]);
}

/// A kernel that warps by a map.
type WarpAffine =
    unsafe fn(&IMAGES, &Cuda, Shape, In<f32>, Geometry, Source, Tiles, f32, Out<f32>) -> Result<()>;
/// A kernel that warps by a map and a field.
type WarpField = unsafe fn(
    &IMAGES,
    &Cuda,
    Shape,
    In<f32>,
    Geometry,
    Source,
    In<f32>,
    Tiles,
    f32,
    Out<f32>,
) -> Result<()>;

kernels! { LABELS = "resample/labels.cu";
    fn labels_affine_nearest[256](src: &[i32], g: Geometry, s: Source, field: &[f32], tiles: Tiles,
        outside: i32, out: &mut [i32]);
    fn labels_affine_majority[256](src: &[i32], g: Geometry, s: Source, field: &[f32], tiles: Tiles,
        outside: i32, out: &mut [i32]);
    fn labels_field_nearest[256](src: &[i32], g: Geometry, s: Source, field: &[f32], tiles: Tiles,
        outside: i32, out: &mut [i32]);
    fn labels_field_majority[256](src: &[i32], g: Geometry, s: Source, field: &[f32], tiles: Tiles,
        outside: i32, out: &mut [i32]);
}

/// A kernel that warps labels.
type WarpLabels = unsafe fn(
    &LABELS,
    &Cuda,
    Shape,
    In<i32>,
    Geometry,
    Source,
    In<f32>,
    Tiles,
    i32,
    Out<i32>,
) -> Result<()>;

kernels! { FIELDS = "resample/fields.cu";
    fn compose_fields[256](outer: &[f32], voxels: u64, g: Geometry, s: Source, inverse: Matrix,
        inner: &[f32], tiles: Tiles, out: &mut [f32]);
    fn resample_field[256](field: &[f32], voxels: u64, g: Geometry, s: Source, inverse: Matrix,
        none: &[f32], tiles: Tiles, out: &mut [f32]);
}

/// A kernel that composes fields.
type Compose = unsafe fn(
    &FIELDS,
    &Cuda,
    Shape,
    In<f32>,
    u64,
    Geometry,
    Source,
    Matrix,
    In<f32>,
    Tiles,
    Out<f32>,
) -> Result<()>;

/// The most slices of a tile: the kernels have room for this many frames.
pub(super) const SLICES: usize = 8;

plain! {
    /// A source and the map to it, as the kernels have it: with its axes [in order](in_order).
    pub(super) struct Geometry {
        map: AffineMap,
        dims: [u32; 3],
        /// The steps in memory along the axes; zero for an axis of size 1.
        strides: [u32; 3],
    }
}

plain! {
    /// The geometry at every voxel in the layout of the kernels.
    pub(super) struct Source {
        /// The last voxel along each axis.
        last: [f32; 3],
        /// The last one that has another after it.
        last_cell: [f32; 3],
        linear: [[f32; 3]; 3],
        strides: [u32; 3],
    }
}

plain! {
    /// A matrix, such as the inverse of the linear part of a map.
    pub(super) struct Matrix {
        pub(super) m: [[f32; 3]; 3],
    }
}

impl Geometry {
    pub(super) fn source(&self) -> Source {
        Source {
            last: self.dims.map(|n| (n - 1) as f32),
            last_cell: self.dims.map(|n| n.saturating_sub(2) as f32),
            linear: self.map.map(|row| [0, 1, 2].map(|b| row[b] as f32)),
            strides: self.strides,
        }
    }

    /// The geometry of a source whose sizes and map were checked.
    pub(super) fn new(dims: Dims, map: &AffineMap) -> Self {
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
        let (src, g, s, out) = (src.into(), geometry, geometry.source(), out.into());
        // SAFETY: positions are moved into the source, whose length is that of its sizes, and the
        // field and the output have the lengths of the output's sizes.
        unsafe {
            match field {
                None => {
                    let kernel: WarpAffine = match interpolation {
                        Interpolation::Nearest => IMAGES::affine_nearest,
                        Interpolation::Linear => IMAGES::affine_linear,
                        _ => IMAGES::affine_cubic,
                    };
                    kernel(&IMAGES, self, shape, src, g, s, tiles, outside, out)
                }
                Some(field) => {
                    let kernel: WarpField = match interpolation {
                        Interpolation::Nearest => IMAGES::field_nearest,
                        Interpolation::Linear => IMAGES::field_linear,
                        _ => IMAGES::field_cubic,
                    };
                    kernel(&IMAGES, self, shape, src, g, s, field.into(), tiles, outside, out)
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
        let inverse = Matrix { m: inverse.map(|row| row.map(|m| m as f32)) };
        let (tiles, shape) = Tiles::new(self, dims, SLICES)?;
        // A cell needs two voxels along x.
        let made = if outer.len() == 3 { Some(spline::twice(self, outer, 3)?) } else { None };
        let outer = made.as_ref().unwrap_or(outer);
        let kernel: Compose =
            if inner.is_some() { FIELDS::compose_fields } else { FIELDS::resample_field };
        let (voxels, g, s) = ((outer.len() / 3) as u64, geometry, geometry.source());
        let (outer, inner, out) = (outer.into(), inner.into(), out.into());
        // SAFETY: positions are moved into the outer grid; the lengths of the fields are three times
        // those of their sizes.
        unsafe { kernel(&FIELDS, self, shape, outer, voxels, g, s, inverse, inner, tiles, out) }
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
        let kernel: WarpLabels = match (field.is_some(), rule) {
            (false, LabelInterpolation::Nearest) => LABELS::labels_affine_nearest,
            (false, LabelInterpolation::Majority) => LABELS::labels_affine_majority,
            (true, LabelInterpolation::Nearest) => LABELS::labels_field_nearest,
            (true, LabelInterpolation::Majority) => LABELS::labels_field_majority,
        };
        let (src, g, s) = (src.into(), geometry, geometry.source());
        let (field, out) = (field.into(), out.into());
        // SAFETY: the kernels of affine maps read no field. Lengths as in `warp`; cells of axes of
        // size 1 have steps of zero.
        unsafe { kernel(&LABELS, self, shape, src, g, s, field, tiles, outside, out) }
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
