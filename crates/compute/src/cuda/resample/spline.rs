//! The coefficients of cubic B-splines on the GPU.

use crate::Dims;
use crate::cuda::declare::{In, Out};
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;

kernels! { SPLINE = "resample/spline.cu";
    fn prefilter_lines[256](from: &[f32], to: &mut [f32], step: u64, n: u32, lines: u64);
    fn prefilter_long_lines[64](from: &[f32], to: &mut [f32], step: u64, n: u32, lines: u64);
    fn twice[32](from: &[f32], to: &mut [f32], n: u32);
}

/// Lines of a block, which are the columns of its shared memory but for one of padding.
const LINES: usize = 32;

/// The coefficients of an image, in a new buffer.
pub(super) fn coefficients(
    cuda: &Cuda,
    src: &CudaBuffer<f32>,
    dims: Dims,
) -> Result<CudaBuffer<f32>> {
    let mut out = cuda.alloc_unset(src.len())?;
    let mut axes = (0..3).filter(|&a| dims[a] > 1);
    match axes.next() {
        Some(first) => along(cuda, Some(src), dims, first, &mut out)?,
        None => cuda.copy(src, &mut out)?,
    }
    for axis in axes {
        along(cuda, None, dims, axis, &mut out)?;
    }
    Ok(out)
}

/// Turns an image into its coefficients, in place.
pub(super) fn prefilter(cuda: &Cuda, data: &mut CudaBuffer<f32>, dims: Dims) -> Result<()> {
    (0..3).filter(|&a| dims[a] > 1).try_for_each(|axis| along(cuda, None, dims, axis, data))
}

/// Solves along one axis of more than one voxel, from `src` to `out` or else in place.
fn along(
    cuda: &Cuda,
    src: Option<&CudaBuffer<f32>>,
    dims: Dims,
    axis: usize,
    out: &mut CudaBuffer<f32>,
) -> Result<()> {
    let n = dims[axis];
    let size = i32::try_from(n).map(|_| n as u32).map_err(|_| {
        let expected = "at most 2^31 - 1 along an axis on a GPU";
        crate::error::ComputeError::argument("sizes", format!("{dims:?}"), expected)
    })?;
    let step: usize = dims[..axis].iter().product();
    let lines = out.len() / n;
    let shared = (LINES + 1) * size_of::<f32>() * n;
    let to = Out::from(out);
    let from = src.map_or_else(|| to.read(), In::from);
    // A little is left for the weights.
    if shared + 1024 <= cuda.shared_memory() {
        let panels =
            if step == 1 { lines.div_ceil(LINES) } else { lines / step * step.div_ceil(LINES) };
        let block = [LINES as u32, 8, 1];
        let shape = Shape { block, ..Shape::blocks(panels, 1) }.with_shared(shared);
        // SAFETY: lines of n samples fill the buffers, which have the same length.
        unsafe { SPLINE.prefilter_lines(cuda, shape, from, to, step as u64, size, lines as u64) }
    } else {
        let shape = Shape::covering(lines, 64);
        let (step, lines) = (step as u64, lines as u64);
        // SAFETY: as above.
        unsafe { SPLINE.prefilter_long_lines(cuda, shape, from, to, step, size, lines) }
    }
}

/// Every element twice, where there is one for each of `components`: a cell needs two voxels.
pub(in crate::cuda) fn twice(
    cuda: &Cuda,
    src: &CudaBuffer<f32>,
    components: usize,
) -> Result<CudaBuffer<f32>> {
    let mut out = cuda.alloc_unset(2 * components)?;
    // SAFETY: the kernel writes two elements for each.
    unsafe { SPLINE.twice(cuda, Shape::blocks(1, 32), src, &mut out, components as u32)? };
    Ok(out)
}
