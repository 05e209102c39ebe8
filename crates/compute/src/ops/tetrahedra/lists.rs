//! Lists that operators on meshes go through, made on the device by sorting.

use std::fmt::{self, Debug, Formatter};

use voxalign_image::memory::room;

use super::{BinGrid, BinLists, Gather, Mesh, OUTSIDE, Tetrahedra};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::Sort;
use crate::ops::simplices::Incidence;
use crate::ops::sort::{KeyRange, MOST_KEYS};

/// The elements of a mesh by the bins that their boxes meet.
pub struct Bins<D: Memory> {
    grid: BinGrid,
    starts: D::Buffer<u32>,
    elements: D::Buffer<u32>,
}

impl<D: Memory> Debug for Bins<D> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bins").field("grid", &self.grid).finish_non_exhaustive()
    }
}

impl<D: Tetrahedra + Sort> Bins<D> {
    /// Puts the elements of a mesh, in the shape that it has, into bins: a counting sort, which waits for the number of pairs.
    ///
    /// # Errors
    /// As of [`Tetrahedra`]; more pairs than can be sorted; memory.
    pub fn new(device: &D, mesh: &Mesh<'_, D>, grid: BinGrid) -> Result<Self> {
        let mut offsets = device.alloc::<u32>(mesh.corners.len() / 4)?;
        let mut count = device.alloc::<u64>(1)?;
        device.bin_offsets(mesh, &grid, &mut offsets, &mut count)?;
        let pairs = device.into_host(count)?.first().copied().unwrap_or(0);
        if pairs > MOST_KEYS as u64 {
            let expected = "at most 2147483647; take larger bins";
            return Err(ComputeError::argument("pairs of a bin and an element", pairs, expected));
        }
        let n = pairs as usize;
        let (mut bins, mut of) = (device.alloc(n)?, device.alloc(n)?);
        device.bin_pairs(mesh, &grid, &offsets, &mut bins, &mut of)?;
        let (mut sorted, mut elements) = (device.alloc(n)?, device.alloc(n)?);
        let range = KeyRange::Known { low: 0, high: grid.count() as u32 - 1 };
        device.sort_pairs(range, &bins, Some(&of), &mut sorted, &mut elements)?;
        let mut starts = device.alloc(grid.count() + 1)?;
        device.key_starts(&sorted, &mut starts)?;
        Ok(Self { grid, starts, elements })
    }

    /// The lists, for [`Tetrahedra::locate`].
    #[must_use]
    pub fn lists(&self) -> BinLists<'_, D> {
        BinLists { grid: self.grid, starts: &self.starts, elements: &self.elements }
    }
}

/// The samples of every element.
pub struct SampleLists<D: Memory> {
    starts: D::Buffer<u32>,
    samples: D::Buffer<u32>,
}

impl<D: Memory> Debug for SampleLists<D> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleLists").field("samples", &self.samples.len()).finish_non_exhaustive()
    }
}

impl<D: Tetrahedra + Sort> SampleLists<D> {
    /// Lists samples by the elements that they are in, of a mesh of so many.
    ///
    /// # Errors
    /// More samples than can be sorted; memory.
    pub fn new(device: &D, located: &D::Buffer<u32>, elements: usize) -> Result<Self> {
        let n = located.len();
        let (mut sorted, mut samples) = (device.alloc(n)?, device.alloc(n)?);
        // What is outside comes last.
        let range = KeyRange::Known { low: 0, high: elements as u32 };
        device.sort_pairs(range, located, None, &mut sorted, &mut samples)?;
        let mut starts = device.alloc(elements + 1)?;
        device.key_starts(&sorted, &mut starts)?;
        Ok(Self { starts, samples })
    }

    /// The lists beside those of elements at nodes, for [`Tetrahedra::to_nodes`].
    #[must_use]
    pub fn gather<'a>(&'a self, incidence: Incidence<'a, D>) -> Gather<'a, D> {
        Gather { starts: &self.starts, samples: &self.samples, incidence }
    }
}

/// The element beyond the face opposite to each corner of each element, for [`Hint`](super::Hint): `OUTSIDE` where there is none.
/// Of a face of more than two elements those after the second have none.
///
/// # Errors
/// Memory.
pub fn neighbours(corners: &[u32]) -> Result<Vec<u32>> {
    let mut faces: Vec<([u32; 3], u32)> = room(corners.len())?;
    for (element, corners) in corners.chunks_exact(4).enumerate() {
        for opposite in 0..4 {
            let mut face = [1, 2, 3].map(|k| corners[(opposite + k) % 4]);
            face.sort_unstable();
            faces.push((face, (4 * element + opposite) as u32));
        }
    }
    faces.sort_unstable();
    let mut found: Vec<u32> = room(faces.len())?;
    found.resize(faces.len(), OUTSIDE);
    for pair in faces.windows(2) {
        let [(first, a), (second, b)] = [pair[0], pair[1]];
        if first == second && found[a as usize] == OUTSIDE {
            found[a as usize] = b / 4;
            found[b as usize] = a / 4;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_know_who_is_beyond_their_faces() {
        // Two tetrahedra with the face 1 2 3, and one apart.
        let corners = [0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 8];
        let mut expected = [OUTSIDE; 12];
        expected[0] = 1;
        expected[7] = 0;
        assert_eq!(neighbours(&corners).unwrap(), expected);
        assert!(neighbours(&[]).unwrap().is_empty());
    }
}
