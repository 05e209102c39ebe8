//! How sets of points are laid out in memory, and cut into tiles.

use voxalign_image::memory;

use crate::Dims;
use crate::error::{ComputeError, Result, check_len, voxels};

/// The points of an image, which of them are neighbours, and its tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    dims: Dims,
    axes: usize,
}

impl Layout {
    /// An image of these sizes. Neighbours of a point differ from it by at most 1 along every axis, and along at most `axes` axes: 1 and 2 make 4 and 8 neighbours in the
    /// plane; 1, 2 and 3 make 6, 18 and 26 in a volume.
    ///
    /// # Errors
    /// Sizes that make no grid, or more tiles than can be numbered; axes that are none, or more than there are.
    pub fn new(dims: Dims, axes: usize) -> Result<Self> {
        voxels("sizes of a front", dims)?;
        let (most, expected) = match dims[2] {
            1 => (2, "1 or 2 in the plane"),
            _ => (3, "1, 2 or 3"),
        };
        if !(1..=most).contains(&axes) {
            return Err(ComputeError::argument("axes of neighbours", axes, expected));
        }
        let layout = Self { dims, axes };
        let count = layout.grid().iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let is_long = dims.iter().any(|&n| n > u32::MAX as usize);
        if is_long || count.is_none_or(|tiles| tiles > i32::MAX as usize) {
            return Err(ComputeError::Dims { what: "sizes of a front", dims });
        }
        Ok(layout)
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// Along how many axes neighbours may differ.
    #[must_use]
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// Whether there is one plane.
    #[must_use]
    pub fn is_2d(&self) -> bool {
        self.dims[2] == 1
    }

    /// The number of points.
    #[must_use]
    pub fn points(&self) -> usize {
        self.dims.iter().product()
    }

    /// The words of a row along x.
    #[must_use]
    pub fn row_words(&self) -> usize {
        self.dims[0].div_ceil(64)
    }

    /// The words of a set.
    #[must_use]
    pub fn words(&self) -> usize {
        self.row_words() * self.dims[1] * self.dims[2]
    }

    /// The bits of the last word of a row that are points.
    #[must_use]
    pub fn last(&self) -> u64 {
        u64::MAX >> (64 * self.row_words() - self.dims[0])
    }

    /// The points of a tile along each axis; those at the far borders may have fewer.
    #[must_use]
    pub fn tile(&self) -> [usize; 3] {
        if self.is_2d() { [16, 16, 1] } else { [8, 8, 8] }
    }

    /// The tiles along each axis.
    #[must_use]
    pub fn grid(&self) -> [usize; 3] {
        let tile = self.tile();
        [0, 1, 2].map(|a| self.dims[a].div_ceil(tile[a]))
    }

    /// The number of tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.grid().iter().product()
    }

    /// A set of none of the points.
    ///
    /// # Errors
    /// [`ComputeError::OutOfMemory`].
    pub fn empty(&self) -> Result<Vec<u64>> {
        crate::host::zeroed(self.words())
    }

    /// The words of a set that is given as one value a point, x fastest.
    ///
    /// # Errors
    /// Another number of values; [`ComputeError::OutOfMemory`].
    pub fn pack(&self, set: &[bool]) -> Result<Vec<u64>> {
        check_len("set", self.points(), set.len())?;
        let mut words: Vec<u64> = memory::room(self.words())?;
        let word = |points: &[bool]| points.iter().rev().fold(0, |w, s| w << 1 | u64::from(*s));
        for row in set.chunks_exact(self.dims[0]) {
            words.extend(row.chunks(64).map(word));
        }
        Ok(words)
    }

    /// One value a point, x fastest, of the words of a set.
    ///
    /// # Errors
    /// Another number of words; [`ComputeError::OutOfMemory`].
    pub fn unpack(&self, words: &[u64]) -> Result<Vec<bool>> {
        check_len("words of a set", self.words(), words.len())?;
        let mut points: Vec<bool> = memory::room(self.points())?;
        for row in words.chunks_exact(self.row_words()) {
            points.extend((0..self.dims[0]).map(|x| row[x / 64] >> (x % 64) & 1 == 1));
        }
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_packing_and_bits_beyond_rows_are_zero() {
        for nx in [1, 5, 63, 64, 65, 130] {
            let layout = Layout::new([nx, 3, 2], 1).unwrap();
            let set: Vec<bool> = (0..layout.points()).map(|i| i * i % 7 < 3).collect();
            let words = layout.pack(&set).unwrap();
            assert_eq!(words.len(), layout.words());
            assert_eq!(layout.unpack(&words).unwrap(), set);
            let ends = words.iter().skip(layout.row_words() - 1).step_by(layout.row_words());
            assert!(ends.clone().count() == 6 && ends.clone().all(|w| w & !layout.last() == 0));
            assert!(layout.pack(&set[1..]).is_err() && layout.unpack(&words[1..]).is_err());
        }
    }

    #[test]
    fn layouts_that_cannot_be_are_refused() {
        for (dims, axes) in [([4, 4, 1], 3), ([4, 4, 2], 0), ([4, 4, 2], 4), ([4, 0, 2], 1)] {
            assert!(Layout::new(dims, axes).is_err(), "{dims:?} {axes}");
        }
        assert!(Layout::new([1 << 25, 1 << 25, 8], 1).is_err());
        let layout = Layout::new([33, 16, 1], 2).unwrap();
        assert_eq!((layout.grid(), layout.tiles(), layout.tile()), ([3, 1, 1], 3, [16, 16, 1]));
        assert_eq!(Layout::new([9, 8, 17], 3).unwrap().grid(), [2, 1, 3]);
    }
}
