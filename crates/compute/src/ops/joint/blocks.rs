//! Blocks of images, and how an image is cut into those of the ranks.

use crate::Dims;
use crate::comm::balance::share;
use crate::error::{ComputeError, Result};

/// A box of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Block {
    /// Its first pixel.
    pub origin: [usize; 3],
    /// Its pixels along each axis; 0 of a block without pixels.
    pub dims: Dims,
}

impl Block {
    /// The block that is a whole image.
    #[must_use]
    pub fn whole(dims: Dims) -> Self {
        Self { origin: [0; 3], dims }
    }

    /// The number of its pixels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// The pixel after its last along an axis.
    #[must_use]
    pub fn end(&self, axis: usize) -> usize {
        self.origin[axis].saturating_add(self.dims[axis])
    }

    /// Whether a pixel is in it.
    #[must_use]
    pub fn contains(&self, pixel: [usize; 3]) -> bool {
        (0..3).all(|a| (self.origin[a]..self.end(a)).contains(&pixel[a]))
    }

    /// Whether another block is in it; one without pixels always is.
    #[must_use]
    pub fn encloses(&self, other: &Self) -> bool {
        let inside = |a: usize| self.origin[a] <= other.origin[a] && other.end(a) <= self.end(a);
        other.is_empty() || (0..3).all(inside)
    }

    /// Where a pixel of the image is in memory that has the block alone, x fastest.
    #[must_use]
    pub fn place(&self, pixel: [usize; 3]) -> usize {
        let [x, y, z] = [0, 1, 2].map(|a| pixel[a] - self.origin[a]);
        x + self.dims[0] * (y + self.dims[1] * z)
    }

    /// What it shares with another.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let origin = [0, 1, 2].map(|a| self.origin[a].max(other.origin[a]));
        let end = |a: usize| self.end(a).min(other.end(a));
        Self { origin, dims: [0, 1, 2].map(|a| end(a).saturating_sub(origin[a])) }
    }

    /// The block with a halo of some pixels on all sides, within the image; one without pixels stays so.
    #[must_use]
    pub fn grown(&self, by: [usize; 3], within: Dims) -> Self {
        if self.is_empty() {
            return *self;
        }
        let origin = [0, 1, 2].map(|a| self.origin[a].saturating_sub(by[a]));
        let end = |a: usize| self.end(a).saturating_add(by[a]).min(within[a]);
        Self { origin, dims: [0, 1, 2].map(|a| end(a) - origin[a]) }
    }

    /// How many chunks of at most these sizes lie along each axis; none of a block without pixels.
    #[must_use]
    pub fn chunk_counts(&self, most: Dims) -> Dims {
        if self.is_empty() {
            [0; 3]
        } else {
            [0, 1, 2].map(|a| self.dims[a].div_ceil(most[a].max(1)))
        }
    }

    /// The block cut into chunks of at most these sizes, x fastest.
    #[must_use]
    pub fn chunks(&self, most: Dims) -> Vec<Self> {
        let [nx, ny, nz] = self.chunk_counts(most);
        let most = most.map(|n| n.max(1));
        let chunk = |k: usize| {
            let place = [k % nx, k / nx % ny, k / (nx * ny)];
            let first = [0, 1, 2].map(|a| place[a] * most[a]);
            Self {
                origin: [0, 1, 2].map(|a| self.origin[a] + first[a]),
                dims: [0, 1, 2].map(|a| most[a].min(self.dims[a] - first[a])),
            }
        };
        (0..nx * ny * nz).map(chunk).collect()
    }
}

/// How many parts an image is cut into along each axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BlockRule {
    /// Along x, then y, then z, so that the numbers of parts are close to each other: the prime factors of the number of
    /// ranks, the largest first, each to the axis that has the fewest parts so far, of equal ones the first. An
    /// image of one plane is not cut along z.
    #[default]
    Balanced,
    /// Along x alone.
    AlongX,
    /// So many along each axis; their product is the number of ranks.
    Parts([usize; 3]),
}

/// The pixels around a block that its rank has as well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Halo {
    /// So many on every side.
    Pixels(usize),
    /// So large a fraction of the block's own size on every side, rounded up.
    Fraction(f64),
}

impl Default for Halo {
    fn default() -> Self {
        Self::Pixels(1)
    }
}

impl Halo {
    /// The pixels along each axis.
    #[must_use]
    pub fn of(&self, block: &Block) -> [usize; 3] {
        block.dims.map(|n| match *self {
            Self::Pixels(pixels) => pixels,
            // Saturates, and is 0 of what is not a number.
            Self::Fraction(fraction) => (n as f64 * fraction).ceil() as usize,
        })
    }
}

/// An image, cut into a block for each rank (Adinetz et al., section 4: blocks along x, then y). The parts along an
/// axis differ by at most a pixel, the first have the more; where there are more parts than pixels the last have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decomposition {
    dims: Dims,
    parts: [usize; 3],
}

impl Decomposition {
    /// The image with these sizes, cut for so many ranks.
    ///
    /// # Errors
    /// [`ComputeError::Argument`] if there are no ranks, or the parts of [`BlockRule::Parts`] are not as many; an image without
    /// pixels, or too large.
    pub fn new(dims: Dims, ranks: usize, rule: BlockRule) -> Result<Self> {
        super::map::check_dims("the size of an image that is cut into blocks", dims)?;
        if ranks == 0 {
            return Err(ComputeError::argument("the number of ranks", 0, "at least 1"));
        }
        let parts = match rule {
            BlockRule::AlongX => [ranks, 1, 1],
            BlockRule::Balanced => balanced(ranks, if dims[2] > 1 { 3 } else { 2 }),
            BlockRule::Parts(parts) => {
                let product = parts.iter().try_fold(1usize, |p, &n| p.checked_mul(n));
                if product != Some(ranks) {
                    return Err(ComputeError::argument(
                        "the numbers of blocks along the axes",
                        format!("{parts:?}"),
                        "numbers whose product is the number of ranks",
                    ));
                }
                parts
            }
        };
        Ok(Self { dims, parts })
    }

    /// The sizes of the image.
    #[must_use]
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The number of parts along each axis.
    #[must_use]
    pub fn parts(&self) -> [usize; 3] {
        self.parts
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.parts.iter().product()
    }

    /// The block of a rank; without pixels for a rank that there is not.
    #[must_use]
    pub fn block(&self, rank: usize) -> Block {
        let [px, py, _] = self.parts;
        let place = [rank % px, rank / px % py, rank / (px * py)];
        let range = [0, 1, 2].map(|a| share(self.dims[a], self.parts[a], place[a]));
        let [x, y, z] = &range;
        Block { origin: [x.start, y.start, z.start], dims: [x.len(), y.len(), z.len()] }
    }

    /// The rank whose block has a pixel of the image.
    #[must_use]
    pub fn owner(&self, pixel: [usize; 3]) -> usize {
        let [x, y, z] = [0, 1, 2].map(|a| self.part(a, pixel[a]));
        x + self.parts[0] * (y + self.parts[1] * z)
    }

    /// The part along an axis that has a pixel.
    fn part(&self, axis: usize, at: usize) -> usize {
        let (n, parts) = (self.dims[axis], self.parts[axis]);
        let (each, more) = (n / parts, n % parts);
        let of_larger = more * (each + 1);
        if at < of_larger { at / (each + 1) } else { more + (at - of_larger) / each.max(1) }
    }

    /// The cells of interpolation that a rank answers for: those whose lowest pixel is in its block.
    #[must_use]
    pub fn cells(&self, rank: usize) -> Block {
        self.block(rank).common(&Block::whole(cells(self.dims)))
    }
}

/// The cells of interpolation along each axis: one below the pixels, and one where there is a single pixel.
#[must_use]
pub fn cells(dims: Dims) -> Dims {
    dims.map(|n| n.saturating_sub(1).max(1))
}

/// The prime factors of a number of ranks, shared among axes.
fn balanced(ranks: usize, axes: usize) -> [usize; 3] {
    let (mut left, mut factors, mut factor) = (ranks, Vec::new(), 2);
    while factor * factor <= left {
        while left.is_multiple_of(factor) {
            factors.push(factor);
            left /= factor;
        }
        factor += 1;
    }
    factors.push(left);
    let mut parts = [1; 3];
    for factor in factors.into_iter().rev() {
        let fewest = (0..axes).min_by_key(|&a| parts[a]).unwrap_or(0);
        parts[fewest] *= factor;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_along_x_first() {
        let parts =
            |dims, ranks| Decomposition::new(dims, ranks, BlockRule::Balanced).unwrap().parts();
        let flat = [100, 80, 1];
        let expected =
            [[1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 1], [5, 1, 1], [3, 2, 1], [7, 1, 1]];
        for (ranks, parts_of) in (1..).zip(expected) {
            assert_eq!(parts(flat, ranks), parts_of);
        }
        assert_eq!((parts(flat, 12), parts([9; 3], 12)), ([3, 4, 1], [3, 2, 2]));
        assert_eq!((parts([9; 3], 8), parts(flat, 8)), ([2, 2, 2], [4, 2, 1]));
    }

    #[test]
    fn bad_parts_are_refused() {
        let new = |dims, ranks, rule| Decomposition::new(dims, ranks, rule).is_ok();
        assert!(new([4; 3], 6, BlockRule::Parts([1, 2, 3])));
        assert!(!new([4; 3], 6, BlockRule::Parts([2, 2, 2])));
        assert!(!new([4; 3], 0, BlockRule::Balanced) && !new([4, 0, 1], 2, BlockRule::AlongX));
        assert!(!new([4; 3], 0, BlockRule::Parts([usize::MAX, usize::MAX, 0])));
    }

    #[test]
    fn halos_end_at_the_image() {
        let block = Block { origin: [3, 0, 0], dims: [4, 5, 1] };
        let grown = block.grown(Halo::Fraction(0.5).of(&block), [8, 6, 1]);
        assert_eq!(grown, Block { origin: [1, 0, 0], dims: [7, 6, 1] });
        assert_eq!(Halo::Pixels(2).of(&block), [2; 3]);
        let none = Block { origin: [8, 0, 0], dims: [0, 6, 1] };
        assert_eq!(none.grown([9; 3], [8, 6, 1]), none);
        assert_eq!(block.grown([usize::MAX; 3], [8, 6, 1]), Block::whole([8, 6, 1]));
    }

    proptest! {
        #[test]
        fn blocks_partition_the_image(
            dims in [1usize..12, 1usize..9, 1usize..5], ranks in 1usize..30, along_x: bool,
        ) {
            let rule = if along_x { BlockRule::AlongX } else { BlockRule::Balanced };
            let cut = Decomposition::new(dims, ranks, rule).unwrap();
            prop_assert_eq!(cut.ranks(), ranks);
            let blocks: Vec<_> = (0..ranks).map(|r| cut.block(r)).collect();
            prop_assert_eq!(blocks.iter().map(Block::len).sum::<usize>(), Block::whole(dims).len());
            for i in 0..Block::whole(dims).len() {
                let pixel = [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])];
                let owner = cut.owner(pixel);
                prop_assert!(blocks[owner].contains(pixel));
                prop_assert_eq!(blocks.iter().filter(|b| b.contains(pixel)).count(), 1);
                prop_assert_eq!(Block::whole(dims).place(pixel), i);
            }
            // Every cell has one owner, whose block with one more pixel has all that it needs.
            let all: usize = (0..ranks).map(|r| cut.cells(r).len()).sum();
            prop_assert_eq!(all, Block::whole(cells(dims)).len());
        }

        #[test]
        fn chunks_partition_a_block(
            origin in [0usize..9, 0usize..9, 0usize..9], dims in [0usize..20, 0usize..9, 0usize..4],
            most in [0usize..9, 1usize..12, 1usize..4],
        ) {
            let block = Block { origin, dims };
            let chunks = block.chunks(most);
            prop_assert_eq!(block.chunk_counts(most).iter().product::<usize>(), chunks.len());
            prop_assert_eq!(chunks.iter().map(Block::len).sum::<usize>(), block.len());
            for (i, chunk) in chunks.iter().enumerate() {
                prop_assert!(block.encloses(chunk) && !chunk.is_empty());
                prop_assert!(chunks[..i].iter().all(|c| c.common(chunk).is_empty()));
            }
        }
    }
}
