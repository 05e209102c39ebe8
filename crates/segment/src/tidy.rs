//! Parts and holes of a finished set.
//!
//! Parts are connected by the neighbourhood of the lattice, what is outside by its counterpart: where the set is connected through faces alone,
//! the outside is through corners as well, and the other way round, so that a closed front encloses what it looks as if it did.

use crate::error::{Result, same_length};
use crate::lattice::{Lattice, Neighbourhood};
use voxalign_image::memory;

/// What was taken from a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// How many parts.
    pub parts: usize,
    /// How many points they had.
    pub points: usize,
}

/// How many connected parts a set has.
///
/// # Errors
/// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
pub fn parts(lattice: &Lattice, set: &[bool]) -> Result<usize> {
    Ok(Parts::of(lattice, set)?.sizes.len())
}

/// Removes the parts that have fewer points.
///
/// # Errors
/// As [`parts`].
pub fn remove_islands(lattice: &Lattice, set: &mut [bool], least: usize) -> Result<Removed> {
    let parts = Parts::of(lattice, set)?;
    Ok(parts.remove(set, |_, size| size < least))
}

/// Removes all parts but the largest, of several that are as large the first.
///
/// # Errors
/// As [`parts`].
pub fn keep_largest(lattice: &Lattice, set: &mut [bool]) -> Result<Removed> {
    let parts = Parts::of(lattice, set)?;
    let most = parts.sizes.iter().copied().max();
    let kept = parts.sizes.iter().position(|s| Some(*s) == most);
    Ok(parts.remove(set, |part, _| Some(part) != kept))
}

/// Fills the holes of a set: what is outside and has no way to the border of the lattice. Gives how many points that are. Axes along which there
/// is one point alone have no border.
///
/// # Errors
/// As [`parts`].
pub fn fill_holes(lattice: &Lattice, set: &mut [bool]) -> Result<usize> {
    same_length("the set", set.len(), lattice.len())?;
    let around = Lattice::new(lattice.dims(), counterpart(lattice.neighbourhood()))?;
    let outside = memory::collected(set.iter().map(|s| !*s))?;
    let parts = Parts::of(&around, &outside)?;
    let mut open = memory::filled(parts.sizes.len(), false)?;
    for (point, part) in parts.number.iter().enumerate().filter(|(_, p)| **p > 0) {
        if at_border(lattice, point) {
            open[*part as usize - 1] = true;
        }
    }
    let mut filled = 0;
    for (inside, part) in set.iter_mut().zip(&parts.number).filter(|(_, p)| **p > 0) {
        if !open[*part as usize - 1] {
            *inside = true;
            filled += 1;
        }
    }
    Ok(filled)
}

/// Whether a point is the first or the last one along an axis.
#[must_use]
pub fn at_border(lattice: &Lattice, point: usize) -> bool {
    let (place, dims) = (lattice.place(point), lattice.dims());
    (0..3).any(|a| dims[a] > 1 && (place[a] == 0 || place[a] + 1 == dims[a]))
}

/// How what is outside of a set is connected.
fn counterpart(of: Neighbourhood) -> Neighbourhood {
    match of {
        Neighbourhood::Four => Neighbourhood::Eight,
        Neighbourhood::Eight => Neighbourhood::Four,
        Neighbourhood::Six => Neighbourhood::TwentySix,
        Neighbourhood::Eighteen | Neighbourhood::TwentySix => Neighbourhood::Six,
    }
}

/// The connected parts of a set.
struct Parts {
    /// The number of its part for each point, from 1 in the order of their first points; 0 outside.
    number: Vec<u32>,
    sizes: Vec<usize>,
}

impl Parts {
    fn of(lattice: &Lattice, set: &[bool]) -> Result<Self> {
        same_length("the set", set.len(), lattice.len())?;
        let (mut number, mut sizes) = (memory::filled(set.len(), 0u32)?, Vec::new());
        let mut front = Vec::new();
        for first in 0..set.len() {
            if !set[first] || number[first] != 0 {
                continue;
            }
            let own = u32::try_from(sizes.len() + 1).unwrap_or(u32::MAX);
            number[first] = own;
            memory::push(&mut front, first)?;
            let mut size = 0;
            while let Some(point) = front.pop() {
                size += 1;
                for next in lattice.neighbours(point) {
                    if set[next] && number[next] == 0 {
                        number[next] = own;
                        memory::push(&mut front, next)?;
                    }
                }
            }
            memory::push(&mut sizes, size)?;
        }
        Ok(Self { number, sizes })
    }

    /// Removes the parts of which this holds by number, from 0, and size.
    fn remove(&self, set: &mut [bool], goes: impl Fn(usize, usize) -> bool) -> Removed {
        let of = |(part, size): (usize, &usize)| goes(part, *size);
        let goes: Vec<bool> = self.sizes.iter().enumerate().map(of).collect();
        let mut removed =
            Removed { parts: goes.iter().filter(|g| **g).count(), ..Removed::default() };
        for (inside, part) in set.iter_mut().zip(&self.number).filter(|(_, p)| **p > 0) {
            if goes[*part as usize - 1] {
                *inside = false;
                removed.points += 1;
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &[&str], kind: Neighbourhood) -> (Lattice, Vec<bool>) {
        let lattice = Lattice::new([rows[0].len(), rows.len(), 1], kind).unwrap();
        (lattice, rows.iter().flat_map(|r| r.bytes().map(|b| b == b'#')).collect())
    }

    const RING: [&str; 6] = [".......", ".###..#", ".#.#.#.", ".###...", "......#", "##....#"];

    #[test]
    fn parts_are_those_of_the_neighbourhood() {
        for (kind, count) in [(Neighbourhood::Four, 5), (Neighbourhood::Eight, 4)] {
            let (lattice, set) = read(&RING, kind);
            assert_eq!(parts(&lattice, &set).unwrap(), count);
        }
        let (lattice, mut set) = read(&RING, Neighbourhood::Four);
        let removed = remove_islands(&lattice, &mut set, 2).unwrap();
        assert_eq!(removed, Removed { parts: 2, points: 2 });
        let removed = keep_largest(&lattice, &mut set).unwrap();
        assert_eq!(removed, Removed { parts: 2, points: 4 });
        assert_eq!(set.iter().filter(|s| **s).count(), 8);
        assert_eq!(remove_islands(&lattice, &mut set, 1).unwrap(), Removed::default());
    }

    #[test]
    fn holes_are_filled_and_bays_are_not() {
        let (lattice, mut set) = read(&RING, Neighbourhood::Four);
        assert_eq!(fill_holes(&lattice, &mut set).unwrap(), 1);
        assert!(set[lattice.point([2, 2, 0])]);
        // A ring that is closed along diagonals alone holds what is outside only where it is a ring itself.
        let diamond = ["..#..", ".#.#.", "..#.."];
        for (kind, count) in [(Neighbourhood::Four, 0), (Neighbourhood::Eight, 1)] {
            let (lattice, mut set) = read(&diamond, kind);
            assert_eq!(fill_holes(&lattice, &mut set).unwrap(), count, "{kind:?}");
        }
        // Of one point along an axis nothing is a border.
        let lattice = Lattice::new([1, 5, 5], Neighbourhood::Six).unwrap();
        let mut set: Vec<bool> =
            (0..25).map(|p| [1, 2, 3].contains(&(p % 5)) && [1, 3].contains(&(p / 5))).collect();
        set[lattice.point([0, 1, 2])] = true;
        set[lattice.point([0, 3, 2])] = true;
        assert_eq!(fill_holes(&lattice, &mut set).unwrap(), 1);
        assert!(fill_holes(&lattice, &mut [true; 3]).is_err());
    }
}
