//! Flows of displacement fields on the GPU.

use std::sync::LazyLock;

use super::declare::{In, Out};
use super::reduce::{BLOCKS, PARTIALS, THREADS};
use super::resample::{Geometry, Matrix, SLICES as SLICES_OF_FRAMES, Source, spline};
use super::stencil::{SLICES, SLICES_OF_FOURS, Scales};
use super::tiles::Tiles;
use super::{Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{Result, check_len};
use crate::ops::flow::{
    Flow, Inversion, Inverted, SHORTEST, SINGULAR, Step, check_advance, check_blend,
    check_energies, check_force, check_force_at, check_inversion, check_lengths, check_norms,
    check_overshoot, tolerance_of_squares, units_in_order,
};
use crate::{AffineMap, Dims};

kernels! { FLOW = "flow/flow.cu";
    fn advance[256](
        field: &[f32], velocity: &[f32], by: Stepping, largest: &[f64], grid: Grid, tiles: Tiles, out: &mut [f32],
    );
    fn invert[256](
        field: &[f32], n: u64, grid: Grid, tolerance: f32, iterations: u32, out: &mut [f32], ends: &mut [u64],
    );
    fn overshoot[256](field: &[f32], n: u64, grid: Grid, out: &mut [f32]);
}

/// The kernels of flows, with their limits.
static LIMITED_FLOW: LazyLock<FLOW> =
    LazyLock::new(|| FLOW.with(&[("SHORTEST", SHORTEST), ("SINGULAR", SINGULAR)]));

kernels! { FORCE = "flow/force.cu";
    fn force[256](derivative: &[f32], image: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn force_of_fours[256](derivative: &[f32], image: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn force_added[256](derivative: &[f32], image: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn force_added_of_fours[256](derivative: &[f32], image: &[f32], tiles: Tiles, scales: Scales, out: &mut [f32]);
    fn energies[256](field: &[f32], tiles: Tiles, scales: Scales, by: Energies, parts: &mut [f64]);
    fn sum_energies[256](parts: &[f64], blocks: u32, out: &mut [f64]);
}

/// A kernel of forces.
type Force =
    unsafe fn(&FORCE, &Cuda, Shape, In<f32>, In<f32>, Tiles, Scales, Out<f32>) -> Result<()>;

kernels! { FORCE_AT = "flow/force_at.cu";
    fn force_at[256](
        derivative: &[f32], src: &[f32], g: Geometry, s: Source, units: Matrix, field: &[f32], tiles: Tiles,
        out: &mut [f32],
    );
}

kernels! { NORMS = "flow/norms.cu";
    fn norms[THREADS](
        field: &[f32], n: u64, scale: Scale, out: &mut [f64], partials: &mut [f64], finished: &mut [u32],
    );
    fn norms_of_fours[THREADS](
        field: &[f32], n: u64, scale: Scale, out: &mut [f64], partials: &mut [f64], finished: &mut [u32],
    );
    fn lengths[256](field: &[f32], n: u64, sx: f32, sy: f32, sz: f32, out: &mut [f32]);
    fn blend[256](other: &[f32], to_zero: u32, weight: &[f32], n: u64, field: &mut [f32]);
}

/// The kernels of norms, for this many blocks.
static NORMS_OF_BLOCKS: LazyLock<NORMS> =
    LazyLock::new(|| NORMS.with(&[("BLOCKS", BLOCKS as i64)]));

/// A kernel of norms.
type Norms = unsafe fn(
    &NORMS,
    &Cuda,
    Shape,
    In<f32>,
    u64,
    Scale,
    Out<f64>,
    Out<f64>,
    Out<u32>,
) -> Result<()>;

kernels! { HALVES = "flow/halves.cu";
    fn to_half[256](src: &[f32], n: u64, pairs: &mut [u32], out: &mut [u16]);
    fn to_single[256](src: &[u16], pairs: &[u32], n: u64, out: &mut [f32]);
}

/// The most slices of a tile of displaced voxels.
const SLICES_OF_STEPS: usize = 8;

plain! {
    /// The parameters of the step.
    struct Stepping {
        scale: [f64; 3],
        step: f64,
        most: f64,
        limited: u64,
    }
}

plain! {
    /// A grid whose voxels are counted in 32 bits.
    struct Grid {
        dims: [u32; 3],
        /// Zero for an axis of size 1.
        strides: [u32; 3],
    }
}

impl Grid {
    /// Of sizes that have been checked.
    fn new(dims: Dims) -> Self {
        let steps = [1, dims[0], dims[0] * dims[1]];
        let stride = |a: usize| if dims[a] > 1 { steps[a] as u32 } else { 0 };
        Self { dims: dims.map(|d| d as u32), strides: [0, 1, 2].map(stride) }
    }
}

plain! {
    /// The squares of the scales of the components, and the factors of second differences.
    struct Energies {
        square: [f64; 3],
        second: [f32; 3],
        reserved: u32,
    }
}

plain! {
    /// The factors of the components.
    struct Scale {
        of: [f64; 3],
    }
}

impl Flow for Cuda {
    fn advance(
        &self,
        field: &CudaBuffer<f32>,
        velocity: &CudaBuffer<f32>,
        step: &Step<'_, Self>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_advance(field.len(), velocity.len(), step, dims, out.len())?;
        let mut by = Stepping { scale: step.scale, step: 1.0, most: 1.0, limited: 0 };
        let mut largest = In::none();
        if let Some(limit) = &step.limit {
            (by.step, by.most) = (limit.step, limit.most);
            by.limited = 1;
            largest = In::from_element(limit.largest, limit.index);
        }
        let (tiles, shape) = Tiles::new(self, dims, SLICES_OF_STEPS)?;
        let grid = Grid::new(dims);
        // SAFETY: the fields have three numbers a voxel, and displacements are cut to the grid. The
        // largest velocity is read only where it is there.
        unsafe { LIMITED_FLOW.advance(self, shape, field, velocity, by, largest, grid, tiles, out) }
    }

    fn invert_field(
        &self,
        field: &CudaBuffer<f32>,
        dims: Dims,
        how: Inversion,
        out: &mut CudaBuffer<f32>,
    ) -> Result<Inverted> {
        let n = check_inversion(field.len(), dims, &how, out.len())?;
        let mut ends = self.alloc::<u64>(2)?;
        let tolerance = tolerance_of_squares(how.tolerance);
        let iterations = how.iterations.min(u32::MAX as usize) as u32;
        let (shape, grid, count) = (Shape::covering(n, 256), Grid::new(dims), n as u64);
        // SAFETY: the fields have three numbers a voxel, and displacements are cut to the grid.
        unsafe {
            LIMITED_FLOW
                .invert(self, shape, field, count, grid, tolerance, iterations, out, &mut ends)?;
        }
        let ends = self.download(&ends)?;
        let largest = f64::from(f32::from_bits(ends[0] as u32)).sqrt();
        Ok(Inverted { largest, unconverged: ends[1] })
    }

    fn force(
        &self,
        derivative: &CudaBuffer<f32>,
        image: &CudaBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        add: bool,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_force(derivative.len(), image.len(), dims, spacing, out.len())?;
        let fours = dims[0].is_multiple_of(4);
        let (tiles, shape) = match fours {
            true => Tiles::of_fours(self, dims, SLICES_OF_FOURS)?,
            false => Tiles::new(self, dims, SLICES)?,
        };
        let kernel: Force = match (add, fours) {
            (false, false) => FORCE::force,
            (false, true) => FORCE::force_of_fours,
            (true, false) => FORCE::force_added,
            (true, true) => FORCE::force_added_of_fours,
        };
        let scales = Scales::new(dims, spacing);
        let (derivative, image) = (derivative.into(), image.into());
        // SAFETY: the kernels stay within the grid; fours begin at multiples of 16 bytes.
        unsafe { kernel(&FORCE, self, shape, derivative, image, tiles, scales, out.into()) }
    }

    fn force_at(
        &self,
        derivative: &CudaBuffer<f32>,
        src: &CudaBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: &CudaBuffer<f32>,
        out_dims: Dims,
        units: &[[f64; 3]; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (of_src, of_field) = ((src.len(), src_dims), (field.len(), out_dims));
        check_force_at(derivative.len(), of_src, map, of_field, units, out.len())?;
        let (tiles, shape) = Tiles::new(self, out_dims, SLICES_OF_FRAMES)?;
        // A cell needs two voxels along x.
        let twice = if src.len() == 1 { Some(spline::twice(self, src, 1)?) } else { None };
        let src = twice.as_ref().unwrap_or(src);
        let (g, units) =
            (Geometry::new(src_dims, map), Matrix { m: units_in_order(src_dims, units) });
        let s = g.source();
        // SAFETY: positions are moved into the source, whose length is that of its sizes; the other
        // buffers have one or three numbers for each voxel of the output.
        unsafe { FORCE_AT.force_at(self, shape, derivative, src, g, s, units, field, tiles, out) }
    }

    fn field_norms(
        &self,
        field: &CudaBuffer<f32>,
        scale: [f64; 3],
        out: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let n = check_norms(field.len(), scale, out.len())?;
        let (kernel, each): (Norms, _) =
            if n.is_multiple_of(4) { (NORMS::norms_of_fours, 8) } else { (NORMS::norms, 4) };
        let blocks = n.div_ceil(each * THREADS as usize).clamp(1, BLOCKS);
        self.with_scratch(|address| {
            let (shape, n, scale) = (Shape::blocks(blocks, THREADS), n as u64, Scale { of: scale });
            let partials = Out::memory(address, PARTIALS);
            let finished = Out::memory(address + PARTIALS as u64, size_of::<u32>());
            let (field, out) = (field.into(), out.into());
            // SAFETY: the field has three numbers a voxel, and the scratch has room for the three
            // parts of the most blocks.
            unsafe {
                kernel(&NORMS_OF_BLOCKS, self, shape, field, n, scale, out, partials, finished)
            }
        })
    }

    fn field_energies(
        &self,
        field: &CudaBuffer<f32>,
        dims: Dims,
        scale: [f64; 3],
        spacing: [f64; 3],
        out: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let second = check_energies(field.len(), dims, scale, spacing, out.len())?;
        let by = Energies { square: scale.map(|s| s * s), second, reserved: 0 };
        let (tiles, shape) = Tiles::new(self, dims, SLICES)?;
        let blocks = shape.grid[0];
        let mut parts = self.alloc_unset::<f64>(2 * blocks as usize)?;
        let scales = Scales::new(dims, spacing);
        // SAFETY: the kernels stay within the grid; there is room for two parts of each block.
        unsafe {
            FORCE.energies(self, shape, field, tiles, scales, by, &mut parts)?;
            FORCE.sum_energies(self, Shape::blocks(1, 256), &parts, blocks, out)
        }
    }

    fn field_lengths(
        &self,
        field: &CudaBuffer<f32>,
        scale: [f64; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_lengths(field.len(), scale, out.len())?;
        if n == 0 {
            return Ok(());
        }
        let [x, y, z] = scale.map(|s| s as f32);
        let shape = Shape::covering(n, 256);
        // SAFETY: the field has three numbers a voxel.
        unsafe { NORMS_OF_BLOCKS.lengths(self, shape, field, n as u64, x, y, z, out) }
    }

    fn field_overshoot(
        &self,
        field: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_overshoot(field.len(), dims, out.len())?;
        let (shape, grid) = (Shape::covering(n, 256), Grid::new(dims));
        // SAFETY: the field has three numbers a voxel.
        unsafe { LIMITED_FLOW.overshoot(self, shape, field, n as u64, grid, out) }
    }

    fn blend_fields(
        &self,
        other: Option<&CudaBuffer<f32>>,
        weight: &CudaBuffer<f32>,
        field: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_blend(other.map(DeviceBuffer::len), weight.len(), field.len())?;
        if n == 0 {
            return Ok(());
        }
        let to_zero = u32::from(other.is_none());
        let shape = Shape::covering(n, 256);
        // SAFETY: the fields have three numbers a voxel, and the other one is read only where it is
        // there.
        unsafe { NORMS_OF_BLOCKS.blend(self, shape, other, to_zero, weight, n as u64, field) }
    }

    fn to_half(&self, src: &CudaBuffer<f32>, out: &mut CudaBuffer<u16>) -> Result<()> {
        check_len("output", src.len(), out.len())?;
        if src.is_empty() {
            return Ok(());
        }
        let pairs = Out::cast(out);
        let shape = Shape::covering(src.len().div_ceil(8), 256);
        // SAFETY: whole groups of eight begin at multiples of 16 bytes, and each thread writes its own
        // in one way.
        unsafe { HALVES.to_half(self, shape, src, src.len() as u64, pairs, out) }
    }

    fn to_single(&self, src: &CudaBuffer<u16>, out: &mut CudaBuffer<f32>) -> Result<()> {
        check_len("output", src.len(), out.len())?;
        if src.is_empty() {
            return Ok(());
        }
        let shape = Shape::covering(src.len().div_ceil(8), 256);
        // SAFETY: as for `to_half`.
        unsafe { HALVES.to_single(self, shape, src, In::cast(src), src.len() as u64, out) }
    }
}
