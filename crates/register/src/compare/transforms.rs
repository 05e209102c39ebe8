//! Distances between two transforms at given points.

use super::{CompareError, same_grid};
use rayon::prelude::*;
use serde::Serialize;
use voxalign_image::{Grid, Transform, Vector3, Volume, memory};

/// Distances between the positions to which two transforms map the voxels of a grid, mm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransformScores {
    /// Number of voxels compared.
    pub voxels: usize,
    /// Mean distance.
    pub mean: f64,
    /// 95th percentile: the distance that no more than one voxel in 20 exceeds.
    pub p95: f64,
    /// Largest distance.
    pub max: f64,
    /// The world position of the voxel where it is largest.
    pub max_at: [f64; 3],
}

/// Compares two transforms at the voxels of a grid where `mask` is above 0 (everywhere without one).
///
/// # Errors
/// [`CompareError::Grids`] where the mask is on another grid; [`CompareError::Nothing`] for a mask
/// without voxels.
pub fn compare_transforms(
    a: &Transform,
    b: &Transform,
    grid: &Grid,
    mask: Option<&Volume<f32>>,
) -> Result<TransformScores, CompareError> {
    if let Some(mask) = mask {
        same_grid(grid, mask.grid())?;
    }
    let [nx, ny, nz] = grid.dims();
    let place = |i: usize| {
        let index = [i % nx, i / nx % ny, i / nx / ny].map(|v| v as f64);
        grid.index_to_world(Vector3::from(index))
    };
    let counts = |i: usize| mask.is_none_or(|m| m.data()[i] > 0.0);
    let distance = |i: usize| (a.apply(place(i)) - b.apply(place(i))).norm();
    let all = (0..nx * ny * nz).into_par_iter().with_min_len(nx);
    let mut distances =
        memory::par_collected(all.map(|i| if counts(i) { distance(i) } else { 0.0 }))?;
    let (mut sum, mut largest) = (0.0, (0, -1.0));
    for (i, &d) in distances.iter().enumerate().filter(|(i, _)| counts(*i)) {
        sum += d;
        if d > largest.1 {
            largest = (i, d);
        }
    }
    let mut at = 0;
    distances.retain(|_| {
        at += 1;
        counts(at - 1)
    });
    let count = distances.len();
    if count == 0 {
        return Err(CompareError::Nothing { why: "the mask has no voxel above 0" });
    }
    let at = (count * 19).div_ceil(20).saturating_sub(1);
    let (_, p95, _) = distances.select_nth_unstable_by(at, f64::total_cmp);
    Ok(TransformScores {
        voxels: count,
        mean: sum / count as f64,
        p95: *p95,
        max: largest.1,
        max_at: place(largest.0).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, Displacement, VectorField};

    #[test]
    fn distances_by_hand() {
        let grid = Grid::axis_aligned([20, 2, 1], [2.0, 1.0, 1.0]).unwrap();
        let field = VectorField::from_world_fn(grid.clone(), |w| Vector3::new(0.0, w[0], 0.0));
        let a = Transform::Displacement(Displacement::new(field));
        let b = Transform::Affine(Affine::translation(Vector3::new(0.0, 0.0, 0.0)));
        let s = compare_transforms(&a, &b, &grid, None).unwrap();
        assert_eq!((s.voxels, s.mean, s.p95, s.max), (40, 19.0, 36.0, 38.0));
        assert_eq!(s.max_at, [38.0, 0.0, 0.0]);
        let mask = Volume::from_fn(grid.clone(), |x, _, _| if x == 3 { 1.0 } else { 0.0 });
        let s = compare_transforms(&a, &b, &grid, Some(&mask)).unwrap();
        assert_eq!((s.voxels, s.mean, s.p95, s.max), (2, 6.0, 6.0, 6.0));
        let none = mask.map(|_| 0.0);
        assert!(compare_transforms(&a, &b, &grid, Some(&none)).is_err());
        let other = Volume::filled(Grid::axis_aligned([3, 2, 1], [1.0; 3]).unwrap(), 1.0);
        assert!(compare_transforms(&a, &b, &grid, Some(&other)).is_err());
    }
}
