//! Edits of the inside of a surface, voxel by voxel, before the surface is extracted.

use std::collections::VecDeque;
use voxalign_image::memory::{self, OutOfMemory};
use voxalign_image::{ImageError, Volume};

/// Keeps the largest part of the voxels of at least `level`; all others become `outside`. Parts are connected
/// through sides of voxels, as in [`isosurface`](crate::isosurface()). Returns the number of parts.
///
/// # Errors
/// [`ImageError::OutOfMemory`].
pub fn keep_largest(
    image: &mut Volume<f32>,
    level: f32,
    outside: f32,
) -> Result<usize, ImageError> {
    let inside = memory::collected(image.data().iter().map(|v| *v >= level))?;
    let flood = Flood { dims: image.dims(), diagonal: false };
    let (mut part, mut sizes) = (memory::filled(inside.len(), 0u32)?, Vec::new());
    for start in 0..inside.len() {
        if inside[start] && part[start] == 0 {
            let number = sizes.len() as u32 + 1;
            let size = flood.fill(start, &mut part, number, |i| inside[i])?;
            memory::push(&mut sizes, size)?;
        }
    }
    // The first of the largest ones.
    let largest =
        sizes.iter().copied().max().and_then(|most| sizes.iter().position(|s| *s == most));
    let kept = largest.map_or(0, |i| i as u32 + 1);
    for (value, &part) in image.data_mut().iter_mut().zip(&part) {
        if part != 0 && part != kept {
            *value = outside;
        }
    }
    Ok(sizes.len())
}

/// Fills enclosed cavities below `level`, from which there is no way out of the image, not even along diagonals:
/// they become `inside`. Returns the number of filled voxels.
///
/// # Errors
/// [`ImageError::OutOfMemory`].
pub fn fill_cavities(
    image: &mut Volume<f32>,
    level: f32,
    inside: f32,
) -> Result<usize, ImageError> {
    let dims = image.dims();
    let [nx, ny, nz] = dims;
    let open = memory::collected(image.data().iter().map(|v| *v < level || v.is_nan()))?;
    let flood = Flood { dims, diagonal: true };
    let mut reached = memory::filled(open.len(), 0u32)?;
    for start in 0..open.len() {
        let (x, y, z) = (start % nx, start / nx % ny, start / nx / ny);
        // Nothing leads out of an image of two dimensions across its plane.
        let in_depth = nz > 1 && (z == 0 || z == nz - 1);
        let at_border = in_depth || x == 0 || y == 0 || x == nx - 1 || y == ny - 1;
        if at_border && open[start] && reached[start] == 0 {
            flood.fill(start, &mut reached, 1, |i| open[i])?;
        }
    }
    let mut filled = 0;
    for (i, value) in image.data_mut().iter_mut().enumerate() {
        if open[i] && reached[i] == 0 {
            *value = inside;
            filled += 1;
        }
    }
    Ok(filled)
}

/// Ways from voxel to voxel.
struct Flood {
    dims: [usize; 3],
    /// Along diagonals as well.
    diagonal: bool,
}

impl Flood {
    /// Marks all that can be reached from a voxel, and counts it.
    fn fill(
        &self,
        start: usize,
        marks: &mut [u32],
        mark: u32,
        passes: impl Fn(usize) -> bool,
    ) -> Result<usize, OutOfMemory> {
        let [nx, ny, nz] = self.dims;
        let mut waiting = VecDeque::new();
        let mut count = 0;
        marks[start] = mark;
        waiting.push_back(start);
        while let Some(i) = waiting.pop_front() {
            count += 1;
            let at = [i % nx, i / nx % ny, i / nx / ny];
            for step in 0..27 {
                let by = [step % 3, step / 3 % 3, step / 9];
                let along = by.iter().filter(|b| **b != 1).count();
                if along == 0 || (along > 1 && !self.diagonal) {
                    continue;
                }
                let to = [0, 1, 2].map(|a| (at[a] + by[a]).wrapping_sub(1));
                if to[0] >= nx || to[1] >= ny || to[2] >= nz {
                    continue;
                }
                let j = (to[2] * ny + to[1]) * nx + to[0];
                if marks[j] == 0 && passes(j) {
                    marks[j] = mark;
                    if waiting.len() == waiting.capacity() {
                        let more = waiting.len().max(1024);
                        memory::ask::<usize, _>(more, || waiting.try_reserve(more).ok())?;
                    }
                    waiting.push_back(j);
                }
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    fn image(inside: impl Fn(usize, usize, usize) -> bool) -> Volume<f32> {
        let grid = Grid::axis_aligned([10, 9, 8], [1.0; 3]).unwrap();
        Volume::from_fn(grid, |x, y, z| f32::from(u8::from(inside(x, y, z))))
    }

    #[test]
    fn holes_of_an_image_of_two_dimensions_are_filled() {
        let grid = Grid::axis_aligned([5, 5, 1], [1.0; 3]).unwrap();
        let mut ring = Volume::from_fn(grid, |x, y, _| {
            f32::from(u8::from(x.abs_diff(2).max(y.abs_diff(2)) == 1))
        });
        assert_eq!(fill_cavities(&mut ring, 0.5, 1.0).unwrap(), 1);
        assert_eq!(ring.data().iter().sum::<f32>(), 9.0);
    }

    #[test]
    fn the_largest_part_stays() {
        // Two cubes that touch along an edge are two parts.
        let mut both = image(|x, y, z| {
            z < 3 && (x < 3 && y < 3 || (3..5).contains(&x) && (3..5).contains(&y))
        });
        assert_eq!(keep_largest(&mut both, 0.5, 0.0).unwrap(), 2);
        assert_eq!(both.data().iter().sum::<f32>(), 27.0);
        assert_eq!(keep_largest(&mut image(|_, _, _| false), 0.5, 0.0).unwrap(), 0);
    }

    #[test]
    fn cavities_are_filled_and_bays_are_not() {
        let shell = |x: usize, y: usize, z: usize| {
            let far = x.abs_diff(4).max(y.abs_diff(4)).max(z.abs_diff(4));
            far == 2
        };
        let mut closed = image(shell);
        assert_eq!(fill_cavities(&mut closed, 0.5, 1.0).unwrap(), 27);
        assert_eq!(closed.data().iter().sum::<f32>(), 125.0);
        // A way out along a diagonal.
        let mut open = image(|x, y, z| shell(x, y, z) && [x, y, z] != [2, 2, 4]);
        assert_eq!(fill_cavities(&mut open, 0.5, 1.0).unwrap(), 0);
    }
}
