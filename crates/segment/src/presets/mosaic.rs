//! Slices beside each other, so that fronts in all of them move at once.

use crate::error::Result;
use crate::lattice::{Lattice, Neighbourhood};
use voxalign_image::memory;

/// Slices of one size beside each other in a plane, with gaps between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mosaic {
    slice: [usize; 2],
    slices: usize,
    columns: usize,
    gap: usize,
}

impl Mosaic {
    /// Of so many slices, about as wide as high, with so many points between them.
    #[must_use]
    pub fn new(slice: [usize; 2], slices: usize, gap: usize) -> Self {
        let columns = (slices as f64).sqrt().ceil().max(1.0) as usize;
        Self { slice, slices, columns, gap }
    }

    /// The points of the plane.
    ///
    /// # Errors
    /// [`SegmentError::Dims`](crate::SegmentError::Dims), [`SegmentError::Neighbourhood`](crate::SegmentError::Neighbourhood).
    pub fn lattice(&self, neighbourhood: Neighbourhood) -> Result<Lattice> {
        let rows = self.slices.div_ceil(self.columns).max(1);
        let side = |n: usize, count: usize| n * count + self.gap * (count - 1);
        let [nx, ny] = self.slice;
        Lattice::new([side(nx, self.columns), side(ny, rows), 1], neighbourhood)
    }

    /// The point of the plane for a point of the slices, slice by slice.
    #[must_use]
    pub fn point(&self, of: usize) -> usize {
        let [nx, ny] = self.slice;
        let (x, y, z) = (of % nx, of / nx % ny, of / (nx * ny));
        let width = nx * self.columns + self.gap * (self.columns - 1);
        let (left, top) = (z % self.columns * (nx + self.gap), z / self.columns * (ny + self.gap));
        left + x + width * (top + y)
    }

    /// Values of the slices on the plane, with one that is given between them.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory), those of [`Mosaic::lattice`].
    pub fn spread<T: Copy>(&self, values: &[T], between: T) -> Result<Vec<T>> {
        let mut all = memory::filled(self.lattice(Neighbourhood::Four)?.len(), between)?;
        values.iter().enumerate().for_each(|(p, v)| all[self.point(p)] = *v);
        Ok(all)
    }

    /// The values of the slices from those of the plane.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn gathered<T: Copy>(&self, plane: &[T]) -> Result<Vec<T>> {
        let points = self.slice[0] * self.slice[1] * self.slices;
        Ok(memory::collected((0..points).map(|p| plane[self.point(p)]))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_go_into_the_plane_and_back() {
        for (slices, gap) in [(1, 3), (2, 0), (5, 2), (9, 1), (10, 4)] {
            let mosaic = Mosaic::new([4, 3], slices, gap);
            let values: Vec<usize> = (1..=12 * slices).collect();
            let plane = mosaic.spread(&values, 0).unwrap();
            assert_eq!(mosaic.gathered(&plane).unwrap(), values);
            assert_eq!(plane.iter().filter(|v| **v != 0).count(), values.len());
            let lattice = mosaic.lattice(Neighbourhood::Four).unwrap();
            assert_eq!(plane.len(), lattice.len());
            // With a gap no two slices have points that are neighbours.
            for (point, value) in plane.iter().enumerate().filter(|(_, v)| gap > 0 && **v != 0) {
                for next in lattice.neighbours(point).filter(|n| plane[*n] != 0) {
                    assert_eq!((value - 1) / 12, (plane[next] - 1) / 12);
                }
            }
        }
    }
}
