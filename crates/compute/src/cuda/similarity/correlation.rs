//! Local correlation and its derivatives: two kernels for small windows, box means for larger ones.

use crate::Dims;
use crate::cuda::declare::Out;
use crate::cuda::slabs::{self, Grid, Windowed, Work};
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::{ComputeError, Result};
use crate::ops::Filter;

kernels! { CORRELATION = "similarity/correlation.cu";
    fn windows[THREADS](fixed: &[f32], moving: &[f32], weights: &[f32], centres: &[f64], grid: Grid,
        noise: f32, out: &mut [f32], partials: &mut [f64]);
    fn derivatives[THREADS](fixed: &[f32], moving: &[f32], centres: &[f64], coefficients: &[f32], grid: Grid,
        scale: f32, out: &mut [f32], out_fixed: &mut [f32]);
}

kernels! { MEANS = "similarity/means.cu";
    fn centres[1024](fixed: &[f32], moving: &[f32], n: u64, out: &mut [f64]);
    fn energy[THREADS](partials: &[f64], count: u64, factor: f64, out: &mut [f64]);
    fn products[THREADS](a: &[f32], b: &[f32], centres: &[f64], a_centre: u32, b_centre: u32, alone: u32,
        n: u64, out: &mut [f32]);
    fn coefficients_of_means[THREADS](f: &mut [f32], m: &mut [f32], ff: &mut [f32], mm: &[f32], fm: &[f32],
        weights: &[f32], of: Windows, noise: f32, n: u64, partials: &mut [f64]);
    fn derivatives_of_means[THREADS](fixed: &[f32], moving: &[f32], centres: &[f64], p: &[f32], q: &[f32],
        r: &[f32], of: Windows, scale: f32, n: u64, out: &mut [f32]);
}

static SLIDING: Windowed<CORRELATION, { MOST_SLIDING + 1 }> =
    Windowed::new(|macros| CORRELATION.with(macros));

/// For derivatives in both images.
static SLIDING_BOTH: Windowed<CORRELATION, { MOST_SLIDING + 1 }> =
    Windowed::new(|macros| CORRELATION.with(&[macros, &[("BOTH", 1)]].concat()));

/// The largest radius of windows whose sums are kept in registers.
const MOST_SLIDING: usize = 4;
/// Voxels of a tile along x and y.
const TILE: [usize; 2] = [32, 16];
const THREADS: u32 = 256;
/// Blocks of a multiprocessor that sum windows, for which correlation.cu is compiled.
const AT_ONCE: usize = 2;
/// Blocks that look for the centres; as in correlation.cuh.
const CENTRES: usize = 16;

/// The sums and their windows.
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

plain! {
    /// Sizes of the grid and its windows; `Windows` of means.cu.
    struct Windows {
        dims: [u32; 3],
        radius: [u32; 3],
    }
}

pub(super) fn sizes(dims: Dims) -> Result<[u32; 3]> {
    let expected = "at most 2^31 - 1 along an axis";
    if dims.iter().any(|&n| n > i32::MAX as usize) {
        return Err(ComputeError::argument("sizes", format!("{dims:?}"), expected));
    }
    Ok(dims.map(|n| n as u32))
}

/// Where derivatives go: in the moving image, and in the fixed one where that is asked for.
pub(super) struct Derivatives<'a> {
    pub(super) moving: &'a mut CudaBuffer<f32>,
    pub(super) fixed: Option<&'a mut CudaBuffer<f32>>,
}

/// Writes the derivatives and the energy.
pub(super) fn run(
    cuda: &Cuda,
    job: &Job<'_>,
    derivatives: Derivatives<'_>,
    energy: &mut CudaBuffer<f64>,
) -> Result<()> {
    let factor = -1.0 / job.total;
    if job.radius.iter().all(|&r| r <= MOST_SLIDING) {
        let partials = by_sliding(cuda, job, derivatives)?;
        return sum(cuda, &partials, factor, energy.into());
    }
    let Some(fixed_derivative) = derivatives.fixed else {
        let partials = by_means(cuda, job, derivatives.moving)?;
        return sum(cuda, &partials, factor, energy.into());
    };
    // An energy for each order of the images: the sum of two numbers does not depend on theirs.
    let mut energies = cuda.alloc_unset::<f64>(2)?;
    let exchanged = Job { fixed: job.moving, moving: job.fixed, ..*job };
    for (i, (job, derivative)) in
        [(job, derivatives.moving), (&exchanged, fixed_derivative)].into_iter().enumerate()
    {
        let partials = by_means(cuda, job, derivative)?;
        sum(cuda, &partials, factor, Out::from_element(&mut energies, i))?;
    }
    sum(cuda, &energies, 0.5, energy.into())
}

/// The sum of numbers times a factor.
pub(super) fn sum(
    cuda: &Cuda,
    numbers: &CudaBuffer<f64>,
    factor: f64,
    out: Out<f64>,
) -> Result<()> {
    let (shape, count) = (Shape::blocks(1, THREADS), numbers.len() as u64);
    // SAFETY: the kernel reads all numbers and writes one.
    unsafe { MEANS.energy(cuda, shape, numbers, count, factor, out) }
}

/// Parts of numbers near the means of the images.
fn centres(cuda: &Cuda, job: &Job<'_>) -> Result<CudaBuffer<f64>> {
    let n = job.fixed.len() as u64;
    let mut centres = cuda.alloc_unset::<f64>(2 * CENTRES)?;
    let shape = Shape::blocks(CENTRES, 1024);
    // SAFETY: the kernel reads voxels below `n` and writes two numbers for each block.
    unsafe { MEANS.centres(cuda, shape, job.fixed, job.moving, n, &mut centres)? };
    Ok(centres)
}

/// Windows that a thread sums from slice to slice. Gives parts of the energy.
fn by_sliding(cuda: &Cuda, job: &Job<'_>, derivatives: Derivatives<'_>) -> Result<CudaBuffer<f64>> {
    let centres = &centres(cuda, job)?;
    let work = Work { tile: TILE, reach: job.radius[2], threads: THREADS, at_once: AT_ONCE };
    let (grid, shape) = slabs::cut(cuda, (job.dims, 1), &work)?;
    let (program, planes) = match &derivatives.fixed {
        None => (SLIDING.of(job.radius), 3),
        Some(_) => (SLIDING_BOTH.of(job.radius), 5),
    };
    let mut coefficients = cuda.alloc_unset::<f32>(planes * derivatives.moving.len())?;
    let mut partials = cuda.alloc_unset::<f64>(shape.grid[0] as usize)?;
    let scale = (1.0 / -job.total) as f32;
    // SAFETY: the kernels read and write voxels of the grid, for which the lengths have been checked,
    // as many coefficients for each as the program has, and a number for each block.
    unsafe {
        program.windows(
            cuda,
            shape,
            job.fixed,
            job.moving,
            job.weights,
            centres,
            grid,
            job.noise,
            &mut coefficients,
            &mut partials,
        )?;
        program.derivatives(
            cuda,
            shape,
            job.fixed,
            job.moving,
            centres,
            &coefficients,
            grid,
            scale,
            derivatives.moving,
            derivatives.fixed,
        )?;
    }
    Ok(partials)
}

/// Windows of any size. Gives parts of the energy.
fn by_means(
    cuda: &Cuda,
    job: &Job<'_>,
    derivative: &mut CudaBuffer<f32>,
) -> Result<CudaBuffer<f64>> {
    let n = derivative.len();
    let centres = &centres(cuda, job)?;
    let radius = std::array::from_fn(|a| job.radius[a].min(job.dims[a] - 1));
    let windows = Windows { dims: sizes(job.dims)?, radius: radius.map(|r| r as u32) };
    let shape =
        Shape::blocks(n.div_ceil(4 * THREADS as usize).min(16 * cuda.multiprocessors()), THREADS);
    let mut whole = cuda.alloc_unset::<f32>(n)?;
    let image = |second: bool| if second { job.moving } else { job.fixed };
    let mut mean = |first: bool, second: bool, alone: bool| -> Result<CudaBuffer<f32>> {
        // SAFETY: all images have `n` voxels.
        unsafe {
            MEANS.products(
                cuda,
                shape,
                image(first),
                image(second),
                centres,
                u32::from(first),
                u32::from(second),
                u32::from(alone),
                n as u64,
                &mut whole,
            )?;
        }
        let mut out = cuda.alloc_unset::<f32>(n)?;
        cuda.box_mean(&whole, job.dims, radius, &mut out)?;
        Ok(out)
    };
    let (mut p, mut q) = (mean(false, false, true)?, mean(true, true, true)?);
    let mut r = mean(false, false, false)?;
    let (mm, fm) = (mean(true, true, false)?, mean(false, true, false)?);
    let mut partials = cuda.alloc_unset::<f64>(shape.grid[0] as usize)?;
    // SAFETY: all images have `n` voxels, which are those of the grid, and there is a number for each
    // block.
    unsafe {
        MEANS.coefficients_of_means(
            cuda,
            shape,
            &mut p,
            &mut q,
            &mut r,
            &mm,
            &fm,
            job.weights,
            windows,
            job.noise,
            n as u64,
            &mut partials,
        )?;
    }
    let mut of = [mm, fm, whole];
    for (from, to) in [p, q, r].iter().zip(&mut of) {
        cuda.box_mean(from, job.dims, radius, to)?;
    }
    // SAFETY: as above.
    unsafe {
        MEANS.derivatives_of_means(
            cuda,
            shape,
            job.fixed,
            job.moving,
            centres,
            &of[0],
            &of[1],
            &of[2],
            windows,
            (-1.0 / job.total) as f32,
            n as u64,
            derivative,
        )?;
    }
    Ok(partials)
}

/// The program of windows of a radius.
#[cfg(test)]
pub(in crate::cuda) fn of_windows(radius: [usize; 3]) -> crate::cuda::Program {
    SLIDING.of(radius).program().clone()
}
