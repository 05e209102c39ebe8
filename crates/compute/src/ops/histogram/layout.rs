//! The samples of a fixed image, grouped for conflict-free sums.

use super::check_weights;
use crate::Dims;
use crate::error::{ComputeError, Result, check_len};
use voxalign_image::memory::{room, zeroed};

/// Equal bins over a range of values; values beyond it fall into the outermost bins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binning {
    /// Lower end of the first bin.
    pub low: f32,
    /// Upper end of the last bin.
    pub high: f32,
    /// Number of bins, at least 1.
    pub bins: usize,
}

impl Binning {
    /// The bin of a value.
    #[must_use]
    pub fn bin(&self, value: f32) -> usize {
        let span = self.high - self.low;
        if span <= 0.0 || self.bins <= 1 {
            return 0;
        }
        let position = (value - self.low) * (self.bins as f32 / span);
        (position.max(0.0) as usize).min(self.bins - 1)
    }
}

/// A run of samples of one bin within one tile of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Index of the tile's first voxel.
    pub origin: [u32; 3],
    /// Bin of all its samples.
    pub bin: u32,
    /// Number of its first sample.
    pub start: usize,
    /// Number of samples.
    pub len: u32,
}

/// How samples are grouped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayoutOptions {
    /// The bins of the fixed image.
    pub binning: Binning,
    /// The most samples per run: the workload limit of section 5.1 of Li et al. (2015). It keeps
    /// work balanced and bounds the rounding of single-precision sums.
    pub workload: usize,
    /// Whether the values of the samples are stored in addition to their bins.
    pub keep_values: bool,
}

impl LayoutOptions {
    /// Checks the arguments of a grouping, given the numbers of values and weights; the number of
    /// voxels.
    ///
    /// # Errors
    /// As [`SampleLayout::new`].
    pub fn check(&self, values: usize, dims: Dims, weights: Option<usize>) -> Result<usize> {
        let count = dims
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n > 0 && dims.iter().all(|&d| d <= u32::MAX as usize))
            .ok_or(ComputeError::Dims { what: "fixed image", dims })?;
        check_len("fixed image", count, values)?;
        if let Some(found) = weights {
            check_len("fixed weights", count, found)?;
        }
        for (what, value) in [("bins", self.binning.bins), ("workload", self.workload)] {
            if value == 0 || value > 1 << 20 {
                return Err(ComputeError::argument(what, value, "between 1 and 1048576"));
            }
        }
        Ok(count)
    }
}

/// The samples of a fixed image, grouped by tile and then by bin.
///
/// Tiles keep neighbouring samples near each other in the moving image; within a tile the samples
/// of a bin follow each other, in the order of the image. A counting sort, once an image and
/// binning.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleLayout {
    pub(crate) runs: Vec<Run>,
    pub(crate) local: Vec<u32>,
    pub(crate) values: Option<Vec<f32>>,
    pub(crate) weights: Option<Vec<f32>>,
    pub(crate) bins: usize,
    pub(crate) len: usize,
    pub(crate) total_weight: f64,
}

/// Bits of each local coordinate in [`SampleLayout`]'s packed form.
pub(crate) const LOCAL_BITS: u32 = 10;

fn tile_sizes(dims: Dims) -> [usize; 3] {
    if dims[2] == 1 { [512, 512, 1] } else { [64, 64, 64] }
}

impl SampleLayout {
    /// The samples of an image: all voxels with a weight above 0.
    ///
    /// `values` has `dims` voxels; `weights`, where given, as many. Every sample's value must be
    /// finite.
    ///
    /// # Errors
    /// Lengths that disagree, no bins, no workload, sizes over 2^32, weights that are negative or not
    /// finite.
    pub fn new(
        values: &[f32],
        dims: Dims,
        weights: Option<&[f32]>,
        options: &LayoutOptions,
    ) -> Result<Self> {
        Self::with(values, dims, weights, options, &|count, tile| (0..count).map(tile).collect())
    }

    /// As [`new`](Self::new), where `collect` gives the results of a function of the numbers below
    /// a count, in their order, on any threads.
    pub(crate) fn with(
        values: &[f32],
        dims: Dims,
        weights: Option<&[f32]>,
        options: &LayoutOptions,
        collect: &dyn Fn(usize, TileOf<'_>) -> Result<Vec<Tile>>,
    ) -> Result<Self> {
        options.check(values.len(), dims, weights.map(<[f32]>::len))?;
        let bins = options.binning.bins;
        let size = tile_sizes(dims);
        let tiles: [usize; 3] = std::array::from_fn(|a| dims[a].div_ceil(size[a]));
        let image = Image { values, dims, weights, options };
        let tile = |i: usize| {
            let at = [i % tiles[0], i / tiles[0] % tiles[1], i / (tiles[0] * tiles[1])];
            image.tile(std::array::from_fn(|a| at[a] * size[a]), size)
        };
        let tiles = collect(tiles.iter().product(), &tile)?;
        if tiles.iter().any(|t| t.odd) {
            refuse(weights.unwrap_or(&[]))?;
        }
        let len = tiles.iter().map(|t| t.local.len()).sum();
        // Kernels read whole vectors: the tail past the last sample must be there.
        let padded = len + PADDING;
        let mut layout = Self {
            runs: room(tiles.iter().map(|t| t.runs.len()).sum())?,
            local: room(padded)?,
            values: options.keep_values.then(|| room(padded)).transpose()?,
            weights: weights.map(|_| room(padded)).transpose()?,
            bins,
            len,
            total_weight: weights.map_or(len as f64, |_| tiles.iter().map(|t| t.weight).sum()),
        };
        for tile in tiles {
            let base = layout.local.len();
            layout.runs.extend(tile.runs.iter().map(|r| Run { start: base + r.start, ..*r }));
            layout.local.extend_from_slice(&tile.local);
            for (store, of_tile) in
                [(&mut layout.values, &tile.values), (&mut layout.weights, &tile.weights)]
            {
                if let Some(store) = store {
                    store.extend_from_slice(of_tile);
                }
            }
        }
        layout.local.resize(padded, 0);
        for store in [&mut layout.values, &mut layout.weights].into_iter().flatten() {
            store.resize(padded, 0.0);
        }
        Ok(layout)
    }

    /// The runs, tile by tile, bin by bin.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of bins.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Sum of the samples' weights.
    #[must_use]
    pub fn total_weight(&self) -> f64 {
        self.total_weight
    }

    /// Every sample's index, bin, value (0 where not kept) and weight, in the order of the layout.
    pub fn samples(&self) -> impl Iterator<Item = ([u32; 3], u32, f32, f32)> + '_ {
        self.runs.iter().flat_map(move |run| {
            (run.start..run.start + run.len as usize).map(move |i| {
                let mask = (1 << LOCAL_BITS) - 1;
                let p = self.local[i];
                let index = [
                    run.origin[0] + (p & mask),
                    run.origin[1] + (p >> LOCAL_BITS & mask),
                    run.origin[2] + (p >> (2 * LOCAL_BITS) & mask),
                ];
                let value = self.values.as_ref().map_or(0.0, |v| v[i]);
                let weight = self.weights.as_ref().map_or(1.0, |w| w[i]);
                (index, run.bin, value, weight)
            })
        })
    }
}

/// Padding past the last sample, as long as the widest vector.
const PADDING: usize = 16;

/// The samples of one tile; starts of runs count from its first sample.
pub(crate) struct Tile {
    runs: Vec<Run>,
    local: Vec<u32>,
    values: Vec<f32>,
    weights: Vec<f32>,
    /// Sum of the weights.
    weight: f64,
    /// Whether some of them are negative or not finite.
    odd: bool,
}

/// The error of weights some of which are negative or not finite.
fn refuse(weights: &[f32]) -> Result<()> {
    let least = weights.iter().fold(f32::INFINITY, |a, &b| a.min(b));
    let odd = weights.iter().filter(|w| !w.is_finite()).count();
    check_weights("fixed weights", f64::from(least), odd as u64)
}

/// Makes a tile of its number.
type TileOf<'a> = &'a (dyn Fn(usize) -> Result<Tile> + Sync);

struct Image<'a> {
    values: &'a [f32],
    dims: Dims,
    weights: Option<&'a [f32]>,
    options: &'a LayoutOptions,
}

impl Image<'_> {
    /// Groups the samples of the tile at `origin`: a counting sort.
    fn tile(&self, origin: [usize; 3], size: [usize; 3]) -> Result<Tile> {
        let (dims, options) = (self.dims, self.options);
        let end: [usize; 3] = std::array::from_fn(|a| (origin[a] + size[a]).min(dims[a]));
        let most: usize = (0..3).map(|a| end[a] - origin[a]).product();
        let mut bins: Vec<u32> = room(most)?;
        let mut places: Vec<u32> = room(most)?;
        let mut counts = vec![0usize; options.binning.bins];
        let (mut weight, mut odd) = (0.0, false);
        for z in origin[2]..end[2] {
            for y in origin[1]..end[1] {
                let row = (z * dims[1] + y) * dims[0];
                let (row, outer) = (
                    row + origin[0]..row + end[0],
                    ((y - origin[1]) as u32) << LOCAL_BITS
                        | ((z - origin[2]) as u32) << (2 * LOCAL_BITS),
                );
                let weights = self.weights.map(|w| &w[row.clone()]);
                for (x, &value) in self.values[row].iter().enumerate() {
                    if let Some(w) = weights.map(|w| w[x]) {
                        odd |= !(w.is_finite() && w >= 0.0);
                        if w <= 0.0 || w.is_nan() {
                            continue;
                        }
                        weight += f64::from(w);
                    }
                    let bin = options.binning.bin(value);
                    counts[bin] += 1;
                    bins.push(bin as u32);
                    places.push(x as u32 | outer);
                }
            }
        }
        let mut tile = Tile {
            runs: Vec::new(),
            local: zeroed(bins.len())?,
            values: zeroed(if options.keep_values { bins.len() } else { 0 })?,
            weights: zeroed(if self.weights.is_some() { bins.len() } else { 0 })?,
            weight,
            odd,
        };
        let mut start = 0;
        for (bin, count) in counts.iter_mut().enumerate() {
            let mut left = std::mem::replace(count, start);
            while left > 0 {
                let len = left.min(options.workload);
                tile.runs.push(Run {
                    origin: origin.map(|o| o as u32),
                    bin: bin as u32,
                    start,
                    len: len as u32,
                });
                start += len;
                left -= len;
            }
        }
        for (&bin, &local) in bins.iter().zip(&places) {
            let at = counts[bin as usize];
            counts[bin as usize] += 1;
            tile.local[at] = local;
            if options.keep_values || self.weights.is_some() {
                let mask = (1 << LOCAL_BITS) - 1;
                let x = origin[0] + (local & mask) as usize;
                let y = origin[1] + (local >> LOCAL_BITS & mask) as usize;
                let z = origin[2] + (local >> (2 * LOCAL_BITS) & mask) as usize;
                let i = (z * dims[1] + y) * dims[0] + x;
                if options.keep_values {
                    tile.values[at] = self.values[i];
                }
                if let Some(w) = self.weights {
                    tile.weights[at] = w[i];
                }
            }
        }
        Ok(tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(bins: usize, workload: usize) -> LayoutOptions {
        let binning = Binning { low: 0.0, high: 1.0, bins };
        LayoutOptions { binning, workload, keep_values: true }
    }

    #[test]
    fn every_voxel_once_in_its_bin() {
        for dims in [[1, 1, 1], [70, 3, 65], [130, 65, 2], [600, 5, 1]] {
            let n: usize = dims.iter().product();
            let values: Vec<f32> = (0..n).map(|i| ((i * 7919) % 101) as f32 / 100.0).collect();
            let weights: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
            let o = options(8, 50);
            let layout = SampleLayout::new(&values, dims, Some(&weights), &o).unwrap();
            let mut seen = vec![false; n];
            for (p, bin, value, weight) in layout.samples() {
                let i = (p[2] as usize * dims[1] + p[1] as usize) * dims[0] + p[0] as usize;
                assert!(!seen[i]);
                seen[i] = true;
                assert_eq!(bin as usize, o.binning.bin(values[i]));
                assert_eq!((value, weight), (values[i], weights[i]));
            }
            for i in 0..n {
                assert_eq!(seen[i], weights[i] > 0.0);
            }
            assert!(layout.runs().iter().all(|r| r.len >= 1 && r.len <= 50));
            assert_eq!(layout.len(), seen.iter().filter(|&&s| s).count());
        }
    }

    #[test]
    fn bad_arguments() {
        let v = [0.0f32; 8];
        assert!(SampleLayout::new(&v, [2, 2, 3], None, &options(4, 4)).is_err());
        assert!(SampleLayout::new(&v, [2, 2, 2], Some(&v[..7]), &options(4, 4)).is_err());
        assert!(SampleLayout::new(&v, [2, 2, 2], None, &options(0, 4)).is_err());
        assert!(SampleLayout::new(&v, [2, 2, 2], None, &options(4, 0)).is_err());
        assert!(SampleLayout::new(&[], [0, 2, 2], None, &options(4, 4)).is_err());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1e-30] {
            let mut weights = [1.0f32; 8];
            weights[5] = bad;
            let found = SampleLayout::new(&v, [2, 2, 2], Some(&weights), &options(4, 4));
            let message = found.unwrap_err().to_string();
            assert!(message.contains("fixed weights") && message.contains("finite"), "{message}");
        }
    }

    #[test]
    fn outliers_fall_into_the_outer_bins() {
        let b = Binning { low: 0.0, high: 10.0, bins: 5 };
        assert_eq!([-5.0, 0.0, 1.9, 2.0, 9.9, 10.0, 1e30].map(|v| b.bin(v)), [0, 0, 0, 1, 4, 4, 4]);
        assert_eq!(Binning { low: 1.0, high: 1.0, bins: 5 }.bin(1.0), 0);
    }
}
