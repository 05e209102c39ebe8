//! Sums of what is at samples, at the nodes.

use super::place::{Places, Positions, cell_of};
use crate::AffineMap;
use crate::cpu::simplices::Vector;
use crate::cpu::{Cpu, CpuBuffer, sparse};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::host::zeroed;
use crate::ops::sparse::WIDE;
use crate::ops::tetrahedra::{
    BLOCK, BORDER, Gather, KuhnBox, Placed, Way, check_nodes, check_placed, inverse_of, values_of,
};

/// The elements of a task.
const TASK: usize = 512;

/// The indices along an axis, from a first one, that voxels within a cell may have: their numbers.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: [usize; 3],
    count: [usize; 3],
}

impl Range {
    /// The voxels that may be in a cell, by the map from cells to voxels.
    fn of(cell: [usize; 3], inverse: &AffineMap, dims: [usize; 3]) -> Self {
        let mut range = Self { first: [0; 3], count: [0; 3] };
        for (a, row) in inverse.iter().enumerate() {
            let half = 0.5 + 10.0 * BORDER;
            let middle = row[0] * (cell[0] as f64 + 0.5)
                + row[1] * (cell[1] as f64 + 0.5)
                + row[2] * (cell[2] as f64 + 0.5)
                + row[3];
            let reach = (row[0].abs() + row[1].abs() + row[2].abs()) * half + 10.0 * BORDER;
            let low = (middle - reach).ceil().max(0.0);
            let high = (middle + reach).floor().min((dims[a] - 1) as f64);
            if low <= high {
                range.first[a] = low as usize;
                range.count[a] = (high - low) as usize + 1;
            }
        }
        range
    }
}

/// The weight of a point at a corner of its cell, whose bits say where it is high: as in the path that the point is in, and zero
/// beside it.
#[inline]
fn corner_weight(corner: usize, s: Vector) -> f64 {
    let (mut high, mut low) = (1.0f64, 0.0f64);
    for (a, &s) in s.iter().enumerate() {
        if corner >> a & 1 == 1 {
            high = high.min(s);
        } else {
            low = low.max(s);
        }
    }
    (high - low).max(0.0)
}

/// Voxels of a grid in a box.
struct Voxels<'a> {
    kuhn: KuhnBox,
    positions: Positions<'a>,
    inverse: AffineMap,
    dims: [usize; 3],
    samples: usize,
    values: &'a [f32],
}

impl Voxels<'_> {
    /// The sums over the voxels of a cell at its eight corners, of `C` components: `N` numbers. In so many parts as a block of the GPU has threads.
    fn cell<const C: usize, const N: usize>(
        &self,
        cell: [usize; 3],
        parts: &mut [[f64; N]],
    ) -> [f64; N] {
        parts.fill([0.0; N]);
        let Range { first, count } = Range::of(cell, &self.inverse, self.dims);
        let mut number = 0;
        for z in first[2]..first[2] + count[2] {
            for y in first[1]..first[1] + count[1] {
                for x in first[0]..first[0] + count[0] {
                    let part = &mut parts[number % BLOCK];
                    number += 1;
                    let f = self.positions.mapped([x as f64, y as f64, z as f64]);
                    let Some((found, s)) = cell_of(f, self.kuhn.cells) else { continue };
                    if found != cell {
                        continue;
                    }
                    let i = x + self.dims[0] * (y + self.dims[1] * z);
                    for corner in 0..8 {
                        let weight = corner_weight(corner, s);
                        for c in 0..C {
                            let value = f64::from(self.values[c * self.samples + i]);
                            part[C * corner + c] += weight * value;
                        }
                    }
                }
            }
        }
        // The warps of a block, and then these.
        let mut warps = [[0.0; N]; BLOCK / 32];
        for (warp, parts) in warps.iter_mut().zip(parts.chunks_mut(32)) {
            *warp = sparse::tree(parts);
        }
        sparse::tree(&mut warps)
    }
}

impl Cpu {
    /// As [`Tetrahedra::to_nodes`](crate::ops::Tetrahedra::to_nodes).
    pub(super) fn sums_at_nodes(
        &self,
        placed: &Placed<'_, Self>,
        lists: Option<Gather<'_, Self>>,
        values: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let way = check_placed(placed)?;
        let nodes = placed.mesh.nodes.len() / 3;
        let components = values_of(nodes, out.len(), way.samples, values.len())?;
        let lists = check_nodes(placed, lists)?;
        let (values, out) = (values.as_slice(), out.as_mut_slice());
        match (lists, way.kuhn, components) {
            (Some(lists), _, 1) => self.by_elements::<1, 4>(placed, &way, &lists, values, out),
            (Some(lists), _, _) => self.by_elements::<3, 12>(placed, &way, &lists, values, out),
            (None, Some(kuhn), 1) => self.by_cells::<1, 8>(placed, &way, kuhn, values, out),
            (None, Some(kuhn), _) => self.by_cells::<3, 24>(placed, &way, kuhn, values, out),
            (None, None, _) => Ok(()),
        }
    }

    /// The numbers at nodes, of `C` components.
    fn at_nodes<const C: usize>(
        &self,
        out: &mut [f32],
        node: impl Fn(usize) -> [f64; C] + Send + Sync,
    ) {
        if C == 1 {
            self.chunks_mut(out, TASK, |task, out| {
                for (k, out) in out.iter_mut().enumerate() {
                    *out = node(task * TASK + k)[0] as f32;
                }
            });
            return;
        }
        self.chunks_mut_3(out, TASK, |task, mut out| {
            for k in 0..out[0].len() {
                let sum = node(task * TASK + k);
                for (out, sum) in out.iter_mut().zip(sum) {
                    out[k] = sum as f32;
                }
            }
        });
    }

    /// By the lists of the samples of elements, whose four corners have `N` numbers.
    fn by_elements<const C: usize, const N: usize>(
        &self,
        placed: &Placed<'_, Self>,
        way: &Way,
        lists: &Gather<'_, Self>,
        values: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let places = Places::new(placed, way);
        let elements = placed.mesh.corners.len() / 4;
        let (starts, samples) = (lists.starts.as_slice(), lists.samples.as_slice());
        let wide = samples.len() >= WIDE * elements.max(1);
        let mut parts = zeroed::<f64>(N * elements)?;
        self.chunks_mut(&mut parts, N * TASK, |task, parts| {
            for (k, part) in parts.chunks_exact_mut(N).enumerate() {
                let range = sparse::between(starts, task * TASK + k, samples.len());
                let sum = sparse::sum(range, wide, |at, sum: &mut [f64; N]| {
                    let sample = (samples[at] as usize).min(way.samples - 1);
                    let Some(spot) = places.spot(sample) else { return };
                    for (corner, weight) in spot.weights.into_iter().enumerate() {
                        for c in 0..C {
                            let value = f64::from(values[c * way.samples + sample]);
                            sum[C * corner + c] += weight * value;
                        }
                    }
                });
                part.copy_from_slice(&sum);
            }
        });
        let (starts, corners) =
            (lists.incidence.starts.as_slice(), lists.incidence.corners.as_slice());
        self.at_nodes::<C>(out, |node| {
            let range = sparse::between(starts, node, corners.len());
            sparse::sum(range, false, |at, sum: &mut [f64; C]| {
                let place = (corners[at] as usize).min(4 * elements - 1);
                for (c, sum) in sum.iter_mut().enumerate() {
                    *sum += parts[C * place + c];
                }
            })
        });
        Ok(())
    }

    /// Voxels in a box, whose cells have `N` numbers.
    fn by_cells<const C: usize, const N: usize>(
        &self,
        placed: &Placed<'_, Self>,
        way: &Way,
        kuhn: KuhnBox,
        values: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let inverse = inverse_of(&way.map)?;
        let positions = Positions::new(&placed.samples, way);
        let (dims, samples) = (placed.samples.dims, way.samples);
        let voxels = Voxels { kuhn, positions, inverse, dims, samples, values };
        let [nx, ny, nz] = kuhn.cells;
        let mut sums = zeroed::<f64>(N * nx * ny * nz)?;
        // A row of cells a task.
        self.chunks_mut(&mut sums, N * nx, |row, sums| {
            let mut parts = vec![[0.0; N]; BLOCK];
            for (i, sum) in sums.chunks_exact_mut(N).enumerate() {
                let cell = [i, row % ny, row / ny];
                sum.copy_from_slice(&voxels.cell::<C, N>(cell, &mut parts));
            }
        });
        self.at_nodes::<C>(out, |node| {
            let at = [node % (nx + 1), node / (nx + 1) % (ny + 1), node / (nx + 1) / (ny + 1)];
            let mut sum = [0.0; C];
            // The cells around, in rising order; the corner is high where the cell is the one below.
            for around in 0..8 {
                let below = [0, 1, 2].map(|a| 1 - (around >> a & 1));
                let Some(cell) = cell_around(at, below, kuhn.cells) else { continue };
                let corner = below[0] + 2 * below[1] + 4 * below[2];
                let first = N * (cell[0] + nx * (cell[1] + ny * cell[2])) + C * corner;
                for (c, sum) in sum.iter_mut().enumerate() {
                    *sum += sums[first + c];
                }
            }
            sum
        });
        Ok(())
    }
}

/// The cell at a node, below it along some axes.
fn cell_around(node: [usize; 3], below: [usize; 3], cells: [usize; 3]) -> Option<[usize; 3]> {
    let mut cell = [0; 3];
    for a in 0..3 {
        cell[a] = node[a].checked_sub(below[a]).filter(|&i| i < cells[a])?;
    }
    Some(cell)
}
