//! Sums of what is at samples, at the nodes.

use std::sync::LazyLock;

use super::place::{KuhnCells, Place, Sampling};
use crate::AffineMap;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::sparse::WIDE;
use crate::ops::tetrahedra::{
    BLOCK, Gather, KuhnBox, Placed, Way, check_nodes, check_placed, inverse_of, values_of,
};

/// The threads of a block of a cell, as the kernel has them.
const OF_A_CELL: u32 = BLOCK as u32;

kernels! { GATHER = "tetrahedra/gather.cu";
    fn element_sums_by_threads[256](
        sampling: Sampling, box_: KuhnCells, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64,
        located: &[u32], starts: &[u32], samples: &[u32], listed: u64, values: &[f32], parts: &mut [f64],
    );
    fn element_sums_by_warps[256](
        sampling: Sampling, box_: KuhnCells, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64,
        located: &[u32], starts: &[u32], samples: &[u32], listed: u64, values: &[f32], parts: &mut [f64],
    );
}

kernels! { NODES = "tetrahedra/nodes.cu";
    fn node_sums[256](
        parts: &[f64], corners: u64, starts: &[u32], places: &[u32], nodes: u64, out: &mut [f32],
    );
    fn cell_sums[OF_A_CELL](
        sampling: Sampling, box_: KuhnCells, from: FromCells, values: &[f32], sums: &mut [f64],
    );
    fn cell_nodes[256](box_: KuhnCells, sums: &[f64], nodes: u64, out: &mut [f32]);
}

plain! {
    /// From cells to indices of voxels.
    pub(in crate::cuda) struct FromCells {
        map: AffineMap,
    }
}

/// The kernels for one and for three components, for elements that are listed and for boxes.
static ELEMENTS: LazyLock<[[GATHER; 2]; 2]> = LazyLock::new(|| {
    [1i64, 3].map(|components| {
        [0i64, 1].map(|in_box| GATHER.with(&[("BOX", in_box), ("COMPONENTS", components)]))
    })
});

/// The kernels for one and for three components.
static SUMS: LazyLock<[NODES; 2]> =
    LazyLock::new(|| [1i64, 3].map(|components| NODES.with(&[("COMPONENTS", components)])));

impl Cuda {
    /// As [`Tetrahedra::to_nodes`](crate::ops::Tetrahedra::to_nodes).
    pub(super) fn sums_at_nodes(
        &self,
        placed: &Placed<'_, Self>,
        lists: Option<Gather<'_, Self>>,
        values: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let way = check_placed(placed)?;
        let nodes = placed.mesh.nodes.len() / 3;
        let components = values_of(nodes, out.len(), way.samples, values.len())?;
        let lists = check_nodes(placed, lists)?;
        if nodes == 0 {
            return Ok(());
        }
        match (lists, way.kuhn) {
            (Some(lists), _) => self.by_elements(placed, &way, &lists, components, values, out),
            (None, Some(kuhn)) => self.by_cells(placed, &way, kuhn, components, values, out),
            (None, None) => Ok(()),
        }
    }

    /// By the lists of the samples of elements.
    fn by_elements(
        &self,
        placed: &Placed<'_, Self>,
        way: &Way,
        lists: &Gather<'_, Self>,
        components: usize,
        values: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (nodes, elements) = (placed.mesh.nodes.len() / 3, placed.mesh.corners.len() / 4);
        let mut parts = self.alloc_unset::<f64>(4 * components * elements)?;
        let p = Place::new(placed, way);
        let of = usize::from(components == 3);
        if elements > 0 {
            self.element_sums(&ELEMENTS[of][usize::from(p.in_box)], &p, lists, values, &mut parts)?;
        }
        let (shape, corners) = (Shape::covering(nodes, 256), 4 * elements as u64);
        let (starts, places) = (lists.incidence.starts, lists.incidence.corners);
        // SAFETY: places are within the list of corners, which have `components` parts each.
        unsafe {
            SUMS[of].node_sums(self, shape, &parts, corners, starts, places, nodes as u64, out)
        }
    }

    /// The sums of the samples of each element.
    fn element_sums(
        &self,
        program: &GATHER,
        p: &Place<'_>,
        lists: &Gather<'_, Self>,
        values: &CudaBuffer<f32>,
        parts: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let (elements, listed) = (p.elements as usize, lists.samples.len());
        let (starts, samples) = (lists.starts, lists.samples);
        // SAFETY: samples that are listed are within theirs, and elements and corners within the mesh; there is room for what each
        // corner has.
        unsafe {
            if listed >= WIDE * elements {
                program.element_sums_by_warps(
                    self,
                    Shape::covering(32 * elements, 256),
                    p.sampling,
                    p.cells,
                    p.points,
                    p.nodes,
                    p.count,
                    p.corners,
                    p.elements,
                    p.located,
                    starts,
                    samples,
                    listed as u64,
                    values,
                    parts,
                )
            } else {
                program.element_sums_by_threads(
                    self,
                    Shape::covering(elements, 256),
                    p.sampling,
                    p.cells,
                    p.points,
                    p.nodes,
                    p.count,
                    p.corners,
                    p.elements,
                    p.located,
                    starts,
                    samples,
                    listed as u64,
                    values,
                    parts,
                )
            }
        }
    }

    /// Voxels in a box.
    fn by_cells(
        &self,
        placed: &Placed<'_, Self>,
        way: &Way,
        kuhn: KuhnBox,
        components: usize,
        values: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let from = FromCells { map: inverse_of(&way.map)? };
        let cells = kuhn.elements() / 6;
        let mut sums = self.alloc_unset::<f64>(8 * components * cells)?;
        let (sampling, of) = (Sampling::new(&placed.samples, way), KuhnCells::new(way));
        let program = &SUMS[usize::from(components == 3)];
        let nodes = kuhn.nodes();
        // SAFETY: voxels are within the grid, and there is room for what the corners of each cell have.
        unsafe {
            let shape = Shape::blocks(cells, OF_A_CELL);
            program.cell_sums(self, shape, sampling, of, from, values, &mut sums)?;
            program.cell_nodes(self, Shape::covering(nodes, 256), of, &sums, nodes as u64, out)
        }
    }
}
