//! Joint histograms with cubic B-spline windows over the moving values, and their derivative.
//!
//! Histograms are counted in fixed point, so that they do not depend on the order in which blocks
//! run. In a tile of `n` samples (at most 2^14) the unit is the largest weight of all samples times
//! `n / 2^31`, `n` rounded up to a power of two: at most 2^-17 of that weight. A thread adds the
//! windows of samples that follow each other and fall into the same columns before it rounds them,
//! so that an entry is wrong by at most half a unit for each of its samples; on the average these
//! errors cancel.

use super::sampler::{Maps, Moving, Sampling, THREADS};
use super::sums::add_tiles;
use super::{CudaSamples, at_once};
use crate::AffineMap;
use crate::cuda::{Cuda, Shape};
use crate::device::Memory;
use crate::error::Result;
use crate::ops::histogram::{MovingView, ParzenBins, check_joint, check_tables};

kernels! { JOINT = "histogram/joint.cu";
    fn joint_histogram[THREADS](
        sampling: Sampling, packed: &[u32], weights: &[f32], tile_len: &[u32], tile_ranks: &[u32],
        rank_bin: &[u32], columns: Columns, bins: u32, scale: f32, here_ranks: u32, box_at: u32,
        room: u32, counts: &mut [u64],
    );
    fn joint_gradient[THREADS](
        sampling: Sampling, packed: &[u32], weights: &[f32], tile_len: &[u32], tile_ranks: &[u32],
        rank_bin: &[u32], columns: Columns, bins: u32, table: &[f32], here_ranks: u32, box_at: u32,
        room: u32, partials: &mut [f64],
    );
}

/// Bytes of shared memory for the rows of a tile; larger tables are used where they are.
const MOST_SHARED: usize = 72 << 10;
/// Units of a sample of the largest weight.
const UNITS: f64 = (1u64 << 31) as f64;

plain! {
    /// Where values fall among the columns; `Columns` of columns.cuh.
    pub(in crate::cuda) struct Columns {
        low: f32,
        per_value: f32,
        first: f32,
        last: f32,
        count: u32,
    }
}

impl Columns {
    pub(in crate::cuda) fn new(bins: &ParzenBins) -> Self {
        Self {
            low: bins.low,
            per_value: bins.per_value(),
            first: ParzenBins::MARGIN as f32,
            last: (bins.count - 1 - ParzenBins::MARGIN) as f32,
            count: bins.count as u32,
        }
    }
}

/// The rows that fit in shared memory (0 if they do not), and their bytes.
fn rows_here(samples: &CudaSamples, columns: &ParzenBins) -> (u32, usize) {
    let bytes = samples.most_ranks * columns.count * size_of::<u32>();
    if bytes <= MOST_SHARED {
        (samples.most_ranks as u32, bytes.next_multiple_of(16))
    } else {
        (0, 0)
    }
}

/// Joint histograms of every map, `bins x columns`.
pub(super) fn histogram(
    cuda: &Cuda,
    samples: &CudaSamples,
    moving: &MovingView<'_, Cuda>,
    columns: &ParzenBins,
    maps: &[AffineMap],
) -> Result<Vec<Vec<f64>>> {
    let moving = Moving::new(moving, maps)?;
    let size = check_joint(samples.bins, columns)?;
    let scale = (UNITS / samples.most_weight) as f32;
    let unit = 1.0 / f64::from(scale);
    let tiles = samples.tiling.count();
    let mut all = Vec::with_capacity(maps.len());
    for part in maps.chunks(at_once(size * size_of::<u64>())) {
        let of_device = Maps::new(cuda, part)?;
        let (rows, bytes) = rows_here(samples, columns);
        let room = moving.room(cuda, &samples.tiling, part, bytes);
        let mut counts = cuda.alloc::<u64>(part.len() * size)?;
        let mut shape = Shape::blocks(tiles, THREADS).with_shared(bytes + room * size_of::<f32>());
        shape.grid[1] = part.len() as u32;
        // SAFETY: the kernel reads samples and entries of the tiles and moving voxels of clamped cells,
        // and adds to entries whose bins and columns it keeps below their numbers.
        unsafe {
            JOINT.joint_histogram(
                cuda,
                shape,
                moving.sampling(samples.tiling, &of_device),
                &samples.packed,
                samples.weights.as_ref(),
                &samples.tile_len,
                &samples.tile_ranks,
                &samples.rank_bin,
                Columns::new(columns),
                samples.bins as u32,
                scale,
                rows,
                (bytes / size_of::<f32>()) as u32,
                room as u32,
                &mut counts,
            )?;
        }
        let counts = cuda.download(&counts)?;
        all.extend(
            counts
                .chunks_exact(size)
                .map(|table| table.iter().map(|&c| c as f64 * unit).collect::<Vec<_>>()),
        );
    }
    Ok(all)
}

/// For every map the derivative of a function of its joint histogram.
pub(super) fn gradient(
    cuda: &Cuda,
    samples: &CudaSamples,
    moving: &MovingView<'_, Cuda>,
    columns: &ParzenBins,
    maps: &[AffineMap],
    tables: &[Vec<f64>],
) -> Result<Vec<[f64; 12]>> {
    let moving = Moving::new(moving, maps)?;
    let size = check_joint(samples.bins, columns)?;
    check_tables(samples.bins, columns, maps, tables)?;
    let tiles = samples.tiling.count();
    let chunk = at_once(size * size_of::<f32>() + tiles * 12 * size_of::<f64>());
    let mut all = Vec::with_capacity(maps.len());
    for (part, tables) in maps.chunks(chunk).zip(tables.chunks(chunk)) {
        let of_device = Maps::new(cuda, part)?;
        let (rows, bytes) = rows_here(samples, columns);
        let table: Vec<f32> = tables.iter().flatten().map(|&v| v as f32).collect();
        let table = cuda.upload(&table)?;
        // The sums of warps take some shared memory as well.
        let room = moving.room(cuda, &samples.tiling, part, bytes + 2048);
        let mut partials = cuda.alloc_unset::<f64>(part.len() * tiles * 12)?;
        let mut shape = Shape::blocks(tiles, THREADS).with_shared(bytes + room * size_of::<f32>());
        shape.grid[1] = part.len() as u32;
        // SAFETY: as above; the table has `bins x columns` numbers a map, `partials` twelve a tile
        // and map.
        unsafe {
            JOINT.joint_gradient(
                cuda,
                shape,
                moving.sampling(samples.tiling, &of_device),
                &samples.packed,
                samples.weights.as_ref(),
                &samples.tile_len,
                &samples.tile_ranks,
                &samples.rank_bin,
                Columns::new(columns),
                samples.bins as u32,
                &table,
                rows,
                (bytes / size_of::<f32>()) as u32,
                room as u32,
                &mut partials,
            )?;
        }
        let found = cuda.download(&add_tiles(cuda, &partials, tiles, part.len())?)?;
        all.extend(found.chunks_exact(12).map(|g| -> [f64; 12] { std::array::from_fn(|e| g[e]) }));
    }
    Ok(all)
}
