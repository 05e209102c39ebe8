//! Scalar volumes and label maps.

use crate::error::{ImageError, Result};
use crate::grid::Grid;
use crate::memory;

/// A scalar image: one contiguous array, x fastest, unpadded, with its [`Grid`].
#[derive(Debug, Clone, PartialEq)]
pub struct Volume<T> {
    grid: Grid,
    data: Vec<T>,
}

/// An image whose values name regions; 0 is the background.
pub type LabelMap = Volume<i32>;

impl<T> Volume<T> {
    /// An image from its grid and its values, x fastest.
    ///
    /// # Errors
    /// [`ImageError::LengthMismatch`] where the number of values is not that of the grid.
    pub fn new(grid: Grid, data: Vec<T>) -> Result<Self> {
        if grid.len() != data.len() {
            return Err(ImageError::LengthMismatch { expected: grid.len(), found: data.len() });
        }
        Ok(Self { grid, data })
    }

    /// The geometry.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.grid.dims()
    }

    /// The values, x fastest.
    #[must_use]
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// The values for writing.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// Grid and values.
    #[must_use]
    pub fn into_parts(self) -> (Grid, Vec<T>) {
        (self.grid, self.data)
    }

    /// The same values on another grid of the same sizes (a corrected or moved header).
    ///
    /// # Errors
    /// [`ImageError::GridMismatch`] where the sizes differ.
    pub fn with_grid(self, grid: Grid) -> Result<Self> {
        if grid.dims() != self.grid.dims() {
            let (first, second) = (self.grid.to_string(), grid.to_string());
            return Err(ImageError::GridMismatch { first, second });
        }
        Self::new(grid, self.data)
    }

    /// The value at an index, or `None` outside.
    #[must_use]
    pub fn get(&self, x: usize, y: usize, z: usize) -> Option<&T> {
        let [nx, ny, nz] = self.dims();
        (x < nx && y < ny && z < nz).then(|| &self.data[(z * ny + y) * nx + x])
    }

    /// A new image with `f` of every value.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_map<U>(&self, f: impl FnMut(&T) -> U) -> Result<Volume<U>> {
        let data = memory::collected(self.data.iter().map(f))?;
        Ok(Volume { grid: self.grid.clone(), data })
    }

    /// A new image with `f` of every value; [`try_map`](Self::try_map) where memory may run out.
    pub fn map<U>(&self, f: impl FnMut(&T) -> U) -> Volume<U> {
        Volume { grid: self.grid.clone(), data: self.data.iter().map(f).collect() }
    }
}

impl<T: Clone> Volume<T> {
    /// An image of one value everywhere.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_filled(grid: Grid, value: T) -> Result<Self> {
        let data = memory::filled(grid.len(), value)?;
        Ok(Self { grid, data })
    }

    /// A copy.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self { grid: self.grid.clone(), data: memory::copied(&self.data)? })
    }

    /// An image of one value everywhere; [`try_filled`](Self::try_filled) where memory may run out.
    #[must_use]
    pub fn filled(grid: Grid, value: T) -> Self {
        let data = vec![value; grid.len()];
        Self { grid, data }
    }
}

impl<T> Volume<T> {
    /// An image whose values are a function of the index (x, y, z).
    pub fn from_fn(grid: Grid, mut f: impl FnMut(usize, usize, usize) -> T) -> Self {
        let [nx, ny, nz] = grid.dims();
        let mut data = Vec::with_capacity(grid.len());
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    data.push(f(x, y, z));
                }
            }
        }
        Self { grid, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_is_fastest() {
        let grid = Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap();
        let v = Volume::from_fn(grid.clone(), |x, y, z| 100 * z + 10 * y + x);
        assert_eq!(v.data()[1], 1);
        assert_eq!(v.data()[3], 10);
        assert_eq!(v.data()[12], 100);
        assert_eq!(v.get(2, 3, 4), Some(&432));
        assert_eq!(v.get(3, 0, 0), None);
        assert!(Volume::new(grid, vec![0; 59]).is_err());
        assert_eq!(v.map(|a| a * 2).data()[1], 2);
    }
}
