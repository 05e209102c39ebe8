//! Halving of blocks by exact integer means.

use super::pixel::Pixel;
use crate::image::Region;
use rayon::prelude::*;
use voxalign_image::{Affine, Grid, ImageError, Vector3};

/// Pixels of a row, times rows, from which on threads share the work.
const PARALLEL: usize = 1 << 16;

/// Which axes of an image are halved: those of more than one pixel.
#[must_use]
pub fn halved_axes(dims: [usize; 3]) -> [bool; 3] {
    dims.map(|n| n > 1)
}

/// The sizes after halving, odd ones rounded up.
#[must_use]
pub fn reduced_size(size: [usize; 3], halved: [bool; 3]) -> [usize; 3] {
    std::array::from_fn(|a| if halved[a] { size[a].div_ceil(2) } else { size[a] })
}

/// The region of the finer level that pixels of a region are means of, within its sizes.
#[must_use]
pub fn finer_region(region: &Region, finer: [usize; 3], halved: [bool; 3]) -> Region {
    let factor = halved.map(|h| if h { 2 } else { 1 });
    let start = std::array::from_fn(|a| region.start[a].saturating_mul(factor[a]).min(finer[a]));
    let size = std::array::from_fn(|a| {
        let end = (region.start[a].saturating_add(region.size[a])).saturating_mul(factor[a]);
        end.min(finer[a]).saturating_sub(start[a])
    });
    Region { start, size }
}

/// The grid of the next level: spacings are doubled along halved axes, and the first pixel's centre is that of the
/// pixels which it is the mean of. At an odd edge the last pixel lies half outside of the finer grid.
///
/// # Errors
/// As [`Grid::new`].
pub fn reduced_grid(grid: &Grid, halved: [bool; 3]) -> Result<Grid, ImageError> {
    scaled_grid(grid, reduced_size(grid.dims(), halved), halved.map(|h| if h { 2.0 } else { 1.0 }))
}

/// The grid of these sizes whose pixels are `factor` times as large and begin at the same outer faces.
pub(super) fn scaled_grid(
    grid: &Grid,
    dims: [usize; 3],
    factor: [f64; 3],
) -> Result<Grid, ImageError> {
    let mut matrix = grid.to_world().matrix;
    (0..3).for_each(|a| matrix.column_mut(a).scale_mut(factor[a]));
    let first = Vector3::from_fn(|a, _| (factor[a] - 1.0) / 2.0);
    Grid::new(dims, Affine::new(matrix, grid.index_to_world(first)))
}

/// Halves a block along some axes: a pixel is the mean of the 2, 4 or 8 pixels under it, rounded half up,
/// `(sum + n / 2) / n` in integers. At an odd edge it is the mean of those that are there.
///
/// The result does not depend on how an image is cut into blocks, as long as these begin at even pixels along halved
/// axes and end at such or at the edge of the image.
///
/// `block` has `size` pixels, x fastest; `out` those of [`reduced_size`]. What is beyond either slice is left alone, and
/// where one is too short nothing is done and `false` returned.
#[must_use]
pub fn reduced<P: Pixel>(block: &[P], size: [usize; 3], halved: [bool; 3], out: &mut [P]) -> bool {
    let [nx, ny, nz] = size;
    let to = reduced_size(size, halved);
    let product = |n: [usize; 3]| n.iter().try_fold(1usize, |a, &b| a.checked_mul(b));
    let (Some(from_len), Some(to_len)) = (product(size), product(to)) else { return false };
    if block.len() < from_len || out.len() < to_len {
        return false;
    }
    if to_len == 0 {
        return true;
    }
    let pair = |i: usize, n: usize, halved: bool| {
        if halved { (2 * i, 1 + usize::from(2 * i + 1 < n)) } else { (i, 1) }
    };
    let row = |number: usize, out: &mut [P]| {
        let (y, ys) = pair(number % to[1], ny, halved[1]);
        let (z, zs) = pair(number / to[1], nz, halved[2]);
        let mut rows: [&[P]; 4] = [&[]; 4];
        for (i, row) in rows[..ys * zs].iter_mut().enumerate() {
            let at = ((z + i / ys) * ny + y + i % ys) * nx;
            *row = &block[at..at + nx];
        }
        means(&rows[..ys * zs], halved[0], out);
    };
    let out = &mut out[..to_len];
    if to_len < PARALLEL {
        out.chunks_mut(to[0]).enumerate().for_each(|(number, out)| row(number, out));
    } else {
        out.par_chunks_mut(to[0]).enumerate().for_each(|(number, out)| row(number, out));
    }
    true
}

/// The means of the pixels of a cell, which 1, 2 or 4 rows have.
fn means<P: Pixel>(rows: &[&[P]], halved: bool, out: &mut [P]) {
    let count = rows.len() as u32;
    // 1, 2, 4 or 8 of them.
    let mean = |sum: u32, n: u32| P::from_low_bits((sum + n / 2) >> n.trailing_zeros());
    let single = |x: usize| rows.iter().map(|row| row[x].into()).sum::<u32>();
    if !halved {
        out.iter_mut().enumerate().for_each(|(x, pixel)| *pixel = mean(single(x), count));
        return;
    }
    let pairs = rows[0].len() / 2;
    for (x, pixel) in out[..pairs].iter_mut().enumerate() {
        let two = |row: &&[P]| -> u32 { row[2 * x].into() + row[2 * x + 1].into() };
        *pixel = mean(rows.iter().map(two).sum(), 2 * count);
    }
    if let Some(last) = out.get_mut(pairs) {
        *last = mean(single(2 * pairs), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The mean of all pixels of a cell that are there, in `f64`, rounded half up.
    fn naive(block: &[u16], size: [usize; 3], halved: [bool; 3]) -> Vec<u16> {
        let to = reduced_size(size, halved);
        let factor = halved.map(|h| if h { 2 } else { 1 });
        let mut out = Vec::new();
        for z in 0..to[2] {
            for y in 0..to[1] {
                for x in 0..to[0] {
                    let (mut sum, mut n) = (0.0, 0.0);
                    for k in z * factor[2]..((z + 1) * factor[2]).min(size[2]) {
                        for j in y * factor[1]..((y + 1) * factor[1]).min(size[1]) {
                            for i in x * factor[0]..((x + 1) * factor[0]).min(size[0]) {
                                sum += f64::from(block[i + size[0] * (j + size[1] * k)]);
                                n += 1.0;
                            }
                        }
                    }
                    out.push((sum / n + 0.5f64).floor() as u16);
                }
            }
        }
        out
    }

    fn noise(n: usize, seed: u64) -> Vec<u16> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u16
        };
        (0..n).map(|_| next()).collect()
    }

    proptest! {
        #[test]
        fn means_are_those_of_a_plain_loop(
            size in prop::array::uniform3(1usize..9), halved in prop::array::uniform3(any::<bool>()), seed: u64,
        ) {
            let n = size.iter().product();
            let block = noise(n, seed);
            let expected = naive(&block, size, halved);
            let mut out = vec![0u16; expected.len()];
            prop_assert!(reduced(&block, size, halved, &mut out));
            prop_assert_eq!(&out, &expected);
            let bytes: Vec<u8> = block.iter().map(|&v| v as u8).collect();
            let mut small = vec![0u8; expected.len()];
            prop_assert!(reduced(&bytes, size, halved, &mut small));
            let wide: Vec<u16> = bytes.iter().map(|&v| v.into()).collect();
            let expected: Vec<u8> = naive(&wide, size, halved).iter().map(|&v| v as u8).collect();
            prop_assert_eq!(small, expected);
        }

        /// Blocks that begin at even pixels, of any even size, give the same pixels as the whole.
        #[test]
        fn blocks_do_not_show(
            size in prop::array::uniform3(1usize..14), cut in prop::array::uniform3(1usize..4), seed: u64,
        ) {
            let halved = halved_axes(size);
            let image = noise(size.iter().product(), seed);
            let to = reduced_size(size, halved);
            let mut whole = vec![0u16; to.iter().product()];
            prop_assert!(reduced(&image, size, halved, &mut whole));
            let mut pieces = vec![u16::MAX; whole.len()];
            for z in (0..to[2]).step_by(cut[2]) {
                for y in (0..to[1]).step_by(cut[1]) {
                    for x in (0..to[0]).step_by(cut[0]) {
                        let start = [x, y, z];
                        let region = Region {
                            start,
                            size: std::array::from_fn(|a| cut[a].min(to[a] - start[a])),
                        };
                        let finer = finer_region(&region, size, halved);
                        let mut block = Vec::new();
                        for k in 0..finer.size[2] {
                            for j in 0..finer.size[1] {
                                let at = finer.start[0]
                                    + size[0] * (j + finer.start[1] + size[1] * (k + finer.start[2]));
                                block.extend_from_slice(&image[at..at + finer.size[0]]);
                            }
                        }
                        let mut out = vec![0u16; region.len()];
                        prop_assert_eq!(reduced_size(finer.size, halved), region.size);
                        prop_assert!(reduced(&block, finer.size, halved, &mut out));
                        for k in 0..region.size[2] {
                            for j in 0..region.size[1] {
                                for i in 0..region.size[0] {
                                    pieces[x + i + to[0] * (y + j + to[1] * (z + k))] =
                                        out[i + region.size[0] * (j + region.size[1] * k)];
                                }
                            }
                        }
                    }
                }
            }
            prop_assert_eq!(pieces, whole);
        }
    }

    #[test]
    fn halves_round_up() {
        let mut out = [0u8; 1];
        assert!(reduced(&[0u8, 1], [2, 1, 1], [true; 3], &mut out));
        assert_eq!(out, [1]);
        assert!(reduced(&[0u8, 0, 0, 1], [2, 2, 1], [true; 3], &mut out));
        assert_eq!(out, [0]);
        assert!(reduced(&[255u8; 8], [2, 2, 2], [true; 3], &mut out));
        assert_eq!(out, [255]);
        let mut wide = [0u16; 1];
        assert!(reduced(&[65535u16; 8], [2, 2, 2], [true; 3], &mut wide));
        assert_eq!(wide, [65535]);
        assert!(!reduced(&[0u8; 7], [2, 2, 2], [true; 3], &mut out));
        assert!(!reduced(&[0u8; 8], [2, 2, 2], [true; 3], &mut []));
        assert!(!reduced(&[0u8; 8], [usize::MAX, 2, 2], [true; 3], &mut out));
        assert!(reduced(&[0u8; 0], [0, 2, 2], [true; 3], &mut []));
    }

    #[test]
    fn threads_change_nothing() {
        let size = [601, 403, 3];
        let block = noise(size.iter().product(), 7);
        let expected = naive(&block, size, [true; 3]);
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut out = vec![0u16; expected.len()];
            assert!(pool.install(|| reduced(&block, size, [true; 3], &mut out)));
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn centres_are_those_of_the_cells() {
        let grid = Grid::axis_aligned([5, 4, 1], [0.5, 0.25, 3.0]).unwrap();
        let halved = halved_axes(grid.dims());
        let half = reduced_grid(&grid, halved).unwrap();
        assert_eq!(half.dims(), [3, 2, 1]);
        assert_eq!(half.spacing(), [1.0, 0.5, 3.0]);
        assert_eq!(half.origin(), Vector3::new(0.25, 0.125, 0.0));
        let quarter = reduced_grid(&half, halved).unwrap();
        // The mean of the centres of four pixels, the first at 0.
        assert_eq!(quarter.origin(), Vector3::new(0.75, 0.375, 0.0));
    }
}
