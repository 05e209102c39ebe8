//! Joint histograms of two images on one grid, and the derivative of a function of them.

use crate::cuda::histogram::Columns;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::histogram::{Binning, ParzenBins};

kernels! { PAIR = "similarity/pair.cu";
    fn pair_histogram[THREADS](fixed: &[f32], moving: &[f32], weights: &[f32], n: u64, rows: Rows,
        columns: Columns, scale: f32, here_entries: u32, counts: &mut [u64]);
    fn pair_derivatives[THREADS](fixed: &[f32], moving: &[f32], weights: &[f32], n: u64, rows: Rows,
        columns: Columns, here_entries: u32, table: &[f32], out: &mut [f32]);
}

kernels! { MAP = "similarity/map.cu";
    fn map_values[THREADS](values: &[f32], n: u64, columns: Columns, here_entries: u32, table: &[f32],
        mapped: &mut [f32], derivative: &mut [f32]);
}

const THREADS: u32 = 512;
/// Voxels that a block counts.
const CHUNK: usize = 1 << 15;
/// Bytes of shared memory for the entries; larger tables are used where they are.
const MOST_SHARED: usize = 72 << 10;
/// Units of a voxel of the largest weight.
const UNITS: f64 = (1u64 << 31) as f64;

plain! {
    /// Where values fall among the rows, as [`Binning::bin`] has it; `Rows` of pair.cu.
    struct Rows {
        low: f32,
        per_value: f32,
        last: f32,
    }
}

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
    let n = pair.fixed.len();
    let shape = Shape::blocks(n.div_ceil(CHUNK), THREADS).with_shared(here * size_of::<u32>());
    // SAFETY: the kernel reads the voxels of the images, and adds to entries whose rows and columns it
    // keeps below their numbers.
    unsafe {
        PAIR.pair_histogram(
            cuda,
            shape,
            pair.fixed,
            pair.moving,
            pair.weights,
            n as u64,
            Rows::new(pair.rows),
            Columns::new(pair.columns),
            scale,
            here as u32,
            &mut counts,
        )?;
    }
    let unit = 1.0 / f64::from(scale);
    Ok(cuda.download(&counts)?.into_iter().map(|count| count as f64 * unit).collect())
}

/// Writes the derivative of the function whose derivatives are in `table`.
pub(super) fn derivatives(
    cuda: &Cuda,
    pair: &Pair<'_>,
    table: &[f64],
    derivative: &mut CudaBuffer<f32>,
) -> Result<()> {
    let n = pair.fixed.len();
    let table: Vec<f32> = table.iter().map(|&v| v as f32).collect();
    let table = cuda.upload(&table)?;
    let here = pair.here();
    // As many blocks as fit at once, so that the table is brought to each multiprocessor but a few
    // times.
    let blocks = n.div_ceil(4 * THREADS as usize).clamp(1, 3 * cuda.multiprocessors());
    let shape = Shape::blocks(blocks, THREADS).with_shared(here * size_of::<f32>());
    // SAFETY: the kernel reads and writes the voxels of the images, and reads entries of the table whose
    // rows and columns it keeps below their numbers.
    unsafe {
        PAIR.pair_derivatives(
            cuda,
            shape,
            pair.fixed,
            pair.moving,
            pair.weights,
            n as u64,
            Rows::new(pair.rows),
            Columns::new(pair.columns),
            here as u32,
            &table,
            derivative,
        )
    }
}

/// Writes a spline of values, whose coefficients are in `table`, and its derivative.
pub(super) fn map(
    cuda: &Cuda,
    values: &CudaBuffer<f32>,
    columns: &ParzenBins,
    table: &[f64],
    [mapped, derivative]: [&mut CudaBuffer<f32>; 2],
) -> Result<()> {
    let (n, bytes) = (values.len(), columns.count * size_of::<f32>());
    let here = if bytes <= MOST_SHARED { columns.count } else { 0 };
    let table: Vec<f32> = table.iter().map(|&v| v as f32).collect();
    let table = cuda.upload(&table)?;
    let blocks = n.div_ceil(4 * THREADS as usize).clamp(1, 3 * cuda.multiprocessors());
    let shape = Shape::blocks(blocks, THREADS).with_shared(here * size_of::<f32>());
    // SAFETY: the kernel reads and writes the voxels of the images, and reads entries of the table whose
    // columns it keeps below their number.
    unsafe {
        MAP.map_values(
            cuda,
            shape,
            values,
            n as u64,
            Columns::new(columns),
            here as u32,
            &table,
            mapped,
            derivative,
        )
    }
}
