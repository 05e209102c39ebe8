//! Both images in the layout of schemes and baselines without grouping, made on first use, as the default path
//! does not need them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::super::group::{CudaSamples, Tiling};
use super::super::sampler::{THREADS, TargetShape};
use crate::AffineMap;
use crate::cuda::declare::{Cell, In, Kind, Out, Parameter, Plain};
use crate::cuda::{Arg, Cuda, CudaBuffer, Shape};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::histogram::MovingView;
use voxalign_image::memory::amount;

cells! {
    /// Two adjacent numbers.
    pub(super) Float2 = "float2";
}

kernels! { UNGROUPED = "histogram/baselines/ungrouped.cu";
    fn spread_samples[THREADS](
        tiling: Tiling, packed: &[u32], sample_values: &[f32], sample_weights: &[f32], tile_len: &[u32],
        rank_bin: &[u32], bins: &mut [u16], values: &mut [f32], weights: &mut [f32],
    );
    fn make_pairs[256](values: &[f32], count: u64, pairs: &mut [Float2]);
    fn largest_size[256](values: &[f32], count: u64, largest: &mut [u32]);
}

/// The number of a voxel that is not a sample.
const NO_BIN: u16 = 0xffff;
/// The most bins that these numbers can distinguish.
const MOST_BINS: usize = NO_BIN as usize - 1;

/// A grid that covers `items` items with some for every thread.
fn covering(items: usize) -> Shape {
    Shape::blocks(items.div_ceil(1024).min(1 << 16), 256)
}

plain! {
    /// The fixed image.
    struct ImageShape {
        /// Voxels.
        count: u64,
        nx: u32,
        ny: u32,
    }
}

/// The first parameters of kernels that use ungrouped samples; `UNGROUPED` of ungrouped.cuh.
#[derive(Debug, Clone)]
pub(super) struct Looking {
    bins: In<u16>,
    weights: In<f32>,
    values: In<f32>,
    image: ImageShape,
    pairs: In<Float2>,
    mask: In<f32>,
    target: TargetShape,
    maps: In<f32>,
}

impl Parameter for Looking {
    const KINDS: &'static [Kind] = &[
        Kind::In(u16::NAME),
        Kind::In(f32::NAME),
        Kind::In(f32::NAME),
        ImageShape::KIND,
        Kind::In(Float2::NAME),
        Kind::In(f32::NAME),
        TargetShape::KIND,
        Kind::In(f32::NAME),
    ];

    fn push(self, args: &mut Vec<Arg>) {
        self.bins.push(args);
        self.weights.push(args);
        self.values.push(args);
        self.image.push(args);
        self.pairs.push(args);
        self.mask.push(args);
        self.target.push(args);
        self.maps.push(args);
    }
}

/// The largest size of the finite values of a buffer.
fn largest(cuda: &Cuda, values: &CudaBuffer<f32>) -> Result<f32> {
    let mut out = cuda.alloc::<u32>(1)?;
    let count = values.len();
    // SAFETY: the kernel reads `count` values and changes one number.
    unsafe { UNGROUPED.largest_size(cuda, covering(count), values, count as u64, &mut out)? };
    Ok(f32::from_bits(cuda.download(&out)?.first().copied().unwrap_or_default()))
}

/// Why samples cannot be kept in the order of the image, where that is so.
pub(super) fn too_many(bins: usize, voxels: usize) -> Option<ComputeError> {
    if bins > MOST_BINS {
        Some(ComputeError::argument("bins", bins, "at most 65534 with this scheme"))
    } else if voxels > u32::MAX as usize {
        Some(ComputeError::argument("voxels", voxels, "at most 2^32 - 1 with this scheme"))
    } else {
        None
    }
}

/// Samples of the fixed image in the order of the image.
#[derive(Debug)]
pub(in crate::cuda::histogram) struct Ungrouped {
    shape: ImageShape,
    bins: CudaBuffer<u16>,
    weights: Option<CudaBuffer<f32>>,
    values: Option<CudaBuffer<f32>>,
    /// The largest weight and the largest size of a value.
    largest: OnceLock<(f32, f32)>,
    /// The numbers of the samples' voxels sorted by bin, and where each bin begins.
    sorted: OnceLock<Arc<Sorted>>,
}

/// Samples sorted by bin.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) order: CudaBuffer<u32>,
    /// Where the samples of each bin begin, and where the last end.
    pub(super) first: Vec<u32>,
    /// Work of blocks, by the most rows and the most samples of a block.
    items: Mutex<HashMap<(usize, usize), Arc<Items>>>,
}

/// The work of blocks: for each its first and last sample, its first row and its number of rows.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) list: CudaBuffer<u32>,
    pub(super) count: usize,
}

impl Tiling {
    /// The voxels of the image.
    fn voxels(&self) -> usize {
        self.size.iter().map(|&n| n as usize).product()
    }
}

impl CudaSamples {
    /// The samples in the order of the image, made when they are first asked for.
    ///
    /// # Errors
    /// As [`Ungrouped::new`].
    pub(super) fn ungrouped(&self, cuda: &Cuda) -> Result<&Ungrouped> {
        if let Some(made) = self.ungrouped.get() {
            return Ok(made);
        }
        // Made outside of the cell, as it may fail; the first that is there is kept.
        let made = Ungrouped::new(cuda, self)?;
        Ok(self.ungrouped.get_or_init(|| made))
    }
}

impl Ungrouped {
    /// The grouped samples in the order of the image; the device is done with it at the end, so that
    /// any stream may use it.
    ///
    /// # Errors
    /// More bins or voxels than can be told apart, memory that runs out.
    pub(super) fn new(cuda: &Cuda, samples: &CudaSamples) -> Result<Self> {
        let (size, count) = (samples.tiling.size, samples.tiling.voxels());
        if let Some(reason) = too_many(samples.bins, count) {
            return Err(reason);
        }
        let mut bins = cuda.alloc_unset::<u16>(count)?;
        let like = |grouped: &Option<CudaBuffer<f32>>| {
            grouped.as_ref().map(|_| cuda.alloc_unset::<f32>(count)).transpose()
        };
        let (mut values, mut weights) = (like(&samples.values)?, like(&samples.weights)?);
        // SAFETY: a block reads the places and entries of its tile and writes the tile's voxels within
        // the sizes, for all of which the buffers have room.
        unsafe {
            UNGROUPED.spread_samples(
                cuda,
                Shape::blocks(samples.tiling.count(), THREADS),
                samples.tiling,
                &samples.packed,
                samples.values.as_ref(),
                samples.weights.as_ref(),
                &samples.tile_len,
                &samples.rank_bin,
                &mut bins,
                values.as_mut(),
                weights.as_mut(),
            )?;
        }
        cuda.synchronize()?;
        Ok(Self {
            shape: ImageShape { count: count as u64, nx: size[0], ny: size[1] },
            bins,
            weights,
            values,
            largest: OnceLock::new(),
            sorted: OnceLock::new(),
        })
    }

    /// The voxels.
    pub(super) fn count(&self) -> usize {
        self.shape.count as usize
    }

    /// The first parameters of every kernel, up to those of the maps.
    pub(super) fn looking(&self, target: &Target<'_>, maps: &CudaBuffer<f32>) -> Looking {
        Looking {
            bins: (&self.bins).into(),
            weights: self.weights.as_ref().into(),
            values: self.values.as_ref().into(),
            image: self.shape,
            pairs: In::cast(&target.pairs),
            mask: target.mask.into(),
            target: target.shape,
            maps: maps.into(),
        }
    }

    /// The largest weight (1 without weights) and the largest size of a value (0 without values).
    pub(super) fn largest(&self, cuda: &Cuda) -> Result<(f32, f32)> {
        if let Some(&found) = self.largest.get() {
            return Ok(found);
        }
        let of = |buffer: &Option<CudaBuffer<f32>>, none| {
            buffer.as_ref().map_or(Ok(none), |b| largest(cuda, b))
        };
        let found = (of(&self.weights, 1.0)?, of(&self.values, 0.0)?);
        Ok(*self.largest.get_or_init(|| found))
    }

    /// The samples sorted by bin, on the host and once.
    pub(super) fn sorted(&self, cuda: &Cuda, bins: usize) -> Result<Arc<Sorted>> {
        if let Some(found) = self.sorted.get() {
            return Ok(Arc::clone(found));
        }
        let of_voxels = cuda.download(&self.bins)?;
        let mut first = vec![0u32; bins + 1];
        for &b in of_voxels.iter().filter(|&&b| b != NO_BIN) {
            first[usize::from(b) + 1] += 1;
        }
        for b in 0..bins {
            first[b + 1] += first[b];
        }
        let mut next = first.clone();
        let mut order = vec![0u32; first[bins] as usize];
        for (i, &b) in of_voxels.iter().enumerate().filter(|&(_, &b)| b != NO_BIN) {
            let at = &mut next[usize::from(b)];
            order[*at as usize] = i as u32;
            *at += 1;
        }
        let sorted = Sorted { order: cuda.upload(&order)?, first, items: Mutex::default() };
        Ok(Arc::clone(self.sorted.get_or_init(|| Arc::new(sorted))))
    }
}

impl Sorted {
    /// The samples in pieces of at most `share` samples and `rows` rows.
    pub(super) fn items(&self, cuda: &Cuda, rows: usize, share: usize) -> Result<Arc<Items>> {
        let mut known = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&(rows, share)) {
            return Ok(Arc::clone(found));
        }
        let mut list = Vec::new();
        let (mut row, end) = (0, self.first.last().copied().unwrap_or_default());
        let mut start = 0;
        while start < end {
            while self.first[row + 1] <= start {
                row += 1;
            }
            let last_row = (row + rows).min(self.first.len() - 1);
            let stop = self.first[last_row].min(start.saturating_add(share as u32));
            let mut top = row;
            while self.first[top + 1] < stop {
                top += 1;
            }
            list.extend([start, stop, row as u32, (top + 1 - row) as u32]);
            start = stop;
        }
        let items = Arc::new(Items { list: cuda.upload(&list)?, count: list.len() / 4 });
        known.insert((rows, share), Arc::clone(&items));
        Ok(items)
    }
}

/// The moving image.
#[derive(Debug)]
pub(super) struct Target<'a> {
    values: &'a CudaBuffer<f32>,
    pub(super) pairs: CudaBuffer<f32>,
    mask: Option<&'a CudaBuffer<f32>>,
    shape: TargetShape,
}

impl<'a> Target<'a> {
    /// The view was checked.
    pub(super) fn new(cuda: &Cuda, view: &'a MovingView<'_, Cuda>) -> Result<Self> {
        let count = view.values.len();
        let mut pairs = cuda.alloc_unset::<f32>(2 * count)?;
        let (shape, out) = (covering(count), Out::cast(&mut pairs));
        // SAFETY: the pairs have room for two numbers a voxel.
        unsafe { UNGROUPED.make_pairs(cuda, shape, view.values, count as u64, out)? };
        let shape = TargetShape::new(view);
        Ok(Self { values: view.values, pairs, mask: view.mask, shape })
    }

    /// The voxels.
    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    /// The largest size of a value.
    pub(super) fn largest(&self, cuda: &Cuda) -> Result<f32> {
        largest(cuda, self.values)
    }

    /// The maps as the kernels take them: twelve numbers each.
    pub(super) fn maps(&self, cuda: &Cuda, maps: &[AffineMap]) -> Result<CudaBuffer<f32>> {
        let flat = self.shape.is_flat();
        let numbers: Vec<f32> = maps
            .iter()
            .flat_map(|m| (0..12).map(|i| (i, m[i / 4][i % 4] as f32)))
            // A flat image has no third coordinate.
            .map(|(i, v)| if flat && i >= 8 { 0.0 } else { v })
            .collect();
        cuda.upload(&numbers)
    }
}

/// Blocks and threads for a scheme that needs `per_warp` bytes of shared memory per warp and `fixed` in addition.
///
/// # Errors
/// Threads that no block can have, or more shared memory than there is.
pub(super) fn fit(
    cuda: &Cuda,
    what: &dyn Fn() -> String,
    threads: usize,
    per_warp: usize,
    fixed: usize,
) -> Result<usize> {
    if threads == 0 || threads > 1024 || !threads.is_multiple_of(32) {
        return Err(ComputeError::argument("threads", threads, "a multiple of 32, at most 1024"));
    }
    let bytes = (threads / 32).saturating_mul(per_warp).saturating_add(fixed);
    let most = cuda.shared_memory();
    if bytes > most {
        return Err(too_large(
            cuda,
            format!(
                "{}: {bytes} bytes of shared memory per block, of which {most} are available,",
                what()
            ),
        ));
    }
    Ok(bytes)
}

/// The error of histograms that do not fit.
pub(super) fn too_large(cuda: &Cuda, what: String) -> ComputeError {
    ComputeError::Unsupported {
        device: cuda.name(),
        what,
        remedy: "use fewer bins, threads or blocks, or another scheme",
    }
}

/// The number of blocks that the caller requests, or enough to fill the GPU with the blocks of all maps and to give
/// every thread some voxels.
pub(super) fn blocks(
    cuda: &Cuda,
    wanted: Option<usize>,
    threads: usize,
    voxels: usize,
    maps: usize,
) -> Result<usize> {
    if let Some(blocks) = wanted {
        return if blocks == 0 || blocks > 1 << 20 {
            Err(ComputeError::argument("blocks", blocks, "between 1 and 1048576"))
        } else {
            Ok(blocks)
        };
    }
    let resident = cuda.multiprocessors() * (2048 / threads).max(1);
    let most = voxels.div_ceil(8 * threads).max(1);
    Ok((2 * resident).div_ceil(maps.max(1)).clamp(1, most))
}

/// The number of maps evaluated at once, if one needs `bytes` of scratch memory.
///
/// # Errors
/// If there is no room for one.
pub(super) fn maps_at_once(cuda: &Cuda, what: &dyn Fn() -> String, bytes: usize) -> Result<usize> {
    // What no memory of the device would do for is not supported; what does not fit at present ends
    // as any other request.
    let memory = cuda.memory();
    let bytes_of = |known: Option<u64>| known.map_or(1 << 30, |b| b as usize);
    let (free, total) = (bytes_of(memory.free), bytes_of(memory.total));
    if bytes > total / 10 * 9 {
        return Err(too_large(
            cuda,
            format!(
                "{}: {} of histograms on a device of {},",
                what(),
                amount(bytes as u64),
                amount(total as u64)
            ),
        ));
    }
    Ok(((free / 2).min(2 << 30) / bytes.max(1)).clamp(1, 65535))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_many_is_named() {
        assert_eq!(too_many(MOST_BINS, u32::MAX as usize), None);
        let said = |bins, voxels| too_many(bins, voxels).unwrap().to_string();
        assert!(said(MOST_BINS + 1, 1).starts_with("bins is 65535, but must be at most 65534"));
        assert!(said(8, 1 << 32).starts_with("voxels is 4294967296, but must be at most 2^32 - 1"));
    }
}
