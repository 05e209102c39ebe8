//! Subsampling of images that are larger than the cost needs.

use super::scales::Scaled;
use crate::error::Result;
use crate::similarity::{Formula, Similarity};
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_image::Grid;

/// The most samples of the stage that tries all rotations, and of the one that compares what it found.
const SEARCH: [usize; 2] = [40_000, 120_000];
/// The most samples of joint histograms and of cross-correlation at the stages that only refine. With fewer of a brain a
/// joint histogram has more minima that differ by next to nothing, and rounding decides between them.
const REFINED: usize = 1_500_000;

/// The most samples of a stage; all of them where `None`.
pub(super) fn most(index: usize, last: bool, similarity: Similarity) -> Option<usize> {
    let joint = similarity.of_sums().is_some_and(|s| matches!(s.formula, Formula::Joint(_)));
    let thinned = joint || matches!(similarity, Similarity::Ncc(_));
    match (index, last) {
        (0 | 1, false) => SEARCH.get(index).copied(),
        _ => thinned.then_some(REFINED),
    }
}

/// Whether a search of two stages needs one more, as the second one has more samples than comparisons need.
pub(super) fn needs_another(levels: &[f64], fixed: &Grid) -> bool {
    let [_, finest] = *levels else { return false };
    let samples = |a: usize| match fixed.dims()[a] {
        1 => 1.0,
        _ => (fixed.extent()[a] / finest.max(fixed.spacing()[a])).max(1.0),
    };
    (0..3).map(samples).product::<f64>() > SEARCH[1] as f64
}

/// A set of voxels that are as far apart from each other as can be: those of the lattice of index triples
/// `step` apart, or with others in the middles between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lattice {
    step: usize,
    /// Whether the middles of the cells belong to it: the body-centred cubic lattice.
    centred: bool,
}

impl Lattice {
    /// The densest lattice that leaves at most this many of the voxels; `None` where all may stay.
    fn of(dims: [usize; 3], most: usize) -> Option<Self> {
        if dims.iter().product::<usize>() <= most {
            return None;
        }
        let all = (1..64).flat_map(|half| {
            // A cell of `2 half` voxels with its middle, then one without.
            let even = 2 * half;
            [Self { step: even, centred: true }, Self { step: even, centred: false }]
        });
        let mut found = None;
        for lattice in all {
            found = Some(lattice);
            if lattice.count(dims) <= most {
                break;
            }
        }
        found
    }

    fn count(self, dims: [usize; 3]) -> usize {
        let along = |n: usize, from: usize| n.saturating_sub(from).div_ceil(self.step);
        let corners: usize = dims.iter().map(|&n| along(n, 0)).product();
        let half = |n: usize| if n == 1 { 1 } else { along(n, self.step / 2) };
        corners + if self.centred { dims.iter().map(|&n| half(n)).product() } else { 0 }
    }

    fn holds(self, index: [usize; 3], dims: [usize; 3]) -> bool {
        let at = |offset: usize| {
            (0..3).all(|a| match dims[a] {
                1 => true,
                _ => index[a] % self.step == offset,
            })
        };
        at(0) || (self.centred && at(self.step / 2))
    }
}

/// An image of which at most this many voxels count, evenly spread, and their fraction of all voxels.
pub(super) fn thinned<D: Device>(
    device: &D,
    image: Scaled<D>,
    most: Option<usize>,
) -> Result<(Scaled<D>, f64)> {
    let dims = image.grid.dims();
    let lattice = most.and_then(|most| Lattice::of(dims, most));
    let Some(lattice) = lattice else { return Ok((image, 1.0)) };
    let [nx, ny, nz] = dims;
    let mut kept = voxalign_image::memory::room::<f32>(nx * ny * nz)?;
    for z in 0..nz {
        for y in 0..ny {
            kept.extend((0..nx).map(|x| f32::from(u8::from(lattice.holds([x, y, z], dims)))));
        }
    }
    let mut kept = device.upload_vec(kept)?;
    if let Some(weight) = &image.weight {
        device.eval_in_place(&(x(0) * x(1)), &mut kept, &[weight.as_ref()], &[], None)?;
    }
    let share = lattice.count(dims) as f64 / image.grid.len() as f64;
    Ok((Scaled { weight: Some(Arc::new(kept)), ..image }, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lattices_have_as_many_voxels_as_they_say() {
        for dims in [[9, 7, 8], [16, 16, 1], [33, 20, 11]] {
            let voxels: usize = dims.iter().product();
            assert_eq!(Lattice::of(dims, voxels), None);
            for most in [voxels - 1, voxels / 3, voxels / 10, 12] {
                let lattice = Lattice::of(dims, most).unwrap();
                let mut held = 0;
                for i in 0..voxels {
                    let index = [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])];
                    held += usize::from(lattice.holds(index, dims));
                }
                assert_eq!(held, lattice.count(dims), "{dims:?} {lattice:?}");
                assert!(held <= most && held > 0, "{dims:?} {most} {held}");
            }
        }
    }
}
