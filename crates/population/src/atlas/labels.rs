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
    let first = labels.first()?;
    let mut votes: BTreeMap<i32, usize> = BTreeMap::new();
    let data = (0..first.data().len())
        .map(|i| {
            votes.clear();
            for map in labels {
                *votes.entry(map.data()[i]).or_default() += 1;
            }
            let most = votes.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
            most.map_or(0, |(label, _)| *label)
        })
        .collect();
    Volume::new(first.grid().clone(), data).ok()
}
