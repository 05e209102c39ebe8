//! What operators on meshes are lent.

use voxalign_compute_macros::forwarded;

use crate::device::Memory;
use crate::ops::simplices::Incidence;
use crate::{AffineMap, Dims, IDENTITY};

/// A box of equal cells, each cut into six tetrahedra that share its diagonal from the lowest to the highest corner (H. W. Kuhn, 1960; H. Freudenthal,
/// 1942).
///
/// Of `n` cells along an axis there are `n + 1` nodes, x fastest, and so are cells. Tetrahedron `6 c + q` of cell `c` is the path from the lowest corner to the
/// highest along the axes of permutation `q` of 012, 021, 102, 120, 201, 210; in the odd ones (021, 102, 210) the two nodes in the middle are
/// exchanged, so that all volumes are positive where the map keeps the hand.
///
/// A point is in the path of the order of its coordinates within the cell, largest first, of equal ones the lower axis first. With these
/// coordinates in that order, `s_1 ≥ s_2 ≥ s_3`, its weights along the path are `1 − s_1`, `s_1 − s_2`, `s_2 − s_3` and `s_3`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KuhnBox {
    /// The number of cells along each axis, at least 1.
    pub cells: [usize; 3],
    /// From the space of nodes and samples to cells: the lowest corner of the box to 0, the highest to the number of cells.
    pub map: AffineMap,
}

impl KuhnBox {
    /// The number of nodes; saturated where it does not fit.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.cells.iter().fold(1usize, |n, c| n.saturating_mul(c.saturating_add(1)))
    }

    /// The number of elements; saturated where it does not fit.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.cells.iter().fold(6usize, |n, &c| n.saturating_mul(c))
    }
}

/// A mesh of tetrahedra.
#[derive(Debug)]
#[forwarded]
pub struct Mesh<'a, D: Memory> {
    /// Positions of the nodes: all x, all y, all z.
    pub nodes: &'a D::Buffer<f32>,
    /// Four nodes for each element.
    pub corners: &'a D::Buffer<u32>,
    /// The box that the mesh is, where it is one. None of a mesh that was deformed: samples are located in it by bins.
    pub kuhn: Option<KuhnBox>,
}

/// Where samples are: at the voxels of a grid, or at points.
#[derive(Debug)]
#[forwarded]
pub struct Samples<'a, D: Memory> {
    /// The sizes of the grid; without meaning for points.
    pub dims: Dims,
    /// From indices of voxels, or from points, to the space of the nodes.
    pub map: AffineMap,
    /// Points: all x, all y, all z. Every voxel of the grid is a sample where there are none.
    pub points: Option<&'a D::Buffer<f32>>,
}

impl<'a, D: Memory> Samples<'a, D> {
    /// Every voxel of a grid, x fastest, at the position that `map` gives its index.
    #[must_use]
    pub fn voxels(dims: Dims, map: AffineMap) -> Self {
        Self { dims, map, points: None }
    }

    /// Points in the space of the nodes.
    #[must_use]
    pub fn points(points: &'a D::Buffer<f32>) -> Self {
        Self { dims: [0; 3], map: IDENTITY, points: Some(points) }
    }
}

/// Samples in a mesh.
#[forwarded]
pub struct Placed<'a, D: Memory> {
    /// The mesh, in the shape in which samples are located.
    pub mesh: Mesh<'a, D>,
    /// The samples.
    pub samples: Samples<'a, D>,
    /// The element of each, as [`locate`](super::Tetrahedra::locate) gives it. Not needed in a [`KuhnBox`], and not read there.
    pub elements: Option<&'a D::Buffer<u32>>,
}

/// What nodes gather by. [`SampleLists`](super::SampleLists) makes the lists of samples,
/// [`incidence`](crate::ops::simplices::incidence) those of elements.
#[forwarded]
pub struct Gather<'a, D: Memory> {
    /// Where the samples of each element begin: one more than there are elements.
    pub starts: &'a D::Buffer<u32>,
    /// The samples of each element, in rising order; what is beyond those of the last is in no element.
    pub samples: &'a D::Buffer<u32>,
    /// The corners at each node, as places in the list of the corners of all elements, in rising order.
    pub incidence: Incidence<'a, D>,
}

/// Where samples were before.
#[derive(Debug)]
#[forwarded]
pub struct Hint<'a, D: Memory> {
    /// The element of each sample, or [`OUTSIDE`](super::OUTSIDE).
    pub elements: &'a D::Buffer<u32>,
    /// Four elements for each element: the one beyond the face opposite to each of its corners, or [`OUTSIDE`](super::OUTSIDE). See
    /// [`neighbours`](super::neighbours).
    pub neighbours: &'a D::Buffer<u32>,
}

/// A grid of cubes in which elements are looked for. What is outside counts for the nearest of its cubes, so that any grid serves: it is a matter of
/// speed alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BinGrid {
    /// The lowest corner, in the space of the nodes.
    pub origin: [f64; 3],
    /// The edge of a cube.
    pub edge: f64,
    /// The number of cubes along each axis.
    pub dims: Dims,
}

impl BinGrid {
    /// For so many elements between two corners: cubes of twice the edge of one as large as a mean element of a mesh that fills
    /// the box between them.
    #[must_use]
    pub fn between(low: [f64; 3], high: [f64; 3], elements: usize) -> Self {
        let sides = [0, 1, 2].map(|a| (high[a] - low[a]).max(0.0));
        let longest = sides.iter().copied().fold(0.0, f64::max);
        // Flat boxes have a thickness for this.
        let volume: f64 = sides.iter().map(|&side| side.max(1e-3 * longest)).product();
        let edge = 2.0 * (volume / elements.max(1) as f64).cbrt();
        let edge = if edge > 0.0 && edge.is_finite() { edge } else { 1.0 };
        let dims = sides.map(|side| (side / edge).ceil().clamp(1.0, 1024.0) as usize);
        Self { origin: low, edge, dims }
    }

    /// The number of cubes; saturated where it does not fit.
    #[must_use]
    pub fn count(&self) -> usize {
        self.dims.iter().fold(1usize, |n, &d| n.saturating_mul(d))
    }
}

/// Elements by bin. [`Bins`](super::Bins) makes them.
#[derive(Debug)]
#[forwarded]
pub struct BinLists<'a, D: Memory> {
    /// The bins.
    pub grid: BinGrid,
    /// Where the elements of each bin begin: one more than there are bins.
    pub starts: &'a D::Buffer<u32>,
    /// The elements whose boxes meet each bin, in rising order.
    pub elements: &'a D::Buffer<u32>,
}
