//! The front of a set: its levels and the two lists of Shi's method.

use crate::error::{Result, SegmentError, same_length};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// Points inside that have no neighbour outside.
pub const INTERIOR: i8 = -3;
/// Points inside with a neighbour outside: those of the inner list.
pub const INNER: i8 = -1;
/// Points outside with a neighbour inside: those of the outer list.
pub const OUTER: i8 = 1;
/// Points outside that have no neighbour inside.
pub const EXTERIOR: i8 = 3;

/// A set of points as levels (equation 3.9), with the points on both sides of its front in two lists (3.7 and 3.8).
///
/// Between two iterations the levels and the lists are those of the set, which has no other state: two fronts of one set differ at most
/// in the order of their lists, and no result depends on that.
#[derive(Debug, Clone)]
pub struct Front {
    lattice: Lattice,
    levels: Vec<i8>,
    inner: Vec<usize>,
    outer: Vec<usize>,
    size: usize,
}

/// How many points an iteration has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switched {
    /// Points that came in.
    pub inwards: usize,
    /// Points that went out.
    pub outwards: usize,
}

impl Front {
    /// The front of a set of points: one value a point, whether it is inside.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::NoFront`] for none or all points, [`SegmentError::OutOfMemory`].
    pub fn new(lattice: &Lattice, set: &[bool]) -> Result<Self> {
        same_length("the initial set", set.len(), lattice.len())?;
        let size = set.iter().filter(|s| **s).count();
        if size == 0 || size == set.len() {
            return Err(SegmentError::NoFront { inside: size });
        }
        let (mut inner, mut outer) = (Vec::new(), Vec::new());
        let mut levels = memory::room(set.len())?;
        for (point, &inside) in set.iter().enumerate() {
            let is_front = lattice.neighbours(point).any(|n| set[n] != inside);
            levels.push(match (inside, is_front) {
                (true, false) => INTERIOR,
                (true, true) => INNER,
                (false, true) => OUTER,
                (false, false) => EXTERIOR,
            });
            if is_front {
                memory::push(if inside { &mut inner } else { &mut outer }, point)?;
            }
        }
        Ok(Self { lattice: lattice.clone(), levels, inner, outer, size })
    }

    /// The points, and which of them are neighbours.
    #[must_use]
    pub fn lattice(&self) -> &Lattice {
        &self.lattice
    }

    /// One level a point: [`INTERIOR`], [`INNER`], [`OUTER`] or [`EXTERIOR`].
    #[must_use]
    pub fn levels(&self) -> &[i8] {
        &self.levels
    }

    /// The points inside with a neighbour outside, in no order that means anything.
    #[must_use]
    pub fn inner(&self) -> &[usize] {
        &self.inner
    }

    /// The points outside with a neighbour inside, in no order that means anything.
    #[must_use]
    pub fn outer(&self) -> &[usize] {
        &self.outer
    }

    /// How many points are inside.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether a point is inside.
    #[must_use]
    pub fn is_inside(&self, point: usize) -> bool {
        self.levels[point] < 0
    }

    /// The set: whether each point is inside.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn set(&self) -> Result<Vec<bool>> {
        Ok(memory::collected(self.levels.iter().map(|l| *l < 0))?)
    }

    /// One iteration, lines 6 to 17 of Algorithm 3.3: the outer list is scanned and points with a force above 0 come in, the inner list is
    /// cleaned and scanned and points with a force below 0 go out, the outer list is cleaned. `signs` has the sign of the force for each
    /// point of both lists as they are now, and anything elsewhere.
    ///
    /// Each scan goes over its list as it is when the scan begins; what is appended meanwhile waits for the next iteration, so that a front
    /// moves by one point at most in each direction.
    ///
    /// # Errors
    /// [`SegmentError::Length`], [`SegmentError::OutOfMemory`].
    pub fn advance(&mut self, signs: &[i8]) -> Result<Switched> {
        same_length("the force", signs.len(), self.levels.len())?;
        let mut switched = Switched::default();
        for point in std::mem::take(&mut self.outer) {
            if signs[point] > 0 {
                self.switch_in(point)?;
                switched.inwards += 1;
            } else {
                memory::push(&mut self.outer, point)?;
            }
        }
        self.clean_inner();
        for point in std::mem::take(&mut self.inner) {
            // What has come in just now has a force above 0, and stays.
            if signs[point] < 0 {
                self.switch_out(point)?;
                switched.outwards += 1;
            } else {
                memory::push(&mut self.inner, point)?;
            }
        }
        self.clean_outer();
        Ok(switched)
    }

    /// Algorithm 3.1, for a point that is in the outer list no more.
    fn switch_in(&mut self, point: usize) -> Result<()> {
        memory::push(&mut self.inner, point)?;
        self.levels[point] = INNER;
        self.size += 1;
        for next in self.lattice.neighbours(point) {
            if self.levels[next] == EXTERIOR {
                memory::push(&mut self.outer, next)?;
                self.levels[next] = OUTER;
            }
        }
        Ok(())
    }

    /// Algorithm 3.2, for a point that is in the inner list no more.
    fn switch_out(&mut self, point: usize) -> Result<()> {
        memory::push(&mut self.outer, point)?;
        self.levels[point] = OUTER;
        self.size -= 1;
        for next in self.lattice.neighbours(point) {
            if self.levels[next] == INTERIOR {
                memory::push(&mut self.inner, next)?;
                self.levels[next] = INNER;
            }
        }
        Ok(())
    }

    /// Takes what has no neighbour outside from the inner list.
    fn clean_inner(&mut self) {
        let (lattice, levels) = (&self.lattice, &mut self.levels);
        self.inner.retain(|&point| {
            let stays = lattice.neighbours(point).any(|n| levels[n] > 0);
            if !stays {
                levels[point] = INTERIOR;
            }
            stays
        });
    }

    /// Takes what has no neighbour inside from the outer list.
    fn clean_outer(&mut self) {
        let (lattice, levels) = (&self.lattice, &mut self.levels);
        self.outer.retain(|&point| {
            let stays = lattice.neighbours(point).any(|n| levels[n] < 0);
            if !stays {
                levels[point] = EXTERIOR;
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;
    use proptest::prelude::*;

    /// What Algorithm 3.3 does to a set, without lists.
    fn advanced(lattice: &Lattice, set: &[bool], signs: &[i8]) -> Vec<bool> {
        let touches = |set: &[bool], p, inside| lattice.neighbours(p).any(|n| set[n] == inside);
        let grown: Vec<bool> =
            (0..set.len()).map(|p| set[p] || (touches(set, p, true) && signs[p] > 0)).collect();
        (0..set.len()).map(|p| grown[p] && !(touches(&grown, p, false) && signs[p] < 0)).collect()
    }

    proptest! {
        /// Whatever the signs do from iteration to iteration, the lists and levels are those of the set, and the set is what the
        /// definition says.
        #[test]
        fn lists_and_levels_are_always_those_of_the_set(seed in any::<u64>(), kind in 0usize..5) {
            let kind = Neighbourhood::ALL[kind];
            let lattice = Lattice::new(if kind.is_2d() { [7, 5, 1] } else { [4, 3, 3] }, kind).unwrap();
            let mut random = crate::tests::Random(seed);
            let mut set: Vec<bool> = (0..lattice.len()).map(|_| random.below(2) == 0).collect();
            set[0] = true;
            set[1] = false;
            let mut front = Front::new(&lattice, &set).unwrap();
            for _ in 0..6 {
                let signs: Vec<i8> = (0..lattice.len()).map(|_| random.below(3) as i8 - 1).collect();
                let switched = front.advance(&signs).unwrap();
                let expected = advanced(&lattice, &set, &signs);
                prop_assert_eq!(&front.set().unwrap(), &expected);
                prop_assert_eq!(switched.inwards, (0..set.len()).filter(|&p| expected[p] && !set[p]).count());
                prop_assert_eq!(switched.outwards, (0..set.len()).filter(|&p| !expected[p] && set[p]).count());
                prop_assert_eq!(front.size(), expected.iter().filter(|s| **s).count());
                set = expected;
                let Ok(fresh) = Front::new(&lattice, &set) else { break };
                prop_assert_eq!(front.levels(), fresh.levels());
                let sorted = |list: &[usize]| { let mut l = list.to_vec(); l.sort_unstable(); l };
                prop_assert_eq!(sorted(front.inner()), sorted(fresh.inner()));
                prop_assert_eq!(sorted(front.outer()), sorted(fresh.outer()));
            }
        }
    }

    #[test]
    fn sets_without_a_front_are_refused() {
        let lattice = Lattice::new([3, 2, 1], Neighbourhood::Four).unwrap();
        for (set, said) in [([false; 6], "empty"), ([true; 6], "the whole image")] {
            assert!(Front::new(&lattice, &set).unwrap_err().to_string().contains(said));
        }
        let error = Front::new(&lattice, &[true; 5]).unwrap_err();
        assert!(error.to_string().contains("5 values"), "{error}");
    }
}
