//! Boxes of voxels.

use voxalign_image::memory::{self, OutOfMemory};
use voxalign_image::{Affine, Grid, ImageError, Vector3, Volume};

/// A box of voxels of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first voxel.
    pub start: [usize; 3],
    /// Its sizes, voxels.
    pub dims: [usize; 3],
}

impl Region {
    /// The smallest one with all voxels that satisfy a condition; none if there is no such voxel.
    pub fn around<T: Copy>(image: &Volume<T>, mut holds: impl FnMut(T) -> bool) -> Option<Self> {
        let [nx, ny, _] = image.dims();
        let (mut low, mut high) = ([usize::MAX; 3], [0; 3]);
        for (row, values) in image.data().chunks_exact(nx).enumerate() {
            let Some(first) = values.iter().position(|&v| holds(v)) else { continue };
            let last = values.iter().rposition(|&v| holds(v)).unwrap_or(first);
            for (a, [from, to]) in
                [[first, last], [row % ny; 2], [row / ny; 2]].into_iter().enumerate()
            {
                low[a] = low[a].min(from);
                high[a] = high[a].max(to);
            }
        }
        let found = low[0] <= high[0];
        found.then(|| Self { start: low, dims: [0, 1, 2].map(|a| high[a] - low[a] + 1) })
    }

    /// Grown by this many voxels on each side of each axis, as far as the grid goes.
    #[must_use]
    pub fn grown(self, by: [usize; 3], grid: &Grid) -> Self {
        let start = [0, 1, 2].map(|a| self.start[a].saturating_sub(by[a]));
        let end = [0, 1, 2].map(|a| (self.start[a] + self.dims[a] + by[a]).min(grid.dims()[a]));
        Self { start, dims: [0, 1, 2].map(|a| end[a] - start[a]) }
    }

    /// Its voxels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its voxels are.
    ///
    /// # Errors
    /// Sizes of 0.
    pub fn grid(&self, of: &Grid) -> Result<Grid, ImageError> {
        let start = Vector3::from_fn(|a, _| self.start[a] as f64);
        Grid::new(self.dims, Affine::new(of.to_world().matrix, of.index_to_world(start)))
    }

    /// The result of `f` for its voxels.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`]; a box that is not within the image.
    pub fn map<T: Copy, U>(
        &self,
        image: &Volume<T>,
        mut f: impl FnMut(T) -> U,
    ) -> Result<Volume<U>, ImageError> {
        let [nx, ny, _] = image.dims();
        let mut values = memory::room(self.len())?;
        for z in 0..self.dims[2] {
            for y in 0..self.dims[1] {
                let from = ((self.start[2] + z) * ny + self.start[1] + y) * nx + self.start[0];
                let row = image.data().get(from..from + self.dims[0]).unwrap_or_default();
                values.extend(row.iter().map(|&v| f(v)));
            }
        }
        Volume::new(self.grid(image.grid())?, values)
    }

    /// The box with a border of `by` voxels of a value around it, also beyond the grid it came from.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn padded<T: Copy>(
        image: &Volume<T>,
        by: [usize; 3],
        value: T,
    ) -> Result<Volume<T>, ImageError> {
        let [nx, ny, _] = image.dims();
        let dims = [0, 1, 2].map(|a| image.dims()[a].checked_add(2 * by[a]));
        let len = dims.iter().try_fold(1usize, |len, n| len.checked_mul((*n)?));
        let refused = OutOfMemory { bytes: u64::MAX, free: None };
        let (Some(len), [Some(x), Some(y), Some(z)]) = (len, dims) else {
            return Err(refused.into());
        };
        let mut values = memory::filled(len, value)?;
        for (row, from) in image.data().chunks_exact(nx).enumerate() {
            let at = ((row / ny + by[2]) * y + row % ny + by[1]) * x + by[0];
            values[at..at + nx].copy_from_slice(from);
        }
        let grid = image.grid();
        let start = grid.index_to_world(Vector3::from_fn(|a, _| -(by[a] as f64)));
        Volume::new(Grid::new([x, y, z], Affine::new(grid.to_world().matrix, start))?, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_hold_what_they_are_around_and_keep_its_place() {
        let grid = Grid::axis_aligned([8, 9, 10], [1.0, 2.0, 3.0]).unwrap();
        let image = Volume::from_fn(grid.clone(), |x, y, z| {
            i32::from((2..5).contains(&x) && y == 3 && z > 7)
        });
        let found = Region::around(&image, |v| v == 1).unwrap();
        assert_eq!(found, Region { start: [2, 3, 8], dims: [3, 1, 2] });
        assert_eq!(Region::around(&image, |v| v == 2), None);
        let grown = found.grown([3, 1, 1], &grid);
        assert_eq!(grown, Region { start: [0, 2, 7], dims: [8, 3, 3] });
        let part = grown.map(&image, |v| v as f32).unwrap();
        assert_eq!(part.grid().origin(), Vector3::new(0.0, 4.0, 21.0));
        assert_eq!(part.data().iter().sum::<f32>(), 6.0);
        let wide = Region::padded(&part, [1, 0, 2], 7.0).unwrap();
        assert_eq!((wide.dims(), wide.get(0, 0, 0)), ([10, 3, 7], Some(&7.0)));
        assert_eq!(wide.grid().origin(), Vector3::new(-1.0, 4.0, 15.0));
        assert_eq!(wide.get(3, 1, 3), part.get(2, 1, 1));
    }
}
