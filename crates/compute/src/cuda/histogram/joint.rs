//! Joint histograms with cubic B-spline windows over the moving values, and their derivative.
//!
//! Histograms are counted in fixed point, so that they do not depend on the order in which blocks
//! run. In a tile of `n` samples (at most 2^14) the unit is the largest weight of all samples times
//! `n / 2^31`, `n` rounded up to a power of two: at most 2^-17 of that weight. A thread adds the
//! windows of samples that follow each other and fall into the same columns before it rounds them,
//! so that an entry is wrong by at most half a unit for each of its samples; on the average these
//! errors cancel.

use std::sync::LazyLock;

use super::sampler::{Maps, Moving, THREADS};
use super::sums::add_tiles;
use super::{CudaSamples, at_once};
use crate::AffineMap;
use crate::cuda::{Arg, Cuda, Plain, Program, Shape};
use crate::device::Memory;
use crate::error::Result;
use crate::ops::histogram::{MovingView, ParzenBins, check_joint, check_tables};

static JOINT: LazyLock<Program> =
    LazyLock::new(|| Program::new("joint", include_str!("../kernels/joint.cu")));

/// Bytes of shared memory for the rows of a tile; larger tables are used where they are.
const MOST_SHARED: usize = 72 << 10;
/// Units of a sample of the largest weight.
const UNITS: f64 = (1u64 << 31) as f64;

/// Where values fall among the columns; `Columns` of columns.cuh.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(in crate::cuda) struct Columns {
    low: f32,
    per_value: f32,
    first: f32,
    last: f32,
    count: u32,
}

// SAFETY: `repr(C)`, fields of four bytes only, in the order of the structure of the kernels.
unsafe impl Plain for Columns {}

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

/// What both operators need: the rows that fit in shared memory (0 if they do not), their bytes,
/// and the parameters that the kernels begin with.
fn prepare(
    samples: &CudaSamples,
    moving: &Moving<'_>,
    maps: &Maps,
    columns: &ParzenBins,
) -> (u32, usize, Vec<Arg>) {
    let bytes = samples.most_ranks * columns.count * size_of::<u32>();
    let (rows, bytes) = if bytes <= MOST_SHARED {
        (samples.most_ranks, bytes.next_multiple_of(16))
    } else {
        (0, 0)
    };
    let mut args = vec![Arg::of(samples.tiling)];
    args.extend(moving.args());
    args.extend(maps.args());
    args.extend([
        Arg::from(&samples.packed),
        Arg::optional(samples.weights.as_ref()),
        (&samples.tile_len).into(),
        (&samples.tile_ranks).into(),
        (&samples.rank_bin).into(),
        Arg::of(Columns::new(columns)),
        (samples.bins as u32).into(),
    ]);
    (rows as u32, bytes, args)
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
        let (rows, bytes, mut args) = prepare(samples, &moving, &of_device, columns);
        let room = moving.room(cuda, &samples.tiling, part, bytes);
        let mut counts = cuda.alloc::<u64>(part.len() * size)?;
        args.extend([
            Arg::from(scale),
            rows.into(),
            ((bytes / size_of::<f32>()) as u32).into(),
            (room as u32).into(),
            (&mut counts).into(),
        ]);
        let mut shape = Shape::blocks(tiles, THREADS).with_shared(bytes + room * size_of::<f32>());
        shape.grid[1] = part.len() as u32;
        // SAFETY: the parameters are the kernel's. It reads samples and entries of the tiles and
        // moving voxels of clamped cells, and adds to entries whose bins and columns it keeps below
        // their numbers.
        unsafe { cuda.launch(&JOINT, "joint_histogram", shape, &args)? };
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
        let (rows, bytes, mut args) = prepare(samples, &moving, &of_device, columns);
        let table: Vec<f32> = tables.iter().flatten().map(|&v| v as f32).collect();
        let table = cuda.upload(&table)?;
        // The sums of warps take some shared memory as well.
        let room = moving.room(cuda, &samples.tiling, part, bytes + 2048);
        let mut partials = cuda.alloc_unset::<f64>(part.len() * tiles * 12)?;
        args.extend([
            Arg::from(&table),
            rows.into(),
            ((bytes / size_of::<f32>()) as u32).into(),
            (room as u32).into(),
            (&mut partials).into(),
        ]);
        let mut shape = Shape::blocks(tiles, THREADS).with_shared(bytes + room * size_of::<f32>());
        shape.grid[1] = part.len() as u32;
        // SAFETY: as above; the table has `bins x columns` numbers a map, `partials` twelve a tile
        // and map.
        unsafe { cuda.launch(&JOINT, "joint_gradient", shape, &args)? };
        let found = cuda.download(&add_tiles(cuda, &partials, tiles, part.len())?)?;
        all.extend(found.chunks_exact(12).map(|g| -> [f64; 12] { std::array::from_fn(|e| g[e]) }));
    }
    Ok(all)
}
