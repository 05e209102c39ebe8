//! The partition of a grid into tiles of 32 x 8 voxels and some slices, each for a block of 32 x 8 threads that
//! marches from slice to slice; or into blocks of threads with four voxels along x each.

use super::{Cuda, Shape};
use crate::Dims;
use crate::error::{ComputeError, Result};

/// Voxels of a tile along x and y.
const TILE: [usize; 2] = [32, 8];

plain! {
    /// As the kernels have it.
    pub(in crate::cuda) struct Tiles {
        /// The sizes of the grid.
        dims: [u32; 3],
        /// Tiles along x and y.
        along: [u32; 2],
        /// Slices of a tile.
        slices: u32,
    }
}

impl Tiles {
    /// The tiles of a grid, of at most `most` slices, and the blocks for them. A tile has fewer
    /// slices where there would otherwise be too few blocks to keep the device busy.
    pub(in crate::cuda) fn new(cuda: &Cuda, dims: Dims, most: usize) -> Result<(Self, Shape)> {
        Self::of_threads(cuda, dims, most, (TILE, TILE, 1))
    }

    /// The same for threads that have four voxels along x each; rows are a multiple of four voxels.
    pub(in crate::cuda) fn of_fours(cuda: &Cuda, dims: Dims, most: usize) -> Result<(Self, Shape)> {
        let fours = dims[0] / 4;
        // The widest blocks of those that waste the fewest threads.
        let width = [32, 16, 8].into_iter().min_by_key(|&w| fours.div_ceil(w) * w).unwrap_or(32);
        let block = [width, TILE[0] * TILE[1] / width];
        Self::of_threads(cuda, dims, most, (block, block, 4))
    }

    /// For sweeps, whose threads have two voxels along x each: the tile of a block has two voxels
    /// less on each side, which are in its neighbours' tiles.
    pub(in crate::cuda) fn of_sweeps(
        cuda: &Cuda,
        dims: Dims,
        most: usize,
        block: [usize; 2],
    ) -> Result<(Self, Shape)> {
        Self::of_threads(cuda, dims, most, (block, [block[0] - 2, block[1] - 4], 2))
    }

    /// For blocks of `block` threads along x and y, of which `used` have voxels of the tile, `wide`
    /// of them along x each.
    fn of_threads(
        cuda: &Cuda,
        dims: Dims,
        most: usize,
        (block, used, wide): ([usize; 2], [usize; 2], usize),
    ) -> Result<(Self, Shape)> {
        let too_large = || {
            let expected = "at most 2^31 - 1 along an axis, and no more GPU tiles than that in all";
            ComputeError::argument("sizes", format!("{dims:?}"), expected)
        };
        // Threads beyond the end of an axis count on.
        let size = |a: usize| match i32::try_from(dims[a]) {
            Ok(_) => Ok(dims[a] as u32),
            Err(_) => Err(too_large()),
        };
        let sizes = [size(0)?, size(1)?, size(2)?];
        let along = [dims[0].div_ceil(used[0] * wide), dims[1].div_ceil(used[1])];
        // No overflow: the product is at most that of the sizes, which has been checked.
        let per_slice = along[0] * along[1];
        let enough = 8 * cuda.multiprocessors();
        let mut slices = most;
        while slices > 1 && per_slice * dims[2].div_ceil(slices) < enough {
            slices /= 2;
        }
        let blocks = u32::try_from(per_slice * dims[2].div_ceil(slices))
            .ok()
            .filter(|&blocks| blocks <= i32::MAX as u32)
            .ok_or_else(too_large)?;
        let tiles = Self { dims: sizes, along: along.map(|n| n as u32), slices: slices as u32 };
        let block = [block[0] as u32, block[1] as u32, 1];
        Ok((tiles, Shape { grid: [blocks, 1, 1], block, shared: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_grids_of_any_shape() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        for dims in [[1, 1, 1], [256, 256, 256], [33, 9, 100], [1, 1 << 21, 1], [1, 3, 1 << 20]] {
            let (tiles, shape) = Tiles::new(&cuda, dims, 8).unwrap();
            let along_z = shape.grid[0] / (tiles.along[0] * tiles.along[1]);
            assert_eq!(shape.grid[0] % (tiles.along[0] * tiles.along[1]), 0);
            assert!((along_z * tiles.slices) as usize >= dims[2]);
            assert!(((along_z - 1) * tiles.slices) < tiles.dims[2]);
            assert!((1..=8).contains(&tiles.slices));
        }
        for (dims, width) in [([256, 256, 256], 32), ([160, 9, 3], 8), ([4, 1, 1], 8)] {
            let (tiles, shape) = Tiles::of_fours(&cuda, dims, 4).unwrap();
            assert_eq!(shape.block, [width, 256 / width, 1]);
            assert!((tiles.along[0] * 4 * width) as usize >= dims[0]);
            assert!((tiles.along[1] * 256 / width) as usize >= dims[1]);
        }
        assert!(Tiles::new(&cuda, [1 << 33, 1, 1], 8).is_err());
        assert!(Tiles::new(&cuda, [1 << 31, 1, 1], 8).is_err());
        assert!(Tiles::new(&cuda, [1, (1 << 31) - 1, 1], 8).is_ok());
        assert!(Tiles::new(&cuda, [1, 1 << 31, 1 << 10], 8).is_err());
    }
}
