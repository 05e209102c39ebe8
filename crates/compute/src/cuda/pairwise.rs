//! Sums over all pairs of points on the GPU.

use std::sync::LazyLock;

use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::{ComputeError, Result};
use crate::ops::Pairwise;
use crate::ops::pairwise::{KernelShape, RadialKernel, Sizes, TILE, check};

kernels! { PAIRWISE = "pairwise/pairwise.cu";
    fn pair_sources[128](
        sources: &[f32], weights: &[f32], n: u32, scale: f64, packed: &mut [f32], boxes: &mut [f32],
    );
    fn pair_sums[128](
        targets: &[f32], count: u32, packed: &[f32], boxes: &[f32], n: u32, part: u32, scale: f64,
        sums: &mut [f64],
    );
    fn pair_sums_derivatives[128](
        targets: &[f32], moments: &[f32], count: u32, packed: &[f32], boxes: &[f32], n: u32, part: u32,
        scale: f64, sums: &mut [f64],
    );
    fn pair_parts[256](
        sums: &[f64], each: u64, parts: u32, first: u64, n: u64, factor: f64, out: &mut [f32],
    );
}

const THREADS: usize = 128;
/// The sources of a block are a multiple of these, and there are about this many blocks. Both affect the result:
/// sums of blocks are added in double precision.
const PART: usize = 1024;
const BLOCKS: usize = 4096;

/// The most points.
const MOST_POINTS: usize = 1 << 28;

/// The kernels by components and shape.
static PROGRAMS: LazyLock<Vec<PAIRWISE>> = LazyLock::new(|| {
    let program = |components: i64, cauchy: i64| {
        PAIRWISE.with(&[("COMPONENTS", components), ("CAUCHY", cauchy)])
    };
    [1, 3, 6].iter().flat_map(|&c| [program(c, 0), program(c, 1)]).collect()
});

fn program_of(components: usize, shape: KernelShape) -> &'static PAIRWISE {
    let cauchy = usize::from(shape == KernelShape::Cauchy);
    let number = match components {
        1 => 0,
        3 => 1,
        _ => 2,
    };
    &PROGRAMS[2 * number + cauchy]
}

impl Cuda {
    #[allow(clippy::too_many_arguments)]
    fn pairs(
        &self,
        kernel: &RadialKernel,
        sizes: Sizes,
        targets: &CudaBuffer<f32>,
        moments: Option<&CudaBuffer<f32>>,
        (sources, weights): (&CudaBuffer<f32>, &CudaBuffer<f32>),
        out: &mut CudaBuffer<f32>,
        derivatives: Option<&mut CudaBuffer<f32>>,
    ) -> Result<()> {
        let Sizes { targets: count, sources: n, components } = sizes;
        if count == 0 {
            return Ok(());
        }
        for (what, points) in [("number of targets", count), ("number of sources", n)] {
            if points > MOST_POINTS {
                return Err(ComputeError::argument(what, points, "at most 2^28"));
            }
        }
        let program = program_of(components, kernel.shape);
        let numbers = components + if moments.is_some() { 3 } else { 0 };
        let each = if components == 6 { 2 } else { 4 };
        let blocks = count.div_ceil(each * THREADS);
        let part = n.div_ceil(BLOCKS.div_ceil(blocks)).next_multiple_of(PART).max(PART);
        let parts = n.div_ceil(part).max(1);
        let mut sums = self.alloc_unset::<f64>(parts * numbers * count)?;
        let (tiles, stride) = (n.div_ceil(TILE), (3 + components).next_multiple_of(4));
        let mut packed = self.alloc_unset::<f32>(tiles * TILE * stride)?;
        let mut boxes = self.alloc_unset::<f32>(tiles * 8)?;
        let shape =
            Shape { grid: [blocks as u32, parts as u32, 1], ..Shape::blocks(1, THREADS as u32) };
        let scale = kernel.scale();
        let (m, n, part) = (count as u32, n as u32, part as u32);
        // SAFETY: targets below `count` and sources below `n` are read; every tile of sources has its numbers and its box,
        // every part its sums.
        unsafe {
            if tiles > 0 {
                let shape = Shape::blocks(tiles, THREADS as u32);
                program.pair_sources(
                    self,
                    shape,
                    sources,
                    weights,
                    n,
                    scale,
                    &mut packed,
                    &mut boxes,
                )?;
            }
            match moments {
                None => program.pair_sums(
                    self, shape, targets, m, &packed, &boxes, n, part, scale, &mut sums,
                )?,
                Some(moments) => program.pair_sums_derivatives(
                    self, shape, targets, moments, m, &packed, &boxes, n, part, scale, &mut sums,
                )?,
            }
        }
        let outputs = [(Some(out), 0, 1.0), (derivatives, components, kernel.derivative_factor())];
        for (out, first, factor) in outputs {
            let Some(out) = out else { continue };
            let (len, all) = (out.len(), (numbers * count) as u64);
            let (first, shape) = ((first * count) as u64, Shape::covering(len, 256));
            // SAFETY: every part has `all` sums, of which `len` from `first` on are those of the output.
            unsafe {
                program.pair_parts(
                    self,
                    shape,
                    &sums,
                    all,
                    parts as u32,
                    first,
                    len as u64,
                    factor,
                    out,
                )?;
            }
        }
        Ok(())
    }
}

impl Pairwise for Cuda {
    fn pair_sums(
        &self,
        kernel: &RadialKernel,
        targets: &CudaBuffer<f32>,
        sources: &CudaBuffer<f32>,
        weights: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [targets.len(), sources.len(), weights.len(), out.len()];
        let sizes = check(kernel, lengths, None)?;
        self.pairs(kernel, sizes, targets, None, (sources, weights), out, None)
    }

    fn pair_sums_with_derivatives(
        &self,
        kernel: &RadialKernel,
        targets: &CudaBuffer<f32>,
        moments: &CudaBuffer<f32>,
        sources: &CudaBuffer<f32>,
        weights: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
        derivatives: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [targets.len(), sources.len(), weights.len(), out.len()];
        let sizes = check(kernel, lengths, Some([moments.len(), derivatives.len()]))?;
        self.pairs(
            kernel,
            sizes,
            targets,
            Some(moments),
            (sources, weights),
            out,
            Some(derivatives),
        )
    }
}
