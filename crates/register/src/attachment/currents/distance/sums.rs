//! How sums over all pairs of elements are computed, exactly or on a grid: chosen once for a pair of shapes.

use super::super::particle_mesh::{MOST_VOXELS, MeshGrid, usual};
use super::super::shape::Shape;
use crate::error::{RegisterError, Result};
use voxalign_compute::ops::pairwise::RadialKernel;

/// How sums over all pairs of elements are to be made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Summation {
    /// Pair by pair where that is less work than a grid of the [`usual`] spacings a width, or that grid would be too
    /// large; else on that grid.
    #[default]
    Automatic,
    /// Pair by pair.
    Exact,
    /// On a grid of this spacing, mm. The width of the kernel must be
    /// [`narrowest`](super::super::narrowest) spacings at least.
    Grid(f64),
}

/// How sums over all pairs of elements are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sums {
    /// Pair by pair.
    Exact,
    /// On a grid.
    Grid {
        /// Its spacing, mm.
        spacing: f64,
    },
}

impl Sums {
    /// Whether they are made pair by pair.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Exact)
    }
}

/// Pairs that take as long as a voxel of the grid.
const PAIRS_A_VOXEL: f64 = 200.0;

/// Pairs that are worth a word: they take a processor a second or so.
const MANY_PAIRS: f64 = 1e9;

/// How far points may move before the grid is rebuilt, as a fraction of the extent of both shapes.
pub(super) const ROOM: f64 = 0.2;

/// A grid that is too large for [`Summation::Automatic`]: many pairs are summed one by one instead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TooLarge {
    /// Its spacing, mm.
    pub spacing: f64,
    /// Its voxels, of which 2^28 are too many.
    pub voxels: f64,
    /// The pairs of elements that are summed at a step instead, both ways.
    pub pairs: f64,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { spacing, voxels, pairs } = self;
        write!(
            f,
            "a grid of {spacing} mm would have {voxels:.1e} voxels, which is too many: the {pairs:.1e} pairs of \
             elements are summed directly; a wider kernel is faster"
        )
    }
}

/// The grid that a pair of shapes would need.
struct Weighed {
    spacing: f64,
    voxels: f64,
    pairs: f64,
}

fn weigh(kernel: &RadialKernel, shapes: [&Shape; 2]) -> Weighed {
    let spacing = kernel.width / usual(kernel.shape);
    let [a, b] = shapes.map(|s| Shape::bounds(s.vertices()));
    let around = roomy(&union(&a, &b));
    let voxels = MeshGrid::sizes(&around, kernel, spacing).iter().product();
    // Each side with itself and with the other.
    let elements = (shapes[0].len() + shapes[1].len()) as f64;
    Weighed { spacing, voxels, pairs: elements * elements }
}

/// How sums are made for a pair of shapes, the same in both directions. It follows from the shapes and the kernel
/// alone, not from the device.
///
/// # Errors
/// A kernel whose width is not above 0, or that is too narrow for the grid that is asked for; such a grid that is too
/// large.
pub fn decide(summation: Summation, kernel: &RadialKernel, shapes: [&Shape; 2]) -> Result<Sums> {
    check_width(kernel)?;
    match summation {
        Summation::Exact => Ok(Sums::Exact),
        Summation::Grid(spacing) => {
            let [a, b] = shapes.map(|s| Shape::bounds(s.vertices()));
            MeshGrid::around(roomy(&union(&a, &b)), kernel, spacing)?;
            Ok(Sums::Grid { spacing })
        }
        Summation::Automatic => {
            let Weighed { spacing, voxels, pairs } = weigh(kernel, shapes);
            // A grid for each direction.
            let less = pairs > PAIRS_A_VOXEL * 2.0 * voxels;
            let fits = voxels <= MOST_VOXELS as f64;
            Ok(if less && fits { Sums::Grid { spacing } } else { Sums::Exact })
        }
    }
}

/// Whether [`decide`] sums many pairs one by one as the grid would be too large.
#[must_use]
pub fn too_large(
    summation: Summation,
    kernel: &RadialKernel,
    shapes: [&Shape; 2],
) -> Option<TooLarge> {
    if summation != Summation::Automatic || check_width(kernel).is_err() {
        return None;
    }
    let Weighed { spacing, voxels, pairs } = weigh(kernel, shapes);
    let is_large = voxels > MOST_VOXELS as f64 && pairs > MANY_PAIRS;
    is_large.then_some(TooLarge { spacing, voxels, pairs })
}

pub(super) fn check_width(kernel: &RadialKernel) -> Result<()> {
    if kernel.width > 0.0 && kernel.width.is_finite() {
        return Ok(());
    }
    Err(RegisterError::option("kernel width", kernel.width, "give a number above 0"))
}

/// The bounds of both.
pub(super) fn union(a: &[[f64; 3]; 2], b: &[[f64; 3]; 2]) -> [[f64; 3]; 2] {
    let all = [0, 1, 2];
    [all.map(|k| a[0][k].min(b[0][k])), all.map(|k| a[1][k].max(b[1][k]))]
}

/// The longest extent.
pub(super) fn longest(bounds: &[[f64; 3]; 2]) -> f64 {
    (0..3).map(|a| bounds[1][a] - bounds[0][a]).fold(0.0, f64::max)
}

/// The same with room on all sides.
pub(super) fn roomy(bounds: &[[f64; 3]; 2]) -> [[f64; 3]; 2] {
    let room = ROOM * longest(bounds);
    [bounds[0].map(|v| v - room), bounds[1].map(|v| v + room)]
}
