//! Joint histograms as others made them on GPUs, for comparison.

use std::sync::LazyLock;

use super::ungrouped::{Target, Ungrouped, blocks, fit, maps_at_once};
use crate::AffineMap;
use crate::cuda::{Arg, Cuda, CudaBuffer, Plain, Program, Shape};
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::histogram::{JointMethod, JointScheme, ParzenBins, Window, unsupported_joint};

static CUBIC: LazyLock<Program> =
    LazyLock::new(|| Program::new("baselines", include_str!("../kernels/baselines.cu")));
static COUNTS: LazyLock<Program> = LazyLock::new(|| CUBIC.with(&[("TAPS", 1)]));

/// Threads a block, where the caller does not choose.
const THREADS: usize = 256;
/// Units of the largest weight.
const UNITS: f64 = 262_144.0;
/// The most samples that a block adds up in 32 bits: half of what would fit.
const MOST_SHARE: usize = 1 << 13;
/// Extra counters of a row: `CROWDED * COPIES` of the kernels.
const EXTRA: usize = 64;
/// Every so many values of the moving image are looked at to find crowded columns.
const PROFILE_STEP: usize = 16;

/// `Columns` of the kernels.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Columns {
    low: f32,
    per_value: f32,
    first: f32,
    last: f32,
    units: f32,
    count: u32,
}

// SAFETY: `repr(C)`, fields of four bytes only, in the order of the structure of the kernels.
unsafe impl Plain for Columns {}

/// What all baselines share.
struct Baseline<'a> {
    cuda: &'a Cuda,
    program: &'static Program,
    samples: &'a Ungrouped,
    target: &'a Target<'a>,
    columns: Columns,
    rows: usize,
    threads: usize,
    blocks: usize,
    what: String,
}

/// The joint histograms of every map; the arguments were checked.
pub(super) fn joint(
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
            Window::Cubic => &CUBIC,
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
        what: format!(
            "the joint histogram scheme {} with {rows} x {} bins and {threads} threads",
            method.scheme.name(),
            columns.count
        ),
    };
    let units = f64::from(baseline.columns.units);
    let cells = rows * columns.count;
    let scratch = match method.scheme {
        JointScheme::SortAndCount => baseline.blocks.saturating_mul(cells),
        _ => cells,
    };
    let at_once = maps_at_once(cuda, &|| baseline.what.clone(), scratch.saturating_mul(8))?;
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
    fn args(&self, maps: &CudaBuffer<f32>) -> Vec<Arg> {
        let mut args = self.samples.args(self.target, maps);
        args.extend::<[Arg; 2]>([Arg::of(self.columns), (self.rows as u32).into()]);
        args
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
        fit(self.cuda, &|| self.what.clone(), self.threads, self.row_bytes(), 0)?;
        let fitting = self.cuda.shared_memory() / (warps * self.row_bytes());
        // As few passes as can be, with about as many rows in each.
        let passes = self.rows.div_ceil(fitting.min(self.rows));
        let at_once = self.rows.div_ceil(passes);
        let shared = at_once * warps * self.row_bytes();
        let mut joint = self.cuda.alloc(maps * self.cells())?;
        let mut args = self.args(of_maps);
        args.extend::<[Arg; 3]>([
            (at_once as u32).into(),
            (self.share() as u32).into(),
            (&mut joint).into(),
        ]);
        let shape = Shape {
            grid: [self.blocks as u32, maps as u32, self.rows.div_ceil(at_once) as u32],
            ..Shape::blocks(1, self.threads as u32).with_shared(shared)
        };
        // SAFETY: the kernel's parameters; shared memory for the rows of a pass and every warp.
        unsafe { self.cuda.launch(self.program, "shams_warp", shape, &args)? };
        Ok(joint)
    }

    fn sort_and_count(&self, of_maps: &CudaBuffer<f32>, maps: usize) -> Result<CudaBuffer<u64>> {
        if !self.threads.is_power_of_two() {
            let expected = "a power of two between 32 and 1024";
            return Err(ComputeError::argument("threads", self.threads, expected));
        }
        // Cell, thread, and the units and sums of at most four columns.
        let shared = fit(self.cuda, &|| self.what.clone(), self.threads, 7 * 32 * 4, 0)?;
        let cells = self.cells();
        let mut parts = self.cuda.alloc::<u64>(maps * self.blocks * cells)?;
        let mut joint = self.cuda.alloc_unset(maps * cells)?;
        let shape = Shape {
            grid: [self.blocks as u32, maps as u32, 1],
            ..Shape::blocks(1, self.threads as u32).with_shared(shared)
        };
        let mut args = self.args(of_maps);
        args.push((&mut parts).into());
        let merge = [
            (&parts).into(),
            (&mut joint).into(),
            (cells as u64).into(),
            (self.blocks as u32).into(),
        ];
        let mut covering = Shape::covering(cells, 256);
        covering.grid[1] = maps as u32;
        // SAFETY: the kernels' parameters; every block has a histogram of its own among the parts,
        // and shared memory for seven numbers a thread.
        unsafe {
            self.cuda.launch(self.program, "sort_and_count", shape, &args)?;
            self.cuda.launch(self.program, "merge_counts", covering, &merge)?;
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
        fit(self.cuda, &|| self.what.clone(), self.threads, 0, row)?;
        // A quarter of the memory leaves room for other blocks.
        let fitting = (self.cuda.shared_memory() / 4 / row).clamp(1, self.rows);
        let sorted = self.samples.sorted(self.cuda, self.rows)?;
        let items = sorted.items(self.cuda, fitting, self.share())?;
        let mut joint = self.cuda.alloc(maps * self.cells())?;
        if items.count == 0 {
            return Ok(joint);
        }
        let slots = if crowded { Some(self.crowded_columns()?) } else { None };
        let mut args = self.args(of_maps);
        args.extend::<[Arg; 2]>([(&sorted.order).into(), (&items.list).into()]);
        args.extend(slots.as_ref().map(Arg::from));
        args.push((&mut joint).into());
        let shape = Shape {
            grid: [items.count as u32, maps as u32, 1],
            ..Shape::blocks(1, self.threads as u32).with_shared(fitting * row)
        };
        let kernel = if crowded { "vetter_crowded" } else { "chen_sorted" };
        // SAFETY: the kernel's parameters; an item has at most as many rows as there is shared
        // memory for.
        unsafe { self.cuda.launch(self.program, kernel, shape, &args)? };
        Ok(joint)
    }

    /// For each column its number among the crowded ones.
    fn crowded_columns(&self) -> Result<CudaBuffer<u32>> {
        let columns = self.columns.count;
        let mut met = self.cuda.alloc::<u32>(columns as usize)?;
        let mut slots = self.cuda.alloc_unset::<u32>(columns as usize)?;
        let count = self.target.count();
        let looked_at = count.div_ceil(PROFILE_STEP);
        // SAFETY: the kernels' parameters; a number for every column.
        unsafe {
            self.cuda.launch(
                self.program,
                "profile_columns",
                Shape::covering(looked_at, 256),
                &[
                    (&self.target.pairs).into(),
                    (count as u64).into(),
                    (PROFILE_STEP as u32).into(),
                    Arg::of(Columns { units: 1.0, ..self.columns }),
                    (&mut met).into(),
                ],
            )?;
            self.cuda.launch(
                self.program,
                "crowded_columns",
                Shape::blocks(1, 32),
                &[(&met).into(), columns.into(), (looked_at as u32).into(), (&mut slots).into()],
            )?;
        }
        Ok(slots)
    }
}
