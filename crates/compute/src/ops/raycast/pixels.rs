//! Selections of pixels that rays are cast for.

use crate::error::{ComputeError, Result};

/// The pixels of a view that have rays: tiles of a region of its detector, all of the same size. The whole region is one
/// tile; drawn ones are single pixels, or small patches where neighbours are compared.
///
/// Pixels are in the order of their tiles, in a tile row by row.
///
/// ```
/// use voxalign_compute::ops::raycast::Pixels;
///
/// let all = Pixels::region([10, 20], [4, 3]);
/// assert_eq!((all.len(), all.at(5)), (12, [11, 21]));
/// // Fifty of two thousand pixels, others with another seed.
/// let some = Pixels::drawn([0, 0], [40, 50], [1, 1], 50, 7);
/// assert_eq!(some.len(), 50);
/// assert!((0..50).all(|i| some.at(i)[0] < 40 && some.at(i)[1] < 50));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pixels {
    /// The first column and row of the region.
    pub first: [usize; 2],
    /// The columns and rows of the region.
    pub dims: [usize; 2],
    /// The columns and rows of a tile.
    pub tile: [usize; 2],
    /// How tiles are drawn; without, the region is one tile.
    pub drawn: Option<Drawn>,
}

/// Tiles at random places.
///
/// All places that a tile can have, row by row, are cut into `count` runs of equal lengths, and of each run one is drawn
/// with equal probabilities: no place comes twice, and no part of the region is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// The number of tiles.
    pub count: usize,
    /// The random seed of the draw.
    pub seed: u64,
}

impl Pixels {
    /// All pixels of a region.
    #[must_use]
    pub fn region(first: [usize; 2], dims: [usize; 2]) -> Self {
        Self { first, dims, tile: dims, drawn: None }
    }

    /// Tiles drawn from a region.
    #[must_use]
    pub fn drawn(
        first: [usize; 2],
        dims: [usize; 2],
        tile: [usize; 2],
        count: usize,
        seed: u64,
    ) -> Self {
        Self { first, dims, tile, drawn: Some(Drawn { count, seed }) }
    }

    /// The number of tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.drawn.map_or(1, |d| d.count)
    }

    /// The number of pixels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tiles().saturating_mul(self.tile[0]).saturating_mul(self.tile[1])
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of positions that a tile can have.
    #[must_use]
    pub fn places(&self) -> usize {
        let along = |a: usize| (self.dims[a] + 1).saturating_sub(self.tile[a]);
        along(0).saturating_mul(along(1))
    }

    /// The column and row of a pixel, by its number.
    #[must_use]
    pub fn at(&self, number: usize) -> [usize; 2] {
        let [w, h] = self.tile;
        let (tile, within) = (number / (w * h), number % (w * h));
        let [x, y] = self.corner(tile);
        [x + within % w, y + within / w]
    }

    /// The first column and row of a tile, by its number.
    #[must_use]
    pub fn corner(&self, tile: usize) -> [usize; 2] {
        let Some(drawn) = self.drawn else { return self.first };
        let (places, count) = (self.places() as u64, drawn.count as u64);
        // Both are at most 2^30.
        let run = |k: u64| k * places / count;
        let (begin, end) = (run(tile as u64), run(tile as u64 + 1));
        let within = (u64::from(random(drawn.seed, tile as u64)) * (end - begin)) >> 32;
        let along = (self.dims[0] + 1 - self.tile[0]) as u64;
        let place = begin + within;
        [self.first[0] + (place % along) as usize, self.first[1] + (place / along) as usize]
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// No pixels; tiles larger than the region; more tiles than places; too many pixels.
    pub fn check(&self) -> Result<()> {
        if self.dims.contains(&0) || self.tile.contains(&0) {
            return Err(ComputeError::argument("region of pixels", "empty", "at least one pixel"));
        }
        let beyond = |a: usize| self.first[a].saturating_add(self.dims[a]) > 1 << 24;
        if beyond(0) || beyond(1) || self.dims[0].saturating_mul(self.dims[1]) > 1 << 30 {
            return Err(ComputeError::argument(
                "region of pixels",
                format!("{:?}", self.dims),
                "of at most 2^30 pixels, with columns and rows below 2^24",
            ));
        }
        if self.tile[0] > self.dims[0] || self.tile[1] > self.dims[1] {
            return Err(ComputeError::argument(
                "tile of pixels",
                format!("{:?}", self.tile),
                "no larger than the region",
            ));
        }
        match self.drawn {
            None if self.tile != self.dims => Err(ComputeError::argument(
                "tile of pixels",
                format!("{:?}", self.tile),
                "the region where none are drawn",
            )),
            Some(d) if d.count == 0 || d.count > self.places() || self.len() > 1 << 30 => {
                Err(ComputeError::argument(
                    "number of drawn tiles",
                    d.count,
                    "from 1 to the number of positions that a tile can have",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// A random number for each tile (SplitMix64 at a place of its sequence).
fn random(seed: u64, number: u64) -> u32 {
    let mut z = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn drawn_pixels_are_different_and_everywhere() {
        let (first, dims) = ([3, 5], [60, 41]);
        for (tile, count) in [([1, 1], 2460), ([1, 1], 123), ([2, 2], 300), ([4, 3], 7)] {
            let pixels = Pixels::drawn(first, dims, tile, count, 11);
            pixels.check().unwrap();
            let corners: Vec<_> = (0..count).map(|t| pixels.corner(t)).collect();
            let different: BTreeSet<_> = corners.iter().collect();
            assert_eq!(different.len(), count);
            for i in 0..pixels.len() {
                let at = pixels.at(i);
                assert!((0..2).all(|a| (first[a]..first[a] + dims[a]).contains(&at[a])), "{at:?}");
            }
        }
        let one = |seed| Pixels::drawn(first, dims, [1, 1], 100, seed);
        let places = |p: Pixels| (0..100).map(|i| p.at(i)).collect::<Vec<_>>();
        assert_eq!(places(one(1)), places(one(1)));
        assert_ne!(places(one(1)), places(one(2)));
    }

    /// Over many seeds every pixel is drawn as often.
    #[test]
    fn draws_are_even() {
        let mut counts = [0u32; 63];
        for seed in 0..9000 {
            let pixels = Pixels::drawn([0, 0], [9, 7], [1, 1], 7, seed);
            for i in 0..7 {
                let [x, y] = pixels.at(i);
                counts[y * 9 + x] += 1;
            }
        }
        // 1000 expected of each, with a standard deviation of 30.
        assert!(counts.iter().all(|c| (850..1150).contains(c)), "{counts:?}");
    }

    #[test]
    fn pixels_that_cannot_be() {
        let ok = Pixels::drawn([0, 0], [9, 7], [2, 2], 48, 0);
        assert!(ok.check().is_ok() && Pixels::region([1, 2], [3, 4]).check().is_ok());
        for bad in [
            Pixels::region([0, 0], [0, 4]),
            Pixels::drawn([0, 0], [9, 7], [2, 2], 49, 0),
            Pixels::drawn([0, 0], [9, 7], [2, 2], 0, 0),
            Pixels::drawn([0, 0], [9, 7], [10, 1], 1, 0),
            Pixels::drawn([0, 0], [9, 7], [0, 1], 1, 0),
            Pixels { tile: [1, 1], ..Pixels::region([0, 0], [3, 3]) },
            Pixels::region([1 << 24, 0], [3, 3]),
            Pixels::region([0, 0], [1 << 20, 1 << 20]),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
