//! Meshes of tetrahedra on the CPU.

mod covectors;
mod gather;
mod locate;
mod place;
mod strain;

use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::Tetrahedra;
use crate::ops::tetrahedra::{
    BinGrid, BinLists, Gather, Hint, Mesh, Placed, Samples, check_field, check_placed, values_of,
};
use place::{Places, Spot};

/// The samples of a task.
const TASK: usize = 2048;

/// A value at a sample, of those at the nodes.
#[inline]
fn value_at(spot: &Spot, values: &[f32]) -> f64 {
    let term = |k: usize| spot.weights[k] * f64::from(values[spot.nodes[k]]);
    term(0) + term(1) + term(2) + term(3)
}

/// The three components there.
#[inline]
fn vector_at(spot: &Spot, values: &[f32], nodes: usize) -> [f64; 3] {
    [0, 1, 2].map(|c| value_at(spot, &values[c * nodes..]))
}

impl Cpu {
    /// Three numbers for each sample, zero where there are none.
    fn three_of_samples(
        &self,
        out: &mut [f32],
        of: impl Fn(usize) -> Option<[f64; 3]> + Send + Sync,
    ) {
        self.chunks_mut_3(out, TASK, |task, [x, y, z]| {
            for k in 0..x.len() {
                let found = of(task * TASK + k).unwrap_or([0.0; 3]);
                [x[k], y[k], z[k]] = found.map(|v| v as f32);
            }
        });
    }

    /// Three numbers for each sample in the mesh, zero outside.
    fn three_at_samples(
        &self,
        places: &Places<'_>,
        out: &mut [f32],
        of: impl Fn(&Spot) -> [f64; 3] + Send + Sync,
    ) {
        self.three_of_samples(out, |i| places.spot(i).map(|spot| of(&spot)));
    }
}

impl Tetrahedra for Cpu {
    fn locate(
        &self,
        mesh: &Mesh<'_, Self>,
        samples: &Samples<'_, Self>,
        bins: Option<BinLists<'_, Self>>,
        hint: Option<Hint<'_, Self>>,
        elements: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        self.located(mesh, samples, bins, hint, elements)
    }

    fn weights(&self, placed: &Placed<'_, Self>, out: &mut CpuBuffer<f32>) -> Result<()> {
        let way = check_placed(placed)?;
        let n = way.samples;
        check_len("weights of samples", 4 * n, out.len())?;
        let places = Places::new(placed, &way);
        let (a, rest) = out.as_mut_slice().split_at_mut(n);
        let (b, rest) = rest.split_at_mut(n);
        let (c, d) = rest.split_at_mut(n);
        self.chunks_mut_of([a, b, c, d], TASK, |task, mut out| {
            for k in 0..out[0].len() {
                let found = places.spot(task * TASK + k).map_or([0.0; 4], |spot| spot.weights);
                for (out, weight) in out.iter_mut().zip(found) {
                    out[k] = weight as f32;
                }
            }
        });
        Ok(())
    }

    fn to_samples(
        &self,
        placed: &Placed<'_, Self>,
        values: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let way = check_placed(placed)?;
        let nodes = placed.mesh.nodes.len() / 3;
        let components = values_of(nodes, values.len(), way.samples, out.len())?;
        let (places, values) = (Places::new(placed, &way), values.as_slice());
        if components == 3 {
            let of = |spot: &Spot| vector_at(spot, values, nodes);
            self.three_at_samples(&places, out.as_mut_slice(), of);
            return Ok(());
        }
        self.chunks_mut(out.as_mut_slice(), TASK, |task, out| {
            for (k, out) in out.iter_mut().enumerate() {
                let spot = places.spot(task * TASK + k);
                *out = spot.map_or(0.0, |spot| value_at(&spot, values)) as f32;
            }
        });
        Ok(())
    }

    fn field(
        &self,
        placed: &Placed<'_, Self>,
        displacements: &CpuBuffer<f32>,
        units: &[[f64; 3]; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let way = check_field(placed, displacements.len(), units, out.len())?;
        let nodes = placed.mesh.nodes.len() / 3;
        let (places, values) = (Places::new(placed, &way), displacements.as_slice());
        self.three_at_samples(&places, out.as_mut_slice(), |spot| {
            let u = vector_at(spot, values, nodes);
            units.map(|row| row[0] * u[0] + row[1] * u[1] + row[2] * u[2])
        });
        Ok(())
    }

    fn to_nodes(
        &self,
        placed: &Placed<'_, Self>,
        lists: Option<Gather<'_, Self>>,
        values: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.sums_at_nodes(placed, lists, values, out)
    }

    fn sample_covectors(
        &self,
        placed: &Placed<'_, Self>,
        nodes: &CpuBuffer<f32>,
        covectors: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.covectors_of_samples(placed, nodes, covectors, out)
    }

    fn bin_offsets(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &mut CpuBuffer<u32>,
        count: &mut CpuBuffer<u64>,
    ) -> Result<()> {
        self.offsets_of_bins(mesh, grid, offsets, count)
    }

    fn bin_pairs(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &CpuBuffer<u32>,
        bins: &mut CpuBuffer<u32>,
        elements: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        self.pairs_of_bins(mesh, grid, offsets, bins, elements)
    }

    fn key_starts(&self, keys: &CpuBuffer<u32>, starts: &mut CpuBuffer<u32>) -> Result<()> {
        self.starts_of_keys(keys, starts)
    }

    fn ratios(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CpuBuffer<f32>,
        ratios: &mut CpuBuffer<f32>,
        least: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        self.ratios_of(mesh, displacements, ratios, least)
    }

    fn strain(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CpuBuffer<f32>,
        shear: &CpuBuffer<f32>,
        strains: &mut CpuBuffer<f32>,
        mises: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.strains_of(mesh, displacements, shear, strains, mises)
    }
}
