//! Label overlap: all labels for the record, and the notable ones for the report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use voxalign_register::compare::{LabelScore, OverlapScores};

/// A label before and after a registration, on the grid of the fixed image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelRecord {
    /// The label.
    pub label: i32,
    /// Its name, where a table of names has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its volume in the fixed map, mm³.
    pub volume_fixed_mm3: f64,
    /// Its volume in the moving map before, mm³.
    pub volume_before_mm3: f64,
    /// Its volume in the moving map after, mm³.
    pub volume_after_mm3: f64,
    /// Its Dice before, 0 to 1.
    pub dice_before: f64,
    /// Its Dice after, 0 to 1.
    pub dice_after: f64,
    /// Whether it counts in the mean.
    pub counted: bool,
}

impl LabelRecord {
    /// Every label of either map, from the scores before and after.
    #[must_use]
    pub fn all(
        before: &OverlapScores,
        after: &OverlapScores,
        names: &BTreeMap<i32, String>,
    ) -> Vec<Self> {
        let mut all: BTreeMap<i32, [Option<&LabelScore>; 2]> = BTreeMap::new();
        for (when, scores) in [before, after].into_iter().enumerate() {
            for score in &scores.labels {
                all.entry(score.label).or_default()[when] = Some(score);
            }
        }
        let of = |(label, [b, a]): (i32, [Option<&LabelScore>; 2])| Self {
            label,
            name: names.get(&label).cloned(),
            volume_fixed_mm3: b.or(a).map_or(0.0, |s| s.volume_fixed),
            volume_before_mm3: b.map_or(0.0, |s| s.volume_warped),
            volume_after_mm3: a.map_or(0.0, |s| s.volume_warped),
            dice_before: b.map_or(0.0, |s| s.dice),
            dice_after: a.map_or(0.0, |s| s.dice),
            counted: a.or(b).is_some_and(|s| s.counted),
        };
        all.into_iter().map(of).collect()
    }

    /// The label with its name, such as `17 Left-Hippocampus`.
    #[must_use]
    pub fn title(&self) -> String {
        title(self.label, self.name.as_deref())
    }
}

/// A label with its name, where it has one.
#[must_use]
pub fn title(label: i32, name: Option<&str>) -> String {
    name.map_or_else(|| label.to_string(), |name| format!("{label} {name}"))
}

/// Up to this many labels, all are shown.
const FEW: usize = 12;
/// Beyond, this many of each kind.
const EACH: usize = 4;

/// The notable ones of `count` things: all of a few; else the first few by each of some orders, largest value
/// first, with the names of the orders that selected each. In the order of the list.
pub(crate) fn chosen(
    count: usize,
    orders: &[(&'static str, Vec<f64>)],
) -> Vec<(usize, Vec<&'static str>)> {
    if count <= FEW {
        return (0..count).map(|i| (i, Vec::new())).collect();
    }
    let mut found: BTreeMap<usize, Vec<&'static str>> = BTreeMap::new();
    for (name, values) in orders {
        let mut places: Vec<usize> = (0..count).filter(|&i| !values[i].is_nan()).collect();
        places.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
        for place in places.into_iter().take(EACH) {
            found.entry(place).or_default().push(name);
        }
    }
    found.into_iter().collect()
}

/// The labels that matter, of those that count, with why: all where they are few; else the largest, those
/// whose overlap changed most, and those that overlap least after.
#[must_use]
pub fn notable(labels: &[LabelRecord]) -> Vec<(&LabelRecord, String)> {
    let counted: Vec<&LabelRecord> = labels.iter().filter(|l| l.counted).collect();
    let values = |of: fn(&LabelRecord) -> f64| counted.iter().map(|l| of(l)).collect::<Vec<f64>>();
    let orders = [
        ("largest", values(|l| l.volume_fixed_mm3)),
        ("most changed", values(|l| (l.dice_after - l.dice_before).abs())),
        ("least overlap", values(|l| -l.dice_after)),
    ];
    let of = |(i, why): (usize, Vec<&str>)| (counted[i], why.join(", "));
    chosen(counted.len(), &orders).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_before_and_after_are_joined() {
        let score = |label, dice| LabelScore {
            label,
            voxels_fixed: 4,
            voxels_warped: 2,
            voxels_both: 1,
            dice,
            volume_fixed: 8.0,
            volume_warped: 4.0,
            volume_change: None,
            counted: true,
        };
        let scores = |labels| OverlapScores { labels, mean_dice: None, counted: 0 };
        let names = BTreeMap::from([(2, "two".to_owned())]);
        let all = LabelRecord::all(
            &scores(vec![score(1, 0.1), score(2, 0.2)]),
            &scores(vec![score(2, 0.4), score(3, 0.5)]),
            &names,
        );
        let dice: Vec<_> = all.iter().map(|l| (l.label, l.dice_before, l.dice_after)).collect();
        assert_eq!(dice, [(1, 0.1, 0.0), (2, 0.2, 0.4), (3, 0.0, 0.5)]);
        assert_eq!((all[1].title(), all[0].title()), ("2 two".to_owned(), "1".to_owned()));
    }
}
