//! Samples and meshes, as the kernels have them.

use crate::AffineMap;
use crate::cuda::{Cuda, CudaBuffer};
use crate::device::DeviceBuffer;
use crate::ops::tetrahedra::{Placed, Samples, Way};

plain! {
    /// From what samples are given by to the space of the nodes or to cells, the sizes of their grid, and their number.
    pub(in crate::cuda) struct Sampling {
        map: AffineMap,
        dims: [u64; 3],
        count: u64,
    }
}

plain! {
    /// The cells of a box along each axis.
    pub(in crate::cuda) struct KuhnCells {
        pub(super) cells: [u64; 3],
    }
}

impl Sampling {
    pub(super) fn new(samples: &Samples<'_, Cuda>, way: &Way) -> Self {
        let dims = samples.dims.map(|n| n as u64);
        Self { map: way.map, dims, count: way.samples as u64 }
    }
}

impl KuhnCells {
    /// Those of the box that samples are in; one where there is none.
    pub(super) fn new(way: &Way) -> Self {
        Self { cells: way.kuhn.map_or([1; 3], |kuhn| kuhn.cells.map(|n| n as u64)) }
    }
}

/// The first parameters of kernels that place samples.
pub(super) struct Place<'a> {
    pub(super) in_box: bool,
    pub(super) sampling: Sampling,
    pub(super) cells: KuhnCells,
    pub(super) points: Option<&'a CudaBuffer<f32>>,
    pub(super) nodes: &'a CudaBuffer<f32>,
    /// The number of nodes.
    pub(super) count: u64,
    pub(super) corners: &'a CudaBuffer<u32>,
    /// The number of elements.
    pub(super) elements: u64,
    pub(super) located: Option<&'a CudaBuffer<u32>>,
}

impl<'a> Place<'a> {
    pub(super) fn new(placed: &Placed<'a, Cuda>, way: &Way) -> Self {
        let mesh = &placed.mesh;
        Self {
            in_box: way.kuhn.is_some(),
            sampling: Sampling::new(&placed.samples, way),
            cells: KuhnCells::new(way),
            points: placed.samples.points,
            nodes: mesh.nodes,
            count: mesh.nodes.len() as u64 / 3,
            corners: mesh.corners,
            elements: mesh.corners.len() as u64 / 4,
            located: placed.elements,
        }
    }
}
