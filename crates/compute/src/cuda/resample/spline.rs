//! The coefficients of cubic B-splines on the GPU.

use std::sync::LazyLock;

use crate::Dims;
use crate::cuda::{Cuda, CudaBuffer, Program, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;

static SPLINE: LazyLock<Program> =
    LazyLock::new(|| Program::new("spline", include_str!("../kernels/spline.cu")));

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
    let args = [
        src.map_or_else(|| (&*out).into(), Into::into),
        (&mut *out).into(),
        (step as u64).into(),
        size.into(),
        (lines as u64).into(),
    ];
    // A little is left for the weights.
    if shared + 1024 <= cuda.shared_memory() {
        let panels =
            if step == 1 { lines.div_ceil(LINES) } else { lines / step * step.div_ceil(LINES) };
        let block = [LINES as u32, 8, 1];
        let shape = Shape { block, ..Shape::blocks(panels, 1) }.with_shared(shared);
        // SAFETY: the parameters are those of the kernel; lines of n samples fill the buffers,
        // which have the same length.
        unsafe { cuda.launch(&SPLINE, "prefilter_lines", shape, &args) }
    } else {
        let shape = Shape::covering(lines, 64);
        // SAFETY: as above.
        unsafe { cuda.launch(&SPLINE, "prefilter_long_lines", shape, &args) }
    }
}

/// Every element twice, where there is one for each of `components`: a cell needs two voxels.
pub(super) fn twice(
    cuda: &Cuda,
    src: &CudaBuffer<f32>,
    components: usize,
) -> Result<CudaBuffer<f32>> {
    let mut out = cuda.alloc_unset(2 * components)?;
    let args = [src.into(), (&mut out).into(), (components as u32).into()];
    // SAFETY: the parameters are those of the kernel; it writes two elements for each.
    unsafe { cuda.launch(&SPLINE, "twice", Shape::blocks(1, 32), &args) }?;
    Ok(out)
}
