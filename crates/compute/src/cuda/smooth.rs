//! Gaussian smoothing of vector fields on the GPU, along all axes in one pass over memory.

use super::slabs::{self, Grid, Windowed, Work};
use super::{Cuda, CudaBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::filter::{GaussianMethod, NARROW_RADIUS, SIGMA_NONE, is_narrow, window};

kernels! { SMOOTH = "filter/smooth.cu";
    fn smooth[THREADS](src: &[f32], grid: Grid, weights: Weights, result: &mut [f32]);
}

static WINDOWED: Windowed<SMOOTH, { MOST_RADIUS + 1 }> =
    Windowed::new(|macros| SMOOTH.with(macros));

/// The largest radius: wider windows take longer than recursions along each axis.
const MOST_RADIUS: usize = NARROW_RADIUS;
/// Room for the weights of an axis; as in smooth.cu.
const WEIGHTS: usize = 9;
/// The fewest images for which another program is compiled: those of a vector field.
const FEWEST_IMAGES: usize = 3;
/// Voxels of a tile along x and y.
const TILE: [usize; 2] = [64, 16];
const THREADS: u32 = 512;
/// Blocks of a multiprocessor, for which smooth.cu is compiled.
const AT_ONCE: usize = 2;

plain! {
    /// The weights of each axis, from the centre on.
    struct Weights {
        of: [[f32; WEIGHTS]; 3],
    }
}

/// A Gaussian that is done in one pass: windows of one radius along the axes that have any.
pub(super) struct Smooth {
    radius: [usize; 3],
    weights: Weights,
    images: u32,
}

impl Smooth {
    /// None where separate passes are faster, or the grid is too large.
    pub(super) fn new(
        dims: Dims,
        sigma: [f64; 3],
        method: GaussianMethod,
        total: usize,
    ) -> Option<Self> {
        let images = total.checked_div(dims.iter().product()).filter(|&n| n >= FEWEST_IMAGES)?;
        let images = u16::try_from(images).ok()?.into();
        let is_smoothed = |a: &usize| dims[*a] > 1 && sigma[*a] >= SIGMA_NONE;
        let used: Vec<_> = (0..3).filter(is_smoothed).collect();
        if used.len() < 2 || !slabs::fits(dims) {
            return None;
        }
        // A wide one has too many weights to look at them.
        if used.iter().any(|&a| !is_narrow(sigma[a])) {
            return None;
        }
        let mut weights = Weights { of: [[0.0; WEIGHTS]; 3] };
        let mut largest = 0;
        for a in 0..3 {
            let of = if used.contains(&a) { window(sigma[a], method)? } else { vec![1.0] };
            largest = largest.max(of.len() - 1);
            for (to, from) in weights.of[a].iter_mut().zip(&of) {
                *to = *from as f32;
            }
        }
        let radius = std::array::from_fn(|a| if used.contains(&a) { largest } else { 0 });
        (largest <= MOST_RADIUS).then_some(Self { radius, weights, images })
    }

    /// From one buffer to another, both of which have the images' voxels.
    pub(super) fn run(
        &self,
        cuda: &Cuda,
        src: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        debug_assert_eq!(src.len(), out.len(), "lengths have been checked");
        let work = Work { tile: TILE, reach: self.radius[2], threads: THREADS, at_once: AT_ONCE };
        let (grid, shape) = slabs::cut(cuda, (dims, self.images), &work)?;
        // SAFETY: the kernel reads and writes voxels of the grid, of as many images as there are.
        unsafe { WINDOWED.of(self.radius).smooth(cuda, shape, src, grid, self.weights, out) }
    }
}

/// The program of windows of a radius.
#[cfg(test)]
pub(super) fn of_windows(radius: [usize; 3]) -> super::Program {
    WINDOWED.of(radius).program().clone()
}
