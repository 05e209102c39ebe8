//! Label maps of subjects on the grid of an atlas.

use crate::error::Result;
use std::collections::BTreeMap;
use voxalign_image::{LabelMap, Volume};
use voxalign_register::RegisterError;
use voxalign_register::compare::{OverlapRule, compare_labels};

/// The mean over all pairs of subjects of the mean Dice of the labels of which both have 50 voxels or
/// more; none where no pair has one.
///
/// # Errors
/// Maps on different grids, or without any label.
pub fn mean_overlap(labels: &[LabelMap]) -> Result<Option<f64>> {
    let (mut sum, mut count) = (0.0, 0);
    let rule = OverlapRule { min_voxels: 50, ..OverlapRule::default() };
    for (i, a) in labels.iter().enumerate() {
        for b in &labels[..i] {
            if let Some(dice) =
                compare_labels(a, b, None, &rule).map_err(RegisterError::from)?.mean_dice
            {
                sum += dice;
                count += 1;
            }
        }
    }
    Ok((count > 0).then(|| sum / f64::from(count)))
}

/// The label that most maps have at each voxel, of several the smallest.
#[must_use]
pub fn most_frequent(labels: &[LabelMap]) -> Option<LabelMap> {
    most_weight(labels, &vec![1.0; labels.len()])
}

/// The label of the most weight at each voxel, of several the smallest: each map counts what its
/// weight says. None without maps, or with another number of weights.
#[must_use]
pub fn most_weight(labels: &[LabelMap], weights: &[f64]) -> Option<LabelMap> {
    let first = labels.first().filter(|_| weights.len() == labels.len())?;
    let mut votes: BTreeMap<i32, f64> = BTreeMap::new();
    let data = (0..first.data().len())
        .map(|i| {
            votes.clear();
            for (map, weight) in labels.iter().zip(weights) {
                *votes.entry(map.data()[i]).or_default() += weight;
            }
            let most = votes.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
            most.map_or(0, |(label, _)| *label)
        })
        .collect();
    Volume::new(first.grid().clone(), data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    #[test]
    fn labels_are_voted_for() {
        let grid = Grid::axis_aligned([4, 1, 1], [1.0; 3]).unwrap();
        let map = |data: [i32; 4]| Volume::new(grid.clone(), data.to_vec()).unwrap();
        let maps = [map([1, 2, 0, 5]), map([1, 3, 7, 4]), map([2, 3, 7, 6])];
        assert_eq!(most_frequent(&maps).unwrap().data(), [1, 3, 7, 4]);
        assert_eq!(most_weight(&maps, &[1.0, 1.0, 2.5]).unwrap().data(), [2, 3, 7, 6]);
        assert_eq!(most_weight(&maps, &[1.0, 1.0, 2.0]).unwrap().data(), [1, 3, 7, 6]);
        assert_eq!(most_weight(&maps, &[1.0]), None);
        assert_eq!(most_frequent(&[]), None);
    }
}
