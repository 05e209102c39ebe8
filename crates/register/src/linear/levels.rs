//! The sample spacings of the stages.

use crate::error::{RegisterError, Result};
use crate::evidence::middle_extent;
use voxalign_image::Grid;

/// The fraction of the data's spacing from which on a stage does not count as finer than the data.
const NOT_FINER: f64 = 0.75;

/// The default stages for two images: 8, 4, 2 and 1 mm for heads; finer for small things, coarser
/// for large ones; without those finer than the data.
pub(super) fn usual(fixed: &Grid, moving: &Grid) -> Vec<f64> {
    let e = middle_extent(fixed).min(middle_extent(moving));
    let unit = if e < 128.0 {
        e / 128.0
    } else if e > 320.0 {
        e / 320.0
    } else {
        1.0
    };
    [8.0, 4.0, 2.0, 1.0].iter().map(|l| l * unit).collect()
}

/// The usual stages with further ones that halve the spacing until it is less than three times that of the data; none where the usual ones are enough.
/// For those who go on with the data's own voxels: across a wider gap a pose that is right for the last stage can be beyond what
/// the texture of the data leads home.
pub(super) fn down_to_data(fixed: &Grid, moving: &Grid) -> Option<Vec<f64>> {
    let (mut levels, data) = (usual(fixed, moving), finest_of_both(fixed, moving));
    let count = levels.len();
    while let Some(&last) = levels.last().filter(|&&last| last >= 3.0 * data) {
        levels.push(0.5 * last);
    }
    (levels.len() > count).then_some(levels)
}

/// The smallest spacing along an axis of more than one voxel, of the coarser of two grids, mm.
fn finest_of_both(fixed: &Grid, moving: &Grid) -> f64 {
    let finest = |g: &Grid| {
        (0..3).filter(|&a| g.dims()[a] > 1).map(|a| g.spacing()[a]).fold(f64::MAX, f64::min)
    };
    finest(fixed).max(finest(moving))
}

/// How much finer than the data the given stages may be: lists that serve images of several spacings are common,
/// and their finest stages are left out.
const FINER: f64 = 8.0;

/// Refuses stages that are finer than the data by more than a factor, or all finer than the data: the
/// first stage searches, which takes for ever on full images.
pub(super) fn check(levels: &[f64], fixed: &Grid, moving: &Grid) -> Result<()> {
    let data = finest_of_both(fixed, moving);
    let coarsest = levels.iter().copied().fold(0.0, f64::max);
    let wrong = match levels.iter().find(|&&l| l < data / FINER) {
        Some(&level) => level,
        None if coarsest < NOT_FINER * data => coarsest,
        None => return Ok(()),
    };
    Err(RegisterError::option(
        "levels",
        format!("{wrong} mm"),
        format!(
            "the images have voxels of {} mm; give spacings from there on, coarse to fine, such as \
             8,4,2,1, or leave the option out",
            (data * 1e4).round() / 1e4
        ),
    ))
}

/// Those stages that are not finer than the data, coarse to fine; at least one.
pub(super) fn usable(levels: &[f64], fixed: &Grid, moving: &Grid) -> Vec<f64> {
    let data = finest_of_both(fixed, moving);
    let mut usable: Vec<f64> = levels.iter().copied().filter(|&l| l >= NOT_FINER * data).collect();
    usable.sort_by(|a, b| b.total_cmp(a));
    usable.dedup();
    if usable.is_empty() {
        usable.push(data);
    }
    usable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_fit_the_data() {
        let head = Grid::axis_aligned([182, 218, 182], [1.0; 3]).unwrap();
        assert_eq!(usual(&head, &head), [8.0, 4.0, 2.0, 1.0]);
        let two = Grid::axis_aligned([91, 109, 91], [2.0; 3]).unwrap();
        let levels = usual(&head, &two);
        assert_eq!(usable(&levels, &head, &two), [8.0, 4.0, 2.0]);
        let thick = Grid::axis_aligned([182, 218, 36], [1.0, 1.0, 5.0]).unwrap();
        assert_eq!(usable(&levels, &thick, &head), [8.0, 4.0, 2.0, 1.0]);
        let crop = Grid::axis_aligned([35, 51, 35], [1.0; 3]).unwrap();
        let levels = usable(&usual(&crop, &crop), &crop, &crop);
        assert!(levels.len() == 2 && levels[0] < 3.0, "{levels:?}");
        let slides = Grid::axis_aligned([4473, 3679, 1], [1.0; 3]).unwrap();
        let levels = usual(&slides, &slides);
        assert!(levels[0] > 80.0 && levels[3] > 10.0);
        let all = down_to_data(&slides, &slides).unwrap();
        assert!(all.starts_with(&levels) && all.windows(2).all(|w| w[1] * 2.0 == w[0]), "{all:?}");
        assert!((1.5..3.0).contains(&all[all.len() - 1]), "{all:?}");
        assert_eq!(down_to_data(&head, &head), None);
        assert_eq!(usable(&[0.1], &head, &head), [1.0]);
        assert!(check(&[8.0, 4.0, 2.0, 1.0], &head, &two).is_ok());
        assert!(check(&[0.75], &head, &head).is_ok());
        for bad in [&[1e-9][..], &[8.0, 4.0, 1e-9], &[0.7], &[1e-300]] {
            let said = check(bad, &head, &head).unwrap_err().to_string();
            assert!(said.contains("`levels` is") && said.contains("voxels of 1 mm"), "{said}");
        }
    }
}
