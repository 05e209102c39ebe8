//! Flows of displacement fields on the GPU.

use std::sync::LazyLock;

use super::reduce::{BLOCKS, PARTIALS, THREADS};
use super::stencil::{SLICES, SLICES_OF_FOURS, Scales};
use super::tiles::Tiles;
use super::{Arg, Cuda, CudaBuffer, Plain, Program, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{Result, check_len};
use crate::ops::flow::{
    Flow, Inversion, Inverted, SHORTEST, SINGULAR, Step, check_advance, check_blend,
    check_energies, check_force, check_inversion, check_lengths, check_norms, check_overshoot,
    tolerance_of_squares,
};

static FLOW: LazyLock<Program> = LazyLock::new(|| {
    let mut text = format!("#define SHORTEST {SHORTEST:?}f\n#define SINGULAR {SINGULAR:?}f\n");
    text.push_str(include_str!("kernels/flow.cu"));
    Program::new("flow", &text)
});
static FORCE: LazyLock<Program> =
    LazyLock::new(|| Program::new("force", include_str!("kernels/force.cu")));
static NORMS: LazyLock<Program> = LazyLock::new(|| {
    let program = Program::new("norms", include_str!("kernels/norms.cu"));
    program.with(&[("BLOCKS", BLOCKS as i64)])
});
static HALVES: LazyLock<Program> =
    LazyLock::new(|| Program::new("halves", include_str!("kernels/halves.cu")));

/// The most slices of a tile of displaced voxels.
const SLICES_OF_STEPS: usize = 8;

/// `Stepping` of the kernels.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Stepping {
    scale: [f64; 3],
    step: f64,
    limited: u64,
}

// SAFETY: numbers without padding, laid out as the structure in the kernels.
unsafe impl Plain for Stepping {}

/// `Grid` of the kernels.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Grid {
    dims: [u32; 3],
    strides: [u32; 3],
}

// SAFETY: numbers of four bytes, laid out as the structure in the kernels.
unsafe impl Plain for Grid {}

impl Grid {
    /// Of sizes that have been checked.
    fn new(dims: Dims) -> Self {
        let steps = [1, dims[0], dims[0] * dims[1]];
        let stride = |a: usize| if dims[a] > 1 { steps[a] as u32 } else { 0 };
        Self { dims: dims.map(|d| d as u32), strides: [0, 1, 2].map(stride) }
    }
}

/// `Energies` of the kernels.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Energies {
    square: [f64; 3],
    second: [f32; 3],
    reserved: u32,
}

// SAFETY: numbers without padding, laid out as the structure in the kernels.
unsafe impl Plain for Energies {}

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
        let mut by = Stepping { scale: step.scale, step: 1.0, limited: 0 };
        let mut largest = Arg::NULL;
        if let Some(limit) = &step.limit {
            by.step = limit.step;
            by.limited = 1;
            largest = Arg::from_element(limit.largest, limit.index);
        }
        let (tiles, shape) = Tiles::new(self, dims, SLICES_OF_STEPS)?;
        let (by, grid) = (Arg::of(by), Arg::of(Grid::new(dims)));
        let args = [field.into(), velocity.into(), by, largest, grid, Arg::of(tiles), out.into()];
        // SAFETY: the parameters are those of the kernel; the fields have three numbers a voxel, and
        // displacements are cut to the grid. The largest velocity is read only where it is there.
        unsafe { self.launch(&FLOW, "advance", shape, &args) }
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
        let args = [
            field.into(),
            (n as u64).into(),
            Arg::of(Grid::new(dims)),
            tolerance.into(),
            iterations.into(),
            out.into(),
            (&mut ends).into(),
        ];
        // SAFETY: the parameters are those of the kernel; the fields have three numbers a voxel, and
        // displacements are cut to the grid.
        unsafe { self.launch(&FLOW, "invert", Shape::covering(n, 256), &args)? };
        let ends = self.download(&ends)?;
        let largest = f64::from(f32::from_bits(ends[0] as u32)).sqrt();
        Ok(Inverted { largest, unconverged: ends[1] })
    }

    fn force(
        &self,
        slope: &CudaBuffer<f32>,
        image: &CudaBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        add: bool,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_force(slope.len(), image.len(), dims, spacing, out.len())?;
        let fours = dims[0].is_multiple_of(4);
        let (tiles, shape) = match fours {
            true => Tiles::of_fours(self, dims, SLICES_OF_FOURS)?,
            false => Tiles::new(self, dims, SLICES)?,
        };
        let kernel = match (add, fours) {
            (false, false) => "force",
            (false, true) => "force_of_fours",
            (true, false) => "force_added",
            (true, true) => "force_added_of_fours",
        };
        let scales = Arg::of(Scales::new(dims, spacing));
        let args = [slope.into(), image.into(), Arg::of(tiles), scales, out.into()];
        // SAFETY: the parameters are those of the kernels, which stay within the grid; fours begin at
        // multiples of 16 bytes.
        unsafe { self.launch(&FORCE, kernel, shape, &args) }
    }

    fn field_norms(
        &self,
        field: &CudaBuffer<f32>,
        scale: [f64; 3],
        out: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let n = check_norms(field.len(), scale, out.len())?;
        let (kernel, each) = if n.is_multiple_of(4) { ("norms_of_fours", 8) } else { ("norms", 4) };
        let blocks = n.div_ceil(each * THREADS as usize).clamp(1, BLOCKS);
        self.with_scratch(|address| {
            let args = [
                field.into(),
                (n as u64).into(),
                Arg::of(scale),
                (&mut *out).into(),
                Arg::memory(address, PARTIALS),
                Arg::memory(address + PARTIALS as u64, size_of::<u32>()),
            ];
            // SAFETY: the parameters are those of the kernels; the field has three numbers a voxel,
            // and the scratch has room for the three parts of the most blocks.
            unsafe { self.launch(&NORMS, kernel, Shape::blocks(blocks, THREADS), &args) }
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
        let scales = Arg::of(Scales::new(dims, spacing));
        // SAFETY: the parameters are those of the kernels, which stay within the grid; there is room
        // for two parts of each block.
        unsafe {
            let args = [field.into(), Arg::of(tiles), scales, Arg::of(by), (&mut parts).into()];
            self.launch(&FORCE, "energies", shape, &args)?;
            let args = [(&parts).into(), blocks.into(), out.into()];
            self.launch(&FORCE, "sum_energies", Shape::blocks(1, 256), &args)
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
        let [x, y, z] = scale.map(|s| Arg::from(s as f32));
        let args = [field.into(), (n as u64).into(), x, y, z, out.into()];
        // SAFETY: the parameters are those of the kernel; the field has three numbers a voxel.
        unsafe { self.launch(&NORMS, "lengths", Shape::covering(n, 256), &args) }
    }

    fn field_overshoot(
        &self,
        field: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_overshoot(field.len(), dims, out.len())?;
        let args = [field.into(), (n as u64).into(), Arg::of(Grid::new(dims)), out.into()];
        // SAFETY: the parameters are those of the kernel; the field has three numbers a voxel.
        unsafe { self.launch(&FLOW, "overshoot", Shape::covering(n, 256), &args) }
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
        let other = other.map_or(Arg::NULL, Arg::from);
        let args = [other, to_zero.into(), weight.into(), (n as u64).into(), field.into()];
        // SAFETY: the parameters are those of the kernel; the fields have three numbers a voxel, and
        // the other one is read only where it is there.
        unsafe { self.launch(&NORMS, "blend", Shape::covering(n, 256), &args) }
    }

    fn to_half(&self, src: &CudaBuffer<f32>, out: &mut CudaBuffer<u16>) -> Result<()> {
        check_len("output", src.len(), out.len())?;
        if src.is_empty() {
            return Ok(());
        }
        let to = Arg::from(out);
        let args = [src.into(), (src.len() as u64).into(), to.clone(), to];
        let shape = Shape::covering(src.len().div_ceil(8), 256);
        // SAFETY: the parameters are those of the kernel; whole groups of eight begin at multiples of
        // 16 bytes, and each thread writes its own in one way.
        unsafe { self.launch(&HALVES, "to_half", shape, &args) }
    }

    fn to_single(&self, src: &CudaBuffer<u16>, out: &mut CudaBuffer<f32>) -> Result<()> {
        check_len("output", src.len(), out.len())?;
        if src.is_empty() {
            return Ok(());
        }
        let args = [src.into(), src.into(), (src.len() as u64).into(), out.into()];
        let shape = Shape::covering(src.len().div_ceil(8), 256);
        // SAFETY: as for `to_half`.
        unsafe { self.launch(&HALVES, "to_single", shape, &args) }
    }
}
