//! What an image says about a finished set, whatever force found it.
//!
//! None of this was minimised: the step of the image across the front against that across fronts a little further in and out, and how well both sides
//! are told apart by their values.

use crate::error::{Result, image, same_length};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// By how many points the fronts are moved that a front is compared with.
const SHIFT: usize = 2;

/// How many bins a threshold is looked for in.
const BINS: usize = 256;

/// What an image says about a set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Evidence {
    /// The mean difference of the image between two neighbours on both sides of the front, whatever its sign, in standard deviations of the image;
    /// none where there is no front.
    pub contrast: Option<f64>,
    /// The same across the front of the set that is two points smaller, and two points larger all around; none where nothing is left of
    /// either.
    pub shifted: [Option<f64>; 2],
    /// The part of the variance of the image that is that between both sides (η of N. Otsu, IEEE Transactions on Systems, Man, and Cybernetics
    /// 9, 1979), 0 to 1.
    pub separation: f64,
    /// The most of it that a threshold on the image alone gives.
    pub separable: f64,
    /// That threshold.
    pub threshold: f64,
}

impl Evidence {
    /// Of an image about a set: one value a point, whether it is inside.
    ///
    /// # Errors
    /// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::NotFinite`](crate::SegmentError::NotFinite),
    /// [`SegmentError::Constant`](crate::SegmentError::Constant), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn of(lattice: &Lattice, values: &[f32], set: &[bool]) -> Result<Self> {
        image(values, lattice.len())?;
        same_length("the set", set.len(), lattice.len())?;
        let (separation, variance) = separation(values, set);
        let (separable, threshold) = otsu(values, variance);
        let deviation = variance.sqrt();
        let step = |set: &[bool]| step(lattice, values, set).map(|s| s / deviation);
        let mut shifted = [None; 2];
        for (found, inside) in shifted.iter_mut().zip([true, false]) {
            *found = step(&moved(lattice, set, inside)?);
        }
        Ok(Self { contrast: step(set), shifted, separation, separable, threshold })
    }

    /// The contrast over the mean of that across both shifted fronts: above 1 where the front is on an edge of the image. None where there
    /// is nothing to compare.
    #[must_use]
    pub fn edge(&self) -> Option<f64> {
        let all: Vec<f64> = self.shifted.iter().flatten().copied().collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        match (self.contrast, all.is_empty()) {
            (Some(contrast), false) => Some(contrast / mean.max(f64::MIN_POSITIVE)),
            _ => None,
        }
    }
}

/// Dice's coefficient of what has a label other than 0 in both of two maps: twice the points that have the same one over all that have one. 1 where
/// none has.
///
/// # Errors
/// [`SegmentError::Length`](crate::SegmentError::Length).
pub fn dice<T: Copy + PartialEq + Default>(a: &[T], b: &[T]) -> Result<f64> {
    same_length("the other labels", b.len(), a.len())?;
    let none = T::default();
    let both = a.iter().zip(b).filter(|(a, b)| **a != none && a == b).count();
    let all: usize = [a, b].iter().map(|l| l.iter().filter(|v| **v != none).count()).sum();
    Ok(if all == 0 { 1.0 } else { 2.0 * both as f64 / all as f64 })
}

/// The mean size of the difference between neighbours on both sides.
fn step(lattice: &Lattice, values: &[f32], set: &[bool]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0usize);
    for point in (0..set.len()).filter(|p| set[*p]) {
        for other in lattice.neighbours(point).filter(|o| !set[*o]) {
            sum += (f64::from(values[point]) - f64::from(values[other])).abs();
            count += 1;
        }
    }
    (count > 0).then(|| sum / count as f64)
}

/// The set with its front some points further in, or out.
fn moved(lattice: &Lattice, set: &[bool], inwards: bool) -> Result<Vec<bool>> {
    let mut set = memory::copied(set)?;
    for _ in 0..SHIFT {
        let changes =
            |p: usize| set[p] == inwards && lattice.neighbours(p).any(|o| set[o] != inwards);
        let next = memory::collected((0..set.len()).map(|p| set[p] != changes(p)))?;
        set = next;
    }
    Ok(set)
}

/// The part of the variance that is between both sides, and the variance.
fn separation(values: &[f32], set: &[bool]) -> (f64, f64) {
    let (mut sums, mut counts) = ([0.0; 2], [0usize; 2]);
    for (value, inside) in values.iter().zip(set) {
        sums[usize::from(*inside)] += f64::from(*value);
        counts[usize::from(*inside)] += 1;
    }
    let all = values.len() as f64;
    let mean = (sums[0] + sums[1]) / all;
    let variance = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / all;
    let between: f64 = (0..2)
        .filter(|s| counts[*s] > 0)
        .map(|s| counts[s] as f64 / all * (sums[s] / counts[s] as f64 - mean).powi(2))
        .sum();
    (if variance > 0.0 { (between / variance).min(1.0) } else { 0.0 }, variance)
}

/// The largest part of a variance that a threshold divides, and that threshold.
fn otsu(values: &[f32], variance: f64) -> (f64, f64) {
    let ends = values.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| {
        [low.min(f64::from(*v)), high.max(f64::from(*v))]
    });
    let width = (ends[1] - ends[0]) / BINS as f64;
    let (mut counts, mut sums) = ([0usize; BINS], [0.0; BINS]);
    for value in values {
        let value = f64::from(*value);
        let bin = (((value - ends[0]) / width) as usize).min(BINS - 1);
        counts[bin] += 1;
        sums[bin] += value;
    }
    let (all, total) = (values.len() as f64, sums.iter().sum::<f64>());
    let (mut below, mut sum) = (0usize, 0.0);
    let mut best = (0.0, ends[0]);
    for bin in 0..BINS - 1 {
        below += counts[bin];
        sum += sums[bin];
        if below == 0 || below == values.len() {
            continue;
        }
        let part = below as f64 / all;
        let means = [sum / below as f64, (total - sum) / (all - below as f64)];
        let between = part * (1.0 - part) * (means[1] - means[0]).powi(2) / variance;
        if between > best.0 {
            best = (between.min(1.0), ends[0] + (bin + 1) as f64 * width);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;
    use crate::start::{Shape, single};
    use crate::tests::Random;

    fn disc(size: f64) -> (Lattice, Vec<bool>) {
        let lattice = Lattice::new([40, 36, 1], Neighbourhood::Four).unwrap();
        let set = single(&lattice, Shape::Ball, [20.0, 18.0, 0.0], size).unwrap();
        (lattice, set)
    }

    #[test]
    fn a_front_on_an_edge_has_more_contrast_than_those_beside_it() {
        let (lattice, set) = disc(20.0);
        let mut random = Random(3);
        let values: Vec<f32> =
            set.iter().map(|s| (if *s { 50.0 } else { 20.0 } + random.normal()) as f32).collect();
        let right = Evidence::of(&lattice, &values, &set).unwrap();
        assert!(right.edge().unwrap() > 10.0 && right.separation > 0.98, "{right:?}");
        assert!((right.separation - right.separable).abs() < 0.01, "{right:?}");
        assert!((25.0..45.0).contains(&right.threshold), "{right:?}");
        // One that lies elsewhere has none.
        let (_, wrong) = disc(28.0);
        let wrong = Evidence::of(&lattice, &values, &wrong).unwrap();
        assert!(wrong.edge().unwrap() < 1.5 && wrong.separation < right.separation, "{wrong:?}");
        // Nothing is left within a small one; there is none of an empty one.
        let (_, small) = disc(3.0);
        let small = Evidence::of(&lattice, &values, &small).unwrap();
        assert!(small.shifted[0].is_none() && small.shifted[1].is_some());
        let none = Evidence::of(&lattice, &values, &vec![false; set.len()]).unwrap();
        assert!(none.contrast.is_none() && none.edge().is_none() && none.separation == 0.0);
    }

    #[test]
    fn overlaps_are_those_counted_by_hand() {
        assert_eq!(dice(&[0u8, 1, 1, 2], &[0, 1, 2, 2]).unwrap(), 4.0 / 6.0);
        assert_eq!(dice(&[false, false], &[false, false]).unwrap(), 1.0);
        assert_eq!(dice(&[true, false], &[false, true]).unwrap(), 0.0);
        assert!(dice(&[true], &[true, false]).is_err());
    }
}
