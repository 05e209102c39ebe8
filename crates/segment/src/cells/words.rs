//! Sets as bits, 64 points a word.

use super::Machine;
use crate::error::{Result, same_length};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// A set: each row along x is a whole number of words, whose first bit is the lowest of the first word. Bits beyond a row are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// The words, row by row, y before z.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// How many points there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }
}

/// Operations on 64 points at a time.
#[derive(Debug, Clone)]
pub struct Words {
    lattice: Lattice,
    /// Words a row.
    row: usize,
    /// What the last word of a row has.
    last: u64,
}

impl Words {
    /// For the sets of a lattice.
    #[must_use]
    pub fn new(lattice: &Lattice) -> Self {
        let nx = lattice.dims()[0];
        let last = u64::MAX >> (64 * nx.div_ceil(64) - nx);
        Self { lattice: lattice.clone(), row: nx.div_ceil(64), last }
    }

    fn each(a: &Bits, b: &Bits, f: impl Fn(u64, u64) -> u64) -> Result<Bits> {
        Ok(Bits(memory::collected(a.0.iter().zip(&b.0).map(|(a, b)| f(*a, *b)))?))
    }

    /// The points that are not of a set.
    fn complement(&self, set: &Bits) -> Result<Bits> {
        let of = |(i, w): (usize, &u64)| {
            if (i + 1).is_multiple_of(self.row) { !w & self.last } else { !w }
        };
        Ok(Bits(memory::collected(set.0.iter().enumerate().map(of))?))
    }

    /// Adds to a row what another row has, and its neighbours along x where they are wanted.
    fn spread(&self, from: &[u64], to: &mut [u64], along_x: bool) {
        for (i, word) in to.iter_mut().enumerate() {
            *word |= from[i];
            if along_x {
                let before = if i > 0 { from[i - 1] >> 63 } else { 0 };
                let after = if i + 1 < from.len() { from[i + 1] << 63 } else { 0 };
                *word |= from[i] << 1 | before | from[i] >> 1 | after;
            }
        }
        if let Some(word) = to.last_mut() {
            *word &= self.last;
        }
    }
}

impl Machine for Words {
    type Set = Bits;

    fn load(&mut self, set: &[bool]) -> Result<Bits> {
        same_length("the set", set.len(), self.lattice.len())?;
        let mut words = memory::room(self.row * set.len() / self.lattice.dims()[0])?;
        for row in set.chunks_exact(self.lattice.dims()[0]) {
            let word = |points: &[bool]| points.iter().rev().fold(0, |w, s| w << 1 | u64::from(*s));
            words.extend(row.chunks(64).map(word));
        }
        Ok(Bits(words))
    }

    fn store(&mut self, set: &Bits) -> Result<Vec<bool>> {
        let mut points = memory::room(self.lattice.len())?;
        for row in set.0.chunks_exact(self.row) {
            points.extend((0..self.lattice.dims()[0]).map(|x| row[x / 64] >> (x % 64) & 1 == 1));
        }
        Ok(points)
    }

    fn and(&mut self, a: &Bits, b: &Bits) -> Result<Bits> {
        Self::each(a, b, |a, b| a & b)
    }

    fn or(&mut self, a: &Bits, b: &Bits) -> Result<Bits> {
        Self::each(a, b, |a, b| a | b)
    }

    fn and_not(&mut self, a: &Bits, b: &Bits) -> Result<Bits> {
        Self::each(a, b, |a, b| a & !b)
    }

    fn dilated(&mut self, set: &Bits) -> Result<Bits> {
        let [_, ny, nz] = self.lattice.dims();
        let axes = self.lattice.neighbourhood().axes();
        let mut to = memory::zeroed(set.0.len())?;
        for (number, to) in to.chunks_exact_mut(self.row).enumerate() {
            let [y, z] = [number % ny, number / ny];
            for k in z.saturating_sub(1)..(z + 2).min(nz) {
                for j in y.saturating_sub(1)..(y + 2).min(ny) {
                    // Neighbours differ along so many axes at most, of which this row takes some.
                    let taken = y.abs_diff(j) + z.abs_diff(k);
                    if taken <= axes {
                        let from = (j + ny * k) * self.row;
                        self.spread(&set.0[from..from + self.row], to, taken < axes);
                    }
                }
            }
        }
        Ok(Bits(to))
    }

    fn eroded(&mut self, set: &Bits) -> Result<Bits> {
        let outside = self.complement(set)?;
        let near = self.dilated(&outside)?;
        self.complement(&near)
    }

    fn is_empty(&mut self, set: &Bits) -> bool {
        set.0.iter().all(|w| *w == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;
    use crate::tests::Random;

    /// Every operation is what it says, point by point, for rows of less than a word, of one and of several.
    #[test]
    fn operations_are_those_of_points() {
        let mut random = Random(11);
        for kind in Neighbourhood::ALL {
            for nx in [1, 5, 63, 64, 65, 130] {
                let lattice =
                    Lattice::new([nx, 4, if kind.is_2d() { 1 } else { 3 }], kind).unwrap();
                let mut words = Words::new(&lattice);
                let [a, b]: [Vec<bool>; 2] =
                    [3, 2].map(|n| (0..lattice.len()).map(|_| random.below(n) == 0).collect());
                let [sa, sb] = [&a, &b].map(|s| words.load(s).unwrap());
                assert_eq!(sa.count(), a.iter().filter(|s| **s).count());
                let near = |set: &[bool], p, is| lattice.neighbours(p).any(|n| set[n] == is);
                let and = words.and(&sa, &sb).unwrap();
                let or = words.or(&sa, &sb).unwrap();
                let and_not = words.and_not(&sa, &sb).unwrap();
                let dilated = words.dilated(&sa).unwrap();
                let eroded = words.eroded(&sb).unwrap();
                type Rule<'a> = &'a dyn Fn(usize) -> bool;
                let rules: [(&Bits, Rule<'_>); 6] = [
                    (&sa, &|p| a[p]),
                    (&and, &|p| a[p] && b[p]),
                    (&or, &|p| a[p] || b[p]),
                    (&and_not, &|p| a[p] && !b[p]),
                    (&dilated, &|p| a[p] || near(&a, p, true)),
                    (&eroded, &|p| b[p] && !near(&b, p, false)),
                ];
                for (set, rule) in rules {
                    let found = words.store(set).unwrap();
                    assert!((0..lattice.len()).all(|p| found[p] == rule(p)), "{kind:?} {nx}");
                    // Bits beyond rows are 0, or sets could not be compared.
                    assert_eq!(&words.load(&found).unwrap(), set);
                }
            }
        }
        let lattice = Lattice::new([5, 1, 1], Neighbourhood::Four).unwrap();
        assert!(Words::new(&lattice).load(&[true; 4]).is_err());
    }
}
