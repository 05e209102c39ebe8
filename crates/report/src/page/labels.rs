//! Tables of label overlap.

use super::html::Columns;
use crate::record::labels::{LabelRecord, notable};
use crate::text::{escape, measured, number, sentence};

/// The labels that matter as a table, and where there are more, all of them to be unfolded.
pub(crate) fn tables(labels: &[LabelRecord]) -> String {
    let name = |l: &LabelRecord| escape(&l.title()) + if l.counted { "" } else { " (not counted)" };
    let dice = |l: &LabelRecord, which: usize| {
        measured(&[l.dice_before, l.dice_after, 1.0]).swap_remove(which)
    };
    let table = |labels: Vec<(&LabelRecord, String)>| {
        let why = labels.iter().any(|(_, why)| !why.is_empty());
        Columns::of(labels)
            .column("Label", |(l, _)| name(l))
            .column("#Volume, mm³", |(l, _)| number(l.volume_fixed_mm3.round()))
            .column("#Dice before", |(l, _)| dice(l, 0))
            .column("#Dice after", |(l, _)| dice(l, 1))
            .column_if(why, "Reason", |(_, why)| sentence(why))
            .html("labels")
    };
    let whole = table(labels.iter().map(|l| (l, String::new())).collect());
    let shown = notable(labels);
    if shown.len() == labels.len() {
        return whole;
    }
    let all = format!("<details><summary>All {} labels</summary>{whole}</details>", labels.len());
    table(shown) + &all
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
}
