//! Images at the coarse scale of the evidence.

use crate::metric::range::robust_range;
use voxalign_image::{Grid, Vector3};

/// Quantiles that are 0 and 1.
const QUANTILES: (f64, f64) = (0.01, 0.99);

/// An image at the scale of evidence, its values from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Image {
    pub(super) grid: Grid,
    pub(super) dims: [usize; 3],
    pub(super) spacing: [f64; 3],
    pub(super) values: Vec<f32>,
    pub(super) weight: Option<Vec<f32>>,
    /// Voxels that count.
    pub(super) counted: usize,
    /// The threshold above which values are foreground.
    pub(super) threshold: f32,
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
        Self { grid, dims, spacing, values, weight, counted, threshold }
    }

    /// The index of a voxel.
    pub(super) fn index(&self, i: usize) -> Vector3<f64> {
        let [nx, ny, _] = self.dims;
        Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / (nx * ny)) as f64)
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
