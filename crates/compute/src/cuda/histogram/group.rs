//! Grouping the samples of a fixed image on the device.

#[cfg(feature = "baselines")]
use std::sync::OnceLock;

#[cfg(feature = "baselines")]
use super::baselines::Ungrouped;
use super::sampler::THREADS;
use crate::Dims;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::Reduce;
use crate::ops::histogram::{LayoutOptions, SampleSet, check_weights};
use crate::ops::reduce::Reduction;

kernels! { pub(super) SAMPLES = "histogram/samples.cu";
    fn sort_tiles[THREADS](
        tiling: Tiling, of: BinOf, values: &[f32], weights: &[f32], passes: u32, packed: &mut [u32],
        sample_values: &mut [f32], sample_weights: &mut [f32], tile_len: &mut [u32],
        tile_ranks: &mut [u32], rank_bin: &mut [u32], rank_start: &mut [u32], counts: &mut [u32],
        summary: &mut [f64],
    );
    fn scan_counts[1024](counts: &mut [u32], n: u32);
    fn list_entries[256](
        tiling: Tiling, tile_ranks: &[u32], rank_bin: &[u32], bin_first: &[u32], bins: u32, lanes: u32,
        entries: &mut [u64],
    );
    fn count_values[256](
        values: &[f32], weights: &[f32], n: u64, low: f32, high: f32, scale: f64, bins: u32, here: u32,
        counts: &mut [u64],
    );
    fn add_tiles[256](partials: &[f64], tiles: u32, numbers: u32, sums: &mut [f64]);
}

/// Bits of the index of a voxel within a tile.
const TILE_BITS: u32 = 14;
/// Fewer bins can be sorted together with such an index in 32 bits; with more, tiles are smaller.
const MOST_BINS: usize = 1 << (32 - TILE_BITS);
/// Bytes of shared memory that sorting the largest tiles takes.
const SORTING: usize = 84 << 10;
/// Numbers of a tile's summary.
const SUMMARY: usize = 5;

plain! {
    /// How the fixed image is cut into tiles.
    pub(super) struct Tiling {
        /// Of the image, voxels.
        pub(super) size: [u32; 3],
        /// Tiles along each axis.
        pub(super) tiles: [u32; 3],
        /// A tile has `2^axis_bits` voxels along each axis.
        pub(super) axis_bits: [u32; 3],
        /// Their sum.
        pub(super) bits: u32,
        /// Bins that a tile has room for.
        pub(super) capacity: u32,
    }
}

impl Tiling {
    fn new(dims: Dims, bins: usize, shared_memory: usize) -> Result<Self> {
        let bits = if bins >= MOST_BINS {
            TILE_BITS - 3
        } else if shared_memory < SORTING {
            TILE_BITS - 1
        } else {
            TILE_BITS
        };
        // All axes get a share of the bits, thin ones no more than they have voxels.
        let needed = |a: usize| usize::BITS - (dims[a] - 1).leading_zeros();
        let z = needed(2).min(bits - 10);
        let y = needed(1).min((bits - z) / 2);
        let x = bits - z - y;
        let axis_bits = [x, y, z];
        let tiles: [usize; 3] = std::array::from_fn(|a| dims[a].div_ceil(1 << axis_bits[a]));
        let count = tiles.iter().try_fold(1usize, |n, &t| n.checked_mul(t));
        if count.is_none_or(|n| n > i32::MAX as usize) {
            return Err(ComputeError::Dims { what: "fixed image", dims });
        }
        Ok(Self {
            size: dims.map(|d| d as u32),
            tiles: tiles.map(|t| t as u32),
            axis_bits,
            bits,
            capacity: bins.min(1 << bits) as u32,
        })
    }

    /// The number of tiles.
    pub(super) fn count(&self) -> usize {
        self.tiles.iter().map(|&t| t as usize).product()
    }
}

/// The samples of a fixed image in GPU memory, grouped by tile and then by bin; `kernels/sampler.cuh` documents the
/// order within a tile.
#[derive(Debug)]
pub struct CudaSamples {
    pub(super) tiling: Tiling,
    /// The samples, `2^bits` places a tile.
    pub(super) packed: CudaBuffer<u32>,
    /// Their values, in the same places.
    pub(super) values: Option<CudaBuffer<f32>>,
    /// Their weights, in the same places.
    pub(super) weights: Option<CudaBuffer<f32>>,
    /// The number of samples of each tile, and the number of bins among them.
    pub(super) tile_len: CudaBuffer<u32>,
    pub(super) tile_ranks: CudaBuffer<u32>,
    /// For each tile and rank, `capacity` a tile, the bin and the number of its first sample.
    pub(super) rank_bin: CudaBuffer<u32>,
    pub(super) rank_start: CudaBuffer<u32>,
    /// For each bin the tiles' entries of it, `tile * capacity + rank`, in the order of tiles: from
    /// `bin_first[bin]` to `bin_first[bin + 1]` of `bin_entries`.
    pub(super) bin_first: CudaBuffer<u32>,
    pub(super) bin_entries: CudaBuffer<u64>,
    pub(super) bins: usize,
    pub(super) len: usize,
    pub(super) total_weight: f64,
    /// The largest weight; 1 without weights.
    pub(super) most_weight: f64,
    /// The same samples in the order of the image, once a scheme has asked for them.
    #[cfg(feature = "baselines")]
    pub(super) ungrouped: OnceLock<Ungrouped>,
    /// The most bins that occur in a tile.
    pub(super) most_ranks: usize,
}

impl SampleSet for CudaSamples {
    fn len(&self) -> usize {
        self.len
    }

    fn bins(&self) -> usize {
        self.bins
    }

    fn total_weight(&self) -> f64 {
        self.total_weight
    }
}

plain! {
    /// How values fall into bins, in the arithmetic of
    /// [`Binning::bin`](crate::ops::histogram::Binning).
    pub(super) struct BinOf {
        low: f32,
        scale: f32,
        last: f32,
    }
}

/// The samples as the trait defines them. Nothing in it depends on the order in which blocks run.
pub(super) fn group(
    cuda: &Cuda,
    values: &CudaBuffer<f32>,
    dims: Dims,
    weights: Option<&CudaBuffer<f32>>,
    options: &LayoutOptions,
) -> Result<CudaSamples> {
    use crate::device::DeviceBuffer;
    options.check(values.len(), dims, weights.map(DeviceBuffer::len))?;
    let binning = options.binning;
    let bins = binning.bins;
    let tiling = Tiling::new(dims, bins, cuda.shared_memory())?;
    let tiles = tiling.count();
    let places = tiles << tiling.bits;
    let entries = tiles * tiling.capacity as usize;
    let span = binning.high - binning.low;
    let one_bin = span <= 0.0 || bins <= 1;
    let of = BinOf {
        low: binning.low,
        scale: if one_bin { 0.0 } else { bins as f32 / span },
        last: if one_bin { 0.0 } else { (bins - 1) as f32 },
    };
    let passes = (usize::BITS - (bins - 1).leading_zeros()).div_ceil(8).max(1);
    let mut samples = CudaSamples {
        tiling,
        packed: cuda.alloc_unset(places)?,
        values: if options.keep_values { Some(cuda.alloc_unset(places)?) } else { None },
        weights: if weights.is_some() { Some(cuda.alloc_unset(places)?) } else { None },
        tile_len: cuda.alloc_unset(tiles)?,
        tile_ranks: cuda.alloc_unset(tiles)?,
        rank_bin: cuda.alloc_unset(entries)?,
        rank_start: cuda.alloc_unset(entries)?,
        bin_first: cuda.alloc(bins + 1)?,
        bin_entries: cuda.alloc_unset(0)?,
        bins,
        len: 0,
        total_weight: 0.0,
        most_weight: 1.0,
        #[cfg(feature = "baselines")]
        ungrouped: OnceLock::new(),
        most_ranks: 0,
    };
    let mut summary = cuda.alloc_unset::<f64>(SUMMARY * tiles)?;
    let shape = Shape::blocks(tiles, THREADS).with_shared(size_of::<u32>() << tiling.bits);
    // SAFETY: the kernel reads voxels within the sizes, which the buffers were checked against, and
    // writes the places and entries of its tile, for which the buffers above have room; counts go to
    // bins below `bins`, one place on.
    unsafe {
        SAMPLES.sort_tiles(
            cuda,
            shape,
            tiling,
            of,
            values,
            weights,
            passes,
            &mut samples.packed,
            samples.values.as_mut(),
            samples.weights.as_mut(),
            &mut samples.tile_len,
            &mut samples.tile_ranks,
            &mut samples.rank_bin,
            &mut samples.rank_start,
            &mut samples.bin_first,
            &mut summary,
        )?;
        // SAFETY: one block; the counts of all bins, in place.
        let shape = Shape::blocks(1, 1024);
        SAMPLES.scan_counts(cuda, shape, &mut samples.bin_first, bins as u32)?;
    }
    let mut total_entries = 0usize;
    for tile in cuda.download(&summary)?.chunks_exact(SUMMARY) {
        if let (true, Some(weights)) = (tile[4] > 0.0, weights) {
            let what = [Reduction::Min(0), Reduction::CountNonFinite(0)];
            if let [least, odd] = cuda.reduce(&[weights], &what)?[..] {
                check_weights("fixed weights", least, odd as u64)?;
            }
        }
        samples.len += tile[0] as usize;
        samples.total_weight += tile[1];
        if weights.is_some() {
            samples.most_weight =
                if total_entries == 0 { tile[2] } else { samples.most_weight.max(tile[2]) };
        }
        samples.most_ranks = samples.most_ranks.max(tile[3] as usize);
        total_entries += tile[3] as usize;
    }
    if total_entries > u32::MAX as usize {
        return Err(ComputeError::Dims { what: "fixed image", dims });
    }
    samples.bin_entries = cuda.alloc_unset(total_entries)?;
    if total_entries > 0 {
        let lanes = tiles.next_power_of_two().min(32);
        // SAFETY: the kernel writes as many entries as were counted.
        unsafe {
            SAMPLES.list_entries(
                cuda,
                Shape::covering(bins * lanes, 256),
                tiling,
                &samples.tile_ranks,
                &samples.rank_bin,
                &samples.bin_first,
                bins as u32,
                lanes as u32,
                &mut samples.bin_entries,
            )?;
        }
    }
    Ok(samples)
}
