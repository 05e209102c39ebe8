//! Local correlation and its slope: two kernels for small windows; means over boxes for others.

use std::sync::LazyLock;

use crate::Dims;
use crate::cuda::slabs::Windowed;
use crate::cuda::{Arg, Cuda, CudaBuffer, Plain, Program, Shape, slabs};
use crate::device::DeviceBuffer;
use crate::error::{ComputeError, Result};
use crate::ops::Filter;

static SLIDING: Windowed =
    Windowed::new(|| Program::new("correlation", include_str!("../kernels/correlation.cu")));
static MEANS: LazyLock<Program> =
    LazyLock::new(|| Program::new("means", include_str!("../kernels/means.cu")));

/// The largest radius of windows whose sums are kept in registers.
const MOST_SLIDING: usize = 4;
/// The most slices of a tile; each also takes those that its windows reach.
const SLICES: usize = 32;
/// Voxels of a tile along x and y.
const TILE: [usize; 2] = [32, 16];
const THREADS: u32 = 256;

/// What is summed and over which windows.
pub(super) struct Job<'a> {
    pub(super) fixed: &'a CudaBuffer<f32>,
    pub(super) moving: &'a CudaBuffer<f32>,
    pub(super) weights: Option<&'a CudaBuffer<f32>>,
    pub(super) dims: Dims,
    pub(super) radius: [usize; 3],
    pub(super) noise: f32,
    /// The sum of the weights.
    pub(super) total: f64,
}

/// Sizes of the grid and its windows; `Windows` of means.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Windows {
    dims: [u32; 3],
    radius: [u32; 3],
}

// SAFETY: as above.
unsafe impl Plain for Windows {}

fn sizes(dims: Dims) -> Result<[u32; 3]> {
    let expected = "at most 2^31 - 1 along an axis";
    if dims.iter().any(|&n| n > i32::MAX as usize) {
        return Err(ComputeError::argument("sizes", format!("{dims:?}"), expected));
    }
    Ok(dims.map(|n| n as u32))
}

/// Writes the slope and the energy.
pub(super) fn run(
    cuda: &Cuda,
    job: &Job<'_>,
    slope: &mut CudaBuffer<f32>,
    energy: &mut CudaBuffer<f64>,
) -> Result<()> {
    let n = slope.len();
    let mut centres = cuda.alloc_unset::<f32>(2)?;
    let args = [job.fixed.into(), job.moving.into(), (n as u64).into(), (&mut centres).into()];
    // SAFETY: the parameters are the kernel's, which reads voxels below `n` and writes two numbers.
    unsafe { cuda.launch(&MEANS, "centres", Shape::blocks(1, 1024), &args)? };
    let partials = if job.radius.iter().all(|&r| r <= MOST_SLIDING) {
        by_sliding(cuda, job, &centres, slope)?
    } else {
        by_means(cuda, job, &centres, slope)?
    };
    let args = [
        Arg::from(&partials),
        (partials.len() as u64).into(),
        (-1.0 / job.total).into(),
        energy.into(),
    ];
    // SAFETY: the parameters are the kernel's, which reads all partial sums and writes one number.
    unsafe { cuda.launch(&MEANS, "energy", Shape::blocks(1, THREADS), &args) }
}

/// Windows that a thread sums from slice to slice. Gives parts of the energy.
fn by_sliding(
    cuda: &Cuda,
    job: &Job<'_>,
    centres: &CudaBuffer<f32>,
    slope: &mut CudaBuffer<f32>,
) -> Result<CudaBuffer<f64>> {
    let (grid, shape) = slabs::cut(cuda, (job.dims, 1), TILE, SLICES, THREADS)?;
    let program = SLIDING.of(job.radius);
    let mut coefficients = cuda.alloc_unset::<f32>(3 * slope.len())?;
    let mut partials = cuda.alloc_unset::<f64>(shape.grid[0] as usize)?;
    let args = [
        job.fixed.into(),
        job.moving.into(),
        Arg::optional(job.weights),
        centres.into(),
        Arg::of(grid),
        job.noise.into(),
        (&mut coefficients).into(),
        (&mut partials).into(),
    ];
    // SAFETY: the parameters are the kernel's. It reads and writes voxels of the grid, for which the
    // lengths have been checked, three coefficients for each, and a number for each block.
    unsafe { cuda.launch(&program, "windows", shape, &args)? };
    let args = [
        job.fixed.into(),
        job.moving.into(),
        centres.into(),
        (&coefficients).into(),
        Arg::of(grid),
        ((1.0 / -job.total) as f32).into(),
        slope.into(),
    ];
    // SAFETY: as above.
    unsafe { cuda.launch(&program, "slopes", shape, &args)? };
    Ok(partials)
}

/// Windows of any size. Gives parts of the energy.
fn by_means(
    cuda: &Cuda,
    job: &Job<'_>,
    centres: &CudaBuffer<f32>,
    slope: &mut CudaBuffer<f32>,
) -> Result<CudaBuffer<f64>> {
    let n = slope.len();
    let radius = std::array::from_fn(|a| job.radius[a].min(job.dims[a] - 1));
    let windows = Windows { dims: sizes(job.dims)?, radius: radius.map(|r| r as u32) };
    let shape =
        Shape::blocks(n.div_ceil(4 * THREADS as usize).min(16 * cuda.multiprocessors()), THREADS);
    let mut whole = cuda.alloc_unset::<f32>(n)?;
    let image = |second: bool| if second { job.moving } else { job.fixed };
    let mut mean = |first: bool, second: bool, alone: bool| -> Result<CudaBuffer<f32>> {
        let args = [
            image(first).into(),
            image(second).into(),
            centres.into(),
            u32::from(first).into(),
            u32::from(second).into(),
            u32::from(alone).into(),
            (n as u64).into(),
            (&mut whole).into(),
        ];
        // SAFETY: the parameters are the kernel's, and all images have `n` voxels.
        unsafe { cuda.launch(&MEANS, "products", shape, &args)? };
        let mut out = cuda.alloc_unset::<f32>(n)?;
        cuda.box_mean(&whole, job.dims, radius, &mut out)?;
        Ok(out)
    };
    let (mut p, mut q) = (mean(false, false, true)?, mean(true, true, true)?);
    let mut r = mean(false, false, false)?;
    let (mm, fm) = (mean(true, true, false)?, mean(false, true, false)?);
    let mut partials = cuda.alloc_unset::<f64>(shape.grid[0] as usize)?;
    let args = [
        (&mut p).into(),
        (&mut q).into(),
        (&mut r).into(),
        (&mm).into(),
        (&fm).into(),
        Arg::optional(job.weights),
        Arg::of(windows),
        job.noise.into(),
        (n as u64).into(),
        (&mut partials).into(),
    ];
    // SAFETY: the parameters are the kernel's; all images have `n` voxels, which are those of the grid.
    unsafe { cuda.launch(&MEANS, "coefficients_of_means", shape, &args)? };
    let mut of = [mm, fm, whole];
    for (from, to) in [p, q, r].iter().zip(&mut of) {
        cuda.box_mean(from, job.dims, radius, to)?;
    }
    let args = [
        job.fixed.into(),
        job.moving.into(),
        centres.into(),
        (&of[0]).into(),
        (&of[1]).into(),
        (&of[2]).into(),
        Arg::of(windows),
        ((-1.0 / job.total) as f32).into(),
        (n as u64).into(),
        slope.into(),
    ];
    // SAFETY: as above.
    unsafe { cuda.launch(&MEANS, "slopes_of_means", shape, &args)? };
    Ok(partials)
}
