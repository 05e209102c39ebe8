//! Published GPU methods for joint histograms, for comparison.

use std::sync::LazyLock;

use super::ungrouped::{Float2, Looking, Target, Ungrouped, blocks, fit, maps_at_once};
use crate::AffineMap;
use crate::cuda::declare::In;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::histogram::{JointMethod, JointScheme, ParzenBins, Window, unsupported_joint};

cells! {
    /// Four adjacent numbers.
    Uint4 = "uint4";
}

kernels! { BASELINES = "histogram/baselines/joint.cu";
    fn shams_warp[1024](
        looking: Looking, columns: Columns, rows: u32, rows_at_once: u32, share: u32,
        joint: &mut [u64],
    );
    fn sort_and_count[1024](looking: Looking, columns: Columns, rows: u32, parts: &mut [u64]);
    fn merge_counts[256](parts: &[u64], joint: &mut [u64], cells: u64, count: u32);
    fn chen_sorted[1024](
        looking: Looking, columns: Columns, rows: u32, order: &[u32], items: &[Uint4],
        joint: &mut [u64],
    );
    fn profile_columns[256](
        pairs: &[Float2], count: u64, step: u32, columns: Columns, met: &mut [u32],
    );
    fn crowded_columns[32](met: &[u32], columns: u32, values: u32, slots: &mut [u32]);
    fn vetter_crowded[1024](
        looking: Looking, columns: Columns, rows: u32, order: &[u32], items: &[Uint4], slots: &[u32],
        joint: &mut [u64],
    );
}

/// The kernels for cubic windows are [`BASELINES`] themselves.
static COUNTS: LazyLock<BASELINES> = LazyLock::new(|| BASELINES.with(&[("TAPS", 1)]));

/// Threads a block, where the caller does not choose.
const THREADS: usize = 256;
/// Units of the largest weight.
const UNITS: f64 = 262_144.0;
/// The most samples that a block adds up in 32 bits: half of what would fit.
const MOST_SHARE: usize = 1 << 13;
/// Extra counters of a row: `CROWDED * COPIES` of the kernels.
const EXTRA: usize = 64;
/// The stride at which values of the moving image are sampled to find crowded columns.
const PROFILE_STEP: usize = 16;

plain! {
    /// Where values fall among the columns; `Columns` of joint.cu.
    struct Columns {
        low: f32,
        per_value: f32,
        first: f32,
        last: f32,
        units: f32,
        count: u32,
    }
}

/// Shared by all baselines.
struct Baseline<'a> {
    cuda: &'a Cuda,
    program: &'static BASELINES,
    samples: &'a Ungrouped,
    target: &'a Target<'a>,
    columns: Columns,
    rows: usize,
    threads: usize,
    blocks: usize,
    scheme: JointScheme,
}

/// The joint histograms of every map; the arguments were checked.
pub(super) fn histograms(
    cuda: &Cuda,
    method: &JointMethod,
    samples: &Ungrouped,
    rows: usize,
    target: &Target<'_>,
    columns: &ParzenBins,
    maps: &[AffineMap],
) -> Result<Vec<Vec<f64>>> {
    let settings = &method.settings;
    let threads = settings.threads.unwrap_or(THREADS);
    let (weight, _) = samples.largest(cuda)?;
    // Without any weight there is nothing to count.
    let units = if weight > 0.0 { UNITS / f64::from(weight) } else { 1.0 };
    let baseline = Baseline {
        cuda,
        program: match method.window {
            Window::Cubic => &BASELINES,
            Window::Counts => &COUNTS,
        },
        samples,
        target,
        columns: Columns {
            low: columns.low,
            per_value: columns.per_value(),
            first: ParzenBins::MARGIN as f32,
            last: (columns.count - 1 - ParzenBins::MARGIN) as f32,
            units: units as f32,
            count: columns.count as u32,
        },
        rows,
        threads,
        blocks: blocks(cuda, settings.blocks, threads, samples.count(), maps.len())?,
        scheme: method.scheme,
    };
    let units = f64::from(baseline.columns.units);
    let cells = rows * columns.count;
    let scratch = match method.scheme {
        JointScheme::SortAndCount => baseline.blocks.saturating_mul(cells),
        _ => cells,
    };
    let at_once = maps_at_once(cuda, &|| baseline.what(), scratch.saturating_mul(8))?;
    let mut out = Vec::with_capacity(maps.len());
    for some in maps.chunks(at_once) {
        let of_maps = target.maps(cuda, some)?;
        let joint = match method.scheme {
            JointScheme::Default => return Err(unsupported_joint(&cuda.name(), method)),
            JointScheme::ShamsWarp => baseline.shams_warp(&of_maps, some.len())?,
            JointScheme::SortAndCount => baseline.sort_and_count(&of_maps, some.len())?,
            JointScheme::ChenSorted => baseline.sorted(&of_maps, some.len(), false)?,
            JointScheme::VetterCrowded => baseline.sorted(&of_maps, some.len(), true)?,
        };
        let joint = cuda.download(&joint)?;
        out.extend(
            joint.chunks_exact(cells).map(|h| h.iter().map(|&v| v as f64 / units).collect()),
        );
    }
    Ok(out)
}

impl Baseline<'_> {
    /// Its name in messages.
    fn what(&self) -> String {
        format!(
            "the joint histogram scheme {} with {} x {} bins and {} threads",
            self.scheme.name(),
            self.rows,
            self.columns.count,
            self.threads
        )
    }

    fn looking(&self, maps: &CudaBuffer<f32>) -> Looking {
        self.samples.looking(self.target, maps)
    }

    fn cells(&self) -> usize {
        self.rows * self.columns.count as usize
    }

    /// Bytes of the counters of a row.
    fn row_bytes(&self) -> usize {
        self.columns.count as usize * size_of::<u32>()
    }

    /// The samples that a block adds up in 32 bits.
    fn share(&self) -> usize {
        self.samples.count().div_ceil(self.blocks).clamp(self.threads, MOST_SHARE)
    }

    fn shams_warp(&self, of_maps: &CudaBuffer<f32>, maps: usize) -> Result<CudaBuffer<u64>> {
        let warps = self.threads.div_ceil(32);
        fit(self.cuda, &|| self.what(), self.threads, self.row_bytes(), 0)?;
        let fitting = self.cuda.shared_memory() / (warps * self.row_bytes());
        // As few passes as can be, with about as many rows in each.
        let passes = self.rows.div_ceil(fitting.min(self.rows));
        let at_once = self.rows.div_ceil(passes);
        let shared = at_once * warps * self.row_bytes();
        let mut joint = self.cuda.alloc(maps * self.cells())?;
        let shape = Shape {
            grid: [self.blocks as u32, maps as u32, self.rows.div_ceil(at_once) as u32],
            ..Shape::blocks(1, self.threads as u32).with_shared(shared)
        };
        // SAFETY: shared memory for the rows of a pass and every warp.
        unsafe {
            self.program.shams_warp(
                self.cuda,
                shape,
                self.looking(of_maps),
                self.columns,
                self.rows as u32,
                at_once as u32,
                self.share() as u32,
                &mut joint,
            )?;
        }
        Ok(joint)
    }

    fn sort_and_count(&self, of_maps: &CudaBuffer<f32>, maps: usize) -> Result<CudaBuffer<u64>> {
        if !self.threads.is_power_of_two() {
            let expected = "a power of two between 32 and 1024";
            return Err(ComputeError::argument("threads", self.threads, expected));
        }
        // Cell, thread, and the units and sums of at most four columns.
        let shared = fit(self.cuda, &|| self.what(), self.threads, 7 * 32 * 4, 0)?;
        let cells = self.cells();
        let mut parts = self.cuda.alloc::<u64>(maps * self.blocks * cells)?;
        let mut joint = self.cuda.alloc_unset(maps * cells)?;
        let shape = Shape {
            grid: [self.blocks as u32, maps as u32, 1],
            ..Shape::blocks(1, self.threads as u32).with_shared(shared)
        };
        let (cuda, looking, rows) = (self.cuda, self.looking(of_maps), self.rows as u32);
        let (cells_of_map, count) = (cells as u64, self.blocks as u32);
        let mut covering = Shape::covering(cells, 256);
        covering.grid[1] = maps as u32;
        // SAFETY: every block has a histogram of its own among the parts, and shared memory for seven
        // numbers a thread.
        unsafe {
            self.program.sort_and_count(cuda, shape, looking, self.columns, rows, &mut parts)?;
            self.program.merge_counts(cuda, covering, &parts, &mut joint, cells_of_map, count)?;
        }
        Ok(joint)
    }

    fn sorted(
        &self,
        of_maps: &CudaBuffer<f32>,
        maps: usize,
        crowded: bool,
    ) -> Result<CudaBuffer<u64>> {
        let extra = if crowded { EXTRA * size_of::<u32>() } else { 0 };
        let row = self.row_bytes() + extra;
        fit(self.cuda, &|| self.what(), self.threads, 0, row)?;
        // A quarter of the memory leaves room for other blocks.
        let fitting = (self.cuda.shared_memory() / 4 / row).clamp(1, self.rows);
        let sorted = self.samples.sorted(self.cuda, self.rows)?;
        let items = sorted.items(self.cuda, fitting, self.share())?;
        let mut joint = self.cuda.alloc(maps * self.cells())?;
        if items.count == 0 {
            return Ok(joint);
        }
        let slots = if crowded { Some(self.crowded_columns()?) } else { None };
        let shape = Shape {
            grid: [items.count as u32, maps as u32, 1],
            ..Shape::blocks(1, self.threads as u32).with_shared(fitting * row)
        };
        let (program, cuda, columns, rows) =
            (self.program, self.cuda, self.columns, self.rows as u32);
        let (looking, order, items) = (self.looking(of_maps), &sorted.order, In::cast(&items.list));
        // SAFETY: an item has at most as many rows as there is shared memory for.
        unsafe {
            match &slots {
                Some(slots) => program.vetter_crowded(
                    cuda, shape, looking, columns, rows, order, items, slots, &mut joint,
                )?,
                None => program
                    .chen_sorted(cuda, shape, looking, columns, rows, order, items, &mut joint)?,
            }
        }
        Ok(joint)
    }

    /// For each column its number among the crowded ones.
    fn crowded_columns(&self) -> Result<CudaBuffer<u32>> {
        let columns = self.columns.count;
        let mut met = self.cuda.alloc::<u32>(columns as usize)?;
        let mut slots = self.cuda.alloc_unset::<u32>(columns as usize)?;
        let count = self.target.count();
        let looked_at = count.div_ceil(PROFILE_STEP);
        let (shape, values) = (Shape::blocks(1, 32), looked_at as u32);
        // SAFETY: a number for every column.
        unsafe {
            self.program.profile_columns(
                self.cuda,
                Shape::covering(looked_at, 256),
                In::cast(&self.target.pairs),
                count as u64,
                PROFILE_STEP as u32,
                Columns { units: 1.0, ..self.columns },
                &mut met,
            )?;
            self.program.crowded_columns(self.cuda, shape, &met, columns, values, &mut slots)?;
        }
        Ok(slots)
    }
}
