//! The search for elements.

use super::place::{Elements, Positions, element_in};
use crate::cpu::simplices::Vector;
use crate::cpu::{Cpu, CpuBuffer, sparse::between};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::tetrahedra::{
    BinGrid, BinLists, Hint, MARGIN, Mesh, OUTSIDE, Samples, TOLERANCE, WITHIN, check_bins,
    check_locate, check_pairs, check_starts,
};

/// The samples of a task.
const TASK: usize = 2048;

/// The bin of a position along each axis.
#[inline]
fn bin_of(grid: &BinGrid, p: Vector) -> [usize; 3] {
    let mut bin = [0; 3];
    for a in 0..3 {
        let at = ((p[a] - grid.origin[a]) / grid.edge).floor();
        bin[a] = at.max(0.0).min((grid.dims[a] - 1) as f64) as usize;
    }
    bin
}

/// The first and the last bin that an element may have samples in; none where it is not finite.
#[inline]
fn bins_of(grid: &BinGrid, x: [Vector; 4]) -> Option<[[usize; 3]; 2]> {
    if !x.iter().flatten().all(|v| v.is_finite()) {
        return None;
    }
    let (mut low, mut high) = (x[0], x[0]);
    for x in x {
        for a in 0..3 {
            low[a] = low[a].min(x[a]);
            high[a] = high[a].max(x[a]);
        }
    }
    for a in 0..3 {
        let margin = (high[a] - low[a]) * MARGIN;
        low[a] -= margin;
        high[a] += margin;
    }
    Some([bin_of(grid, low), bin_of(grid, high)])
}

/// What is gone through for a sample.
struct Search<'a> {
    elements: Elements<'a>,
    bins: BinLists<'a, Cpu>,
    hint: Option<Hint<'a, Cpu>>,
}

impl Search<'_> {
    /// Whether all weights of a point are above a bound.
    #[inline]
    fn is_in(&self, element: usize, p: Vector, bound: f64) -> bool {
        self.elements.weights(element, p).is_some_and(|w| w.iter().all(|&w| w >= bound))
    }

    /// The element where a sample was, or one beside it, where it is within that.
    fn near(&self, sample: usize, p: Vector) -> Option<u32> {
        let hint = self.hint?;
        let before = hint.elements.as_slice()[sample];
        let inside =
            |e: u32| (e as usize) < self.elements.count && self.is_in(e as usize, p, WITHIN);
        if inside(before) {
            return Some(before);
        }
        if before as usize >= self.elements.count {
            return None;
        }
        let beside = &hint.neighbours.as_slice()[4 * before as usize..][..4];
        beside.iter().copied().find(|&e| inside(e))
    }

    fn find(&self, sample: usize, p: Vector) -> u32 {
        if let Some(element) = self.near(sample, p) {
            return element;
        }
        let grid = &self.bins.grid;
        let [i, j, k] = bin_of(grid, p);
        let bin = i + grid.dims[0] * (j + grid.dims[1] * k);
        let listed = self.bins.elements.as_slice();
        let listed = &listed[between(self.bins.starts.as_slice(), bin, listed.len())];
        let inside =
            |&e: &u32| (e as usize) < self.elements.count && self.is_in(e as usize, p, -TOLERANCE);
        listed.iter().copied().find(inside).unwrap_or(OUTSIDE)
    }
}

impl Cpu {
    /// As [`Tetrahedra::locate`](crate::ops::Tetrahedra::locate).
    pub(super) fn located(
        &self,
        mesh: &Mesh<'_, Self>,
        samples: &Samples<'_, Self>,
        bins: Option<BinLists<'_, Self>>,
        hint: Option<Hint<'_, Self>>,
        out: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        let way = check_locate(mesh, samples, bins.as_ref(), hint.as_ref(), out.len())?;
        let positions = Positions::new(samples, &way);
        let out = out.as_mut_slice();
        let each = |out: &mut [u32], find: &(dyn Fn(usize) -> u32 + Sync)| {
            self.chunks_mut(out, TASK, |task, out| {
                for (k, out) in out.iter_mut().enumerate() {
                    *out = find(task * TASK + k);
                }
            });
        };
        if let Some(kuhn) = &way.kuhn {
            each(out, &|i| element_in(kuhn, positions.of(i)));
        } else if let Some(bins) = bins {
            let search = Search { elements: Elements::new(mesh), bins, hint };
            each(out, &|i| search.find(i, positions.of(i)));
        }
        Ok(())
    }

    /// As [`Tetrahedra::bin_offsets`](crate::ops::Tetrahedra::bin_offsets).
    pub(super) fn offsets_of_bins(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &mut CpuBuffer<u32>,
        count: &mut CpuBuffer<u64>,
    ) -> Result<()> {
        check_bins(mesh, grid, offsets.len(), count.len())?;
        let elements = Elements::new(mesh);
        let mut sum = 0u64;
        for (element, offset) in offsets.as_mut_slice().iter_mut().enumerate() {
            *offset = sum as u32;
            if let Some([low, high]) = bins_of(grid, elements.corners_of(element)) {
                sum += [0, 1, 2].map(|a| (high[a] - low[a] + 1) as u64).iter().product::<u64>();
            }
        }
        count.as_mut_slice().fill(sum);
        Ok(())
    }

    /// As [`Tetrahedra::bin_pairs`](crate::ops::Tetrahedra::bin_pairs).
    pub(super) fn pairs_of_bins(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &CpuBuffer<u32>,
        bins: &mut CpuBuffer<u32>,
        of: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        check_pairs(mesh, grid, offsets.len(), bins.len(), of.len())?;
        let elements = Elements::new(mesh);
        let pairs = bins.len();
        let (bins, of) = (bins.as_mut_slice(), of.as_mut_slice());
        for (element, &offset) in offsets.as_slice().iter().enumerate() {
            let Some([low, high]) = bins_of(grid, elements.corners_of(element)) else { continue };
            let mut at = offset as usize;
            for k in low[2]..=high[2] {
                for j in low[1]..=high[1] {
                    for i in low[0]..=high[0] {
                        if at < pairs {
                            bins[at] = (i + grid.dims[0] * (j + grid.dims[1] * k)) as u32;
                            of[at] = element as u32;
                        }
                        at += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// As [`Tetrahedra::key_starts`](crate::ops::Tetrahedra::key_starts).
    pub(super) fn starts_of_keys(
        &self,
        keys: &CpuBuffer<u32>,
        starts: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        check_starts(keys.len(), starts.len())?;
        let keys = keys.as_slice();
        self.chunks_mut(starts.as_mut_slice(), TASK, |task, starts| {
            for (k, start) in starts.iter_mut().enumerate() {
                let key = task * TASK + k;
                *start = keys.partition_point(|&other| (other as usize) < key) as u32;
            }
        });
        Ok(())
    }
}
