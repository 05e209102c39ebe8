//! Meshes of tetrahedra on the GPU.

pub(super) mod covectors;
pub(super) mod gather;
pub(super) mod locate;
mod place;
pub(super) mod strain;

use std::sync::LazyLock;

use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::Tetrahedra;
use crate::ops::tetrahedra::{
    BinGrid, BinLists, Gather, Hint, Mesh, Placed, Samples, check_field, check_placed, values_of,
};
use place::{KuhnCells, Place, Sampling};

kernels! { SAMPLES = "tetrahedra/samples.cu";
    fn weights[256](
        sampling: Sampling, box_: KuhnCells, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64,
        located: &[u32], out: &mut [f32],
    );
    fn to_samples[256](
        sampling: Sampling, box_: KuhnCells, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64,
        located: &[u32], values: &[f32], components: u32, out: &mut [f32],
    );
    fn field[256](
        sampling: Sampling, box_: KuhnCells, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64,
        located: &[u32], displacements: &[f32], units: Units, out: &mut [f32],
    );
}

/// The kernels for elements that are listed, and for boxes.
static PROGRAMS: LazyLock<[SAMPLES; 2]> =
    LazyLock::new(|| [0i64, 1].map(|in_box| SAMPLES.with(&[("BOX", in_box)])));

fn program(place: &Place<'_>) -> &'static SAMPLES {
    &PROGRAMS[usize::from(place.in_box)]
}

plain! {
    /// The linear map of displacements to voxels.
    pub(super) struct Units {
        m: [[f64; 3]; 3],
    }
}

impl Tetrahedra for Cuda {
    fn locate(
        &self,
        mesh: &Mesh<'_, Self>,
        samples: &Samples<'_, Self>,
        bins: Option<BinLists<'_, Self>>,
        hint: Option<Hint<'_, Self>>,
        elements: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        self.located(mesh, samples, bins, hint, elements)
    }

    fn weights(&self, placed: &Placed<'_, Self>, out: &mut CudaBuffer<f32>) -> Result<()> {
        let way = check_placed(placed)?;
        check_len("weights of samples", 4 * way.samples, out.len())?;
        if way.samples == 0 {
            return Ok(());
        }
        let (p, shape) = (Place::new(placed, &way), Shape::covering(way.samples, 256));
        // SAFETY: there are four numbers for each sample, nodes of corners are within the mesh, and elements of samples too.
        unsafe {
            program(&p).weights(
                self, shape, p.sampling, p.cells, p.points, p.nodes, p.count, p.corners,
                p.elements, p.located, out,
            )
        }
    }

    fn to_samples(
        &self,
        placed: &Placed<'_, Self>,
        values: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let way = check_placed(placed)?;
        let nodes = placed.mesh.nodes.len() / 3;
        let components = values_of(nodes, values.len(), way.samples, out.len())? as u32;
        if way.samples == 0 {
            return Ok(());
        }
        let (p, shape) = (Place::new(placed, &way), Shape::covering(way.samples, 256));
        // SAFETY: as above; there are as many numbers for each node and sample as components.
        unsafe {
            program(&p).to_samples(
                self, shape, p.sampling, p.cells, p.points, p.nodes, p.count, p.corners,
                p.elements, p.located, values, components, out,
            )
        }
    }

    fn field(
        &self,
        placed: &Placed<'_, Self>,
        displacements: &CudaBuffer<f32>,
        units: &[[f64; 3]; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let way = check_field(placed, displacements.len(), units, out.len())?;
        if way.samples == 0 {
            return Ok(());
        }
        let (p, shape) = (Place::new(placed, &way), Shape::covering(way.samples, 256));
        let units = Units { m: *units };
        // SAFETY: as above, with three components.
        unsafe {
            program(&p).field(
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
                displacements,
                units,
                out,
            )
        }
    }

    fn to_nodes(
        &self,
        placed: &Placed<'_, Self>,
        lists: Option<Gather<'_, Self>>,
        values: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.sums_at_nodes(placed, lists, values, out)
    }

    fn sample_covectors(
        &self,
        placed: &Placed<'_, Self>,
        nodes: &CudaBuffer<f32>,
        covectors: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.covectors_of_samples(placed, nodes, covectors, out)
    }

    fn bin_offsets(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &mut CudaBuffer<u32>,
        count: &mut CudaBuffer<u64>,
    ) -> Result<()> {
        self.offsets_of_bins(mesh, grid, offsets, count)
    }

    fn bin_pairs(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &CudaBuffer<u32>,
        bins: &mut CudaBuffer<u32>,
        elements: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        self.pairs_of_bins(mesh, grid, offsets, bins, elements)
    }

    fn key_starts(&self, keys: &CudaBuffer<u32>, starts: &mut CudaBuffer<u32>) -> Result<()> {
        self.starts_of_keys(keys, starts)
    }

    fn ratios(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CudaBuffer<f32>,
        ratios: &mut CudaBuffer<f32>,
        least: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        self.ratios_of(mesh, displacements, ratios, least)
    }

    fn strain(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CudaBuffer<f32>,
        shear: &CudaBuffer<f32>,
        strains: &mut CudaBuffer<f32>,
        mises: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.strains_of(mesh, displacements, shear, strains, mises)
    }
}
