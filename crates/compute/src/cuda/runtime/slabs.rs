//! The partition of a grid for kernels that march from slice to slice with a window around each voxel.

use std::sync::OnceLock;

use super::{Cuda, Shape};
use crate::Dims;
use crate::error::{ComputeError, Result};

/// The part of a slice's time that a block takes however few others a multiprocessor has: it waits for its
/// own barriers and for memory.
const ALONE: f64 = 0.6;

plain! {
    /// How the grid is cut; `Grid` of slab.cuh.
    pub(in crate::cuda) struct Grid {
        dims: [u32; 3],
        along: [u32; 2],
        slices: u32,
    }
}

/// Whether the kernels can number the voxels of a grid.
pub(in crate::cuda) fn fits(dims: Dims) -> bool {
    let most = i32::MAX as usize;
    dims[0].checked_mul(dims[1]).is_some_and(|plane| plane <= most) && dims[2] <= most
}

/// How a kernel works on tiles.
pub(in crate::cuda) struct Work {
    /// Voxels of a tile along x and y.
    pub(in crate::cuda) tile: [usize; 2],
    /// Slices that windows reach to each side of a tile.
    pub(in crate::cuda) reach: usize,
    /// Threads of a block.
    pub(in crate::cuda) threads: u32,
    /// Blocks that a multiprocessor has at once.
    pub(in crate::cuda) at_once: usize,
}

impl Work {
    /// A rough estimate of the time when all multiprocessors have this many blocks, each of this many slices.
    fn time(&self, blocks: usize, slices: usize) -> f64 {
        let (full, rest) = (blocks / self.at_once, blocks % self.at_once);
        let part = rest as f64 / self.at_once as f64;
        let last = if rest > 0 { ALONE + (1.0 - ALONE) * part } else { 0.0 };
        (slices + 2 * self.reach) as f64 * (full as f64 + last)
    }
}

/// Cuts a grid into tiles, of as many slices as make the shortest time, with a block for each; the caller
/// asks for a row of them for each of its images.
pub(in crate::cuda) fn cut(
    cuda: &Cuda,
    (dims, images): (Dims, u32),
    work: &Work,
) -> Result<(Grid, Shape)> {
    let along = [0, 1].map(|a| dims[a].div_ceil(work.tile[a]));
    let tiles = along[0].saturating_mul(along[1]);
    let time = |layers: usize| {
        let blocks = tiles.saturating_mul(layers).saturating_mul(images as usize);
        work.time(blocks.div_ceil(cuda.multiprocessors()), dims[2].div_ceil(layers))
    };
    // More layers than these shorten nothing: the reach is most of the time.
    let most = dims[2].min(256);
    let layers = (1..=most).min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(1);
    let slices = dims[2].div_ceil(layers).max(1);
    let blocks = tiles.saturating_mul(dims[2].div_ceil(slices));
    if !fits(dims) || blocks > i32::MAX as usize {
        let expected = "slices of at most 2^31 - 1 voxels, and no more GPU tiles than that in all";
        return Err(ComputeError::argument("sizes", format!("{dims:?}"), expected));
    }
    let (dims, along) = (dims.map(|n| n as u32), along.map(|n| n as u32));
    let grid = Grid { dims, along, slices: slices as u32 };
    let shape = Shape::blocks(blocks, work.threads);
    Ok((grid, Shape { grid: [shape.grid[0], images, 1], ..shape }))
}

/// Kernels that are compiled for each radius of their windows, RX, RY and RZ, which are all below `N`.
pub(in crate::cuda) struct Windowed<P, const N: usize> {
    /// The kernels with macros.
    with: fn(&[(&str, i64)]) -> P,
    programs: [[[OnceLock<P>; N]; N]; N],
}

impl<P, const N: usize> Windowed<P, N> {
    pub(in crate::cuda) const fn new(with: fn(&[(&str, i64)]) -> P) -> Self {
        Self { with, programs: [const { [const { [const { OnceLock::new() }; N] }; N] }; N] }
    }

    /// Those for windows of a radius along each axis.
    pub(in crate::cuda) fn of(&self, radius: [usize; 3]) -> &P {
        let [x, y, z] = radius;
        self.programs[x][y][z].get_or_init(|| {
            let [x, y, z] = radius.map(|r| r as i64);
            (self.with)(&[("RX", x), ("RY", y), ("RZ", z)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work { tile: [32, 16], reach: 2, threads: 256, at_once: 2 };

    #[test]
    fn tiles_cover_the_grid() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        for dims in [[1, 1, 1], [256, 256, 256], [33, 9, 100], [1, 1 << 21, 1], [8, 8, 1 << 30]] {
            let (grid, shape) = cut(&cuda, (dims, 1), &WORK).unwrap();
            assert!(grid.slices > 0);
            let along_z = dims[2].div_ceil(grid.slices as usize);
            assert_eq!(shape.grid[0] as usize, (grid.along[0] * grid.along[1]) as usize * along_z);
            assert!(
                grid.along[0] as usize * 32 >= dims[0] && grid.along[1] as usize * 16 >= dims[1]
            );
        }
        assert!(cut(&cuda, ([1 << 16, 1 << 15, 1], 1), &WORK).is_err());
        assert!(cut(&cuda, ([1, 1, 1 << 32], 1), &WORK).is_err());
    }

    /// The emulated device has four multiprocessors.
    #[test]
    fn few_tiles_are_cut_short_and_many_fill_the_device() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        let blocks = |dims: Dims| cut(&cuda, (dims, 1), &WORK).unwrap().1.grid[0];
        // One tile: all multiprocessors get some of its slices.
        assert!((4..=16).contains(&blocks([32, 16, 60])), "{}", blocks([32, 16, 60]));
        // Many tiles are kept long: what windows reach beyond them is work, too.
        assert!(blocks([640, 320, 120]) <= 3 * 400, "{}", blocks([640, 320, 120]));
    }
}
