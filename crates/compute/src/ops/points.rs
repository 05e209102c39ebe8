//! Points: affine maps of them and of covectors, and where they are.

use super::resample::check_map;
use crate::AffineMap;
use crate::device::Memory;
use crate::error::{Result, check_len};

/// Affine maps of points, and what they do to covectors: from voxels to mm and back; bounds.
///
/// Points and covectors are three floats each: all x, then all y, then all z. Numbers are computed in `f64` and rounded
/// once, so that all devices give the same bits; where coordinates are large beside what matters, the map had better move the
/// origin as well.
///
/// ```
/// use voxalign_compute::ops::Points;
/// use voxalign_compute::{Memory, cpu::Cpu};
///
/// // Voxels of 2 mm, the first at (−90, −126, −72) mm.
/// let map = [[2.0, 0.0, 0.0, -90.0], [0.0, 2.0, 0.0, -126.0], [0.0, 0.0, 2.0, -72.0]];
/// let cpu = Cpu::new(None)?;
/// let (voxels, mut mm) = (cpu.upload(&[0.0, 1.0, 0.0, 2.0, 0.0, 3.0])?, cpu.alloc(6)?);
/// cpu.map_points(&map, &voxels, &mut mm)?;
/// assert_eq!(cpu.into_host(mm)?, [-90.0, -88.0, -126.0, -122.0, -72.0, -66.0]);
/// # Ok::<(), voxalign_compute::ComputeError>(())
/// ```
pub trait Points: Memory {
    /// `out = A p + b` for every point `p`, of the map `(A | b)`.
    ///
    /// # Errors
    /// Lengths that differ or are no multiple of 3; a map that is not finite.
    fn map_points(
        &self,
        map: &AffineMap,
        points: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = Aᵀ c` for every covector `c`: given the derivative of an energy in the mapped points, that in the points
    /// before the map.
    ///
    /// # Errors
    /// As [`map_points`](Self::map_points).
    fn map_covectors(
        &self,
        map: &AffineMap,
        covectors: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Where points are: how many have a coordinate that is not finite, the smallest coordinates of the others along x, y
    /// and z, and the largest: seven numbers. Of no points the smallest are +∞ and the largest −∞.
    ///
    /// # Errors
    /// A length that is no multiple of 3, or an output that has not room for seven numbers.
    fn point_bounds(&self, points: &Self::Buffer<f32>, out: &mut Self::Buffer<f64>) -> Result<()>;
}

/// The bounds of no points, as [`Points::point_bounds`] has them.
pub(crate) const NOWHERE: [f64; 7] = {
    let (least, most) = (f64::INFINITY, f64::NEG_INFINITY);
    [0.0, least, least, least, most, most, most]
};

/// Checks the arguments of [`Points::point_bounds`]; the number of points.
///
/// # Errors
/// As there.
pub fn check_bounds(points: usize, out: usize) -> Result<usize> {
    let count = points / 3;
    check_len("points", 3 * count, points)?;
    check_len("output", NOWHERE.len(), out)?;
    Ok(count)
}

/// Checks the arguments of [`Points::map_points`] and [`Points::map_covectors`]; the number of points.
///
/// # Errors
/// As there.
pub fn check_points(map: &AffineMap, points: usize, out: usize) -> Result<usize> {
    let count = points / 3;
    check_len("points", 3 * count, points)?;
    check_len("output", points, out)?;
    check_map(map)?;
    Ok(count)
}

/// The map of covectors: the transpose, which moves nothing.
pub(crate) fn of_covectors(map: &AffineMap) -> AffineMap {
    [0, 1, 2].map(|r| [map[0][r], map[1][r], map[2][r], 0.0])
}
