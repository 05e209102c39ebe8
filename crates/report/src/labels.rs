//! How labels fare: all of them for the record, and those that matter for the eye.

use crate::html::{escape, measured, number, sentence, table};
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

/// Up to so many labels are shown all.
const FEW: usize = 12;
/// Of more, so many of each kind.
const EACH: usize = 4;

/// Which of `count` things matter: all of a few; else the first few by each of some orders, largest value
/// first, with the names of the orders by which each is there. In the order of the list.
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

/// The labels that matter as a table, and where there are more, all of them to be unfolded.
pub(crate) fn tables(labels: &[LabelRecord]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let row = |l: &LabelRecord, why: Option<String>| {
        let mut dice = measured(&[l.dice_before, l.dice_after, 1.0]);
        dice.truncate(2);
        let mut name = escape(&l.title());
        if !l.counted {
            name += " (not counted)";
        }
        let mut cells = vec![name, number(l.volume_fixed_mm3.round())];
        cells.extend(dice);
        cells.extend(why);
        cells
    };
    const HEADINGS: [&str; 5] =
        ["Label", "#Volume, mm³", "#Dice before", "#Dice after", "Why it is here"];
    let shown = notable(labels);
    let all: Vec<_> = labels.iter().map(|l| row(l, None)).collect();
    let whole = table("labels", &HEADINGS[..4], &all);
    if shown.len() == labels.len() {
        return whole;
    }
    let few = shown.iter().all(|(_, why)| why.is_empty());
    let rows: Vec<_> =
        shown.into_iter().map(|(l, why)| row(l, (!few).then(|| sentence(&why)))).collect();
    let first = table("labels", &HEADINGS[..if few { 4 } else { 5 }], &rows);
    format!("{first}<details><summary>All {} labels</summary>{whole}</details>", labels.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(label: i32, volume: f64, before: f64, after: f64) -> LabelRecord {
        LabelRecord {
            label,
            name: (label % 2 == 0).then(|| format!("<{label}>")),
            volume_fixed_mm3: volume,
            volume_before_mm3: volume,
            volume_after_mm3: volume,
            dice_before: before,
            dice_after: after,
            counted: label != 99,
        }
    }

    #[test]
    fn of_many_labels_those_that_matter_are_shown() {
        let mut labels: Vec<_> =
            (1..=40).map(|i| label(i, f64::from(i), 0.5, 0.6 + 0.001 * f64::from(i))).collect();
        labels[4].dice_after = 0.1;
        labels[9].dice_before = 0.0;
        labels.push(label(99, 1e6, 0.0, 0.0));
        let found = notable(&labels);
        let why = |l: i32| found.iter().find(|(f, _)| f.label == l).map(|(_, why)| why.as_str());
        assert_eq!(why(40), Some("largest, most changed"));
        assert_eq!(why(5), Some("most changed, least overlap"));
        assert_eq!(why(10), Some("most changed"));
        assert_eq!((why(20), why(99)), (None, None));
        assert!(found.len() <= 12 && found.windows(2).all(|w| w[0].0.label < w[1].0.label));
        let html = tables(&labels);
        assert!(
            html.contains("<summary>All 41 labels</summary>") && html.contains("40 &lt;40&gt;")
        );
        assert_eq!(html.matches("<tr>").count(), 2 + found.len() + 41);
        assert!(html.contains("99 (not counted)"), "{html}");
    }

    #[test]
    fn few_labels_are_shown_all() {
        let labels: Vec<_> = (1..=3).map(|i| label(i, 5.0, 0.5, 1.0)).collect();
        let html = tables(&labels);
        assert!(!html.contains("<details") && html.matches("<tr>").count() == 4, "{html}");
        assert!(html.contains("0.5000") && html.contains("1.0000"), "{html}");
        assert_eq!(tables(&[]), "");
    }

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
