//! Binned sums and their derivatives.

use std::sync::LazyLock;

use rayon::prelude::*;

use super::group::SAMPLES;
use super::sampler::{Maps, Moving, Sampling, THREADS};
use super::{CudaSamples, at_once};
use crate::AffineMap;
use crate::cuda::declare::{In, Out};
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::{Element, Memory};
use crate::error::{ComputeError, Result, check_len};
use crate::ops::histogram::{MovingView, SumsAndGradient, Terms};

cells! {
    /// The numbers that the kernels sum in, of single or double precision.
    Summed = "Real";
}

kernels! { HISTOGRAM = "histogram/histogram.cu";
    fn binned_sums[THREADS](
        sampling: Sampling, packed: &[u32], fixed: &[f32], weights: &[f32], tile_len: &[u32],
        tile_ranks: &[u32], rank_start: &[u32], slots: u32, box_at: u32, room: u32,
        scratch: &mut [Summed], partials: &mut [f64],
    );
    fn add_entries[256](
        partials: &[f64], bin_first: &[u32], bin_entries: &[u64], entries: u64, bins: u32, lanes: u32,
        sums: &mut [f64],
    );
    fn binned_gradient[THREADS](
        sampling: Sampling, packed: &[u32], fixed: &[f32], weights: &[f32], tile_len: &[u32],
        tile_ranks: &[u32], rank_bin: &[u32], derivatives: &[Summed], bins: u32, near_ranks: u32,
        box_at: u32, room: u32, partials: &mut [f64],
    );
}

/// For single and for double precision, three terms and six.
static PROGRAMS: LazyLock<[[HISTOGRAM; 2]; 2]> = LazyLock::new(|| {
    [0, 1].map(|direct| [3, 6].map(|terms| HISTOGRAM.with(&[("TERMS", terms), ("DIRECT", direct)])))
});

/// Bytes of shared memory for the places of sums or for derivatives; tiles with more bins use the
/// memory of the GPU.
const MOST_SHARED: usize = 48 << 10;
/// Threads of a block that adds the sums of tiles, and the most of them for a bin.
const ADDING: usize = 256;

/// The numbers that the kernels sum in.
trait Real: Element {
    /// The number of the programs.
    const DIRECT: usize;
    fn from_f64(v: f64) -> Self;
}

impl Real for f32 {
    const DIRECT: usize = 0;
    fn from_f64(v: f64) -> Self {
        v as f32
    }
}

impl Real for f64 {
    const DIRECT: usize = 1;
    fn from_f64(v: f64) -> Self {
        v
    }
}

/// Shared by all launches of one call.
struct Call<'a> {
    cuda: &'a Cuda,
    terms: Terms,
    samples: &'a CudaSamples,
    moving: Moving<'a>,
}

/// The sums of every map, `bins x terms`; in double precision throughout if `direct`.
pub(super) fn sums(
    cuda: &Cuda,
    terms: Terms,
    direct: bool,
    samples: &CudaSamples,
    moving: &MovingView<'_, Cuda>,
    maps: &[AffineMap],
) -> Result<Vec<Vec<f64>>> {
    let call = Call::new(cuda, terms, samples, moving, maps)?;
    if direct { call.all_sums::<f64>(maps) } else { call.all_sums::<f32>(maps) }
}

/// The sums of every map, and the derivative of a function of them; `made` are the sums where
/// another scheme has made them.
#[allow(clippy::too_many_arguments)]
pub(super) fn gradient(
    cuda: &Cuda,
    terms: Terms,
    direct: bool,
    samples: &CudaSamples,
    moving: &MovingView<'_, Cuda>,
    maps: &[AffineMap],
    derivatives: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
    made: Option<&[Vec<f64>]>,
) -> Result<Vec<SumsAndGradient>> {
    let call = Call::new(cuda, terms, samples, moving, maps)?;
    if direct {
        call.all_gradients::<f64>(maps, derivatives, made)
    } else {
        call.all_gradients::<f32>(maps, derivatives, made)
    }
}

impl<'a> Call<'a> {
    fn new(
        cuda: &'a Cuda,
        terms: Terms,
        samples: &'a CudaSamples,
        moving: &'a MovingView<'_, Cuda>,
        maps: &[AffineMap],
    ) -> Result<Self> {
        let moving = Moving::new(moving, maps)?;
        if terms == Terms::Moments && samples.values.is_none() {
            return Err(ComputeError::argument("samples", "without values", "samples with values"));
        }
        Ok(Self { cuda, terms, samples, moving })
    }

    /// Sums of a map.
    fn size(&self) -> usize {
        self.samples.bins * self.terms.count()
    }

    fn program<R: Real>(&self) -> &'static HISTOGRAM {
        &PROGRAMS[R::DIRECT][usize::from(self.terms == Terms::Moments)]
    }

    /// Places of sums for each term and tile.
    fn slots(&self) -> usize {
        THREADS as usize + self.samples.most_ranks
    }

    /// Bytes of the places of a tile, and whether they are in shared memory.
    fn places<R: Real>(&self) -> (usize, bool) {
        let bytes = self.slots() * self.terms.count() * size_of::<R>();
        (bytes, bytes <= MOST_SHARED)
    }

    /// The number of maps evaluated at once.
    fn chunk<R: Real>(&self) -> usize {
        let tiling = &self.samples.tiling;
        let partials = tiling.capacity as usize * self.terms.count() * size_of::<f64>();
        let (places, shared) = self.places::<R>();
        at_once(tiling.count() * (partials + if shared { 0 } else { places } + 12 * 8))
    }

    fn all_sums<R: Real>(&self, maps: &[AffineMap]) -> Result<Vec<Vec<f64>>> {
        let mut all = Vec::with_capacity(maps.len());
        for part in maps.chunks(self.chunk::<R>()) {
            let of_device = Maps::new(self.cuda, part)?;
            let sums = self.launch_sums::<R>(part, &of_device)?;
            let sums = self.cuda.download(&sums)?;
            all.extend(sums.chunks_exact(self.size()).map(<[f64]>::to_vec));
        }
        Ok(all)
    }

    fn all_gradients<R: Real>(
        &self,
        maps: &[AffineMap],
        derivatives: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
        made: Option<&[Vec<f64>]>,
    ) -> Result<Vec<SumsAndGradient>> {
        let size = self.size();
        let mut all = Vec::with_capacity(maps.len());
        let chunk = self.chunk::<R>();
        for (c, part) in maps.chunks(chunk).enumerate() {
            let of_device = Maps::new(self.cuda, part)?;
            let sums = match made.and_then(|all| all.get(c * chunk..c * chunk + part.len())) {
                Some(made) => made.concat(),
                None => self.cuda.download(&self.launch_sums::<R>(part, &of_device)?)?,
            };
            let mut table = vec![R::default(); sums.len()];
            let fill = |(i, (sums, table)): (usize, (&[f64], &mut [R]))| {
                let found = derivatives(c * chunk + i, sums);
                check_len("derivatives", size, found.len())?;
                table.iter_mut().zip(&found).for_each(|(t, &s)| *t = R::from_f64(s));
                Ok::<_, ComputeError>(())
            };
            if part.len() == 1 {
                fill((0, (sums.as_slice(), table.as_mut_slice())))?;
            } else {
                sums.par_chunks_exact(size)
                    .zip(table.par_chunks_exact_mut(size))
                    .enumerate()
                    .try_for_each(fill)?;
            }
            let table = self.cuda.upload(&table)?;
            let found = self.launch_gradient::<R>(part, &of_device, &table)?;
            let found = self.cuda.download(&found)?;
            for (sums, gradient) in sums.chunks_exact(size).zip(found.chunks_exact(12)) {
                all.push((sums.to_vec(), std::array::from_fn(|e| gradient[e])));
            }
        }
        Ok(all)
    }

    fn launch_sums<R: Real>(&self, part: &[AffineMap], maps: &Maps) -> Result<CudaBuffer<f64>> {
        let (cuda, samples) = (self.cuda, self.samples);
        let (tiling, bins) = (&samples.tiling, samples.bins);
        let (terms, tiles, program) = (self.terms.count(), tiling.count(), self.program::<R>());
        let entries = tiles * tiling.capacity as usize;
        let (bytes, shared) = self.places::<R>();
        let mut scratch = match shared {
            true => None,
            false => Some(cuda.alloc_unset::<R>(part.len() * tiles * self.slots() * terms)?),
        };
        let near = if shared { bytes.next_multiple_of(16) } else { 0 };
        let room = self.moving.room(cuda, tiling, part, near);
        let mut partials = cuda.alloc_unset::<f64>(part.len() * entries * terms)?;
        let mut sums = cuda.alloc_unset::<f64>(part.len() * self.size())?;
        let mut shape = Shape::blocks(tiles, THREADS).with_shared(near + room * size_of::<f32>());
        shape.grid[1] = part.len() as u32;
        // A bin has entries in a part of the tiles.
        let lanes = tiles.next_power_of_two().min(ADDING) as u32;
        let mut adding = Shape::covering(bins * lanes as usize, ADDING as u32);
        adding.grid[1] = part.len() as u32;
        // SAFETY: the kernels read samples and entries of the tiles, moving voxels of clamped cells, and
        // write the entries of each tile that has samples; what `bin_entries` lists is of those. The
        // numbers of the scratch are those of the program.
        unsafe {
            program.binned_sums(
                cuda,
                shape,
                self.moving.sampling(*tiling, maps),
                &samples.packed,
                samples.values.as_ref(),
                samples.weights.as_ref(),
                &samples.tile_len,
                &samples.tile_ranks,
                &samples.rank_start,
                self.slots() as u32,
                (near / size_of::<f32>()) as u32,
                room as u32,
                scratch.as_mut().map_or_else(Out::none, Out::cast),
                &mut partials,
            )?;
            program.add_entries(
                cuda,
                adding,
                &partials,
                &samples.bin_first,
                &samples.bin_entries,
                entries as u64,
                bins as u32,
                lanes,
                &mut sums,
            )?;
        }
        Ok(sums)
    }

    fn launch_gradient<R: Real>(
        &self,
        part: &[AffineMap],
        maps: &Maps,
        derivatives: &CudaBuffer<R>,
    ) -> Result<CudaBuffer<f64>> {
        let (cuda, samples) = (self.cuda, self.samples);
        let (tiling, program) = (&samples.tiling, self.program::<R>());
        let tiles = tiling.count();
        let bytes = samples.most_ranks * self.terms.count() * size_of::<R>();
        let (near_ranks, near) = if bytes <= MOST_SHARED {
            (samples.most_ranks, bytes.next_multiple_of(16))
        } else {
            (0, 0)
        };
        // The sums of warps take some shared memory as well.
        let room = self.moving.room(cuda, tiling, part, near + 2048);
        let mut partials = cuda.alloc_unset::<f64>(part.len() * tiles * 12)?;
        let mut shape = Shape::blocks(tiles, THREADS).with_shared(near + room * size_of::<f32>());
        shape.grid[1] = part.len() as u32;
        // SAFETY: as for the sums; `derivatives` has `bins x terms` numbers a map, `partials` twelve a
        // tile and map.
        unsafe {
            program.binned_gradient(
                cuda,
                shape,
                self.moving.sampling(*tiling, maps),
                &samples.packed,
                samples.values.as_ref(),
                samples.weights.as_ref(),
                &samples.tile_len,
                &samples.tile_ranks,
                &samples.rank_bin,
                In::cast(derivatives),
                samples.bins as u32,
                near_ranks as u32,
                (near / size_of::<f32>()) as u32,
                room as u32,
                &mut partials,
            )?;
        }
        add_tiles(cuda, &partials, tiles, part.len())
    }
}

/// Adds twelve numbers of every tile for each map.
pub(super) fn add_tiles(
    cuda: &Cuda,
    partials: &CudaBuffer<f64>,
    tiles: usize,
    maps: usize,
) -> Result<CudaBuffer<f64>> {
    let mut sums = cuda.alloc_unset::<f64>(12 * maps)?;
    let (shape, numbers) = (Shape::covering(12 * maps * 32, 256), (12 * maps) as u32);
    // SAFETY: `partials` has twelve numbers a tile and map.
    unsafe { SAMPLES.add_tiles(cuda, shape, partials, tiles as u32, numbers, &mut sums)? };
    Ok(sums)
}
