//! Images at the coarse scale of the evidence.

use crate::metric::range::robust_range;
use voxalign_image::{Grid, Vector3};

/// Quantiles that are 0 and 1.
const QUANTILES: (f64, f64) = (0.01, 0.99);

/// The part of an image's border that is bright where its background is: of sections in bright field 0.90 and more, of all other kinds of
/// images (heads, chests, crops of organs, X-rays) 0.75 and less.
const BRIGHT_BORDER: f64 = 0.85;
/// Blocks along the shortest axis there.
const BLOCKS: usize = 24;

/// An image at the scale of evidence, its values from 0, as its background, to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Image {
    pub(super) grid: Grid,
    pub(super) dims: [usize; 3],
    pub(super) spacing: [f64; 3],
    pub(super) values: Vec<f32>,
    pub(super) weight: Option<Vec<f32>>,
    /// Voxels that count.
    pub(super) counted: usize,
    /// The threshold above which values are foreground: what differs from the border, where that is bright.
    pub(super) threshold: f32,
    /// Whether values are 1 less what they were, as the background is bright.
    pub(super) inverted: bool,
}

impl Image {
    pub(super) fn new(grid: Grid, mut values: Vec<f32>, weight: Option<Vec<f32>>) -> Self {
        let counted: Vec<f32> = match &weight {
            None => values.clone(),
            Some(w) => values.iter().zip(w).filter(|(_, w)| **w > 0.5).map(|(v, _)| *v).collect(),
        };
        let (low, high) = robust_range(&counted, QUANTILES.0, QUANTILES.1).unwrap_or((0.0, 1.0));
        let span = (high - low).max(f32::MIN_POSITIVE);
        let scaled = |v: f32| ((v - low) / span).clamp(0.0, 1.0);
        values.iter_mut().for_each(|v| *v = scaled(*v));
        let threshold = otsu(counted.iter().map(|&v| scaled(v)));
        let (dims, spacing, counted) = (grid.dims(), grid.spacing(), counted.len());
        let inverted = false;
        let mut image = Self { grid, dims, spacing, values, weight, counted, threshold, inverted };
        if image.has_bright_background() {
            image.inverted = true;
            image.values.iter_mut().for_each(|v| *v = 1.0 - *v);
            image.threshold = 1.0 - threshold;
        }
        image
    }

    /// Whether the border is bright, and more of it than of what it surrounds: of means over blocks, as thin structures reach the border of many sections.
    fn has_bright_background(&self) -> bool {
        let least = self.dims.into_iter().filter(|&n| n > 1).min().unwrap_or(1);
        let dims = self.dims.map(|n| (n * BLOCKS / least).clamp(1, n));
        let mut sums = vec![(0.0f64, 0usize, 0usize); dims.iter().product()];
        for (i, &v) in self.values.iter().enumerate() {
            let at = self.place(i);
            let [x, y, z] = [0, 1, 2].map(|a| at[a] * dims[a] / self.dims[a]);
            let (sum, counted, all) = &mut sums[x + dims[0] * (y + dims[1] * z)];
            *all += 1;
            if self.counts(i) {
                *sum += f64::from(v);
                *counted += 1;
            }
        }
        let means: Vec<Option<f32>> = sums
            .into_iter()
            .map(|(sum, counted, all)| (counted * 2 > all).then(|| (sum / counted as f64) as f32))
            .collect();
        let threshold = otsu(means.iter().flatten().copied());
        // All, those that count, and those of them that are bright; of the border and of the rest.
        let mut found = [[0usize; 3]; 2];
        for (i, mean) in means.iter().enumerate() {
            let at = [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])];
            let ends = (0..3).any(|a| dims[a] > 1 && (at[a] == 0 || at[a] + 1 == dims[a]));
            let [all, counted, bright] = &mut found[usize::from(!ends)];
            *all += 1;
            *counted += usize::from(mean.is_some());
            *bright += usize::from(mean.is_some_and(|v| v > threshold));
        }
        let part = |of: [usize; 3]| of[2] as f64 / of[1].max(1) as f64;
        let [border, rest] = found;
        let seen = border[1] * 2 > border[0] && rest[1] > 0;
        seen && part(border) >= BRIGHT_BORDER && part(border) > part(rest)
    }

    fn place(&self, i: usize) -> [usize; 3] {
        let [nx, ny, _] = self.dims;
        [i % nx, i / nx % ny, i / (nx * ny)]
    }

    /// The index of a voxel.
    pub(super) fn index(&self, i: usize) -> Vector3<f64> {
        let [x, y, z] = self.place(i);
        Vector3::new(x as f64, y as f64, z as f64)
    }

    pub(super) fn flat(&self) -> bool {
        self.dims[2] == 1
    }

    pub(super) fn counts(&self, i: usize) -> bool {
        self.weight.as_ref().is_none_or(|w| w[i] > 0.5)
    }

    /// The value at an index, linear between voxels; none outside, or where it does not count.
    pub(super) fn at(&self, p: Vector3<f64>) -> Option<f32> {
        const TOLERANCE: f64 = 1e-6;
        let (mut base, mut part) = ([0usize; 3], [0f64; 3]);
        for a in 0..3 {
            let last = self.dims[a] as f64 - 1.0;
            // A slice has no thickness that matters.
            if self.dims[a] > 1 {
                if !(p[a] >= -TOLERANCE && p[a] <= last + TOLERANCE) {
                    return None;
                }
                let at = p[a].clamp(0.0, last);
                base[a] = (at as usize).min(self.dims[a] - 2);
                part[a] = at - base[a] as f64;
            }
        }
        let strides = [1, self.dims[0], self.dims[0] * self.dims[1]];
        let (mut value, mut counted) = (0.0, 0.0);
        for corner in 0..8usize {
            let (mut weight, mut i) = (1.0, 0);
            for a in 0..3 {
                let upper = corner >> a & 1;
                weight *= if upper == 1 { part[a] } else { 1.0 - part[a] };
                i += (base[a] + upper * usize::from(self.dims[a] > 1)) * strides[a];
            }
            if weight > 0.0 {
                value += weight * f64::from(self.values[i]);
                counted += if self.counts(i) { weight } else { 0.0 };
            }
        }
        (counted > 0.5).then_some(value as f32)
    }

    /// The centre of the foreground, and its mean distance from there, world mm.
    pub(super) fn object(&self) -> (Vector3<f64>, f64) {
        let points = || {
            let inside = |&(i, v): &(usize, &f32)| *v > self.threshold && self.counts(i);
            self.values
                .iter()
                .enumerate()
                .filter(inside)
                .map(|(i, _)| self.grid.index_to_world(self.index(i)))
        };
        let n = points().count();
        if n == 0 {
            return (
                self.grid.centre(),
                self.grid.extent().iter().fold(0.0, |a: f64, b| a.max(*b)) / 4.0,
            );
        }
        let centre = points().sum::<Vector3<f64>>() / n as f64;
        (centre, points().map(|p| (p - centre).norm()).sum::<f64>() / n as f64)
    }
}

/// The threshold with the largest variance between what is below and above (Otsu 1979).
fn otsu(values: impl Iterator<Item = f32>) -> f32 {
    const BINS: usize = 64;
    let mut counts = [0u64; BINS];
    for v in values {
        counts[((v * BINS as f32) as usize).min(BINS - 1)] += 1;
    }
    let middle = |b: usize| (b as f64 + 0.5) / BINS as f64;
    let all: u64 = counts.iter().sum();
    let total: f64 = counts.iter().enumerate().map(|(b, &c)| c as f64 * middle(b)).sum();
    let (mut below, mut sum, mut best, mut threshold) = (0u64, 0.0, -1.0, 0.5);
    for (b, &count) in counts.iter().enumerate().take(BINS - 1) {
        below += count;
        sum += count as f64 * middle(b);
        let above = all - below;
        if below > 0 && above > 0 {
            let (n, m) = (below as f64, above as f64);
            let off = total * n / all as f64 - sum;
            let between = off * off / (n * m);
            if between > best {
                (best, threshold) = (between, (b as f64 + 1.0) / BINS as f64);
            }
        }
    }
    threshold as f32
}
