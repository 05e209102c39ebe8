//! The stages of the search as a table.

use crate::figure::Figure;
use crate::html::{self, escape, fixed, number, seconds, thousands};
use crate::record::RunRecord;
use voxalign_register::search::StageRecord;

/// The columns of costs and of histogram bins.
const COST: usize = 3;
const BINS: usize = 4;

/// The stages, one a row.
pub(super) fn table(stages: &[StageRecord]) -> String {
    // Not all costs have histograms.
    let binned = stages.iter().any(|s| s.bins > 0);
    let costs = stages.windows(2).any(|s| s[0].cost != s[1].cost);
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
                escape(&stage.cost),
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
            if !costs {
                row.remove(COST);
            }
            row
        })
        .collect();
    let mut head = vec![
        "Stage",
        "#Spacing, mm",
        "#Samples",
        "Cost",
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
    if !costs {
        head.remove(COST);
    }
    html::table("stages", &head, &rows)
}

/// How the cost of the finest stages was chosen, in words; nothing where it was given.
pub(super) fn choice(record: &RunRecord) -> String {
    let Some(linearity) = record.figures.get(Figure::Linearity) else { return String::new() };
    let line = record.figures.get(Figure::ExplainedByLine).unwrap_or(f64::NAN);
    let finest = record.stages.last().map_or("", |s| &*s.cost);
    let why = match finest {
        "ncc" => "They lie on a line, for which cross-correlation is the more exact",
        _ => "That is not enough of a line for cross-correlation",
    };
    format!(
        "<p id=\"choice\">The cost of the finest stages is {}. Within what is foreground in both images a straight line \
         explains {} of the variance of their intensities, {} of what any relation explains. {why}.</p>",
        escape(finest),
        fixed(line, 3),
        fixed(linearity, 3),
    )
}
