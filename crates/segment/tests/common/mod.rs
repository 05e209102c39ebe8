//! What several tests use.
#![allow(dead_code, unreachable_pub)]

use voxalign_segment::Lattice;

/// Numbers, the same every time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Of mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.below(1 << 31) as f64 / (1u64 << 31) as f64).sum::<f64>() - 6.0
    }

    /// Points of a lattice: blobs, or each for itself.
    pub fn set(&mut self, lattice: &Lattice) -> Vec<bool> {
        let mut set = vec![false; lattice.len()];
        match self.below(3) {
            0 => {
                let of = 1 + self.below(4);
                set.iter_mut().for_each(|s| *s = self.below(5) < of);
            }
            kind => {
                // A walk, thin or thick.
                let mut point = self.below(lattice.len() as u64) as usize;
                for _ in 0..self.below(lattice.len() as u64) {
                    set[point] = true;
                    let near: Vec<usize> = lattice.neighbours(point).collect();
                    if near.is_empty() {
                        break;
                    }
                    point = near[self.below(near.len() as u64) as usize];
                    if kind == 2 {
                        lattice.neighbours(point).for_each(|n| set[n] = true);
                    }
                }
            }
        }
        set
    }
}

/// The parts of a set and of its complement that the lattice connects: the number of a part at each point.
pub fn parts(lattice: &Lattice, set: &[bool]) -> Vec<usize> {
    let mut label = vec![usize::MAX; set.len()];
    for start in 0..set.len() {
        let mut front = vec![start];
        while let Some(p) = front.pop() {
            if label[p] == usize::MAX && set[p] == set[start] {
                label[p] = start;
                front.extend(lattice.neighbours(p));
            }
        }
    }
    label
}

/// Adds to a start (or takes from it) one point of each part of the object (of the background) that has none, so that the conditions
/// of the theorems hold.
pub fn repaired(
    lattice: &Lattice,
    object: &[bool],
    mut start: Vec<bool>,
    random: &mut Random,
) -> Vec<bool> {
    let label = parts(lattice, object);
    for first in 0..object.len() {
        let part: Vec<usize> = (0..object.len()).filter(|p| label[*p] == first).collect();
        if !part.is_empty() && part.iter().all(|&p| start[p] != object[first]) {
            start[part[random.below(part.len() as u64) as usize]] = object[first];
        }
    }
    start
}

pub fn dice(a: &[bool], b: &[bool]) -> f64 {
    let both = a.iter().zip(b).filter(|(a, b)| **a && **b).count();
    let sum = a.iter().chain(b).filter(|s| **s).count();
    2.0 * both as f64 / sum as f64
}
