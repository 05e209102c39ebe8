//! Measures of one alignment: edges, mutual information, tissue.

use super::image::Image;
use serde::{Deserialize, Serialize};
use voxalign_image::{Affine, Index};

/// Bins of each image over the whole overlap, and within tissue.
const BINS: [usize; 2] = [24, 16];
/// The fewest voxels that are informative.
const FEWEST: usize = 64;

/// What two images have in common under an alignment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Measures {
    /// How parallel gradients are, 0 to 1.
    pub edges: f64,
    /// Mutual information over the overlap, as a fraction of the smaller entropy.
    pub information: f64,
    /// Information within what is foreground in both, nats.
    pub tissue: f64,
    /// Dice overlap of the foregrounds.
    pub foreground: f64,
    /// Voxels of the fixed image that overlap, as a fraction of the smaller image.
    pub overlap: f64,
}

impl Measures {
    /// The largest of each.
    pub(crate) fn or_more(self, other: Self) -> Self {
        self.with(other, f64::max)
    }

    /// The mean of many.
    pub(super) fn mean(all: &[Self]) -> Self {
        let sum = all.iter().fold(Self::default(), |a, &b| a.with(b, |a, b| a + b));
        let n = all.len().max(1) as f64;
        sum.with(sum, |a, _| a / n)
    }

    fn with(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            edges: f(self.edges, other.edges),
            information: f(self.information, other.information),
            tissue: f(self.tissue, other.tissue),
            foreground: f(self.foreground, other.foreground),
            overlap: f(self.overlap, other.overlap),
        }
    }
}

/// Values of the moving image at the voxels of the fixed one that count; NaN elsewhere.
fn moved(fixed: &Image, moving: &Image, map: &Affine<Index, Index>) -> Vec<f32> {
    let at = |i: usize| fixed.counts(i).then(|| moving.at(map.apply(fixed.index(i)))).flatten();
    (0..fixed.values.len()).map(|i| at(i).unwrap_or(f32::NAN)).collect()
}

/// How the intensities of two images go together within what is foreground in both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relation {
    /// The fraction of the variance that a rising line explains: the squared correlation, 0 where it is negative.
    pub line: f64,
    /// The part that any function of one image explains of the other, the larger of both ways.
    pub any: f64,
}

impl Relation {
    /// The variance explained by a line as a fraction of what any relation can explain, 0 to 1.
    #[must_use]
    pub fn linearity(&self) -> f64 {
        (self.line / self.any.max(self.line).max(1e-9)).min(1.0)
    }
}

/// The relation of the intensities; none where hardly any tissue overlaps.
pub(super) fn relation(
    fixed: &Image,
    moving: &Image,
    map: &Affine<Index, Index>,
) -> Option<Relation> {
    let moved = moved(fixed, moving, map);
    let tissue = |&(f, m): &(f32, f32)| f > fixed.threshold && m > moving.threshold;
    let pairs: Vec<(f32, f32)> = fixed.values.iter().copied().zip(moved).filter(tissue).collect();
    let n = pairs.len() as f64;
    if pairs.len() < FEWEST {
        return None;
    }
    let sums = pairs.iter().fold([0.0; 5], |s, &(f, m)| {
        let (f, m) = (f64::from(f), f64::from(m));
        [s[0] + f, s[1] + m, s[2] + f * f, s[3] + m * m, s[4] + f * m]
    });
    let [f, m, ff, mm, fm] = sums.map(|s| s / n);
    let (spread, product) = ((ff - f * f) * (mm - m * m), fm - f * m);
    let product = if fixed.inverted == moving.inverted { product } else { -product };
    if spread <= 0.0 {
        return None;
    }
    let line = product.max(0.0).powi(2) / spread;
    let any = explained(pairs.iter().copied()).max(explained(pairs.iter().map(|&(f, m)| (m, f))));
    Some(Relation { line, any })
}

/// The fraction of the variance of the second value that the first one explains, corrected for few samples (Kelley
/// 1935).
fn explained(pairs: impl Iterator<Item = (f32, f32)> + Clone) -> f64 {
    let mut bins = [[0.0; 3]; BINS[0]];
    for (a, b) in pairs {
        let bin = &mut bins[((f64::from(a) * BINS[0] as f64) as usize).min(BINS[0] - 1)];
        let b = f64::from(b);
        *bin = [bin[0] + 1.0, bin[1] + b, bin[2] + b * b];
    }
    let used = bins.iter().filter(|bin| bin[0] > 0.0);
    let within: f64 = used.clone().map(|[n, b, bb]| bb - b * b / n).sum();
    let [n, b, bb] = used.clone().fold([0.0; 3], |s, bin| [0, 1, 2].map(|k| s[k] + bin[k]));
    let (all, free) = (bb - b * b / n, n - used.count() as f64);
    if all > 0.0 && free > 0.0 { 1.0 - within / all * (n - 1.0) / free } else { 0.0 }
}

/// Measures of a map of voxels of the fixed image to those of the moving one.
pub(super) fn measure(fixed: &Image, moving: &Image, map: &Affine<Index, Index>) -> Measures {
    let moved = moved(fixed, moving, map);
    let within = moved.iter().filter(|v| !v.is_nan()).count();
    if within < FEWEST {
        return Measures::default();
    }
    let scale = map.determinant().abs().max(1e-12);
    let moving_in_fixed = match fixed.flat() {
        // The third axis of a slice has no length.
        true => {
            moving.counted as f64
                / map.matrix.fixed_view::<2, 2>(0, 0).determinant().abs().max(1e-12)
        }
        false => moving.counted as f64 / scale,
    };
    let smaller = (fixed.counted as f64).min(moving_in_fixed).max(1.0);
    let pairs = || fixed.values.iter().zip(&moved).filter(|(_, m)| !m.is_nan());
    let [_, information] = self::information(pairs().map(|(&f, &m)| (f, m)), BINS[0]);
    let (mut both, mut either) = (0u64, 0u64);
    for (&f, &m) in pairs() {
        let (f, m) = (f > fixed.threshold, m > moving.threshold);
        both += u64::from(f && m);
        either += u64::from(f) + u64::from(m);
    }
    let tissue = pairs()
        .filter(|&(&f, &m)| f > fixed.threshold && m > moving.threshold)
        .map(|(&f, &m)| (f, m));
    let tissue = if both as usize >= FEWEST { self::information(tissue, BINS[1])[0] } else { 0.0 };
    Measures {
        edges: edges(fixed, &moved),
        information,
        tissue,
        foreground: 2.0 * both as f64 / (either as f64).max(1.0),
        overlap: (within as f64 / smaller).min(1.0),
    }
}

/// The mutual information of values from 0 to 1, nats, and as a fraction of the smaller entropy: from a joint
/// histogram with this many bins along each axis, less the expected bias of so few pairs.
#[must_use]
pub fn information(pairs: impl Iterator<Item = (f32, f32)>, bins: usize) -> [f64; 2] {
    let mut joint = vec![0u32; bins * bins];
    let bin = |v: f32| ((f64::from(v) * bins as f64) as usize).min(bins - 1);
    let mut n = 0u32;
    for (f, m) in pairs {
        joint[bin(f) * bins + bin(m)] += 1;
        n += 1;
    }
    let mut rows = vec![0u32; bins];
    let mut columns = vec![0u32; bins];
    for (i, &count) in joint.iter().enumerate() {
        rows[i / bins] += count;
        columns[i % bins] += count;
    }
    let n = f64::from(n.max(1));
    let entropy = |counts: &[u32]| {
        let used = counts.iter().filter(|&&c| c > 0);
        let plain: f64 = used.clone().map(|&c| f64::from(c) / n).map(|p| -p * p.ln()).sum();
        plain + (used.count() as f64 - 1.0) / (2.0 * n)
    };
    let [f, m] = [entropy(&rows), entropy(&columns)];
    let information = (f + m - entropy(&joint)).max(0.0);
    [information, information / f.min(m).max(1e-9)]
}

/// How parallel gradients are.
fn edges(fixed: &Image, moved: &[f32]) -> f64 {
    let [nx, ny, nz] = fixed.dims;
    let strides = [1, nx, nx * ny];
    let axes: Vec<usize> = (0..3).filter(|&a| fixed.dims[a] > 2).collect();
    let (mut lines, mut of_fixed, mut of_moved) = (0.0, 0.0, 0.0);
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let (at, i) = ([x, y, z], x + nx * (y + ny * z));
                if axes.iter().any(|&a| at[a] == 0 || at[a] + 1 == fixed.dims[a]) {
                    continue;
                }
                let (mut f2, mut m2, mut product) = (0.0, 0.0, 0.0);
                for &a in &axes {
                    let derivative = |v: &[f32]| {
                        f64::from(v[i + strides[a]] - v[i - strides[a]]) / fixed.spacing[a]
                    };
                    let (f, m) = (derivative(&fixed.values), derivative(moved));
                    f2 += f * f;
                    m2 += m * m;
                    product += f * m;
                }
                // Not a number where a neighbour does not count.
                if m2 >= 0.0 && !moved[i].is_nan() {
                    of_fixed += f2;
                    of_moved += m2;
                    if f2 * m2 > 0.0 {
                        lines += product * product / (f2 * m2).sqrt();
                    }
                }
            }
        }
    }
    let both = (of_fixed * of_moved).sqrt();
    if both > 0.0 { lines / both } else { 0.0 }
}
