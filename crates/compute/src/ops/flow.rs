//! Displacement fields that flow along velocities, the forces that drive them, and their measures.
//!
//! A vector field over `n` voxels is one buffer of `3 n` elements: all x, then all y, then all z
//! components; displacements are in voxels of their own grid.

use voxalign_compute_macros::forwarded;

use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len, voxels};
use crate::ops::resample::{check_map, check_source, in_order};
use crate::ops::stencil::{check_spacing, laplacian_factors};
use crate::{AffineMap, Dims};

/// The step of a field: `factor · scale[a]` times component `a` of the velocity.
#[forwarded]
pub struct Step<'a, D: Memory> {
    /// Voxels for a unit of velocity along each axis.
    pub scale: [f64; 3],
    /// The source of the factor; 1 without.
    pub limit: Option<Limit<'a, D>>,
}

/// A factor that follows from the largest velocity, which is on the device.
#[forwarded]
pub struct Limit<'a, D: Memory> {
    /// A buffer with the largest velocity at `index`.
    pub largest: &'a D::Buffer<f64>,
    /// Its place.
    pub index: usize,
    /// The step that the largest velocity makes: `factor = step / largest`, or 0 where that is not
    /// finite.
    pub step: f64,
    /// The largest factor; infinite for any.
    pub most: f64,
}

/// When the inversion of a field ends. By default at 1/1000 voxel, or after 30 iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inversion {
    /// The largest residual that will do, voxels.
    pub tolerance: f64,
    /// The most iterations a voxel.
    pub iterations: usize,
}

impl Default for Inversion {
    fn default() -> Self {
        Self { tolerance: 1e-3, iterations: 30 }
    }
}

/// How an inversion ended.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Inverted {
    /// The largest residual `|w[i] + u(i + w[i])|`, voxels.
    pub largest: f64,
    /// Voxels whose residual is above the tolerance.
    pub unconverged: u64,
}

/// Flows of displacement fields.
#[forwarded]
pub trait Flow: Memory {
    /// The displacement of a small step and then of `field`: with `s[i] = factor · scale · v[i]`,
    /// `out[i] = s[i] + u(i + s[i])`, the update `φ ∘ (id + ε v)` of Algorithm 2 of Ha (2011). Linear
    /// interpolation; positions outside take the displacement of the nearest point of the grid.
    ///
    /// # Errors
    /// Wrong lengths or sizes, of which those of [`check_source`] are the limits; a scale or step that
    /// is not finite; a limit whose place is beyond its buffer.
    fn advance(
        &self,
        field: &Self::Buffer<f32>,
        velocity: &Self::Buffer<f32>,
        step: &Step<'_, Self>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The displacement `w` that takes back that of `field`: `w[i] + u(i + w[i]) = 0`, with `u`
    /// interpolated linearly and held at the border. `out` is the start (zeros will do), and gets the
    /// result.
    /// Newton's method at each voxel with the derivative of the interpolation, damped where the
    /// residual does not shrink. A voxel of numbers that are not finite does not converge, and has an
    /// infinite residual.
    ///
    /// # Errors
    /// Wrong lengths or sizes, of which those of [`check_source`] are the limits; a tolerance that is not above zero.
    fn invert_field(
        &self,
        field: &Self::Buffer<f32>,
        dims: Dims,
        how: Inversion,
        out: &mut Self::Buffer<f32>,
    ) -> Result<Inverted>;

    /// A force: `out[a] = derivative · ∂ₐ image`, with the differences of
    /// [`Stencil::gradient`](super::Stencil::gradient) and the `spacing` of each axis; added to `out` if `add`.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a spacing that is zero or not finite.
    fn force(
        &self,
        derivative: &Self::Buffer<f32>,
        image: &Self::Buffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        add: bool,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The force of an energy of the warped image on the displacements: the derivative of the energy in the values that
    /// [`Resample::warp_field`](super::Resample::warp_field) gives with linear interpolation, carried on to the field.
    /// For each index `i` of the grid `out_dims`, with the displacements `u` in voxels of that grid and
    /// `p = map (i + u[i])`, `out[a][i] = derivative[i] · Σ_b units[b][a] · ∂_b src(p)`: the derivative of the
    /// trilinear interpolation itself, by indices of `src`, where it is computed.
    ///
    /// `units[b][a]` is the change of index `b` of `src` for a unit of component `a` of what moves: the linear part of
    /// the map where that is `u`.
    ///
    /// Where the interpolation has a kink, at a voxel, it is the derivative towards the next voxel, and at the last
    /// one that from the voxel before. The derivative along an axis is 0 where the interpolation is constant: in the
    /// outer half voxel, and on an axis of one voxel. It is 0 along all axes at positions outside of the grid of `src`,
    /// and at those that are not a number.
    ///
    /// # Errors
    /// Wrong lengths or sizes, of which those of [`check_source`] are the limits; a map that is not finite; units that
    /// are not finite in single precision.
    #[allow(clippy::too_many_arguments)]
    fn force_at(
        &self,
        derivative: &Self::Buffer<f32>,
        src: &Self::Buffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: &Self::Buffer<f32>,
        out_dims: Dims,
        units: &[[f64; 3]; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Three numbers of a field to `out`: the largest length, the sum of lengths and the sum of their
    /// squares, of the vectors `scale[a] v[a]`, all in double precision. Lengths that are not numbers
    /// take no part in the largest.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a scale that is not finite.
    fn field_norms(
        &self,
        field: &Self::Buffer<f32>,
        scale: [f64; 3],
        out: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// Two numbers of a field to `out`: the sums over voxels of the harmonic energy
    /// `Σ_ab (∂_b vₐ)²`, with the differences of [`Stencil::gradient`](super::Stencil::gradient), and of the
    /// bending energy `Σ_abc (∂_b ∂_c vₐ)²`, with second differences along one axis as those of
    /// [`Stencil::laplacian`](super::Stencil::laplacian) and products of the first across two. Components
    /// are multiplied by `scale[a]` first; derivatives are by the `spacing`.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a scale that is not finite, or a spacing that is zero or not finite, or
    /// whose square is not.
    fn field_energies(
        &self,
        field: &Self::Buffer<f32>,
        dims: Dims,
        scale: [f64; 3],
        spacing: [f64; 3],
        out: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// The length of each vector: `out[i] = |scale[a] v[a][i]|`, in single precision.
    ///
    /// # Errors
    /// Wrong lengths; a scale that is not finite.
    fn field_lengths(
        &self,
        field: &Self::Buffer<f32>,
        scale: [f64; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// How far each displacement points out of the grid, voxels: the distance of `i + u[i]` from the box of the
    /// centres of the voxels, 0 within it.
    ///
    /// # Errors
    /// Wrong lengths or sizes, of which those of [`check_source`] are the limits.
    fn field_overshoot(
        &self,
        field: &Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Moves each vector part of the way to that of another field, or to zero without one: `v[a][i] += weight[i]
    /// (other[a][i] − v[a][i])`.
    ///
    /// # Errors
    /// Wrong lengths.
    fn blend_fields(
        &self,
        other: Option<&Self::Buffer<f32>>,
        weight: &Self::Buffer<f32>,
        field: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Each number rounded to half precision (IEEE binary16, to nearest, ties to even).
    ///
    /// # Errors
    /// Wrong lengths.
    fn to_half(&self, src: &Self::Buffer<f32>, out: &mut Self::Buffer<u16>) -> Result<()>;

    /// Numbers of half precision as single precision.
    ///
    /// # Errors
    /// Wrong lengths.
    #[allow(clippy::wrong_self_convention)] // `self` is the device, the buffer is what is turned
    fn to_single(&self, src: &Self::Buffer<u16>, out: &mut Self::Buffer<f32>) -> Result<()>;
}

/// Checks the arguments of [`Flow::advance`].
///
/// # Errors
/// As there.
pub fn check_advance<D: Memory>(
    field: usize,
    velocity: usize,
    step: &Step<'_, D>,
    dims: Dims,
    out: usize,
) -> Result<()> {
    let n = check_source(dims)?;
    check_len("field", 3 * n, field)?;
    check_len("velocity", 3 * n, velocity)?;
    check_len("output", 3 * n, out)?;
    check_scale(step.scale)?;
    match &step.limit {
        Some(limit) if !limit.step.is_finite() => {
            Err(ComputeError::argument("step", limit.step, "finite"))
        }
        Some(limit) if limit.most.is_nan() => {
            Err(ComputeError::argument("largest factor", limit.most, "a number"))
        }
        Some(limit) if limit.index >= limit.largest.len() => {
            let expected = "a place in the buffer of the largest velocity";
            Err(ComputeError::argument("index", limit.index, expected))
        }
        _ => Ok(()),
    }
}

/// Checks the arguments of [`Flow::force`].
///
/// # Errors
/// As there.
pub fn check_force(
    derivative: usize,
    image: usize,
    dims: Dims,
    spacing: [f64; 3],
    out: usize,
) -> Result<()> {
    let n = voxels("sizes", dims)?;
    check_len("derivative", n, derivative)?;
    check_len("image", n, image)?;
    check_len("output", 3 * n, out)?;
    check_spacing(spacing)
}

/// Checks the arguments of [`Flow::force_at`].
///
/// # Errors
/// As there.
pub fn check_force_at(
    derivative: usize,
    (src, src_dims): (usize, Dims),
    map: &AffineMap,
    (field, out_dims): (usize, Dims),
    units: &[[f64; 3]; 3],
    out: usize,
) -> Result<()> {
    check_len("source", check_source(src_dims)?, src)?;
    check_map(map)?;
    let n = voxels("output sizes", out_dims)?;
    check_len("derivative", n, derivative)?;
    check_len("field", 3 * n, field)?;
    check_len("output", 3 * n, out)?;
    match units.iter().flatten().find(|&&unit| !(unit as f32).is_finite()) {
        None => Ok(()),
        Some(unit) => Err(ComputeError::argument("unit", unit, "finite, also in single precision")),
    }
}

/// Checks the arguments of [`Flow::field_norms`], and gives the number of voxels.
///
/// # Errors
/// As there.
pub fn check_norms(field: usize, scale: [f64; 3], out: usize) -> Result<usize> {
    let n = check_field(field)?;
    check_len("output", 3, out)?;
    check_scale(scale)?;
    Ok(n)
}

/// Checks the arguments of [`Flow::field_energies`], and gives the factors of second differences.
///
/// # Errors
/// As there.
pub fn check_energies(
    field: usize,
    dims: Dims,
    scale: [f64; 3],
    spacing: [f64; 3],
    out: usize,
) -> Result<[f32; 3]> {
    check_len("field", 3 * voxels("sizes", dims)?, field)?;
    check_len("output", 2, out)?;
    check_scale(scale)?;
    laplacian_factors(spacing)
}

/// Checks the arguments of [`Flow::field_lengths`], and gives the number of voxels.
///
/// # Errors
/// As there.
pub fn check_lengths(field: usize, scale: [f64; 3], out: usize) -> Result<usize> {
    let n = check_field(field)?;
    check_len("output", n, out)?;
    check_scale(scale)?;
    Ok(n)
}

/// Checks the arguments of [`Flow::blend_fields`], and gives the number of voxels.
///
/// # Errors
/// As there.
pub fn check_blend(other: Option<usize>, weight: usize, field: usize) -> Result<usize> {
    let n = check_field(field)?;
    check_len("weight", n, weight)?;
    other.map_or(Ok(()), |other| check_len("other field", field, other))?;
    Ok(n)
}

/// Checks the arguments of [`Flow::field_overshoot`], and gives the number of voxels.
///
/// # Errors
/// As there.
pub fn check_overshoot(field: usize, dims: Dims, out: usize) -> Result<usize> {
    let n = check_source(dims)?;
    check_len("field", 3 * n, field)?;
    check_len("output", n, out)?;
    Ok(n)
}

/// The factor of a step whose largest velocity is `largest`: see [`Limit`].
pub fn factor(largest: f64, step: f64, most: f64) -> f64 {
    let factor = step / largest;
    if factor.is_finite() { factor.min(most) } else { 0.0 }
}

/// Checks that a scale is finite.
fn check_scale(scale: [f64; 3]) -> Result<()> {
    match scale.iter().find(|s| !s.is_finite()) {
        None => Ok(()),
        Some(s) => Err(ComputeError::argument("scale", s, "finite")),
    }
}

/// Checks the length of a field, three numbers a voxel, and gives its number of voxels.
fn check_field(field: usize) -> Result<usize> {
    check_len("field", field.next_multiple_of(3), field)?;
    Ok(field / 3)
}

/// The units of [`Flow::force_at`] as kernels have them, by the component of the output: the axes of the source of the
/// sizes `dims` are in the order of [`in_order`].
pub(crate) fn units_in_order(dims: Dims, units: &[[f64; 3]; 3]) -> [[f32; 3]; 3] {
    let rows = units.map(|[x, y, z]| [x, y, z, 0.0]);
    let (_, _, rows) = in_order(dims, &rows);
    [0, 1, 2].map(|a| rows.map(|row| row[a] as f32))
}

/// Steps of an inversion that are halved until they are shorter than this part go another way.
pub(crate) const SHORTEST: f32 = 0.05;

/// The least determinant, of a matrix whose elements are of the order of one, that is divided by.
pub(crate) const SINGULAR: f32 = 1e-3;

/// The square of a tolerance, as an ordinary number.
pub(crate) fn tolerance_of_squares(tolerance: f64) -> f32 {
    (tolerance * tolerance).clamp(1e-30, 1e30) as f32
}

/// Checks the arguments of [`Flow::invert_field`].
///
/// # Errors
/// As there.
pub fn check_inversion(field: usize, dims: Dims, how: &Inversion, out: usize) -> Result<usize> {
    let n = check_source(dims)?;
    check_len("field", 3 * n, field)?;
    check_len("output", 3 * n, out)?;
    if how.tolerance > 0.0 && how.tolerance.is_finite() {
        Ok(n)
    } else {
        Err(ComputeError::argument("tolerance", how.tolerance, "above zero and finite"))
    }
}
