//! Joint histograms of two images on one grid, and the slope of a function of them.

use std::sync::LazyLock;

use crate::cuda::histogram::Columns;
use crate::cuda::{Arg, Cuda, CudaBuffer, Plain, Program, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::histogram::{Binning, ParzenBins};

static PAIR: LazyLock<Program> =
    LazyLock::new(|| Program::new("pair", include_str!("../kernels/pair.cu")));

const THREADS: u32 = 512;
/// Voxels that a block counts.
const CHUNK: usize = 1 << 15;
/// Bytes of shared memory for the entries; larger tables are used where they are.
const MOST_SHARED: usize = 72 << 10;
/// Units of a voxel of the largest weight.
const UNITS: f64 = (1u64 << 31) as f64;

/// Where values fall among the rows, as [`Binning::bin`] has it; `Rows` of pair.cu.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Rows {
    low: f32,
    per_value: f32,
    last: f32,
}

// SAFETY: `repr(C)`, fields of four bytes only, in the order of the structure of the kernels.
unsafe impl Plain for Rows {}

impl Rows {
    fn new(rows: &Binning) -> Self {
        let span = rows.high - rows.low;
        Self {
            low: rows.low,
            per_value: if span > 0.0 { rows.bins as f32 / span } else { 0.0 },
            last: (rows.bins - 1) as f32,
        }
    }
}

/// Two images and their bins, whose lengths and sizes have been checked.
pub(super) struct Pair<'a> {
    pub(super) fixed: &'a CudaBuffer<f32>,
    pub(super) moving: &'a CudaBuffer<f32>,
    pub(super) weights: Option<&'a CudaBuffer<f32>>,
    pub(super) rows: &'a Binning,
    pub(super) columns: &'a ParzenBins,
}

impl Pair<'_> {
    /// The parameters that the kernels begin with.
    fn args(&self) -> Vec<Arg> {
        vec![
            self.fixed.into(),
            self.moving.into(),
            Arg::optional(self.weights),
            (self.fixed.len() as u64).into(),
            Arg::of(Rows::new(self.rows)),
            Arg::of(Columns::new(self.columns)),
        ]
    }

    /// The entries that go to shared memory: all of them or none.
    fn here(&self) -> usize {
        let entries = self.rows.bins * self.columns.count;
        if entries * size_of::<u32>() <= MOST_SHARED { entries } else { 0 }
    }
}

/// The sums of weights, given the largest.
pub(super) fn histogram(cuda: &Cuda, pair: &Pair<'_>, most: f64) -> Result<Vec<f64>> {
    let entries = pair.rows.bins * pair.columns.count;
    if !(most > 0.0 && most.is_finite() && !pair.fixed.is_empty()) {
        return Ok(vec![0.0; entries]);
    }
    let scale = (UNITS / most) as f32;
    let here = pair.here();
    let mut counts = cuda.alloc::<u64>(entries)?;
    let mut args = pair.args();
    args.extend([scale.into(), (here as u32).into(), Arg::from(&mut counts)]);
    let shape = Shape::blocks(pair.fixed.len().div_ceil(CHUNK), THREADS)
        .with_shared(here * size_of::<u32>());
    // SAFETY: the parameters are the kernel's. It reads the voxels of the images, and adds to entries
    // whose rows and columns it keeps below their numbers.
    unsafe { cuda.launch(&PAIR, "pair_histogram", shape, &args)? };
    let unit = 1.0 / f64::from(scale);
    Ok(cuda.download(&counts)?.into_iter().map(|count| count as f64 * unit).collect())
}

/// Writes the slope of the function whose derivatives are in `table`.
pub(super) fn slopes(
    cuda: &Cuda,
    pair: &Pair<'_>,
    table: &[f64],
    slope: &mut CudaBuffer<f32>,
) -> Result<()> {
    let n = pair.fixed.len();
    let table: Vec<f32> = table.iter().map(|&v| v as f32).collect();
    let table = cuda.upload(&table)?;
    let here = pair.here();
    let mut args = pair.args();
    args.extend([(here as u32).into(), Arg::from(&table), Arg::from(slope)]);
    // As many blocks as fit at once, so that the table is brought to each multiprocessor but a few
    // times.
    let blocks = n.div_ceil(4 * THREADS as usize).clamp(1, 3 * cuda.multiprocessors());
    let shape = Shape::blocks(blocks, THREADS).with_shared(here * size_of::<f32>());
    // SAFETY: the parameters are the kernel's. It reads and writes the voxels of the images, and reads
    // entries of the table whose rows and columns it keeps below their numbers.
    unsafe { cuda.launch(&PAIR, "pair_slopes", shape, &args) }
}
