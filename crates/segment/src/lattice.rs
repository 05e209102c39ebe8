//! The points of an image, and which of them are neighbours.

use crate::error::{Result, SegmentError};

/// Which points are neighbours of a point: those that differ from it by at most 1 along every axis, and along at most so many axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Neighbourhood {
    /// In the plane, pixels that share a side.
    Four,
    /// In the plane, pixels that share a side or a corner.
    Eight,
    /// In a volume, voxels that share a face.
    Six,
    /// In a volume, voxels that share a face or an edge.
    Eighteen,
    /// In a volume, voxels that share a face, an edge or a corner.
    TwentySix,
}

impl Neighbourhood {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Four, Self::Eight, Self::Six, Self::Eighteen, Self::TwentySix];

    /// How many neighbours a point has that is not at a border.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
            Self::Six => 6,
            Self::Eighteen => 18,
            Self::TwentySix => 26,
        }
    }

    /// Along how many axes neighbours may differ.
    #[must_use]
    pub fn axes(self) -> usize {
        match self {
            Self::Four | Self::Six => 1,
            Self::Eight | Self::Eighteen => 2,
            Self::TwentySix => 3,
        }
    }

    /// Whether it is one of the plane.
    #[must_use]
    pub fn is_2d(self) -> bool {
        matches!(self, Self::Four | Self::Eight)
    }

    /// The length of a shortest path between two points that differ by this much along the axes: steps, in a box of any size.
    #[must_use]
    pub fn distance(self, difference: [usize; 3]) -> usize {
        let sum: usize = difference.iter().sum();
        let most = difference.into_iter().max().unwrap_or(0);
        most.max(sum.div_ceil(self.axes()))
    }
}

/// The points of a box, x fastest, with their neighbours. An image of two dimensions has one plane, and neighbours in it.
/// Points at a border have fewer neighbours: what is beyond does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lattice {
    dims: [usize; 3],
    neighbourhood: Neighbourhood,
    offsets: Vec<[isize; 3]>,
}

impl Lattice {
    /// Points by their numbers along x, y, z.
    ///
    /// # Errors
    /// [`SegmentError::Dims`], [`SegmentError::Neighbourhood`] for 4 or 8 neighbours in a volume, or others in a plane.
    pub fn new(dims: [usize; 3], neighbourhood: Neighbourhood) -> Result<Self> {
        let len = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if !len.is_some_and(|n| (1..=1 << 60).contains(&n)) {
            return Err(SegmentError::Dims { dims });
        }
        if neighbourhood.is_2d() != (dims[2] == 1) {
            return Err(SegmentError::Neighbourhood { neighbourhood, dims });
        }
        let depth = if dims[2] == 1 { 0..=0 } else { -1..=1 };
        let offsets = depth
            .flat_map(|z| (-1..=1).flat_map(move |y| (-1..=1).map(move |x| [x, y, z])))
            .filter(|o| {
                let differ = o.iter().filter(|d| **d != 0).count();
                (1..=neighbourhood.axes()).contains(&differ)
            })
            .collect();
        Ok(Self { dims, neighbourhood, offsets })
    }

    /// Sizes along x, y, z.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.dims
    }

    /// Which points are neighbours.
    #[must_use]
    pub fn neighbourhood(&self) -> Neighbourhood {
        self.neighbourhood
    }

    /// The number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Never: there is at least one point. (For symmetry with [`Lattice::len`].)
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether there is one plane.
    #[must_use]
    pub fn is_2d(&self) -> bool {
        self.dims[2] == 1
    }

    /// Along how many axes an image of this kind extends: 2 or 3.
    #[must_use]
    pub fn dimension(&self) -> usize {
        if self.is_2d() { 2 } else { 3 }
    }

    /// The differences between a point and its neighbours, in a fixed order.
    #[must_use]
    pub fn offsets(&self) -> &[[isize; 3]] {
        &self.offsets
    }

    /// The place of a point.
    #[must_use]
    pub fn place(&self, point: usize) -> [usize; 3] {
        let [nx, ny, _] = self.dims;
        [point % nx, point / nx % ny, point / (nx * ny)]
    }

    /// The number of the point at a place within the lattice.
    #[must_use]
    pub fn point(&self, [x, y, z]: [usize; 3]) -> usize {
        x + self.dims[0] * (y + self.dims[1] * z)
    }

    /// The number of the point at a difference from a place, where there is one.
    #[must_use]
    pub fn moved(&self, place: [usize; 3], by: [isize; 3]) -> Option<usize> {
        let mut to = [0; 3];
        for a in 0..3 {
            to[a] = place[a].checked_add_signed(by[a]).filter(|c| *c < self.dims[a])?;
        }
        Some(self.point(to))
    }

    /// The number of the point at a difference from a place, or of that which is nearest at the border.
    #[must_use]
    pub fn clamped(&self, place: [usize; 3], by: [isize; 3]) -> usize {
        let to =
            std::array::from_fn(|a| place[a].saturating_add_signed(by[a]).min(self.dims[a] - 1));
        self.point(to)
    }

    /// The neighbours of a point.
    pub fn neighbours(&self, point: usize) -> impl Iterator<Item = usize> + '_ {
        let place = self.place(point);
        self.offsets.iter().filter_map(move |o| self.moved(place, *o))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn neighbours_are_mutual_and_as_many_as_their_name_says() {
        for kind in Neighbourhood::ALL {
            let dims = if kind.is_2d() { [5, 4, 1] } else { [5, 4, 3] };
            let lattice = Lattice::new(dims, kind).unwrap();
            assert_eq!(lattice.offsets().len(), kind.count());
            let middle = lattice.point([2, 2, dims[2] / 2]);
            assert_eq!(lattice.neighbours(middle).count(), kind.count());
            for p in 0..lattice.len() {
                assert_eq!(lattice.point(lattice.place(p)), p);
                for q in lattice.neighbours(p) {
                    assert!(q != p && lattice.neighbours(q).any(|r| r == p), "{kind:?} {p} {q}");
                }
            }
        }
    }

    #[test]
    fn distances_are_those_of_a_search() {
        for kind in Neighbourhood::ALL {
            let dims = if kind.is_2d() { [6, 5, 1] } else { [5, 4, 4] };
            let lattice = Lattice::new(dims, kind).unwrap();
            let from = lattice.point([1, 0, dims[2] - 1]);
            let mut steps = vec![usize::MAX; lattice.len()];
            steps[from] = 0;
            let mut queue = VecDeque::from([from]);
            while let Some(p) = queue.pop_front() {
                for q in lattice.neighbours(p) {
                    if steps[q] == usize::MAX {
                        steps[q] = steps[p] + 1;
                        queue.push_back(q);
                    }
                }
            }
            let start = lattice.place(from);
            for (p, steps) in steps.into_iter().enumerate() {
                let place = lattice.place(p);
                let difference = std::array::from_fn(|a| place[a].abs_diff(start[a]));
                assert_eq!(kind.distance(difference), steps, "{kind:?} {difference:?}");
            }
        }
    }

    #[test]
    fn lattices_that_cannot_be_are_refused() {
        let refused = |dims, kind| Lattice::new(dims, kind).unwrap_err().to_string();
        assert!(refused([3, 0, 1], Neighbourhood::Four).contains("3 x 0 x 1"));
        assert!(refused([usize::MAX, 2, 1], Neighbourhood::Four).contains("not possible"));
        assert!(refused([3, 3, 3], Neighbourhood::Eight).contains("use 6, 18 or 26"));
        assert!(refused([3, 3, 1], Neighbourhood::Six).contains("use 4 or 8"));
    }
}
