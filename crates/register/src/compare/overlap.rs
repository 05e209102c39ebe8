//! Overlap of label maps.

use super::{CompareError, same_grid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use voxalign_image::{LabelMap, Volume};

/// How one label fares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LabelScore {
    /// The label; never 0, the background.
    pub label: i32,
    /// Its voxels in the fixed map.
    pub voxels_fixed: usize,
    /// Its voxels in the warped map.
    pub voxels_warped: usize,
    /// Its voxels in both.
    pub voxels_both: usize,
    /// Twice the common voxels over the sum of both, 0 to 1.
    pub dice: f64,
    /// Volume in the fixed map, mm^3.
    pub volume_fixed: f64,
    /// Volume in the warped map, mm^3.
    pub volume_warped: f64,
    /// Volume in the warped map over that in the fixed map, less 1; `None` where the fixed map
    /// has not the label.
    pub volume_change: Option<f64>,
    /// Whether the label counts in the mean.
    pub counted: bool,
}

/// Which labels count in the mean.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OverlapRule {
    /// Labels with fewer voxels in one of the maps do not count. With 0, a label that only one
    /// map has counts with a Dice of 0.
    pub min_voxels: usize,
    /// Labels below this do not count; `None` for all but the background.
    pub smallest_label: Option<i32>,
    /// Only these count, and each of them counts: one that neither map has any more, with a Dice
    /// of 0. `None` for all but the background.
    pub only: Option<BTreeSet<i32>>,
}

impl OverlapRule {
    /// The rule under which exactly the labels count that both maps have, on whatever grids:
    /// what fixed and moving map share before one of them is resampled.
    #[must_use]
    pub fn common_labels(fixed: &LabelMap, moving: &LabelMap) -> Self {
        let found = labels_of(moving);
        let only = labels_of(fixed).intersection(&found).copied().collect();
        Self { only: Some(only), ..Self::default() }
    }

    fn counts(&self, label: i32, voxels: [usize; 2]) -> bool {
        voxels[0].min(voxels[1]) >= self.min_voxels
            && self.smallest_label.is_none_or(|least| label >= least)
            && self.only.as_ref().is_none_or(|only| only.contains(&label))
    }
}

/// The labels of a map but the background.
#[must_use]
pub fn labels_of(map: &LabelMap) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut last = 0;
    for &label in map.data() {
        if label != last {
            found.insert(label);
            last = label;
        }
    }
    found.remove(&0);
    found
}

/// How two label maps overlap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverlapScores {
    /// Every label of either map but the background, in ascending order.
    pub labels: Vec<LabelScore>,
    /// Mean Dice over the labels that count; `None` where none does.
    pub mean_dice: Option<f64>,
    /// The number of labels that count.
    pub counted: usize,
}

/// Compares two label maps on one grid, where `mask` is above 0 (everywhere without one).
///
/// # Errors
/// [`CompareError::Grids`]; [`CompareError::Nothing`] where neither map has a label.
pub fn compare_labels(
    fixed: &LabelMap,
    warped: &LabelMap,
    mask: Option<&Volume<f32>>,
    rule: &OverlapRule,
) -> Result<OverlapScores, CompareError> {
    same_grid(fixed.grid(), warped.grid())?;
    if let Some(mask) = mask {
        same_grid(fixed.grid(), mask.grid())?;
    }
    let mut counts: BTreeMap<i32, [usize; 3]> = BTreeMap::new();
    for (i, (&f, &w)) in fixed.data().iter().zip(warped.data()).enumerate() {
        if (f == 0 && w == 0) || mask.is_some_and(|m| m.data()[i] <= 0.0) {
            continue;
        }
        if f == w {
            let c = counts.entry(f).or_default();
            *c = [c[0] + 1, c[1] + 1, c[2] + 1];
        } else {
            counts.entry(f).or_default()[0] += 1;
            counts.entry(w).or_default()[1] += 1;
        }
    }
    for &label in rule.only.iter().flatten() {
        counts.entry(label).or_default();
    }
    counts.remove(&0);
    if counts.is_empty() {
        return Err(CompareError::Nothing { why: "both label maps hold only 0 (background)" });
    }
    let voxel = fixed.grid().voxel_volume();
    let labels: Vec<_> = counts
        .into_iter()
        .map(|(label, [f, w, both])| LabelScore {
            label,
            voxels_fixed: f,
            voxels_warped: w,
            voxels_both: both,
            dice: 2.0 * both as f64 / (f + w).max(1) as f64,
            volume_fixed: f as f64 * voxel,
            volume_warped: w as f64 * voxel,
            volume_change: (f > 0).then(|| w as f64 / f as f64 - 1.0),
            counted: rule.counts(label, [f, w]),
        })
        .collect();
    let counted = labels.iter().filter(|l| l.counted).count();
    let sum: f64 = labels.iter().filter(|l| l.counted).map(|l| l.dice).sum();
    Ok(OverlapScores { mean_dice: (counted > 0).then(|| sum / counted as f64), counted, labels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    fn map(values: &[i32]) -> LabelMap {
        let grid = Grid::axis_aligned([values.len(), 1, 1], [2.0, 1.0, 1.0]).unwrap();
        Volume::new(grid, values.to_vec()).unwrap()
    }

    #[test]
    fn dice_by_hand() {
        let f = map(&[0, 1, 1, 1, 2, 2, 0, 0]);
        let w = map(&[0, 0, 1, 1, 1, 2, 3, 0]);
        let s = compare_labels(&f, &w, None, &OverlapRule::default()).unwrap();
        let dice: Vec<_> = s.labels.iter().map(|l| (l.label, l.dice)).collect();
        assert_eq!(dice, vec![(1, 4.0 / 6.0), (2, 2.0 / 3.0), (3, 0.0)]);
        assert!((s.mean_dice.unwrap() - 4.0 / 9.0).abs() < 1e-12);
        assert_eq!(s.labels[0].volume_fixed, 6.0);
        assert_eq!(s.labels[1].volume_change, Some(-0.5));
        assert_eq!(s.labels[2].volume_change, None);
    }

    #[test]
    fn the_rule_says_what_counts() {
        let f = map(&[0, 1, 1, 1, 2, 2, 0, 0]);
        let w = map(&[0, 0, 1, 1, 1, 2, 3, 0]);
        let rule = OverlapRule { min_voxels: 1, smallest_label: Some(2), only: None };
        let s = compare_labels(&f, &w, None, &rule).unwrap();
        assert_eq!(s.counted, 1);
        assert!((s.mean_dice.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        let none = OverlapRule { min_voxels: 9, ..OverlapRule::default() };
        assert_eq!(compare_labels(&f, &w, None, &none).unwrap().mean_dice, None);
    }

    /// A label that both maps have and that the resampling loses counts as lost.
    #[test]
    fn common_labels_count_even_when_lost() {
        let f = map(&[1, 1, 2, 3]);
        let rule = OverlapRule::common_labels(&f, &map(&[1, 2, 2, 9]));
        let s = compare_labels(&f, &map(&[1, 1, 0, 9]), None, &rule).unwrap();
        assert_eq!((s.counted, s.mean_dice), (2, Some(0.5)));
        let s = compare_labels(&map(&[0; 4]), &map(&[0; 4]), None, &rule).unwrap();
        assert_eq!((s.counted, s.mean_dice), (2, Some(0.0)));
        assert_eq!(labels_of(&f).len(), 3);
    }

    #[test]
    fn a_mask_and_empty_maps() {
        let f = map(&[1, 1, -2, 0]);
        let mask = Volume::new(f.grid().clone(), vec![0.0, 1.0, 1.0, 1.0]).unwrap();
        let s = compare_labels(&f, &map(&[1, 0, -2, 0]), Some(&mask), &OverlapRule::default());
        let s = s.unwrap();
        assert_eq!(s.labels.iter().map(|l| l.dice).collect::<Vec<_>>(), vec![1.0, 0.0]);
        let zero = map(&[0, 0, 0, 0]);
        let e = compare_labels(&zero, &zero, None, &OverlapRule::default());
        assert!(matches!(e, Err(CompareError::Nothing { .. })));
    }
}
