//! Borrowed images.

use crate::elsewhere::{Compared, Elsewhere, same};
use crate::error::{ImageError, Result};
use crate::grid::Grid;
use crate::volume::Volume;
use std::sync::Arc;

/// A scalar image with borrowed values, such as an array of another language: x fastest, unpadded, one for each
/// voxel of its [`Grid`].
#[derive(Debug, Clone, Copy)]
pub struct ImageView<'a> {
    grid: &'a Grid,
    values: Lent<'a>,
}

/// What values are lent of.
#[derive(Debug, Clone, Copy)]
enum Lent<'a> {
    Values(&'a [f32]),
    /// An image, whose values may be elsewhere.
    Volume(&'a Volume<f32>),
}

impl PartialEq for ImageView<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.grid == other.grid && same(self.compared(), other.compared())
    }
}

impl<'a> ImageView<'a> {
    /// An image of values on a grid.
    ///
    /// # Errors
    /// [`ImageError::LengthMismatch`] where the number of values is not that of the grid.
    pub fn new(grid: &'a Grid, data: &'a [f32]) -> Result<Self> {
        if grid.len() != data.len() {
            return Err(ImageError::LengthMismatch { expected: grid.len(), found: data.len() });
        }
        Ok(Self { grid, values: Lent::Values(data) })
    }

    /// The geometry.
    #[must_use]
    pub fn grid(&self) -> &'a Grid {
        self.grid
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.grid.dims()
    }

    /// The values where they are, unless that is the host.
    #[must_use]
    pub fn elsewhere(&self) -> Option<&'a Arc<dyn Elsewhere<f32>>> {
        match self.values {
            Lent::Values(_) => None,
            Lent::Volume(volume) => volume.elsewhere(),
        }
    }

    /// Where the values are, to be compared.
    fn compared(&self) -> Compared<'a, f32> {
        match self.values {
            Lent::Values(data) => (Some(data), None),
            Lent::Volume(volume) => volume.compared(),
        }
    }

    /// The values, x fastest, brought to the host where they are elsewhere.
    ///
    /// # Errors
    /// As of [`Volume::bring`].
    pub fn bring(&self) -> Result<&'a [f32]> {
        match self.values {
            Lent::Values(data) => Ok(data),
            Lent::Volume(volume) => volume.bring(),
        }
    }

    /// The values, x fastest.
    ///
    /// # Panics
    /// Where they are elsewhere and cannot be brought; [`bring`](Self::bring) tells.
    #[must_use]
    pub fn data(&self) -> &'a [f32] {
        match self.values {
            Lent::Values(data) => data,
            Lent::Volume(volume) => volume.data(),
        }
    }
}

impl<'a> From<&'a Volume<f32>> for ImageView<'a> {
    fn from(volume: &'a Volume<f32>) -> Self {
        Self { grid: volume.grid(), values: Lent::Volume(volume) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_what_it_looks_at() {
        let grid = Grid::axis_aligned([3, 2, 2], [1.0; 3]).unwrap();
        let volume = Volume::from_fn(grid.clone(), |x, y, z| (x + 10 * y + 100 * z) as f32);
        let view = ImageView::from(&volume);
        assert_eq!(view, ImageView::new(&grid, volume.data()).unwrap());
        assert!(std::ptr::eq(view.data(), volume.data()));
        assert_eq!((view.dims(), view.grid()), ([3, 2, 2], &grid));
        let short = ImageView::new(&grid, &volume.data()[1..]).unwrap_err();
        assert!(matches!(short, ImageError::LengthMismatch { expected: 12, found: 11 }));
    }
}
