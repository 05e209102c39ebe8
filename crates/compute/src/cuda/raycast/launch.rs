//! Grouping of rays into blocks, and of blocks into launches within the limits of a GPU.

use super::PixelSet;
use crate::cuda::Shape;
use crate::ops::raycast::Pixels;

/// The most views of a launch: blocks have their numbers along z, or along y where derivatives are summed. Enough to keep a GPU busy, and far
/// fewer than the 65535 that it takes, so that tests have more.
pub(super) const VIEWS: usize = 4096;
/// The most blocks along y of a launch, which have the rows of a region; as above.
pub(super) const ROWS: usize = 4096;

/// How rays are put into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RayShape {
    /// Threads of a block.
    pub(crate) block: u32,
    /// The number of threads along a ray, as a power of two.
    pub(crate) share: u32,
}

/// One thread for each ray.
pub(super) const ALONE: RayShape = RayShape { block: 128, share: 0 };

/// The rays of a launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) shape: Shape,
    /// Its pixels: where the region has many rows, some of them.
    pub(super) pixels: PixelSet,
    /// The number that its first pixel has among those of a view.
    pub(super) first_pixel: usize,
    /// The number of its first view.
    pub(super) first_view: u32,
}

/// The numbers of the first view of a launch and of its views, for launches of all views from one on.
pub(super) fn by_views(first: usize, views: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..views).step_by(VIEWS).map(move |begin| (first + begin, VIEWS.min(views - begin)))
}

impl RayShape {
    /// For this many rays in all views: when they are few, threads that would be idle share them.
    pub(crate) fn of(rays: usize, region: bool, multiprocessors: usize, derivatives: bool) -> Self {
        // Threads that a multiprocessor has use for, from measurements (`voxalign bench drr`).
        let wanted = multiprocessors * if derivatives { 512 } else { 1024 };
        let mut share = 0;
        while share < 5 && rays << (share + 1) <= wanted {
            share += 1;
        }
        let block = if region && share == 0 { 128 } else { 64 };
        Self { block, share }
    }

    /// The launches of this many views from a given one on, together the rays of all of their pixels.
    pub(super) fn parts(
        self,
        pixels: &Pixels,
        (first, views): (usize, usize),
    ) -> impl Iterator<Item = Part> {
        let threads = self.block.max(1 << self.share);
        let across = threads >> self.share;
        let (width, height, columns, rows) = match pixels.drawn {
            Some(_) => (across, 1, pixels.len(), 1),
            None => {
                // As square as it can be with a power of two along rows.
                let powers = (0..=across.trailing_zeros()).map(|p| 1u32 << p);
                let width = powers.filter(|w| w * w <= 2 * across).max().unwrap_or(1);
                (width, across / width, pixels.tile[0], pixels.tile[1])
            }
        };
        let blocks = |n: usize, size: u32| n.div_ceil(size as usize) as u32;
        let (all, most) = (PixelSet::from(pixels), ROWS * height as usize);
        let of_rows = move |view: (usize, usize), begin: usize| {
            let rows = most.min(rows - begin);
            let pixels = match all.drawn {
                0 => all.rows(begin as u32, rows as u32),
                _ => all,
            };
            let shape = Shape {
                grid: [blocks(columns, width), blocks(rows, height), view.1 as u32],
                block: [width << self.share, height, 1],
                shared: 0,
            };
            Part { shape, pixels, first_pixel: begin * columns, first_view: view.0 as u32 }
        };
        by_views(first, views)
            .flat_map(move |view| (0..rows).step_by(most).map(move |begin| of_rows(view, begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(shape: RayShape, pixels: &Pixels, views: usize) -> Shape {
        let parts: Vec<Part> = shape.parts(pixels, (0, views)).collect();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].pixels, PixelSet::from(pixels));
        parts[0].shape
    }

    /// Whatever the threads of a block, every ray has its threads, which are next to each other, and no block is larger.
    #[test]
    fn blocks_of_any_size_cover_all_rays() {
        let region = Pixels::region([3, 1], [23, 9]);
        let drawn = Pixels::drawn([0, 0], [23, 9], [1, 1], 100, 1);
        for block in (1..=512).filter(|b| b % 2 == 0 || b % 7 == 0) {
            for share in 0..6 {
                let shape = only(RayShape { block, share }, &region, 5);
                let [width, height, _] = shape.block;
                assert!(width % (1 << share) == 0 && width * height <= block.max(1 << share));
                assert!(share > 0 || width * height == block, "{block}: {width} x {height}");
                let rays = [width >> share, height];
                assert!(shape.grid[0] * rays[0] >= 23 && shape.grid[1] * rays[1] >= 9);
                assert_eq!(shape.grid[2], 5);
                let shape = only(RayShape { block, share }, &drawn, 1);
                assert!(shape.grid[0] * (shape.block[0] >> share) >= 100 && shape.block[1] == 1);
            }
        }
        let sides = |block| only(RayShape { block, share: 0 }, &region, 1).block;
        assert_eq!((sides(12), sides(128), sides(160)), ([4, 3, 1], [16, 8, 1], [16, 10, 1]));
    }

    /// Of any pixels and views, each is in one launch, and a GPU takes every launch.
    #[test]
    fn launches_are_of_sizes_that_a_gpu_takes() {
        let most = 1 << 24;
        let drawn = |count| Pixels::drawn([0, 0], [1 << 15, 1 << 15], [1, 1], count, 1);
        let sides = [
            [1, 1],
            [1, 65_535],
            [1, 65_536],
            [3, 524_280],
            [3, 524_281],
            [1, most],
            [64, most],
            [most, 1],
            [most, 64],
            [1 << 15, 1 << 15],
        ];
        let regions = sides.map(|size| Pixels::region([0, 0], size));
        let all = regions.into_iter().chain([drawn(1), drawn(1 << 30)]);
        for (pixels, views) in all.flat_map(|p| [1, VIEWS, VIEWS + 1, 70_000].map(|v| (p, v))) {
            assert!(pixels.check().is_ok(), "{pixels:?}");
            if pixels.len() * views > 1 << 34 {
                continue;
            }
            let rays = pixels.len() * views;
            let usual = RayShape::of(rays, pixels.drawn.is_none(), 132, false);
            for shape in [usual, ALONE, RayShape { block: 1, share: 0 }] {
                let (mut covered, mut next) = (0, (7, 0));
                for part in shape.parts(&pixels, (7, views)) {
                    assert!(part.shape.is_launchable(), "{part:?}");
                    let [width, height, _] = part.shape.block.map(|n| n as usize);
                    let threads = [0, 1].map(|a| part.shape.grid[a] as usize);
                    let threads = [threads[0] * (width >> shape.share), threads[1] * height];
                    let size = match pixels.drawn {
                        Some(_) => [pixels.len(), 1],
                        None => [part.pixels.tile[0] as usize, part.pixels.tile[1] as usize],
                    };
                    assert!(threads[0] >= size[0] && threads[1] >= size[1], "{part:?}");
                    // One after the other, in the order of pixels, in that of views.
                    assert_eq!((part.first_view as usize, part.first_pixel), next);
                    if pixels.drawn.is_none() {
                        let row = part.pixels.first[1] as usize - pixels.first[1];
                        assert_eq!(row * pixels.dims[0], part.first_pixel);
                    }
                    next.1 += size[0] * size[1];
                    if next.1 == pixels.len() {
                        next = (next.0 + part.shape.grid[2] as usize, 0);
                    }
                    covered += size[0] * size[1] * part.shape.grid[2] as usize;
                }
                assert_eq!((covered, next), (rays, (7 + views, 0)), "{pixels:?} {views}");
            }
        }
    }

    #[test]
    fn views_are_cut_at_the_most_of_a_launch() {
        let parts = |first, views| by_views(first, views).collect::<Vec<_>>();
        assert!(parts(3, 0).is_empty());
        assert_eq!(parts(3, 1), [(3, 1)]);
        assert_eq!(parts(0, VIEWS), [(0, VIEWS)]);
        assert_eq!(parts(5, VIEWS + 1), [(5, VIEWS), (5 + VIEWS, 1)]);
        let many = parts(0, 65_536);
        assert!(many.iter().all(|&(_, n)| n <= 65_535));
        assert_eq!(many.iter().map(|&(_, n)| n).sum::<usize>(), 65_536);
    }
}
