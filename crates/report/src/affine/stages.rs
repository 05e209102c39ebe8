//! The stages of the search as a table.

use crate::html::{self, escape, fixed, number, seconds, thousands};
use crate::record::RunRecord;

/// The stages, one a row.
pub(super) fn table(record: &RunRecord) -> String {
    let rows: Vec<_> = record
        .stages
        .iter()
        .map(|stage| {
            let [x, y, z] = stage.spacing;
            let dof: Vec<_> = stage.dof.iter().map(ToString::to_string).collect();
            let spacing = if (x - y).abs() + (y - z).abs() < 1e-6 {
                number(x)
            } else {
                format!("{} \u{d7} {} \u{d7} {}", number(x), number(y), number(z))
            };
            vec![
                escape(&stage.name),
                spacing,
                thousands(stage.samples as f64),
                stage.bins.to_string(),
                dof.join(", "),
                format!("{} \u{2192} {}", stage.candidates[0], stage.candidates[1]),
                thousands(stage.evaluations as f64),
                fixed(stage.cost_start, 5),
                fixed(stage.cost_end, 5),
                seconds(stage.seconds),
            ]
        })
        .collect();
    let head = [
        "Stage",
        "#Spacing, mm",
        "#Samples",
        "#Bins",
        "#Degrees of freedom",
        "#Candidates",
        "#Evaluations",
        "#Cost, start",
        "#Cost, end",
        "#Time",
    ];
    html::table("stages", &head, &rows)
}
