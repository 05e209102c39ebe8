//! Points: affine maps of points and covectors, displacement by fields, forces at points, and bounds.

use voxalign_compute_macros::forwarded;

use super::resample::check_map;
use super::splat::{self, Extent, Lattice};
use crate::AffineMap;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

/// A map of points: a point `p`, in voxels of a lattice, goes to `A (p + S u(p)) + b`, with the displacement `u(p)`
/// of the lattice there.
#[forwarded]
pub struct Carriage<'a, D: Memory> {
    /// The displacement `u` of every voxel: three components.
    pub field: &'a D::Buffer<f32>,
    /// Its grid, what is beyond it, and how it is interpolated.
    pub lattice: Lattice,
    /// The factors `S` of its components.
    pub scale: [f64; 3],
    /// The map `(A | b)` after it.
    pub map: AffineMap,
}

/// How forces at points are held back, for one field that they are added to; see [`Points::push_points`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The factors of their components, applied first.
    pub factors: [f64; 3],
    /// The largest step of a point, voxels.
    pub step: f64,
    /// Voxels that a unit of velocity makes; none where a unit is a voxel, and each point goes as far as its energy asks for.
    pub pace: Option<f64>,
    /// The factor of all forces.
    pub share: f64,
    /// The factor of the stiffness.
    pub stiffness: f64,
}

/// The most fields that forces are added to at once.
pub const MOST_FIELDS: usize = 2;

impl Bounds {
    /// Of forces at a point, by voxels, with the reach and the stiffness of each component, what is left.
    #[inline]
    pub(crate) fn held(&self, forces: [f64; 3], reach: [f32; 3], stiffness: [f32; 3]) -> [f32; 3] {
        let [inverse, share, weighted, step, unit] = self.numbers();
        let [x, y, z] = [0, 1, 2].map(|a| forces[a] * self.factors[a]);
        let length = (x * x + y * y + z * z).sqrt();
        let held = |a: usize, force: f64| {
            let wanted = share / (inverse + f64::from(stiffness[a]) * weighted + NOTHING);
            let allowed = step / (f64::from(reach[a]) * length + NOTHING);
            (force * wanted.min(allowed) * unit) as f32
        };
        [held(0, x), held(1, y), held(2, z)]
    }

    /// The numbers of the computation: the units of velocity that make a voxel, or none, the factors of forces and
    /// of the stiffness, the step, and the unit of the residual.
    pub(crate) fn numbers(&self) -> [f64; 5] {
        let (inverse, unit) = self.pace.map_or((0.0, 1.0), |pace| (1.0 / pace, 1.0 / pace));
        [inverse, self.share, self.share * self.stiffness, self.step, unit]
    }
}

/// Keeps quotients finite.
pub(crate) const NOTHING: f64 = 1e-30;

/// Affine maps of points, and what they do to covectors: from voxels to mm and back; displacements that carry points, and the
/// forces that what pulls carried points is on these; bounds.
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
#[forwarded]
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

    /// `out = A (p + S u(p)) + b` for every point `p`, in voxels, of a [`Carriage`].
    ///
    /// # Errors
    /// Wrong lengths or sizes; a map or a scale that is not finite; as of [`Splat`](super::Splat).
    fn carry_points(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = (1 + S ∂u(p))ᵀ Aᵀ c` for every covector `c` where a point is [carried](Self::carry_points) to: the derivative in
    /// the point before, by voxels. That of `u` is the derivative of its interpolation as it is, as of
    /// [`gather_with_gradients`](super::Splat::gather_with_gradients).
    ///
    /// # Errors
    /// As [`carry_points`](Self::carry_points).
    fn pull_back(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &Self::Buffer<f32>,
        covectors: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Adds the forces of covectors at carried points to one or two fields, each with [`Bounds`] of its own:
    /// `out[v] += Σ_p w_v(p) g(p)`, as [`add_splat`](super::Splat::add_splat) does.
    ///
    /// With the [pulled back](Self::pull_back) covector times the factors, `f`, the pace `α`, the share `w`, the largest step `m`, and what is given
    /// for each component of a point, the voxels `r` that unit forces move it and the stiffness `k`,
    /// `g = f min(w / (1 + α w s k), m / (α r |f|))`, where `s` is the factor of the stiffness: next to `w f` where the pull
    /// is weak, never more than brings the point to the end of its pull, and nowhere farther than the step. Without a pace
    /// `g = f min(1 / (s k), m / (r |f|))`. Numbers are computed in `f64` and rounded once.
    ///
    /// # Errors
    /// As [`carry_points`](Self::carry_points); another number of fields than of bounds, none, or more than [`MOST_FIELDS`].
    #[allow(clippy::too_many_arguments)]
    fn push_points(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &Self::Buffer<f32>,
        covectors: &Self::Buffer<f32>,
        reach: &Self::Buffer<f32>,
        stiffness: &Self::Buffer<f32>,
        bounds: &[Bounds],
        out: &mut [&mut Self::Buffer<f32>],
    ) -> Result<()>;

    /// Pairs of points that attract each other: `covectors = k (p − q)` for every point `p` of `points` and that of
    /// the same number, `q`, of `to`, with a stiffness `k` for each of the three components of all; and their
    /// energy `Σ k (p − q)² / 2`, which is added to `energy` if `add`, else written there.
    ///
    /// # Errors
    /// Lengths that differ or are no multiple of 3; an energy that is not one number.
    #[allow(clippy::too_many_arguments)]
    fn pull_pairs(
        &self,
        points: &Self::Buffer<f32>,
        to: &Self::Buffer<f32>,
        stiffness: &Self::Buffer<f32>,
        covectors: &mut Self::Buffer<f32>,
        add: bool,
        energy: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// Bounds of points: how many have a coordinate that is not finite, the smallest coordinates of the others
    /// along x, y and z, and the largest: seven numbers. Without points the smallest are +∞ and the largest −∞.
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

/// Checks the arguments of [`Points::carry_points`] and [`Points::pull_back`]; returns the numbers of points and
/// voxels.
///
/// # Errors
/// As there.
pub(crate) fn check_carriage<D: Memory>(
    carriage: &Carriage<'_, D>,
    points: usize,
    out: usize,
) -> Result<Extent> {
    let Carriage { field, lattice, scale, map } = carriage;
    let extent = splat::check(*lattice, points, None, field.len(), points)?;
    check_len("displacement", 3 * extent.voxels, field.len())?;
    check_len("output", points, out)?;
    check_map(map)?;
    match scale.iter().find(|s| !s.is_finite()) {
        None => Ok(extent),
        Some(s) => Err(ComputeError::argument("scale of a displacement", s, "finite numbers")),
    }
}

/// Checks the arguments of [`Points::push_points`], given the lengths of the buffers of points and of the fields.
///
/// # Errors
/// As there.
pub(crate) fn check_push<D: Memory>(
    carriage: &Carriage<'_, D>,
    points: usize,
    each: [usize; 3],
    bounds: usize,
    fields: &[usize],
) -> Result<Extent> {
    let extent = check_carriage(carriage, points, points)?;
    for (what, len) in ["covectors", "reach of points", "stiffness of points"].iter().zip(each) {
        check_len(what, points, len)?;
    }
    if !(1..=MOST_FIELDS).contains(&fields.len()) {
        return Err(ComputeError::argument("fields of forces", fields.len(), "one or two"));
    }
    check_len("bounds of forces", fields.len(), bounds)?;
    for len in fields {
        check_len("field of forces", 3 * extent.voxels, *len)?;
    }
    Ok(extent)
}

/// Checks the lengths of [`Points::pull_pairs`]; the number of points.
///
/// # Errors
/// As there.
pub(crate) fn check_pairs(
    points: usize,
    to: usize,
    stiffness: usize,
    covectors: usize,
    energy: usize,
) -> Result<usize> {
    let count = points / 3;
    check_len("points", 3 * count, points)?;
    check_len("points that pull", points, to)?;
    check_len("stiffness", points, stiffness)?;
    check_len("covectors", points, covectors)?;
    check_len("energy", 1, energy)?;
    Ok(count)
}

/// The map of covectors: the transpose, which moves nothing.
pub(crate) fn of_covectors(map: &AffineMap) -> AffineMap {
    [0, 1, 2].map(|r| [map[0][r], map[1][r], map[2][r], 0.0])
}
