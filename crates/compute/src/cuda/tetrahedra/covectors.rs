//! Covectors at samples, from other positions of the nodes to those of the mesh.

use std::sync::LazyLock;

use super::place::{KuhnCells, Place, Sampling};
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::tetrahedra::{Placed, check_covectors};

kernels! { COVECTORS = "tetrahedra/covectors.cu";
    fn sample_covectors[256](
        sampling: Sampling, box_: KuhnCells, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64,
        located: &[u32], to_cells: ToCells, others: &[f32], covectors: &[f32], out: &mut [f32],
    );
}

/// The kernels for elements that are listed, and for boxes.
static PROGRAMS: LazyLock<[COVECTORS; 2]> =
    LazyLock::new(|| [0i64, 1].map(|in_box| COVECTORS.with(&[("BOX", in_box)])));

plain! {
    /// The linear map from the space of the nodes to cells of a box.
    pub(in crate::cuda) struct ToCells {
        m: [[f64; 3]; 3],
    }
}

impl Cuda {
    /// As [`Tetrahedra::sample_covectors`](crate::ops::Tetrahedra::sample_covectors).
    pub(super) fn covectors_of_samples(
        &self,
        placed: &Placed<'_, Self>,
        nodes: &CudaBuffer<f32>,
        covectors: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let way = check_covectors(placed, nodes.len(), covectors.len(), out.len())?;
        if way.samples == 0 {
            return Ok(());
        }
        let (p, shape) = (Place::new(placed, &way), Shape::covering(way.samples, 256));
        let m = way.kuhn.map_or([[0.0; 3]; 3], |kuhn| kuhn.map.map(|[x, y, z, _]| [x, y, z]));
        // SAFETY: there are three numbers for each sample and node, and nodes of corners are within the mesh.
        unsafe {
            PROGRAMS[usize::from(p.in_box)].sample_covectors(
                self,
                shape,
                p.sampling,
                p.cells,
                p.points,
                p.nodes,
                p.count,
                p.corners,
                p.elements,
                p.located,
                ToCells { m },
                nodes,
                covectors,
                out,
            )
        }
    }
}
