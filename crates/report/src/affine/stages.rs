//! The stages of the search as a table.

use crate::html::{self, escape, fixed, number, seconds, thousands};
use voxalign_register::search::StageRecord;

/// The column of histogram bins.
const BINS: usize = 3;

/// The stages, one a row.
pub(super) fn table(stages: &[StageRecord]) -> String {
    // Not all costs have histograms.
    let binned = stages.iter().any(|s| s.bins > 0);
    let rows: Vec<_> = stages
        .iter()
        .map(|stage| {
            let [x, y, z] = stage.spacing;
            let dof: Vec<_> = stage.dof.iter().map(ToString::to_string).collect();
            let spacing = if (x - y).abs() + (y - z).abs() < 1e-6 {
                number(x)
            } else {
                format!("{} \u{d7} {} \u{d7} {}", number(x), number(y), number(z))
            };
            let mut row = vec![
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
            ];
            if !binned {
                row.remove(BINS);
            }
            row
        })
        .collect();
    let mut head = vec![
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
    if !binned {
        head.remove(BINS);
    }
    html::table("stages", &head, &rows)
}
