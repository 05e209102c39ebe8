//! Scores of two images on one grid.

use super::{CompareError, same_grid};
use rayon::prelude::*;
use serde::Serialize;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::expression::Expr;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::values::bin_of;
use voxalign_compute::{ComputeError, Device, DeviceBuffer};
use voxalign_image::Volume;

/// How alike two images are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImageScores {
    /// Voxels compared: those in the mask where both images are finite.
    pub voxels: usize,
    /// Voxels of the mask left out because one of the images is NaN or infinite there.
    pub not_finite: usize,
    /// Root mean square of the difference, in the images' unit (Li et al. 2015, eq. 5).
    pub rms: f64,
    /// Normalised cross correlation, -1 to 1; `None` where one image is constant.
    pub ncc: Option<f64>,
    /// Mutual information in nats.
    pub mi: f64,
    /// Normalised mutual information, (H(F) + H(M)) / H(F, M), 1 to 2; `None` where both images
    /// are constant.
    pub nmi: Option<f64>,
    /// Bins of each axis of the joint histogram.
    pub bins: usize,
}

/// Compares two images on one grid, where `mask` is above 0 (everywhere without one).
///
/// Voxels that are NaN or infinite in one of the images are left out: an image resampled with NaN
/// outside its field of view is compared over the overlap only. The histogram has `bins` bins of
/// equal width from the smallest to the largest value of each image.
///
/// # Errors
/// [`CompareError::Grids`], [`CompareError::Bins`], and [`CompareError::Nothing`] where no voxel
/// is left.
pub fn compare_images(
    fixed: &Volume<f32>,
    warped: &Volume<f32>,
    mask: Option<&Volume<f32>>,
    bins: usize,
) -> Result<ImageScores, CompareError> {
    same_grid(fixed.grid(), warped.grid())?;
    if let Some(mask) = mask {
        same_grid(fixed.grid(), mask.grid())?;
    }
    if bins < 2 {
        return Err(CompareError::Bins { bins });
    }
    let all = Pairs { fixed: fixed.data(), warped: warped.data(), mask: mask.map(Volume::data) };
    let first = all.sums();
    if first.voxels == 0 {
        return Err(CompareError::Nothing { why: why_nothing(first.not_finite > 0) });
    }
    let n = first.voxels as f64;
    let Sums { voxels, not_finite, sums, ranges } = first;
    let (moments, joint) = all.moments([sums[0] / n, sums[1] / n], ranges, bins);
    let rms = (sums[2] / n).sqrt();
    Ok(ImageScores { voxels, not_finite, rms, ..ImageScores::of(moments, ranges, (&joint, bins)) })
}

/// As [`compare_images`], of images of one number of voxels on a device.
///
/// # Errors
/// Images of different lengths, [`CompareError::Nothing`] where no voxel is left; memory that runs out.
pub(crate) fn compare_images_on<D: Device>(
    device: &D,
    fixed: &D::Buffer<f32>,
    warped: &D::Buffer<f32>,
    mask: Option<&D::Buffer<f32>>,
    bins: usize,
) -> crate::Result<ImageScores> {
    let room = || device.alloc::<f32>(fixed.len());
    let of_mask = mask.map(|mask| {
        let mut counts = room()?;
        device.eval(&x(0).gt(0.0), &[mask], &[], None, &mut counts)?;
        Ok::<_, ComputeError>(device.reduce(&[&counts], &[Reduction::Sum(0)])?[0])
    });
    let all = of_mask.transpose()?.unwrap_or(fixed.len() as f64);
    // 1 where a pair counts.
    let mut counts = room()?;
    let finite = both_finite();
    match mask {
        None => device.eval(&finite, &[fixed, warped], &[], None, &mut counts)?,
        Some(mask) => {
            let inside = finite * x(2).gt(0.0);
            device.eval(&inside, &[fixed, warped, mask], &[], None, &mut counts)?;
        }
    }
    let n = device.reduce(&[&counts], &[Reduction::Sum(0)])?[0];
    if n <= 0.0 {
        return Err(CompareError::Nothing { why: why_nothing(all > 0.0) }.into());
    }
    let [mut f, mut w] = [room()?, room()?];
    let counted = |from: &D::Buffer<f32>, less: f32, other: f32, to: &mut D::Buffer<f32>| {
        let value = select(x(1).gt(0.0), x(0) - param(0), param(1));
        device.eval(&value, &[from, &counts], &[less, other], None, to)
    };
    counted(fixed, 0.0, f32::NAN, &mut f)?;
    counted(warped, 0.0, f32::NAN, &mut w)?;
    let ends = [0, 1].map(|i| [Reduction::Min(i), Reduction::Max(i)]);
    let ends = device.reduce(&[&f, &w], ends.as_flattened())?;
    let ranges = [[ends[0], ends[1]], [ends[2], ends[3]]];
    counted(fixed, 0.0, 0.0, &mut f)?;
    counted(warped, 0.0, 0.0, &mut w)?;
    let sums = [Reduction::Sum(0), Reduction::Sum(1), Reduction::SumSquaredDifference(0, 1)];
    let sums = device.reduce(&[&f, &w], &sums)?;
    // About values near the means, so that little is lost where these are large.
    let means = [sums[0] / n, sums[1] / n].map(|mean| mean as f32);
    counted(fixed, means[0], 0.0, &mut f)?;
    counted(warped, means[1], 0.0, &mut w)?;
    let squares = [
        Reduction::Sum(0),
        Reduction::Sum(1),
        Reduction::SumSquares(0),
        Reduction::SumSquares(1),
        Reduction::Dot(0, 1),
    ];
    let squares = device.reduce(&[&f, &w], &squares)?;
    drop((f, w));
    let rest = |a: usize, b: usize| squares[a] * squares[b] / n;
    let moments = [squares[2] - rest(0, 0), squares[3] - rest(1, 1), squares[4] - rest(0, 1)];
    let joint = device.pair_counts(fixed, warped, Some(&counts), ranges, bins)?;
    let (voxels, rms) = (n as usize, (sums[2] / n).sqrt());
    let not_finite = all as usize - voxels;
    Ok(ImageScores { voxels, not_finite, rms, ..ImageScores::of(moments, ranges, (&joint, bins)) })
}

/// 1 where both of two images are finite.
pub(crate) fn both_finite() -> Expr {
    x(0).abs().le(f32::MAX) * x(1).abs().le(f32::MAX)
}

/// Why nothing is compared, where the mask has voxels or not.
fn why_nothing(some: bool) -> &'static str {
    match some {
        true => "at every voxel one of the images is NaN or infinite",
        false => "the mask has no voxel above 0",
    }
}

impl ImageScores {
    /// Those of central moments of second order and of a joint histogram, warped slowest.
    fn of(moments: [f64; 3], ranges: [[f64; 2]; 2], (joint, bins): (&[u64], usize)) -> Self {
        let size = (moments[0] * moments[1]).sqrt();
        let constant = |r: [f64; 2]| r[0] >= r[1];
        let ncc = (size > 0.0 && !constant(ranges[0]) && !constant(ranges[1]))
            .then(|| (moments[2] / size).clamp(-1.0, 1.0));
        let (h_f, h_w, h_joint) = entropies(joint, bins);
        Self {
            voxels: 0,
            not_finite: 0,
            rms: 0.0,
            ncc,
            mi: (h_f + h_w - h_joint).max(0.0),
            nmi: (h_joint > 0.0).then(|| (h_f + h_w) / h_joint),
            bins,
        }
    }
}

/// Voxels that a thread compares at a time; fixed, so that sums do not depend on the threads.
const PART: usize = 1 << 16;

/// The values to be compared.
struct Pairs<'a> {
    fixed: &'a [f32],
    warped: &'a [f32],
    mask: Option<&'a [f32]>,
}

/// The sums of one pass.
struct Sums {
    voxels: usize,
    not_finite: usize,
    /// Of the fixed values, of the warped ones, and of their squared differences.
    sums: [f64; 3],
    ranges: [[f64; 2]; 2],
}

impl Pairs<'_> {
    fn parts(&self) -> usize {
        self.fixed.len().div_ceil(PART)
    }

    /// The pairs of a part that the mask lets through.
    fn of(&self, part: usize) -> impl Iterator<Item = (f64, f64)> {
        let range = part * PART..self.fixed.len().min((part + 1) * PART);
        let mask = self.mask.map(|m| &m[range.clone()]);
        let pairs = self.fixed[range.clone()].iter().zip(&self.warped[range]).enumerate();
        pairs
            .filter(move |&(i, _)| mask.is_none_or(|m| m[i] > 0.0))
            .map(|(_, (&f, &w))| (f64::from(f), f64::from(w)))
    }

    fn finite(&self, part: usize) -> impl Iterator<Item = (f64, f64)> {
        self.of(part).filter(|(f, w)| f.is_finite() && w.is_finite())
    }

    fn sums(&self) -> Sums {
        let none =
            Sums { voxels: 0, not_finite: 0, sums: [0.0; 3], ranges: [[f64::MAX, f64::MIN]; 2] };
        let of = |part| {
            let (mut found, mut all) = (Sums { ..none }, 0);
            for (f, w) in self.of(part) {
                all += 1;
                if !(f.is_finite() && w.is_finite()) {
                    continue;
                }
                found.voxels += 1;
                for (sum, value) in found.sums.iter_mut().zip([f, w, (f - w) * (f - w)]) {
                    *sum += value;
                }
                for (range, value) in found.ranges.iter_mut().zip([f, w]) {
                    *range = [range[0].min(value), range[1].max(value)];
                }
            }
            Sums { not_finite: all - found.voxels, ..found }
        };
        let parts: Vec<Sums> = (0..self.parts()).into_par_iter().map(of).collect();
        parts.into_iter().fold(Sums { ..none }, |a, b| Sums {
            voxels: a.voxels + b.voxels,
            not_finite: a.not_finite + b.not_finite,
            sums: [0, 1, 2].map(|i| a.sums[i] + b.sums[i]),
            ranges: [0, 1].map(|i| {
                let ([low, high], [other_low, other_high]) = (a.ranges[i], b.ranges[i]);
                [low.min(other_low), high.max(other_high)]
            }),
        })
    }

    /// The central moments of second order, and the joint histogram, warped slowest.
    fn moments(&self, means: [f64; 2], ranges: [[f64; 2]; 2], bins: usize) -> ([f64; 3], Vec<u64>) {
        let bin = |value: f64, range: [f64; 2]| bin_of(value, range, bins);
        // Each group of parts has a histogram: fewer where those are large.
        let groups = (HISTOGRAMS / (bins * bins)).clamp(1, self.parts());
        let each = self.parts().div_ceil(groups);
        let of = |group| {
            let (mut moments, mut joint) = (Vec::with_capacity(each), vec![0u64; bins * bins]);
            for part in (group * each..self.parts()).take(each) {
                let mut sums = [0.0; 3];
                for (f, w) in self.finite(part) {
                    let (df, dw) = (f - means[0], w - means[1]);
                    sums[0] += df * df;
                    sums[1] += dw * dw;
                    sums[2] += df * dw;
                    joint[bin(w, ranges[1]) * bins + bin(f, ranges[0])] += 1;
                }
                moments.push(sums);
            }
            (moments, joint)
        };
        let found: Vec<_> = (0..groups).into_par_iter().map(of).collect();
        let (mut moments, mut joint) = ([0.0; 3], vec![0u64; bins * bins]);
        for (of_parts, counts) in found {
            for of_part in of_parts {
                moments.iter_mut().zip(of_part).for_each(|(sum, value)| *sum += value);
            }
            joint.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        (moments, joint)
    }
}

/// Entries of all histograms that are made at once, unless one has more.
const HISTOGRAMS: usize = 1 << 16;

/// Entropies, in nats, of the columns, of the rows and of the whole of a joint histogram.
pub(crate) fn entropies(joint: &[u64], bins: usize) -> (f64, f64, f64) {
    let total = joint.iter().sum::<u64>() as f64;
    let entropy = |counts: &mut dyn Iterator<Item = u64>| {
        counts
            .filter(|&c| c > 0)
            .map(|c| {
                let p = c as f64 / total;
                -p * p.ln()
            })
            .sum::<f64>()
    };
    let columns = entropy(&mut (0..bins).map(|f| (0..bins).map(|w| joint[w * bins + f]).sum()));
    let rows = entropy(&mut (0..bins).map(|w| joint[w * bins..(w + 1) * bins].iter().sum()));
    (columns, rows, entropy(&mut joint.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    fn grid(n: usize) -> Grid {
        Grid::axis_aligned([n, 1, 1], [1.0; 3]).unwrap()
    }

    fn volume(values: &[f32]) -> Volume<f32> {
        Volume::new(grid(values.len()), values.to_vec()).unwrap()
    }

    #[test]
    fn known_scores() {
        let f = volume(&[0.0, 1.0, 2.0, 3.0]);
        let same = compare_images(&f, &f, None, 4).unwrap();
        assert_eq!((same.voxels, same.rms, same.ncc), (4, 0.0, Some(1.0)));
        assert!((same.mi - 4f64.ln()).abs() < 1e-12);
        assert!((same.nmi.unwrap() - 2.0).abs() < 1e-12);

        let w = volume(&[3.0, 2.0, 1.0, 0.0]);
        let turned = compare_images(&f, &w, None, 4).unwrap();
        assert!((turned.rms - 5f64.sqrt()).abs() < 1e-12);
        assert!((turned.ncc.unwrap() + 1.0).abs() < 1e-12);
        assert!((turned.mi - 4f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn independent_images_share_nothing() {
        let f = volume(&[0.0, 0.0, 1.0, 1.0]);
        let w = volume(&[0.0, 1.0, 0.0, 1.0]);
        let s = compare_images(&f, &w, None, 2).unwrap();
        assert!(s.mi.abs() < 1e-12 && (s.nmi.unwrap() - 1.0).abs() < 1e-12);
        assert!(s.ncc.unwrap().abs() < 1e-12);
    }

    #[test]
    fn masks_and_nan_take_voxels_out() {
        let f = volume(&[1.0, 2.0, 3.0, 9.0]);
        let w = volume(&[1.0, f32::NAN, 4.0, 0.0]);
        let mask = volume(&[1.0, 1.0, 0.5, 0.0]);
        let s = compare_images(&f, &w, Some(&mask), 8).unwrap();
        assert_eq!((s.voxels, s.not_finite), (2, 1));
        assert!((s.rms - 0.5f64.sqrt()).abs() < 1e-12);
        let none = compare_images(&f, &w, Some(&volume(&[0.0; 4])), 8);
        assert!(matches!(none, Err(CompareError::Nothing { .. })));
    }

    /// What is summed in parts is what one sum over all voxels gives.
    #[test]
    fn parts_make_the_whole() {
        let n = 3 * PART + 77;
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 * 1e-4
        };
        let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|_| (noise(), noise())).unzip();
        let found = compare_images(&volume(&a), &volume(&b), None, 16).unwrap();
        let pairs = || a.iter().zip(&b).map(|(&a, &b)| (f64::from(a), f64::from(b)));
        let mean = |values: &[f32]| values.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
        let (ma, mb) = (mean(&a), mean(&b));
        let rms = (pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / n as f64).sqrt();
        let moment = |f: fn(f64, f64) -> f64| pairs().map(|(a, b)| f(a - ma, b - mb)).sum::<f64>();
        let ncc = moment(|a, b| a * b) / (moment(|a, _| a * a) * moment(|_, b| b * b)).sqrt();
        assert_eq!((found.voxels, found.not_finite), (n, 0));
        assert!((found.rms - rms).abs() < 1e-9 * rms, "{} {rms}", found.rms);
        assert!((found.ncc.unwrap() - ncc).abs() < 1e-11, "{:?} {ncc}", found.ncc);
    }

    #[test]
    fn constant_images_have_no_correlation() {
        let s = compare_images(&volume(&[2.0; 3]), &volume(&[2.0; 3]), None, 8).unwrap();
        assert_eq!((s.ncc, s.nmi, s.mi, s.rms), (None, None, 0.0, 0.0));
    }

    #[test]
    fn other_grids_are_refused() {
        let other = Volume::filled(Grid::axis_aligned([4, 1, 1], [2.0; 3]).unwrap(), 0.0);
        let e = compare_images(&volume(&[0.0; 4]), &other, None, 8).unwrap_err();
        assert!(e.to_string().contains("grids differ"), "{e}");
        let f = volume(&[0.0; 4]);
        assert!(matches!(compare_images(&f, &f, None, 1), Err(CompareError::Bins { bins: 1 })));
    }
}
