//! Spline interpolation, linear or cubic, between the voxels of a grid and points, and its exact adjoint.
//!
//! A point has a position in voxels of the grid and lies in a cell. With [linear](Spline::Linear) weights each of the eight
//! voxels of the cell has a weight `w_v(p) = Πₐ (1 − |pₐ − vₐ|)`, with [cubic](Spline::Cubic) ones each of the 64 around it.
//! [`gather`](Splat::gather) takes the weighted sum of the voxels to the point, and
//! [`splat`](Splat::splat) the value of the point, weighted the same way, to the voxels (L. K. Ha, 2011, section
//! 3.3.2.2). In the notation of equation (3.13) one is the matrix `N`, the other its transpose: they are adjoint to each
//! other, `⟨N I, e⟩ = ⟨I, Nᵀ e⟩`, and not inverse, as interpolating what was splatted smooths it.
//!
//! The coefficients below (3.13) are printed as `c_ε = Πₐ (εₐ + (1 − 2 εₐ) xₐ)` with the fractional parts `x`: the voxel at
//! `⌊z⌋ + ε` then has the weight `x` for `ε = 0` and `1 − x` for `ε = 1`, and a point on a voxel (`x = 0`) has the value of the
//! next one. Interpolation is exact for `f(z) = z`, so that `⌊z⌋ c₀ + (⌊z⌋ + 1) c₁ = z` with `c₀ + c₁ = 1`: that is `c₁ = x`
//! and `c₀ = 1 − x`. The two are exchanged there; those of the text above are meant.
//!
//! Sums at a voxel are whole numbers of 64 bits, in units of a power of two that follows from the values and their
//! number, so that they cannot overflow. They depend neither on the order of the points nor on the
//! [scheme](SplatScheme), and are the same on every device.

use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len, voxels};

/// The most points.
pub const MOST_POINTS: usize = (1 << 28) - 1;

/// The most voxels of a grid.
const MOST_VOXELS: usize = i32::MAX as usize;

/// Positions of a wrapped grid beyond these are invalid.
pub(crate) const FARTHEST: f32 = (1 << 22) as f32;

/// The boundary condition: values beyond the voxels of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Beyond {
    /// Nothing: points farther than half a voxel from it have the value zero, and give nothing. Nearer ones are moved
    /// to the nearest point of the grid, as by [`Resample`](super::Resample).
    #[default]
    Nothing,
    /// The nearest point of the grid, however far a point is.
    Nearest,
    /// The grid again: it is a torus, as Fourier transforms have it.
    Wrapped,
}

/// The weights of the voxels around a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Spline {
    /// Those of linear interpolation.
    #[default]
    Linear,
    /// Those of the cubic B-spline, whose derivative is smooth. Voxels are its coefficients: they are not interpolated, but
    /// smoothed as `(1, 4, 1) / 6` along each axis.
    Cubic,
}

impl Spline {
    /// The voxels along an axis that a point has weights for.
    #[must_use]
    pub fn nodes(self) -> usize {
        match self {
            Self::Linear => 2,
            Self::Cubic => 4,
        }
    }
}

/// A grid as points see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lattice {
    /// Its sizes.
    pub dims: Dims,
    /// The boundary condition.
    pub beyond: Beyond,
    /// The weights of its voxels.
    pub spline: Spline,
}

impl Lattice {
    /// One with linear weights.
    #[must_use]
    pub fn linear(dims: Dims, beyond: Beyond) -> Self {
        Self { dims, beyond, spline: Spline::Linear }
    }
}

/// How a GPU adds up what meets at a voxel. All give the same bits, and the CPU has one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SplatScheme {
    /// Points that are adjacent in the list add their contributions in shared memory, which is then added to memory
    /// once; where the points of a block are too far apart for that, they add them to memory one by one. The choice
    /// follows from the positions of a block alone.
    #[default]
    Shared,
    /// Each point adds to memory.
    Atomic,
    /// Without atomic operations: contributions are sorted by voxel, summed up by a scan, and the sum of a voxel is
    /// the difference of the scan at the ends of its segment. Takes some 150 bytes a point with linear weights.
    Sorted,
}

impl SplatScheme {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Shared, Self::Atomic, Self::Sorted];

    /// The bytes that it takes on a GPU in addition to input and output, for these numbers of points and voxels,
    /// roughly.
    #[must_use]
    pub fn bytes(self, points: usize, numbers: usize, spline: Spline) -> u64 {
        let sums = 8 * numbers as u64;
        match self {
            Self::Shared | Self::Atomic => sums,
            // Two lists of 4 bytes a contribution and sums of 8, once they are sorted.
            Self::Sorted => sums + 16 * spline.nodes().pow(3) as u64 * points as u64,
        }
    }
}

/// Interpolation at points, and its adjoint.
///
/// Values of points and voxels may have several components, one behind the other: `c` components of `k` points are `c k`
/// floats. Positions are in voxels, all x, then all y, then all z: `3 k` floats. With the sizes `of` another grid they are
/// displacements: voxel `i` of that grid is the point `i + u[i]`, and there are as many as it has voxels. Weights
/// are computed in `f32`; a position that is not a number is beyond every grid.
///
/// # Errors
/// All operators: wrong lengths or sizes; more than [`MOST_POINTS`] (2^28 − 1) points (an eighth of that with cubic weights), or more voxels than 2^31 − 1;
/// memory.
#[forwarded]
pub trait Splat: Memory {
    /// `out[v] = Σ_p w_v(p) values[p]`, for all voxels of the lattice.
    ///
    /// Each of the products is rounded to a unit of 2^−50 of the largest value, or of 2^(k−62) where there are up to `2^k`
    /// points and that is more; their sum is exact. Where a value is not finite, all of `out` is not a number.
    ///
    /// # Errors
    /// As said at [`Splat`].
    #[allow(clippy::too_many_arguments)]
    fn splat(
        &self,
        values: &Self::Buffer<f32>,
        positions: &Self::Buffer<f32>,
        of: Option<Dims>,
        lattice: Lattice,
        scheme: SplatScheme,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out[v] += Σ_p w_v(p) values[p]`, for the voxels that points reach: what it takes grows with the points, and not
    /// with the lattice. The sum of a voxel is that of [`splat`](Self::splat), and is added once.
    ///
    /// # Errors
    /// As said at [`Splat`].
    fn add_splat(
        &self,
        values: &Self::Buffer<f32>,
        positions: &Self::Buffer<f32>,
        lattice: Lattice,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Where a displacement `u` of the lattice leads to given positions: the `m` with `m + u(m) = p`, by Newton's method with
    /// the derivative of the interpolation, and half the step where that leads farther away. `out` is where it starts, and what
    /// is found: after 30 steps, or within 1e-4 voxels. Of a lattice with cubic weights `u` is a spline.
    ///
    /// # Errors
    /// As said at [`Splat`]; a field of other than three components.
    fn origins(
        &self,
        field: &Self::Buffer<f32>,
        lattice: Lattice,
        positions: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out[p] = Σ_v w_v(p) image[v]`, for images of one or more components.
    ///
    /// # Errors
    /// As said at [`Splat`].
    fn gather(
        &self,
        image: &Self::Buffer<f32>,
        lattice: Lattice,
        positions: &Self::Buffer<f32>,
        of: Option<Dims>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The same, and the derivative of `Σ_c moments[c][p] out[c][p]` in the position of each point, by voxels: along x of all
    /// points, then along y, then along z. It is that of the interpolation as it is, with jumps at voxels; zero along
    /// axes of one voxel, and along which a point was moved to the grid.
    ///
    /// # Errors
    /// As said at [`Splat`].
    #[allow(clippy::too_many_arguments)]
    fn gather_with_gradients(
        &self,
        image: &Self::Buffer<f32>,
        lattice: Lattice,
        positions: &Self::Buffer<f32>,
        of: Option<Dims>,
        moments: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
        derivatives: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// The most steps to an origin, and how near its image has to be, voxels.
pub(crate) const ORIGIN_STEPS: usize = 30;
pub(crate) const ORIGIN_NEAR: f64 = 1e-4;

/// The numbers of points and voxels of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) points: usize,
    pub(crate) voxels: usize,
    pub(crate) components: usize,
}

/// Checks the arguments of the operators; `image` and `values` are the lengths of the values on the grid and at
/// points.
pub(crate) fn check(
    Lattice { dims, spline, .. }: Lattice,
    positions: usize,
    of: Option<Dims>,
    image: usize,
    values: usize,
) -> Result<Extent> {
    let voxels_ = voxels("grid sizes", dims)?;
    if voxels_ > MOST_VOXELS {
        return Err(ComputeError::argument("number of voxels", voxels_, "at most 2147483647"));
    }
    let points = match of {
        Some(of) => voxels("sizes of the displaced grid", of)?,
        None => positions / 3,
    };
    if points > 8 * MOST_POINTS / spline.nodes().pow(3) {
        let remedy = "at most 268435455, an eighth with cubic weights; splat them in pieces";
        return Err(ComputeError::argument("number of points", points, remedy));
    }
    check_len("positions", 3 * points, positions)?;
    let components = (image / voxels_).max(1);
    check_len("values on the grid", components * voxels_, image)?;
    check_len("values of points", components * points, values)?;
    Ok(Extent { points, voxels: voxels_, components })
}

/// Checks the lengths of moments and derivatives at points.
pub(crate) fn check_derivatives(extent: &Extent, moments: usize, derivatives: usize) -> Result<()> {
    check_len("moments", extent.components * extent.points, moments)?;
    check_len("derivatives", 3 * extent.points, derivatives)
}

/// Checks the arguments of [`Splat::origins`]; the number of points.
pub(crate) fn check_origins(
    lattice: Lattice,
    field: usize,
    positions: usize,
    out: usize,
) -> Result<usize> {
    let extent = check(lattice, positions, None, field, positions)?;
    check_len("field", 3 * extent.voxels, field)?;
    check_len("origins", positions, out)?;
    Ok(extent.points)
}

/// The number of bits of the largest contribution of this many points.
pub(crate) fn bits_for(points: usize) -> i32 {
    let count = usize::BITS - points.saturating_sub(1).leading_zeros();
    50.min(62 - count as i32)
}

/// Units by value, given the largest value; not a number where values are not all finite.
pub(crate) fn units(largest: f64, not_finite: f64, bits: i32) -> f64 {
    if not_finite > 0.0 {
        return f64::NAN;
    }
    if largest <= 0.0 {
        return 1.0;
    }
    // The largest is below the next power of two.
    let exponent = (largest.to_bits() >> 52) as i32 - 1023 + 1;
    f64::from_bits(((bits - exponent + 1023) as u64) << 52)
}

/// The voxels along an axis that a point has weights for, with these and their derivatives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Along<const N: usize> {
    pub(crate) index: [usize; N],
    pub(crate) weight: [f32; N],
    pub(crate) derivative: [f32; N],
}

/// The cell of a position along an axis of `n` voxels: the first index, the distance from it, and whether values change
/// there; none beyond the grid.
#[inline]
fn cell(p: f32, n: usize, beyond: Beyond) -> Option<(usize, f32, bool)> {
    if beyond == Beyond::Wrapped {
        if p.is_nan() || p.abs() > FARTHEST {
            return None;
        }
        let (size, below) = (n as f32, p.floor());
        let mut first = below - size * (below / size).floor();
        if first < 0.0 {
            first += size;
        }
        if first >= size {
            first -= size;
        }
        return Some((first as usize, p - below, n > 1));
    }
    let last = (n - 1) as f32;
    let near = beyond == Beyond::Nearest && !p.is_nan();
    if !(near || p >= -0.5 && p <= last + 0.5) {
        return None;
    }
    let at = p.max(0.0).min(last);
    let first = (at as usize).min(n.saturating_sub(2));
    Some((first, at - first as f32, at == p && n > 1))
}

impl<const N: usize> Along<N> {
    #[inline]
    pub(crate) fn new(p: f32, n: usize, beyond: Beyond) -> Option<Self> {
        let (first, t, inside) = cell(p, n, beyond)?;
        let mut along = Self { index: [0; N], weight: [0.0; N], derivative: [0.0; N] };
        let before = N / 2 - 1;
        for (k, index) in along.index.iter_mut().enumerate() {
            *index = match beyond {
                Beyond::Wrapped => (first + n * before + k - before) % n,
                _ => (first + k).saturating_sub(before).min(n - 1),
            };
        }
        let s = 1.0 - t;
        let (weight, derivative) = (&mut along.weight[..], &mut along.derivative[..]);
        if N == 2 {
            weight.copy_from_slice(&[s, t]);
            derivative.copy_from_slice(&[-1.0, 1.0]);
        } else {
            let (t2, s2) = (t * t, s * s);
            let (t3, s3) = (t2 * t, s2 * s);
            let sixth = 1.0f32 / 6.0;
            weight.copy_from_slice(&[
                s3 * sixth,
                (3.0 * t3 - 6.0 * t2 + 4.0) * sixth,
                (3.0 * s3 - 6.0 * s2 + 4.0) * sixth,
                t3 * sixth,
            ]);
            derivative.copy_from_slice(&[
                -0.5 * s2,
                1.5 * t2 - 2.0 * t,
                2.0 * s - 1.5 * s2,
                0.5 * t2,
            ]);
        }
        if !inside {
            along.derivative = [0.0; N];
        }
        Some(along)
    }
}

/// The same along all axes.
#[inline]
pub(crate) fn around<const N: usize>(
    at: [f32; 3],
    dims: Dims,
    beyond: Beyond,
) -> Option<[Along<N>; 3]> {
    Some([
        Along::new(at[0], dims[0], beyond)?,
        Along::new(at[1], dims[1], beyond)?,
        Along::new(at[2], dims[2], beyond)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_leave_room_for_all_points() {
        for points in [0, 1, 2, 3, 4096, 4097, 1 << 20, MOST_POINTS] {
            let bits = bits_for(points);
            assert!(points as f64 * f64::from(bits).exp2() <= 62f64.exp2() && bits <= 50);
            for largest in [1e-45f32, 1e-3, 1.0, 1.5, 3e38] {
                let most = f64::from(largest) * units(largest.into(), 0.0, bits);
                assert!(most <= f64::from(bits).exp2() && most >= f64::from(bits - 1).exp2());
            }
        }
        assert!(units(1.0, 1.0, 50).is_nan() && units(f64::INFINITY, 1.0, 50).is_nan());
    }

    /// Linear interpolation reproduces places; with the coefficients as they are printed below (3.13) it does not.
    #[test]
    fn weights_are_not_exchanged() {
        for p in [0.0f32, 0.25, 2.75, 6.5] {
            let along = Along::<2>::new(p, 9, Beyond::Nothing).unwrap();
            let x = p - p.floor();
            let c = |e: f32| e + (1.0 - 2.0 * e) * x;
            assert_eq!(along.weight, [c(1.0), c(0.0)]);
            let place = |w: [f32; 2]| (0..2).map(|k| w[k] * along.index[k] as f32).sum::<f32>();
            assert_eq!(place(along.weight), p);
            assert!(x == 0.5 || place([c(0.0), c(1.0)]) != p, "{p}");
        }
    }

    #[test]
    fn cells_are_those_of_the_grid() {
        let of = |p, n, beyond| {
            Along::<2>::new(p, n, beyond).map(|a| (a.index, a.weight[1], a.derivative[1] != 0.0))
        };
        assert_eq!(of(1.25, 4, Beyond::Nothing), Some(([1, 2], 0.25, true)));
        assert_eq!(of(3.0, 4, Beyond::Nothing), Some(([2, 3], 1.0, true)));
        assert_eq!(of(3.5, 4, Beyond::Nothing), Some(([2, 3], 1.0, false)));
        assert_eq!(of(3.51, 4, Beyond::Nothing), None);
        assert_eq!(of(9.0, 4, Beyond::Nearest), Some(([2, 3], 1.0, false)));
        assert_eq!(of(0.25, 1, Beyond::Nearest), Some(([0, 0], 0.0, false)));
        assert_eq!(of(3.5, 4, Beyond::Wrapped), Some(([3, 0], 0.5, true)));
        assert_eq!(of(-0.25, 4, Beyond::Wrapped), Some(([3, 0], 0.75, true)));
        assert_eq!(of(9.0, 4, Beyond::Wrapped), Some(([1, 2], 0.0, true)));
        for beyond in [Beyond::Nothing, Beyond::Nearest, Beyond::Wrapped] {
            assert_eq!(of(f32::NAN, 4, beyond), None);
        }
    }
    #[test]
    fn cubic_weights_are_those_of_the_spline() {
        let at = |p| Along::<4>::new(p, 9, Beyond::Wrapped).unwrap();
        assert_eq!(at(0.25).index, [8, 0, 1, 2]);
        assert_eq!(Along::<4>::new(0.25, 9, Beyond::Nearest).unwrap().index, [0, 0, 1, 2]);
        assert_eq!(Along::<4>::new(7.5, 9, Beyond::Nearest).unwrap().index, [6, 7, 8, 8]);
        for p in [0.0, 0.25, 3.5, 8.9] {
            let (here, there) = (at(p), at(p + 1e-3));
            assert!((here.weight.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            assert!(here.derivative.iter().sum::<f32>().abs() < 1e-6);
            for k in 0..4 {
                if here.index == there.index {
                    let derivative = (there.weight[k] - here.weight[k]) / 1e-3;
                    assert!((derivative - here.derivative[k]).abs() < 2e-3, "{p} {k}");
                }
            }
            // They reproduce the place itself.
            let place: f32 =
                here.weight.iter().zip([-1.0, 0.0, 1.0, 2.0]).map(|(w, k)| w * k).sum();
            assert!((place - (p - p.floor())).abs() < 1e-6);
        }
    }
}
