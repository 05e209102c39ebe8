//! How the threads of a GPU share pixels.

use super::FixedPointMap;
use super::map::MAP_BITS;

/// The pixels that a thread of a GPU takes, and how they lie; bits do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PixelsPerThread {
    /// By the map. Let `a` and `b` be the rows of the moving image that a step along x and along y of the fixed image crosses. Where rows stay rows,
    /// `a` at most 1/32: [`FourByFour`](Self::FourByFour), by which the threads of a warp read along a row. Else the tile that meets fewer rows:
    /// [`Tile`](Self::Tile) where `a` is at most `b`, and [`TallTile`](Self::TallTile) where it is more.
    #[default]
    Auto,
    /// One; the threads of a warp have neighbours along x.
    One,
    /// Four along x and two along y, all of them neighbours; the threads of a warp follow each other along x.
    FourByTwo,
    /// Four along x and y, as [`FourByTwo`](Self::FourByTwo).
    FourByFour,
    /// 32 along x and y, as [`FourByTwo`](Self::FourByTwo).
    Square32,
    /// Four along x and y, all of them neighbours; the threads of a warp follow each other along y.
    Column,
    /// Four along x and y. At every step the threads of a block have all pixels of a box, those of a warp one of 8 x 4 pixels; a thread's own
    /// pixels are a box apart.
    Tile,
    /// As [`Tile`](Self::Tile), with warps of 4 x 8 pixels.
    TallTile,
}

impl PixelsPerThread {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Auto,
        Self::One,
        Self::FourByTwo,
        Self::FourByFour,
        Self::Square32,
        Self::Column,
        Self::Tile,
        Self::TallTile,
    ];

    /// Its name as an option.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::One => "1",
            Self::FourByTwo => "4x2",
            Self::FourByFour => "4x4",
            Self::Square32 => "32x32",
            Self::Column => "4x4-column",
            Self::Tile => "4x4-tile",
            Self::TallTile => "4x4-tall",
        }
    }

    /// The pixels along x and y.
    #[must_use]
    pub fn sides(self) -> [usize; 2] {
        match self {
            Self::One => [1, 1],
            Self::FourByTwo => [4, 2],
            Self::Square32 => [32, 32],
            Self::Auto | Self::FourByFour | Self::Column | Self::Tile | Self::TallTile => [4, 4],
        }
    }

    /// What is taken under a map: itself, unless it is [`Auto`](Self::Auto).
    #[must_use]
    pub fn under(self, map: &FixedPointMap) -> Self {
        if self != Self::Auto {
            return self;
        }
        // Along z a row is another one as well.
        let rows = |axis: usize| {
            map.matrix[1..].iter().map(|row| row[axis].unsigned_abs()).max().unwrap_or(0)
        };
        let (a, b) = (rows(0), rows(1));
        match () {
            () if a <= 1 << (MAP_BITS - 5) => Self::FourByFour,
            () if a <= b => Self::Tile,
            () => Self::TallTile,
        }
    }

    /// How threads share pixels under a map.
    #[must_use]
    pub fn walk(self, map: &FixedPointMap) -> Walk {
        let pixels = self.under(map);
        let (lanes, together) = match pixels {
            Self::Column => ([1, Walk::LANES], false),
            Self::Tile => ([8, 4], true),
            Self::TallTile => ([4, 8], true),
            _ => ([Walk::LANES, 1], false),
        };
        Walk { lanes, sides: pixels.sides(), together }
    }
}

/// How the threads of a block share the pixels of a tile of the fixed image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// The threads of a warp along x and y, [`LANES`](Self::LANES) in all.
    pub lanes: [usize; 2],
    /// The pixels of a thread along x and y.
    pub sides: [usize; 2],
    /// Whether the threads of a block have neighbours at every step, and not each thread by itself over all steps.
    pub together: bool,
}

impl Walk {
    /// The threads of a warp.
    pub const LANES: usize = 32;
    /// The warps of a block that counts.
    pub const WARPS: usize = 16;

    /// The threads of a block of so many warps along x and y: warps are put beside each other where the block is the shorter, of a square where a warp is the
    /// longer.
    #[must_use]
    pub fn threads(&self, warps: usize) -> [usize; 2] {
        let [mut x, mut y] = self.lanes;
        let mut left = warps.max(1);
        while left > 1 && left.is_multiple_of(2) {
            let along_x = x < y || (x == y && self.lanes[0] > self.lanes[1]);
            if along_x {
                x *= 2
            } else {
                y *= 2
            }
            left /= 2;
        }
        [x, y * left]
    }

    /// The pixels of the tile of a block of so many warps along x and y.
    #[must_use]
    pub fn tile(&self, warps: usize) -> [usize; 2] {
        let threads = self.threads(warps);
        [0, 1].map(|a| threads[a] * self.sides[a])
    }

    /// From a thread to the next along x and y, pixels.
    #[must_use]
    pub fn between_threads(&self) -> [usize; 2] {
        if self.together { [1, 1] } else { self.sides }
    }

    /// From a pixel of a thread to its next along x and y, in blocks of so many warps.
    #[must_use]
    pub fn between_pixels(&self, warps: usize) -> [usize; 2] {
        if self.together { self.threads(warps) } else { [1, 1] }
    }

    /// Where a pixel of a thread is in the tile of its block of so many warps: that of a lane of a warp at a step along x and y.
    #[must_use]
    pub fn pixel(&self, warps: usize, warp: usize, lane: usize, step: [usize; 2]) -> [usize; 2] {
        let across = (self.threads(warps)[0] / self.lanes[0]).max(1);
        let thread = [
            lane % self.lanes[0] + self.lanes[0] * (warp % across),
            lane / self.lanes[0] + self.lanes[1] * (warp / across),
        ];
        let (apart, next) = (self.between_threads(), self.between_pixels(warps));
        [0, 1].map(|a| thread[a] * apart[a] + step[a] * next[a])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(degrees: f64) -> FixedPointMap {
        let (s, c) = degrees.to_radians().sin_cos();
        let map = [[c, -s, 0.0, 1.0], [s, c, 0.0, 2.0], [0.0, 0.0, 1.0, 0.0]];
        FixedPointMap::new(&map).unwrap()
    }

    /// Every pixel of a tile belongs to one thread at one step.
    #[test]
    fn threads_share_a_tile() {
        for pixels in PixelsPerThread::ALL {
            let walk = pixels.walk(&turned(30.0));
            assert_eq!(walk.lanes.iter().product::<usize>(), Walk::LANES);
            for warps in [1, 2, 8, Walk::WARPS] {
                let [wide, high] = walk.tile(warps);
                let mut seen = vec![0; wide * high];
                for warp in 0..warps {
                    for lane in 0..Walk::LANES {
                        for sy in 0..walk.sides[1] {
                            for sx in 0..walk.sides[0] {
                                let [x, y] = walk.pixel(warps, warp, lane, [sx, sy]);
                                seen[x + wide * y] += 1;
                            }
                        }
                    }
                }
                assert!(seen.iter().all(|&n| n == 1), "{pixels:?} {warps}");
            }
        }
        let tile = PixelsPerThread::Tile.walk(&turned(0.0));
        let tall = PixelsPerThread::TallTile.walk(&turned(0.0));
        assert_eq!((tile.threads(16), tall.threads(16)), ([32, 16], [16, 32]));
        assert_eq!((tile.tile(16), tall.tile(8)), ([128, 64], [64, 64]));
        let row = PixelsPerThread::FourByFour.walk(&turned(0.0));
        let column = PixelsPerThread::Column.walk(&turned(0.0));
        assert_eq!((row.tile(16), column.tile(16)), ([128, 64], [64, 128]));
    }

    /// The rule in words: rows of the moving image that steps along x and y cross.
    #[test]
    fn the_map_decides() {
        use PixelsPerThread::{Auto, FourByFour, One, TallTile, Tile};
        let of = |degrees| Auto.under(&turned(degrees));
        assert_eq!([0.0, 1.7, 178.3, 180.0].map(of), [FourByFour; 4]);
        assert_eq!([1.9, 20.0, 44.9, 135.1, 178.0].map(of), [Tile; 5]);
        assert_eq!([45.1, 88.0, 90.0, 134.9].map(of), [TallTile; 4]);
        assert_eq!(One.under(&turned(90.0)), One);
        // Rows that become columns of planes are other rows as well.
        let map = [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]];
        assert_eq!(Auto.under(&FixedPointMap::new(&map).unwrap()), Tile);
    }

    #[test]
    fn names_are_distinct() {
        let mut names = PixelsPerThread::ALL.map(PixelsPerThread::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PixelsPerThread::ALL.len());
    }
}
