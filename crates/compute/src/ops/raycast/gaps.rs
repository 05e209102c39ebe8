//! Empty-space skipping: a coarse map of the empty parts of a volume.
//!
//! Bricks of [`BRICK`]³ cells cover the cells between voxels, those beyond the border included: a cell begins at the voxel below it,
//! and the first at the place −1. A brick is occupied where a corner of one of its cells is not 0.

use crate::Dims;
use crate::error::Result;
use voxalign_image::memory;

/// The cells of a brick along each axis.
pub const BRICK: usize = 8;
/// The value of an occupied brick in the map.
pub const OCCUPIED: f32 = -1.0;

/// The bricks along each axis: voxels from −1 to n begin cells.
#[must_use]
pub fn bricks(dims: Dims) -> Dims {
    dims.map(|n| (n + 2).div_ceil(BRICK))
}

/// The bricks that a voxel occupies along an axis, from its number.
#[must_use]
pub fn occupied_by(voxel: usize) -> [usize; 2] {
    // Its cells begin at voxel - 1 and voxel; cells count from -1.
    [voxel / BRICK, (voxel + 1) / BRICK]
}

/// How far a ray may go from anywhere in a brick along each axis, voxels, until it may meet something: from which
/// bricks are occupied (not 0). 0 where only the brick itself is known to be empty, [`OCCUPIED`] where it is not.
///
/// # Errors
/// [`ComputeError::OutOfMemory`](crate::ComputeError::OutOfMemory): it takes four bytes for each brick, and nothing else.
pub fn leaps(occupied: &[u32], bricks: Dims) -> Result<Vec<f32>> {
    let [nx, ny, nz] = bricks;
    // Distances in bricks, first; more than any that there is. Single precision has all of them.
    let far = (nx + ny + nz) as f32;
    let mut distance = memory::collected(occupied.iter().map(|&o| if o != 0 { 0.0 } else { far }))?;
    // The distance along the longest axis, by two passes over the neighbours before and after.
    let at = |x: usize, y: usize, z: usize| x + nx * (y + ny * z);
    let neighbours: [[i64; 3]; 13] = std::array::from_fn(|i| {
        let i = i as i64;
        [i % 3 - 1, i / 3 % 3 - 1, i / 9 - 1]
    });
    let mut pass = |backwards: bool| {
        let n = nx * ny * nz;
        for i in 0..n {
            let i = if backwards { n - 1 - i } else { i };
            let place = [i % nx, i / nx % ny, i / nx / ny];
            let mut least = distance[i];
            for step in &neighbours {
                let sign = if backwards { -1 } else { 1 };
                let other = [0, 1, 2].map(|a| place[a] as i64 + sign * step[a]);
                if (0..3).all(|a| (0..bricks[a] as i64).contains(&other[a])) {
                    let [x, y, z] = other.map(|o| o as usize);
                    least = least.min(distance[at(x, y, z)] + 1.0);
                }
            }
            distance[i] = least;
        }
    };
    pass(false);
    pass(true);
    for d in &mut distance {
        *d = if *d == 0.0 { OCCUPIED } else { (*d - 1.0) * BRICK as f32 };
    }
    Ok(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaps_are_the_longest_that_are_safe() {
        let bricks = [5, 4, 3];
        for seed in 0..20u64 {
            let hash = |i: u64| (i + seed * 977).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59;
            let occupied: Vec<u32> = (0..60).map(|i| u32::from(hash(i) == 3)).collect();
            let found = leaps(&occupied, bricks).unwrap();
            let place = |i: usize| [i % 5, i / 5 % 4, i / 20];
            for (i, found) in found.iter().enumerate() {
                let distance = |j: usize| {
                    let (a, b) = (place(i), place(j));
                    (0..3).map(|x| a[x].abs_diff(b[x])).max().unwrap()
                };
                let nearest = (0..60).filter(|&j| occupied[j] != 0).map(distance).min();
                let expected = match nearest {
                    Some(0) => OCCUPIED,
                    Some(d) => ((d - 1) * BRICK) as f32,
                    None => ((5 + 4 + 3 - 1) * BRICK) as f32,
                };
                assert_eq!(*found, expected, "{i}");
            }
        }
    }
}
