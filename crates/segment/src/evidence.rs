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

/// Every other point of an image, as on a chessboard, from what is beside it: points whose places add up to an odd number get the mean of their
/// neighbours along the axes, all of which are even. A front that was found on that has not seen their own values.
///
/// # Errors
/// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
pub fn without_odd(lattice: &Lattice, values: &[f32]) -> Result<Vec<f32>> {
    same_length("the image", values.len(), lattice.len())?;
    let value = |point: usize| {
        if !is_odd(lattice, point) {
            return values[point];
        }
        let (mut sum, mut count) = (0.0, 0);
        let place = lattice.place(point);
        for axis in 0..3 {
            for by in [-1, 1] {
                let mut step = [0; 3];
                step[axis] = by;
                if let Some(other) = lattice.moved(place, step) {
                    sum += f64::from(values[other]);
                    count += 1;
                }
            }
        }
        if count > 0 { (sum / f64::from(count)) as f32 } else { values[point] }
    };
    Ok(memory::collected((0..values.len()).map(value))?)
}

/// Whether the places of a point add up to an odd number.
fn is_odd(lattice: &Lattice, point: usize) -> bool {
    lattice.place(point).iter().sum::<usize>() % 2 == 1
}

/// What points that a front has not seen say about it: those that [`without_odd`] leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HeldOut {
    /// The difference between the means of both layers beside the front, in standard deviations within them: next to 0 for noise. None with
    /// fewer than 20 points in one of them.
    pub contrast: Option<f64>,
    /// That difference as a part of the one between layers three points away on both sides: small for ramps and other images that have no edge. A layer
    /// of fewer than 20 points is taken to be as the nearer one.
    pub share: Option<f64>,
    /// The part of the variance of the image between both sides.
    pub separation: f64,
    /// The part of the points next to the front that are not looked at, as they are at the border of a mask.
    pub masked: f64,
}

/// The fewest points of a layer.
const LAYER: usize = 20;

/// How far a layer may be.
const FAR: isize = 4;

/// The part of an image that is exactly 0 from which on that is taken for a mask around it.
const MASKED: f64 = 0.05;

impl HeldOut {
    /// Of an image as it is about a set that was found on it [without odd points](without_odd). Where more than a twentieth of the image is exactly 0, points next to
    /// such ones are not looked at: the border of a mask is no edge.
    ///
    /// # Errors
    /// As of [`Evidence::of`].
    pub fn of(lattice: &Lattice, values: &[f32], set: &[bool]) -> Result<Self> {
        image(values, lattice.len())?;
        same_length("the set", set.len(), lattice.len())?;
        let zeros = values.iter().filter(|v| **v == 0.0).count();
        let is_masked = zeros as f64 > MASKED * values.len() as f64;
        let mut steps = Vec::new();
        for z in -FAR..=FAR {
            for y in -FAR..=FAR {
                for x in -FAR..=FAR {
                    let length = (x * x + y * y + z * z) as usize;
                    if (1..=(FAR * FAR) as usize + 1).contains(&length) {
                        steps.push((length, [x, y, z]));
                    }
                }
            }
        }
        steps.sort();
        let mut layers = [Layer::default(); 4];
        let mut next_to = [0usize; 2];
        for point in (0..set.len()).filter(|p| is_odd(lattice, *p)) {
            let place = lattice.place(point);
            let others =
                || steps.iter().filter_map(|(l, by)| Some((*l, lattice.moved(place, *by)?)));
            let side = usize::from(!set[point]);
            let distance = others().find(|(_, p)| set[*p] != set[point]).map(|(l, _)| l);
            let is_at_mask = is_masked
                && (values[point] == 0.0
                    || others().take_while(|(l, _)| *l <= 3).any(|(_, p)| values[p] == 0.0));
            if distance == Some(1) {
                next_to[usize::from(is_at_mask)] += 1;
            }
            if is_at_mask {
                continue;
            }
            // Next to the other side, or 2.5 to 4.2 points away from it.
            match distance {
                Some(1) => layers[side].add(values[point]),
                Some(7..=17) => layers[2 + side].add(values[point]),
                _ => {}
            }
        }
        let (separation, _) = separation(values, set);
        let masked = next_to[1] as f64 / (next_to[0] + next_to[1]).max(1) as f64;
        let [inside, outside, far_inside, far_outside] = layers.map(|layer| layer.known());
        let Some(([inside, a], [outside, b])) = inside.zip(outside) else {
            return Ok(Self { separation, masked, ..Self::default() });
        };
        let jump = inside - outside;
        let contrast = jump.abs() / ((a + b) / 2.0).max(f64::MIN_POSITIVE).sqrt();
        let beyond = far_inside.map_or(0.0, |[far, _]| far - inside)
            + far_outside.map_or(0.0, |[far, _]| outside - far);
        let share = jump / (jump + beyond);
        let share = share.is_finite().then_some(share);
        Ok(Self { contrast: Some(contrast), share, separation, masked })
    }
}

/// Sums over the points of a layer.
#[derive(Debug, Clone, Copy, Default)]
struct Layer {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Layer {
    fn add(&mut self, value: f32) {
        self.count += 1;
        self.sum += f64::from(value);
        self.squares += f64::from(value).powi(2);
    }

    /// The mean and the variance.
    fn known(&self) -> Option<[f64; 2]> {
        let mean = self.sum / self.count as f64;
        let variance = (self.squares / self.count as f64 - mean * mean).max(0.0);
        (self.count >= LAYER).then_some([mean, variance])
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

/// The means of an image above and below the threshold that leaves most of its variance between them (Otsu's). None where all values are the same.
#[must_use]
pub fn two_means(values: &[f32]) -> Option<[f64; 2]> {
    let all = values.len() as f64;
    let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / all;
    let variance = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / all;
    if !(variance > 0.0 && variance.is_finite()) {
        return None;
    }
    let (_, threshold) = otsu(values, variance);
    let (mut sums, mut counts) = ([0.0; 2], [0usize; 2]);
    for value in values.iter().map(|v| f64::from(*v)) {
        let side = usize::from(value < threshold);
        sums[side] += value;
        counts[side] += 1;
    }
    let of = |side: usize| (counts[side] > 0).then(|| sums[side] / counts[side] as f64);
    Some([of(0)?, of(1)?])
}

/// The part of the variance of an image that is between its labels, one a point, 0 to 1; nothing of a constant one.
#[must_use]
pub fn explained(values: &[f32], labels: &[u8]) -> Option<f64> {
    let (mut sums, mut counts) = ([0.0; 256], [0usize; 256]);
    for (value, label) in values.iter().zip(labels) {
        sums[usize::from(*label)] += f64::from(*value);
        counts[usize::from(*label)] += 1;
    }
    let mean = sums.iter().sum::<f64>() / values.len() as f64;
    let all: f64 = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum();
    let of = |(sum, count): (&f64, &usize)| *count as f64 * (sum / *count as f64 - mean).powi(2);
    let between: f64 = sums.iter().zip(&counts).filter(|(_, c)| **c > 0).map(of).sum();
    (all > 0.0).then(|| between / all)
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

    /// An edge is seen by points that the front has not seen, also in noise; noise alone, a ramp and a border of a mask are not.
    #[test]
    fn points_that_were_left_out_tell_edges_from_noise_and_ramps() {
        let lattice = crate::Lattice::new([64, 48, 1], crate::Neighbourhood::Four).unwrap();
        let mut random = crate::tests::Random(7);
        let noise: Vec<f64> = (0..lattice.len()).map(|_| random.normal()).collect();
        let of = |image: &dyn Fn(usize) -> f64| {
            let values: Vec<f32> = (0..lattice.len()).map(|p| image(p) as f32).collect();
            let seen = without_odd(&lattice, &values).unwrap();
            let mean = seen.iter().map(|v| f64::from(*v)).sum::<f64>() / seen.len() as f64;
            let set: Vec<bool> = seen.iter().map(|v| f64::from(*v) > mean).collect();
            HeldOut::of(&lattice, &values, &set).unwrap()
        };
        let x = |p: usize| lattice.place(p)[0] as f64;
        let edge = of(&|p| if x(p) < 20.0 { 0.0 } else { 4.0 } + 0.3 * noise[p]);
        assert!(edge.contrast.unwrap() > 3.0 && edge.share.unwrap() > 0.8, "{edge:?}");
        assert!(edge.separation > 0.9);
        let nothing = of(&|p| noise[p]);
        assert!(nothing.contrast.unwrap() < 0.3, "{nothing:?}");
        let ramp = of(&|p| x(p) + 0.01 * noise[p]);
        assert!(ramp.contrast.unwrap() > 3.0 && ramp.share.unwrap() < 0.35, "{ramp:?}");
        let masked = of(&|p| if x(p) < 20.0 { 0.0 } else { 4.0 + 0.3 * noise[p] });
        assert_eq!((masked.contrast, masked.share), (None, None));
    }

    #[test]
    fn means_are_those_on_both_sides_of_the_threshold() {
        assert_eq!(two_means(&[1.0, 9.0, 3.0, 11.0, 2.0]), Some([10.0, 2.0]));
        assert_eq!(two_means(&[5.0; 4]), None);
        assert_eq!(two_means(&[]), None);
    }

    #[test]
    fn odd_points_are_from_even_ones_alone() {
        let lattice = crate::Lattice::new([3, 3, 1], crate::Neighbourhood::Four).unwrap();
        let values = [0.0, 100.0, 2.0, 100.0, 4.0, 100.0, 6.0, 100.0, 8.0];
        let seen = without_odd(&lattice, &values).unwrap();
        assert_eq!(seen, [0.0, 2.0, 2.0, 10.0 / 3.0, 4.0, 14.0 / 3.0, 6.0, 6.0, 8.0]);
    }

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
        // Any threshold between both sides leaves as much between them.
        let of = |inside: bool| values.iter().zip(&set).filter(move |(_, s)| **s == inside);
        let low = of(false).map(|(v, _)| f64::from(*v)).fold(f64::NEG_INFINITY, f64::max);
        let high = of(true).map(|(v, _)| f64::from(*v)).fold(f64::INFINITY, f64::min);
        assert!((low..=high).contains(&right.threshold), "{low} {high} {right:?}");
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
