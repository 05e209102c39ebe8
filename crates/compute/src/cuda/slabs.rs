//! How kernels that go from slice to slice, with windows around each voxel, divide a grid.

use std::sync::OnceLock;

use super::{Cuda, Shape};
use crate::Dims;
use crate::error::{ComputeError, Result};

/// Blocks that a multiprocessor should have: with fewer, tiles are cut shorter.
const BLOCKS: usize = 2;
/// The fewest slices of a tile.
const FEWEST_SLICES: usize = 16;

plain! {
    /// How the grid is cut; `Grid` of slab.cuh.
    pub(super) struct Grid {
        dims: [u32; 3],
        along: [u32; 2],
        slices: u32,
    }
}

/// Whether the kernels can number the voxels of a grid.
pub(super) fn fits(dims: Dims) -> bool {
    let most = i32::MAX as usize;
    dims[0].checked_mul(dims[1]).is_some_and(|plane| plane <= most) && dims[2] <= most
}

/// Tiles of so many voxels along x and y, and of at most `most` slices, and a block of `threads` for
/// each; the caller asks for a row of them for each of its images. A tile has fewer slices where there
/// would otherwise be too few blocks to keep the device busy.
pub(super) fn cut(
    cuda: &Cuda,
    (dims, images): (Dims, u32),
    tile: [usize; 2],
    most: usize,
    threads: u32,
) -> Result<(Grid, Shape)> {
    let along = [dims[0].div_ceil(tile[0]), dims[1].div_ceil(tile[1])];
    let tiles = along[0].saturating_mul(along[1]);
    let blocks = |slices: usize| tiles.saturating_mul(dims[2].div_ceil(slices));
    let mut slices = most;
    let enough = (BLOCKS * cuda.multiprocessors()).div_ceil(images as usize);
    while slices > FEWEST_SLICES && blocks(slices) < enough {
        slices /= 2;
    }
    if !fits(dims) || blocks(slices) > i32::MAX as usize {
        let expected = "slices of at most 2^31 - 1 voxels, and as many tiles of a GPU in all";
        return Err(ComputeError::argument("sizes", format!("{dims:?}"), expected));
    }
    let (dims, along) = (dims.map(|n| n as u32), along.map(|n| n as u32));
    let grid = Grid { dims, along, slices: slices as u32 };
    let shape = Shape::blocks(blocks(slices), threads);
    Ok((grid, Shape { grid: [shape.grid[0], images, 1], ..shape }))
}

/// Kernels that are compiled for each radius of their windows, RX, RY and RZ, which are all below `N`.
pub(super) struct Windowed<P, const N: usize> {
    /// The kernels with macros.
    with: fn(&[(&str, i64)]) -> P,
    programs: [[[OnceLock<P>; N]; N]; N],
}

impl<P, const N: usize> Windowed<P, N> {
    pub(super) const fn new(with: fn(&[(&str, i64)]) -> P) -> Self {
        Self { with, programs: [const { [const { [const { OnceLock::new() }; N] }; N] }; N] }
    }

    /// Those for windows of a radius along each axis.
    pub(super) fn of(&self, radius: [usize; 3]) -> &P {
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

    #[test]
    fn tiles_cover_the_grid() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        for dims in [[1, 1, 1], [256, 256, 256], [33, 9, 100], [1, 1 << 21, 1]] {
            let (grid, shape) = cut(&cuda, (dims, 1), [32, 16], 64, 256).unwrap();
            let along_z = dims[2].div_ceil(grid.slices as usize);
            assert_eq!(shape.grid[0] as usize, (grid.along[0] * grid.along[1]) as usize * along_z);
            assert!(
                grid.along[0] as usize * 32 >= dims[0] && grid.along[1] as usize * 16 >= dims[1]
            );
            assert!((FEWEST_SLICES..=64).contains(&(grid.slices as usize)));
        }
        assert!(cut(&cuda, ([1 << 16, 1 << 15, 1], 1), [32, 16], 64, 256).is_err());
        assert!(cut(&cuda, ([1, 1, 1 << 32], 1), [32, 16], 64, 256).is_err());
    }
}
