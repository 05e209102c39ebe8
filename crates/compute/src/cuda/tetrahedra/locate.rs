//! The search for elements.

use super::place::{KuhnCells, Sampling};
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::tetrahedra::{
    BinGrid, BinLists, Hint, Mesh, Samples, check_bins, check_locate, check_pairs, check_starts,
};

/// The threads of the block that adds up numbers of bins, as the kernel has them.
const SCANNING: u32 = 1024;

kernels! { LOCATE = "tetrahedra/locate.cu";
    fn locate_in_box[256](sampling: Sampling, box_: KuhnCells, points: &[f32], out: &mut [u32]);
    fn locate_by_bins[256](
        sampling: Sampling, points: &[f32], nodes: &[f32], count: u64, corners: &[u32], elements: u64, grid: BinSpace,
        starts: &[u32], listed: &[u32], pairs: u64, before: &[u32], neighbours: &[u32], out: &mut [u32],
    );
    fn bin_counts[256](
        nodes: &[f32], count: u64, corners: &[u32], elements: u64, grid: BinSpace, counts: &mut [u64],
    );
    fn bin_offsets[SCANNING](counts: &[u64], elements: u64, offsets: &mut [u32], sum: &mut [u64]);
    fn bin_pairs[256](
        nodes: &[f32], count: u64, corners: &[u32], elements: u64, grid: BinSpace, offsets: &[u32], pairs: u64,
        bins: &mut [u32], of: &mut [u32],
    );
    fn key_starts[256](keys: &[u32], count: u64, numbers: u64, starts: &mut [u32]);
}

plain! {
    /// The lowest corner of the bins, their edge, and their number along each axis.
    pub(in crate::cuda) struct BinSpace {
        origin: [f64; 3],
        edge: f64,
        dims: [u64; 3],
    }
}

impl BinSpace {
    fn new(grid: &BinGrid) -> Self {
        Self { origin: grid.origin, edge: grid.edge, dims: grid.dims.map(|n| n as u64) }
    }
}

impl Cuda {
    /// As [`Tetrahedra::locate`](crate::ops::Tetrahedra::locate).
    pub(super) fn located(
        &self,
        mesh: &Mesh<'_, Self>,
        samples: &Samples<'_, Self>,
        bins: Option<BinLists<'_, Self>>,
        hint: Option<Hint<'_, Self>>,
        out: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        let way = check_locate(mesh, samples, bins.as_ref(), hint.as_ref(), out.len())?;
        if way.samples == 0 {
            return Ok(());
        }
        let (shape, sampling) = (Shape::covering(way.samples, 256), Sampling::new(samples, &way));
        if way.kuhn.is_some() {
            let cells = KuhnCells::new(&way);
            // SAFETY: there is a number for each sample.
            return unsafe {
                LOCATE.locate_in_box(self, shape, sampling, cells, samples.points, out)
            };
        }
        let Some(bins) = bins else { return Ok(()) };
        let (nodes, corners) = (mesh.nodes, mesh.corners);
        let (count, elements) = (nodes.len() as u64 / 3, corners.len() as u64 / 4);
        let (grid, pairs) = (BinSpace::new(&bins.grid), bins.elements.len() as u64);
        let (before, neighbours) = (hint.map(|h| h.elements), hint.map(|h| h.neighbours));
        // SAFETY: as above; bins are within their grid, places within the list, and elements that are none of the mesh are left out.
        unsafe {
            LOCATE.locate_by_bins(
                self,
                shape,
                sampling,
                samples.points,
                nodes,
                count,
                corners,
                elements,
                grid,
                bins.starts,
                bins.elements,
                pairs,
                before,
                neighbours,
                out,
            )
        }
    }

    /// As [`Tetrahedra::bin_offsets`](crate::ops::Tetrahedra::bin_offsets).
    pub(super) fn offsets_of_bins(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &mut CudaBuffer<u32>,
        count: &mut CudaBuffer<u64>,
    ) -> Result<()> {
        let (nodes, elements) = check_bins(mesh, grid, offsets.len(), count.len())?;
        let mut counts = self.alloc_unset::<u64>(elements)?;
        let (n, all) = (nodes as u64, elements as u64);
        // SAFETY: there is a number for each element.
        unsafe {
            if elements > 0 {
                let (shape, grid) = (Shape::covering(elements, 256), BinSpace::new(grid));
                LOCATE.bin_counts(
                    self,
                    shape,
                    mesh.nodes,
                    n,
                    mesh.corners,
                    all,
                    grid,
                    &mut counts,
                )?;
            }
            LOCATE.bin_offsets(self, Shape::blocks(1, SCANNING), &counts, all, offsets, count)
        }
    }

    /// As [`Tetrahedra::bin_pairs`](crate::ops::Tetrahedra::bin_pairs).
    pub(super) fn pairs_of_bins(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &CudaBuffer<u32>,
        bins: &mut CudaBuffer<u32>,
        of: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        let (nodes, elements) = check_pairs(mesh, grid, offsets.len(), bins.len(), of.len())?;
        if elements == 0 {
            return Ok(());
        }
        let (n, all, pairs) = (nodes as u64, elements as u64, bins.len() as u64);
        let (shape, grid) = (Shape::covering(elements, 256), BinSpace::new(grid));
        // SAFETY: pairs beyond their number are left out.
        unsafe {
            LOCATE.bin_pairs(
                self,
                shape,
                mesh.nodes,
                n,
                mesh.corners,
                all,
                grid,
                offsets,
                pairs,
                bins,
                of,
            )
        }
    }

    /// As [`Tetrahedra::key_starts`](crate::ops::Tetrahedra::key_starts).
    pub(super) fn starts_of_keys(
        &self,
        keys: &CudaBuffer<u32>,
        starts: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        let (count, numbers) = (keys.len(), starts.len());
        check_starts(count, numbers)?;
        if numbers == 0 {
            return Ok(());
        }
        let shape = Shape::covering(numbers, 256);
        // SAFETY: keys below their number are read.
        unsafe { LOCATE.key_starts(self, shape, keys, count as u64, numbers as u64, starts) }
    }
}
