//! White matter of whole heads, slice by slice: what of the object is skull, scalp and fat is known from the slice above, and removed as by a wave.
//!
//! The source (section 3.8.4) says that the first regions which appear from the vertex down are the skull, and that what is known of a slice is carried to the next "in a wave like
//! manner". It has no rule for where the two touch, for eyes and for the neck. The rules are those of [`Wave`]: what lies next to the brain of the slice above belongs to the brain,
//! what is within a few millimetres of the skin or beside the skull does not, and in the end the largest part in three dimensions is kept.

use super::depth::depths;
use super::tissues::SharedDeviation;
use crate::error::{Result, SegmentError, finite, same_length};
use crate::evidence::two_means;
use crate::lattice::{Lattice, Neighbourhood};
use crate::tidy;
use std::collections::VecDeque;
use voxalign_image::memory;

/// Deeper than this there is no scalp, and at most so far below the vertex there is brain alone, mm.
const DEEP: f64 = 20.0;
const BELOW_VERTEX: f64 = 90.0;

/// The part of the values whose histogram the tissues are from.
const QUANTILE: f64 = 0.995;

/// By how many points slices of the head are closed.
const CLOSED: usize = 3;

/// A head in an image whose slices rise from the neck to the vertex.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    dims: [usize; 3],
    spacing: [f64; 3],
    /// What is in the head.
    pub set: Vec<bool>,
    /// How deep below the skin, mm.
    pub depths: Vec<f32>,
    /// The slice of the vertex.
    pub top: usize,
    /// The tissues of what lies deep in it.
    pub tissues: SharedDeviation,
}

impl Head {
    /// The head: what is brighter than half of Otsu's threshold, closed and filled in each slice, and of this the largest part.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NotFinite`], [`SegmentError::Components`] where nothing of it is deep enough for a brain,
    /// [`SegmentError::OutOfMemory`].
    pub fn of(dims: [usize; 3], spacing: [f64; 3], values: &[f32]) -> Result<Self> {
        same_length("the image", values.len(), dims.iter().product())?;
        finite("the image", values)?;
        let none = SegmentError::Components { components: 4, values: 0 };
        let means = two_means(values).ok_or_else(|| none.clone())?;
        // Otsu's threshold lies in the middle between its means.
        let threshold = 0.25 * (means[0] + means[1]);
        let mut set = memory::collected(values.iter().map(|v| f64::from(*v) > threshold))?;
        let slice = Slice::new(dims)?;
        for slice_of_head in set.chunks_exact_mut(slice.len()) {
            slice.close(slice_of_head)?;
        }
        if dims[2] > 1 {
            tidy::keep_largest(&Lattice::new(dims, Neighbourhood::Six)?, &mut set)?;
        }
        let top = set.iter().rposition(|s| *s).ok_or_else(|| none.clone())? / slice.len();
        let depths = depths(dims, &set, spacing, true)?;
        let lowest = top.saturating_sub((BELOW_VERTEX / spacing[2]) as usize) * slice.len();
        let is_deep = |p: &usize| *p >= lowest && set[*p] && f64::from(depths[*p]) > DEEP;
        let deep = (0..set.len()).filter(is_deep).map(|p| values[p]);
        let tissues = SharedDeviation::fit(&memory::collected(deep)?, QUANTILE)?;
        Ok(Self { dims, spacing, set, depths, top, tissues })
    }
}

/// By what skull and brain are told apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wave {
    /// So many deviations above the mean of white matter there is fat.
    pub fat: f64,
    /// What lies less deep is skull where the slice above has no brain, mm.
    pub rim: f64,
    /// The skull of the slice above grows by a point in each slice, down to this depth, mm.
    pub creep: f64,
    /// New parts of a slice are of the brain if they lie deeper, mm,
    pub new: f64,
    /// and so near to the brain of the slice above, mm,
    pub near: f64,
    /// or if no slice above had so much brain, mm².
    pub first: f64,
    /// The wave ends where less than this part of the largest slice is brain.
    pub least: f64,
}

impl Default for Wave {
    fn default() -> Self {
        Self { fat: 3.0, rim: 10.0, creep: 16.0, new: 12.0, near: 5.0, first: 1500.0, least: 0.04 }
    }
}

impl Wave {
    /// What of an object, found slice by slice, is of the brain: from the vertex down to where the brain ends, then up again for what hangs on it from below, and of this the
    /// largest part.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::OutOfMemory`].
    pub fn brain(&self, head: &Head, values: &[f32], object: &[bool]) -> Result<Vec<bool>> {
        same_length("the image", values.len(), head.set.len())?;
        same_length("the object", object.len(), head.set.len())?;
        let slice = Slice::new(head.dims)?;
        let n = slice.len();
        let area = head.spacing[0] * head.spacing[1];
        let hot = head.tissues.means[3] + self.fat * head.tissues.deviation;
        let mut brain = memory::filled(object.len(), false)?;
        let mut skull = memory::filled(object.len(), false)?;
        let nothing = memory::filled(n, false)?;
        let (mut largest, mut last) = (0usize, head.top);
        for z in (0..=head.top).rev() {
            let at = |p: usize| z * n + p;
            let (skull_above, brain_above) = match z < head.top {
                true => (&skull[(z + 1) * n..(z + 2) * n], &brain[(z + 1) * n..(z + 2) * n]),
                false => (&nothing[..], &nothing[..]),
            };
            let beside_skull = slice.grown(skull_above, 1, Neighbourhood::Four)?;
            let beside_brain = slice.grown(brain_above, 1, Neighbourhood::Eight)?;
            let away = memory::collected(brain_above.iter().map(|b| !*b))?;
            let from_brain = depths(slice.four.dims(), &away, head.spacing, false)?;
            let is_skull = |p: usize| {
                let (depth, value) = (f64::from(head.depths[at(p)]), f64::from(values[at(p)]));
                let crept = beside_skull[p] && !beside_brain[p] && depth < self.creep;
                value > hot || crept || (depth < self.rim && !brain_above[p])
            };
            let of_object = &object[z * n..(z + 1) * n];
            let mut own_skull = memory::collected((0..n).map(|p| of_object[p] && is_skull(p)))?;
            let free = memory::collected((0..n).map(|p| of_object[p] && !own_skull[p]))?;
            let seeds = memory::collected((0..n).map(|p| free[p] && brain_above[p]))?;
            let mut own = slice.reached(&seeds, &free)?;
            let rest = memory::collected((0..n).map(|p| free[p] && !own[p]))?;
            let beside_own_skull = slice.grown(&own_skull, 1, Neighbourhood::Four)?;
            let is_first = largest as f64 * area < self.first;
            for part in slice.parts(&rest)? {
                let depth = part.iter().map(|p| head.depths[at(*p)]).fold(f32::INFINITY, f32::min);
                let is_deep = f64::from(depth) >= self.new;
                let is_near = part.iter().any(|p| f64::from(from_brain[*p]) <= self.near);
                if is_deep && (is_near || is_first) {
                    part.iter().for_each(|p| own[*p] = true);
                } else if !is_deep && !is_near && part.iter().any(|p| beside_own_skull[*p]) {
                    part.iter().for_each(|p| own_skull[*p] = true);
                }
            }
            let size = own.iter().filter(|o| **o).count();
            largest = largest.max(size);
            skull[z * n..(z + 1) * n].copy_from_slice(&own_skull);
            brain[z * n..(z + 1) * n].copy_from_slice(&own);
            last = z;
            if largest > 50 && (size as f64) < self.least * largest as f64 {
                break;
            }
        }
        for z in last + 1..=head.top {
            let here = z * n..(z + 1) * n;
            let free = here.clone().map(|p| object[p] && !skull[p]);
            let free = memory::collected(free)?;
            let below = slice.grown(&brain[(z - 1) * n..z * n], 1, Neighbourhood::Four)?;
            let own = &brain[here.clone()];
            let seeds = memory::collected((0..n).map(|p| own[p] || (below[p] && free[p])))?;
            let reached = slice.reached(&seeds, &free)?;
            brain[here].copy_from_slice(&reached);
        }
        if head.dims[2] > 1 {
            tidy::keep_largest(&Lattice::new(head.dims, Neighbourhood::Six)?, &mut brain)?;
        }
        Ok(brain)
    }
}

/// The points of one slice, and what can be done with sets of them.
struct Slice {
    four: Lattice,
    eight: Lattice,
}

impl Slice {
    fn new([nx, ny, _]: [usize; 3]) -> Result<Self> {
        let of = |neighbourhood| Lattice::new([nx, ny, 1], neighbourhood);
        Ok(Self { four: of(Neighbourhood::Four)?, eight: of(Neighbourhood::Eight)? })
    }

    fn len(&self) -> usize {
        self.four.len()
    }

    fn lattice(&self, neighbourhood: Neighbourhood) -> &Lattice {
        match neighbourhood {
            Neighbourhood::Four => &self.four,
            _ => &self.eight,
        }
    }

    /// A set with all points within so many steps of it.
    fn grown(&self, set: &[bool], steps: usize, by: Neighbourhood) -> Result<Vec<bool>> {
        let lattice = self.lattice(by);
        let mut all = memory::copied(set)?;
        let mut rim = memory::collected((0..set.len()).filter(|p| set[*p]))?;
        for _ in 0..steps {
            let mut next = Vec::new();
            for point in rim {
                for other in lattice.neighbours(point) {
                    if !all[other] {
                        all[other] = true;
                        memory::push(&mut next, other)?;
                    }
                }
            }
            rim = next;
        }
        Ok(all)
    }

    /// A set without all points within so many steps of its outside; beyond the border nothing is outside.
    fn shrunk(&self, set: &[bool], steps: usize, by: Neighbourhood) -> Result<Vec<bool>> {
        let outside = memory::collected(set.iter().map(|s| !*s))?;
        let mut grown = self.grown(&outside, steps, by)?;
        grown.iter_mut().for_each(|g| *g = !*g);
        Ok(grown)
    }

    /// Closes a set, and fills its holes.
    fn close(&self, set: &mut [bool]) -> Result<()> {
        let grown = self.grown(set, CLOSED, Neighbourhood::Eight)?;
        set.copy_from_slice(&self.shrunk(&grown, CLOSED, Neighbourhood::Eight)?);
        tidy::fill_holes(&self.four, set)?;
        Ok(())
    }

    /// What of a set can be reached within another one, the seeds included.
    fn reached(&self, seeds: &[bool], within: &[bool]) -> Result<Vec<bool>> {
        let mut all = memory::copied(seeds)?;
        let mut front: VecDeque<usize> = (0..seeds.len()).filter(|p| seeds[*p]).collect();
        while let Some(point) = front.pop_front() {
            for next in self.four.neighbours(point) {
                if within[next] && !all[next] {
                    all[next] = true;
                    front.push_back(next);
                }
            }
        }
        Ok(all)
    }

    /// The connected parts of a set, each with its points.
    fn parts(&self, set: &[bool]) -> Result<Vec<Vec<usize>>> {
        let mut left = memory::copied(set)?;
        let mut all = Vec::new();
        for first in 0..set.len() {
            if !left[first] {
                continue;
            }
            left[first] = false;
            let (mut part, mut done) = (vec![first], 0);
            while done < part.len() {
                for next in self.four.neighbours(part[done]) {
                    if left[next] {
                        left[next] = false;
                        memory::push(&mut part, next)?;
                    }
                }
                done += 1;
            }
            memory::push(&mut all, part)?;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    /// A head of balls within each other, in voxels of 2 mm: scalp and fat, skull, fluid, grey and white matter, and a neck as bright as white matter.
    fn phantom() -> ([usize; 3], Vec<f32>, Vec<bool>) {
        let dims = [80, 90, 90];
        let mut random = Random(5);
        let (mut values, mut white) = (Vec::new(), Vec::new());
        for p in 0..dims.iter().product() {
            let [x, y, z] = [p % 80, p / 80 % 90, p / 7200].map(|i| i as f64);
            let radius = ((x - 40.0).powi(2) + (y - 45.0).powi(2) + (z - 48.0).powi(2)).sqrt();
            let neck = (x - 40.0).hypot(y - 45.0);
            let mean = match radius {
                r if r > 38.0 && z < 25.0 && neck < 15.0 => 1050.0,
                r if r > 38.0 => 0.0,
                r if r > 35.0 => 1100.0,
                r if r > 32.0 => 60.0,
                r if r > 30.0 => 300.0,
                r if r > 22.0 => 700.0,
                r if r < 5.0 => 300.0,
                _ => 1050.0,
            };
            white.push((5.0..=22.0).contains(&radius));
            values.push((mean + 30.0 * random.normal()).max(1.0) as f32);
        }
        (dims, values, white)
    }

    #[test]
    fn white_matter_of_a_head_has_neither_scalp_nor_neck() {
        let (dims, values, white) = phantom();
        let head = Head::of(dims, [2.0; 3], &values).unwrap();
        assert!((84..=87).contains(&head.top), "{}", head.top);
        assert!((head.tissues.means[3] - 1050.0).abs() < 30.0, "{:?}", head.tissues);
        let speeds = head.tissues.speeds(&values).unwrap();
        let object: Vec<bool> = speeds.iter().zip(&head.set).map(|(s, h)| *s > 0.0 && *h).collect();
        let found = Wave::default().brain(&head, &values, &object).unwrap();
        let dice = |of: &[bool]| crate::dice(of, &white).unwrap();
        assert!(dice(&object) < 0.75, "{}", dice(&object));
        assert!(dice(&found) > 0.97, "{}", dice(&found));
    }

    #[test]
    fn what_has_no_depth_is_no_head() {
        let flat = Head::of([30, 30, 1], [1.0; 3], &vec![0.0; 900]);
        assert!(matches!(flat, Err(SegmentError::Components { .. })), "{flat:?}");
        let small: Vec<f32> =
            (0..900).map(|p| if p % 30 < 10 { 1.0 + p as f32 } else { 0.0 }).collect();
        assert!(Head::of([30, 30, 1], [1.0; 3], &small).is_err());
        assert!(Head::of([30, 30, 1], [1.0; 3], &small[1..]).is_err());
    }
}
