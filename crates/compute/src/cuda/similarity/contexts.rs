//! The difference of self-similarity contexts and its derivative.

use super::correlation::sum;
use crate::Dims;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::similarity::{Contexts, NO_DIFFERENCE, compared};

kernels! { CONTEXTS = "similarity/contexts.cu";
    fn contexts[THREADS](fixed: &[f32], moving: &[f32], weights: &[f32], s: Settings, n: u64, out: &mut [f32],
        partials: &mut [f64]);
    fn sums[THREADS](of: &[f32], s: Settings, n: u64, out: &mut [f32]);
    fn act[THREADS](moving: &[f32], sums: &[f32], s: Settings, n: u64, out: &mut [f32]);
}

const THREADS: u32 = 128;
/// Images of what is found at the centres of windows.
const ENTRIES: usize = 12;

plain! {
    /// Sizes and settings; `Settings` of contexts.cu.
    struct Settings {
        dims: [u32; 3],
        radius: [u32; 3],
        distance: [u32; 3],
        count: u32,
        noise: f32,
        none: f32,
        scale: f32,
    }
}

/// The images and what is compared in them.
pub(super) struct Job<'a> {
    pub(super) fixed: &'a CudaBuffer<f32>,
    pub(super) moving: &'a CudaBuffer<f32>,
    pub(super) weights: Option<&'a CudaBuffer<f32>>,
    pub(super) dims: Dims,
    pub(super) contexts: &'a Contexts,
    /// The sum of the weights.
    pub(super) total: f64,
}

/// Writes the derivative and the energy.
pub(super) fn run(
    cuda: &Cuda,
    job: &Job<'_>,
    derivative: &mut CudaBuffer<f32>,
    energy: &mut CudaBuffer<f64>,
) -> Result<()> {
    let (n, count) = (derivative.len(), compared(job.dims).len());
    if count == 0 {
        *derivative = cuda.alloc(n)?;
        *energy = cuda.alloc(1)?;
        return Ok(());
    }
    let [radius, distance] = job.contexts.along(job.dims).map(|of| of.map(|r| r as u32));
    let scale = 1.0 / (job.total * count as f64);
    let settings = Settings {
        dims: super::correlation::sizes(job.dims)?,
        radius,
        distance,
        count: count as u32,
        noise: job.contexts.noise_of_patch(job.dims),
        none: NO_DIFFERENCE,
        scale: scale as f32,
    };
    let blocks = n.div_ceil(THREADS as usize).min(32 * cuda.multiprocessors());
    let (shape, n) = (Shape::blocks(blocks, THREADS), n as u64);
    let mut each = cuda.alloc_unset::<f32>(ENTRIES * derivative.len())?;
    let mut of_windows = cuda.alloc_unset::<f32>(ENTRIES * derivative.len())?;
    let mut partials = cuda.alloc_unset::<f64>(shape.grid[0] as usize)?;
    // SAFETY: the kernels read and write voxels of the grid, for which the lengths have been checked, as many
    // entries of each as there is room for, and a number for each block.
    unsafe {
        CONTEXTS.contexts(
            cuda,
            shape,
            job.fixed,
            job.moving,
            job.weights,
            settings,
            n,
            &mut each,
            &mut partials,
        )?;
        CONTEXTS.sums(cuda, shape, &each, settings, n, &mut of_windows)?;
        CONTEXTS.act(cuda, shape, job.moving, &of_windows, settings, n, derivative)?;
    }
    sum(cuda, &partials, scale, energy.into())
}
