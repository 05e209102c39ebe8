//! Which scales of two images are compared.

use voxalign_image::Grid;

/// The most pixels of the scale at which whole images are searched, of sections and of volumes: as many as a search from
/// any start sees the object by.
const WHOLE: [usize; 2] = [1 << 20, 1 << 21];

/// A scale of each image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scales {
    pub(super) fixed: usize,
    pub(super) moving: usize,
}

/// The scale at which whole images are searched, and those that follow, coarse to fine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScalePlan {
    pub(super) whole: Scales,
    pub(super) finer: Vec<Scales>,
}

/// The side of a square or cube as large as a pixel, mm.
fn side(grid: &Grid) -> f64 {
    let spacing = grid.spacing();
    if grid.is_2d() {
        (spacing[0] * spacing[1]).sqrt()
    } else {
        spacing.iter().product::<f64>().cbrt()
    }
}

/// The scale with the pixels that are most alike in size to those of this one, of several the finest.
fn nearest(of: &[Grid], to: &Grid) -> usize {
    let off = |grid: &Grid| (side(grid) / side(to)).ln().abs();
    (0..of.len()).min_by(|&a, &b| off(&of[a]).total_cmp(&off(&of[b]))).unwrap_or(0)
}

/// Plans a registration of images with these scales, fine to coarse. From the scale at which whole images are searched to the finest one,
/// pixels get smaller by factors of at least 1.5, so that scales that hardly differ are not all compared.
pub(super) fn plan(fixed: &[Grid], moving: &[Grid]) -> ScalePlan {
    let most = WHOLE[usize::from(!fixed[0].is_2d())];
    let small =
        |grids: &[Grid]| grids.iter().position(|g| g.len() <= most).unwrap_or(grids.len() - 1);
    let whole = Scales { fixed: small(fixed), moving: small(moving) };
    let mut finer: Vec<Scales> = Vec::new();
    for scale in 0..=whole.fixed {
        let is_apart =
            finer.last().is_none_or(|last| side(&fixed[scale]) >= 1.5 * side(&fixed[last.fixed]));
        // The last scale before whole images is compared again, by the same measure as the finer ones.
        if is_apart {
            finer.push(Scales { fixed: scale, moving: nearest(moving, &fixed[scale]) });
        }
    }
    finer.reverse();
    ScalePlan { whole, finer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pyramid(dims: [usize; 3], spacing: f64, scales: usize) -> Vec<Grid> {
        let at = |k: u32| {
            let factor = 1usize << k;
            let flat = dims[2] == 1;
            let size = [0, 1, 2].map(|a| dims[a].div_ceil(if a == 2 && flat { 1 } else { factor }));
            let mm = spacing * factor as f64;
            Grid::axis_aligned(size, [mm, mm, if flat { 1.0 } else { mm }]).unwrap()
        };
        (0..scales as u32).map(at).collect()
    }

    #[test]
    fn sections_are_searched_at_a_million_pixels() {
        let fixed = pyramid([65536, 65536, 1], 0.001, 9);
        let moving = pyramid([32768, 32768, 1], 0.002, 8);
        let found = plan(&fixed, &moving);
        assert_eq!(found.whole, Scales { fixed: 6, moving: 5 });
        let expected: Vec<Scales> = [(6, 5), (5, 4), (4, 3), (3, 2), (2, 1), (1, 0), (0, 0)]
            .map(|(fixed, moving)| Scales { fixed, moving })
            .into();
        assert_eq!(found.finer, expected);
    }

    #[test]
    fn small_images_and_single_scales_are_what_they_are() {
        let one = pyramid([300, 200, 1], 0.01, 1);
        let found = plan(&one, &one);
        let only = Scales { fixed: 0, moving: 0 };
        assert_eq!(found, ScalePlan { whole: only, finer: vec![only] });
        let volume = pyramid([400, 400, 300], 0.01, 3);
        assert_eq!(plan(&volume, &volume).whole, Scales { fixed: 2, moving: 2 });
    }

    #[test]
    fn scales_that_hardly_differ_are_compared_once() {
        let at = |n: usize| Grid::axis_aligned([n, n, 1], [4.0 / n as f64; 3]).unwrap();
        let grids: Vec<Grid> = [4000, 3200, 2000, 1900, 1000].map(at).into();
        let found = plan(&grids, &grids);
        let scales: Vec<usize> = found.finer.iter().map(|s| s.fixed).collect();
        assert_eq!((found.whole.fixed, scales), (4, vec![4, 2, 0]));
    }
}
