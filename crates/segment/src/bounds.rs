//! How many iterations an evolution can need: what the start alone says.

use crate::error::{Result, same_length};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// Bounds on the iterations of an evolution from a start, of a configuration in the words of the source.
///
/// The force must not change, must nowhere be 0, and each connected part of where it is above 0 (below 0) must have a point that is inside (outside)
/// at the start. Parts are connected by the neighbourhood of the lattice.
///
/// `max_region_size` is the bound of theorem 1, and holds for all such forces. A point of the object that is outside at the start has a path to a
/// point that is inside, all of it in the object. Its points before the first one that is inside are in one part of what is outside, so there are no
/// more of them than points of that part, and in each iteration at least the next of them comes in, and stays. The same holds for the other side.
///
/// `max_region_diameter` is that of theorem 2, and is *not* a bound where only one of object and background is convex, as the theorem says: it
/// is one where every connected part of both is. See `docs/segment-bounds.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most points of a connected part of what is inside, or of what is outside.
    pub max_region_size: usize,
    /// The most points of a shortest path through the lattice between two points of one such part.
    pub max_region_diameter: usize,
}

impl Bounds {
    /// The bounds of a start: one value a point, whether it is inside.
    ///
    /// # Errors
    /// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn of(lattice: &Lattice, set: &[bool]) -> Result<Self> {
        let mut bounds = Self { max_region_size: 0, max_region_diameter: 0 };
        for part in parts(lattice, set)? {
            bounds.max_region_size = bounds.max_region_size.max(part.size);
            bounds.max_region_diameter = bounds.max_region_diameter.max(part.diameter(lattice));
        }
        Ok(bounds)
    }
}

/// A connected part of what is inside or outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its first point.
    pub first: usize,
    /// Whether it is inside.
    pub inside: bool,
    /// How many points it has.
    pub size: usize,
    /// The least and the most of x, y, z and of four sums ±x ± y + z, which distances are made of.
    extent: [[isize; 2]; 7],
}

impl Part {
    /// The most points of a shortest path through the lattice between two of its points.
    #[must_use]
    pub fn diameter(&self, lattice: &Lattice) -> usize {
        let span = |[low, high]: [isize; 2]| high.abs_diff(low);
        // Along each axis, and summed over the axes, there are two points of the part that differ by the most that any two do.
        let most = self.extent[..3].iter().map(|e| span(*e)).max().unwrap_or(0);
        let sum = self.extent[3..].iter().map(|e| span(*e)).max().unwrap_or(0);
        1 + most.max(sum.div_ceil(lattice.neighbourhood().axes()))
    }

    fn add(&mut self, place: [usize; 3]) {
        let [x, y, z] = place.map(|c| c as isize);
        let all = [x, y, z, x + y + z, x - y + z, -x + y + z, -x - y + z];
        for (extent, value) in self.extent.iter_mut().zip(all) {
            *extent = [extent[0].min(value), extent[1].max(value)];
        }
        self.size += 1;
    }
}

/// The connected parts of both sides of a set, in the order of their first points.
pub(crate) fn parts(lattice: &Lattice, set: &[bool]) -> Result<Vec<Part>> {
    same_length("the set", set.len(), lattice.len())?;
    let mut seen = memory::filled(set.len(), false)?;
    let (mut parts, mut front) = (Vec::new(), Vec::new());
    for first in 0..set.len() {
        if seen[first] {
            continue;
        }
        seen[first] = true;
        let inside = set[first];
        let mut part = Part { first, inside, size: 0, extent: [[isize::MAX, isize::MIN]; 7] };
        memory::push(&mut front, first)?;
        while let Some(point) = front.pop() {
            part.add(lattice.place(point));
            for next in lattice.neighbours(point) {
                if set[next] == inside && !seen[next] {
                    seen[next] = true;
                    memory::push(&mut front, next)?;
                }
            }
        }
        memory::push(&mut parts, part)?;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;
    use proptest::prelude::*;

    fn bounds(rows: &[&str], kind: Neighbourhood) -> (usize, usize) {
        let lattice = Lattice::new([rows[0].len(), rows.len(), 1], kind).unwrap();
        let set: Vec<bool> = rows.iter().flat_map(|r| r.bytes().map(|b| b == b'#')).collect();
        let bounds = Bounds::of(&lattice, &set).unwrap();
        (bounds.max_region_size, bounds.max_region_diameter)
    }

    #[test]
    fn sizes_and_diameters_are_those_counted_by_hand() {
        assert_eq!(bounds(&["#.#", ".#.", "#.#"], Neighbourhood::Four), (1, 1));
        assert_eq!(bounds(&["#.#", ".#.", "#.#"], Neighbourhood::Eight), (5, 3));
        assert_eq!(bounds(&["##..", "##..", "..##", "..##"], Neighbourhood::Four), (4, 3));
        assert_eq!(bounds(&["##..", "##..", "..##", "..##"], Neighbourhood::Eight), (8, 4));
        assert_eq!(bounds(&["....", ".##.", "...."], Neighbourhood::Four), (10, 6));
    }

    proptest! {
        /// The diameter is the most of distances between any two points of a part.
        #[test]
        fn diameters_are_those_of_all_pairs(seed in any::<u64>(), kind in 0usize..5) {
            let kind = Neighbourhood::ALL[kind];
            let lattice = Lattice::new(if kind.is_2d() { [6, 5, 1] } else { [4, 3, 3] }, kind).unwrap();
            let mut random = crate::tests::Random(seed);
            let set: Vec<bool> = (0..lattice.len()).map(|_| random.below(2) == 0).collect();
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
            let (mut size, mut diameter) = (0, 0);
            for p in 0..set.len() {
                size = size.max(label.iter().filter(|l| **l == p).count());
                for q in (0..set.len()).filter(|q| label[*q] == label[p]) {
                    let [a, b] = [lattice.place(p), lattice.place(q)];
                    let difference = std::array::from_fn(|i| a[i].abs_diff(b[i]));
                    diameter = diameter.max(1 + kind.distance(difference));
                }
            }
            let bounds = Bounds::of(&lattice, &set).unwrap();
            prop_assert_eq!((bounds.max_region_size, bounds.max_region_diameter), (size, diameter));
        }
    }
}
