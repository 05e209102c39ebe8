//! What slices and a volume that was brought to them have in common, independent of the similarity that did that.

use crate::limits::ELASTIC;
use crate::similarity::Similarity;
use crate::verdict::{Check, Remedy};
use serde::{Deserialize, Serialize};

/// The pixels on each side of one that are its surroundings.
const RADIUS: usize = 4;
/// The part of these that have to count.
const PART: f64 = 0.5;
/// What other places are off by, as a part of the extent of a slice along an axis.
const ELSEWHERE: f64 = 0.25;
/// The variance of the volume in the surroundings of a pixel, as a part of that in the whole slice, below which it explains nothing.
const FLAT: f64 = 1e-6;

/// A slice and the volume at its pixels.
///
/// They are compared over the pixels that count and lie in the body, both at rest and as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SliceEvidence {
    /// Pixels with a weight above 0.
    pub pixels: usize,
    /// The part of these that lie in the body, at rest and as it was found.
    pub inside: [f64; 2],
    /// The correlation under the affine map alone, and under what was found; 0 where one of both is constant.
    pub correlation: [f64; 2],
    /// The part of the variance of the slice around each of its pixels, summed up, that a linear function of the volume there explains: 1 where both show the
    /// same. Under the affine map alone, and under what was found.
    pub local: [f64; 2],
    /// The largest of these where what was found is shifted along the slice, to and fro along both axes, by a quarter of its extent: such as chance gives.
    pub elsewhere: f64,
}

impl SliceEvidence {
    /// By how much slice and volume agree locally more than other places do by chance: about 0 where they have nothing to do with each other, and near 1
    /// where they show the same.
    #[must_use]
    pub fn margin(&self) -> f64 {
        self.local[1] - self.elsewhere
    }
}

/// What is asked of slices that were compared so: that each of them agrees with the volume far more than by chance.
///
/// A body follows images of anything as far as it bends, so that the energy says little; that it folds then is seen elsewhere, but where images pull
/// little it does not.
#[must_use]
pub fn check_slices<'a>(
    slices: impl IntoIterator<Item = &'a SliceEvidence>,
    similarity: &Similarity,
) -> Check {
    let asked = match similarity {
        Similarity::Ssd(_) => ELASTIC.slice,
        _ => ELASTIC.slice_by_information,
    };
    let least = slices.into_iter().map(SliceEvidence::margin);
    let least = least.fold(f64::INFINITY, |a, b| if b.is_nan() { b } else { a.min(b) });
    let name = "agreement of the worst slice with the volume, beyond that by chance";
    Check::at_least(name, least, asked).or(Remedy::SameTissue)
}

/// Evidence for a registration of slices with a volume.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlicesEvidence {
    /// Of each slice.
    pub slices: Vec<SliceEvidence>,
    /// The part of all pixels that lie in the body, at rest and as it was found.
    pub inside: [f64; 2],
    /// Voxels of the volume, where it was found, in which the mapping folds.
    pub folded: u64,
    /// The smallest Jacobian there.
    pub least_jacobian: f64,
    /// The volume of the tetrahedron that shrank most, as a part of that at rest.
    pub least_ratio: f64,
    /// Whether the body came to rest within its iterations; not with a tolerance of 0.
    pub at_rest: bool,
    /// Whether a scale ended before that, as a step, however short, would have inverted a tetrahedron: the images pull harder than such tissue can hold, which
    /// those of another place do.
    pub stopped: bool,
}

/// A slice with the volume at its pixels.
pub(super) struct Pair<'a> {
    /// Sizes along its two axes, the first one fastest.
    pub(super) size: [usize; 2],
    pub(super) slice: &'a [f32],
    /// The volume there.
    pub(super) volume: &'a [f32],
    /// The pixels that are compared.
    pub(super) counts: &'a [bool],
}

/// Of pixels: how many, and the sums of both values, of their squares and of their product.
type Sums = [f64; 6];

fn variances([n, a, b, aa, bb, ab]: Sums) -> [f64; 3] {
    let n = n.max(1.0);
    [(aa - a * a / n).max(0.0), (bb - b * b / n).max(0.0), ab - a * b / n]
}

impl Pair<'_> {
    /// The sums at a pixel, of values less `means`, whose volume is `shift` farther along both axes.
    fn at(&self, [i, j]: [usize; 2], shift: [isize; 2], means: [f64; 2]) -> Sums {
        let [nx, ny] = self.size;
        let (k, l) = (i.checked_add_signed(shift[0]), j.checked_add_signed(shift[1]));
        let here = i + nx * j;
        let there = match (k, l) {
            (Some(k), Some(l)) if k < nx && l < ny => k + nx * l,
            _ => return [0.0; 6],
        };
        if !(self.counts[here] && self.counts[there]) {
            return [0.0; 6];
        }
        let a = f64::from(self.slice[here]) - means[0];
        let b = f64::from(self.volume[there]) - means[1];
        [1.0, a, b, a * a, b * b, a * b]
    }

    fn total(&self, means: [f64; 2]) -> Sums {
        let [nx, ny] = self.size;
        let mut all = [0.0; 6];
        for j in 0..ny {
            for i in 0..nx {
                add(&mut all, self.at([i, j], [0, 0], means), 1.0);
            }
        }
        all
    }

    fn means(&self) -> [f64; 2] {
        let [n, a, b, ..] = self.total([0.0; 2]);
        [a / n.max(1.0), b / n.max(1.0)]
    }

    /// The correlation; 0 where one of both is constant.
    pub(super) fn correlation(&self) -> f64 {
        let [aa, bb, ab] = variances(self.total(self.means()));
        let scale = (aa * bb).sqrt();
        if scale > 0.0 { ab / scale } else { 0.0 }
    }

    /// The part of the local variance of the slice that the volume explains, with a shift along both axes; 0 where there is none.
    pub(super) fn local(&self, shift: [isize; 2]) -> f64 {
        let [nx, ny] = self.size;
        let means = self.means();
        let total = self.total(means);
        let flat = FLAT * variances(total)[1] / total[0].max(1.0);
        let least = PART * ((2 * RADIUS + 1) as f64).powi(2);
        // Sums along the second axis of each column, over the rows around the one at hand.
        let mut columns = vec![[0.0; 6]; nx];
        let (mut explained, mut all) = (0.0, 0.0);
        let row = |columns: &mut [Sums], j: usize, sign: f64| {
            for (i, sums) in columns.iter_mut().enumerate() {
                add(sums, self.at([i, j], shift, means), sign);
            }
        };
        (0..RADIUS.min(ny)).for_each(|j| row(&mut columns, j, 1.0));
        for j in 0..ny {
            if j + RADIUS < ny {
                row(&mut columns, j + RADIUS, 1.0);
            }
            if j > RADIUS {
                row(&mut columns, j - RADIUS - 1, -1.0);
            }
            for i in 0..nx {
                if !self.counts[i + nx * j] {
                    continue;
                }
                let mut sums = [0.0; 6];
                let around = i.saturating_sub(RADIUS)..(i + RADIUS + 1).min(nx);
                columns[around].iter().for_each(|c| add(&mut sums, *c, 1.0));
                if sums[0] < least {
                    continue;
                }
                let [aa, bb, ab] = variances(sums);
                all += aa;
                if bb > flat * sums[0] {
                    explained += (ab * ab / bb).min(aa);
                }
            }
        }
        if all > 0.0 { explained / all } else { 0.0 }
    }

    /// The largest of these elsewhere.
    pub(super) fn elsewhere(&self) -> f64 {
        let by = self.size.map(|n| (ELSEWHERE * n as f64) as isize);
        let shifts = [[by[0], 0], [-by[0], 0], [0, by[1]], [0, -by[1]]];
        shifts.into_iter().map(|shift| self.local(shift)).fold(0.0, f64::max)
    }
}

fn add(sums: &mut Sums, more: Sums, sign: f64) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += sign * more);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texture(phase: f64) -> Vec<f32> {
        let of = |i: usize, j: usize| {
            let (x, y) = (i as f64, j as f64);
            (0.5 * x + phase).sin() * (0.37 * y).cos() + (0.21 * x + 0.6 * y - phase).sin()
        };
        (0..48 * 40).map(|k| of(k % 48, k / 48) as f32).collect()
    }

    /// The sums are those of each window by itself.
    #[test]
    fn local_agreement_is_that_of_windows() {
        let (slice, volume) = (texture(0.0), texture(0.6));
        let counts: Vec<bool> = (0..48 * 40).map(|k| k % 48 > 10 || k / 48 > 7).collect();
        let pair = Pair { size: [48, 40], slice: &slice, volume: &volume, counts: &counts };
        for shift in [[0, 0], [5, -3]] {
            let (mut explained, mut all) = (0.0, 0.0);
            for j in 0..40isize {
                for i in 0..48isize {
                    if !counts[(i + 48 * j) as usize] {
                        continue;
                    }
                    let mut values = Vec::new();
                    for (k, l) in (-4..=4).flat_map(|b| (-4..=4).map(move |a| (i + a, j + b))) {
                        let [s, t] = [k + shift[0], l + shift[1]];
                        let inside =
                            |a: isize, b: isize| (0..48).contains(&a) && (0..40).contains(&b);
                        let at = |a: isize, b: isize| (a + 48 * b) as usize;
                        if inside(k, l) && inside(s, t) && counts[at(k, l)] && counts[at(s, t)] {
                            values.push([slice[at(k, l)], volume[at(s, t)]].map(f64::from));
                        }
                    }
                    if values.len() < 41 {
                        continue;
                    }
                    let n = values.len() as f64;
                    let mean = |c: usize| values.iter().map(|v| v[c]).sum::<f64>() / n;
                    let m = [mean(0), mean(1)];
                    let of = |a: usize, b: usize| {
                        values.iter().map(|v| (v[a] - m[a]) * (v[b] - m[b])).sum::<f64>()
                    };
                    all += of(0, 0);
                    explained += of(0, 1).powi(2) / of(1, 1);
                }
            }
            let found = pair.local(shift);
            assert!((found - explained / all).abs() < 1e-9, "{found} {}", explained / all);
        }
    }

    #[test]
    fn the_worst_slice_decides() {
        let slice = |local, elsewhere| SliceEvidence {
            local: [0.1, local],
            elsewhere,
            ..SliceEvidence::default()
        };
        let good = [slice(0.9, 0.2), slice(0.6, 0.3)];
        assert!(!check_slices(&good, &Similarity::SSD).passed);
        assert!(check_slices(&good[..1], &Similarity::SSD).passed);
        let by_information = &Similarity::MI;
        assert!(check_slices(&good, by_information).passed);
        for (local, elsewhere) in [(0.5, 0.4), (0.9, 0.8), (f64::NAN, 0.1)] {
            let check = check_slices(good.iter().chain([&slice(local, elsewhere)]), by_information);
            assert!(!check.passed && check.remedy_code == Some(Remedy::SameTissue), "{check:?}");
        }
    }

    #[test]
    fn what_is_the_same_agrees_whatever_its_contrast() {
        let slice = texture(0.0);
        let volume: Vec<f32> = slice.iter().map(|v| 3.0 - 2.0 * v).collect();
        let counts = vec![true; slice.len()];
        let pair = Pair { size: [48, 40], slice: &slice, volume: &volume, counts: &counts };
        assert!((pair.local([0, 0]) - 1.0).abs() < 1e-6 && (pair.correlation() + 1.0).abs() < 1e-6);
        assert!(pair.elsewhere() < 0.7, "{}", pair.elsewhere());
        let flat = vec![2.0; slice.len()];
        let none = Pair { volume: &flat, ..pair };
        assert_eq!([none.local([0, 0]), none.correlation()], [0.0; 2]);
    }
}
