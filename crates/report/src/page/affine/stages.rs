//! The stages of the search as a table.

use crate::page::html::{Columns, Section};
use crate::record::{Figure, RunRecord};
use crate::text::{escape, fixed, number, seconds, thousands};
use voxalign_register::search::StageRecord;

/// The stages, one a row; `flat` where images are of two dimensions.
pub(crate) fn table(stages: &[StageRecord], flat: bool) -> String {
    // Not all costs have histograms.
    let binned = stages.iter().any(|s| s.bins > 0);
    let costs = stages.windows(2).any(|s| s[0].cost != s[1].cost);
    let spacing = |s: &&StageRecord| match s.spacing {
        [x, y, z] if (x - y).abs() + (y - z).abs() < 1e-6 => number(x),
        [x, y, _] if flat && (x - y).abs() < 1e-6 => number(x),
        [x, y, _] if flat => [x, y].map(number).join(" \u{d7} "),
        all => all.map(number).join(" \u{d7} "),
    };
    let dof = |s: &StageRecord| s.dof.iter().map(ToString::to_string).collect::<Vec<_>>();
    Columns::of(stages)
        .column("Stage", |s| escape(&s.name))
        .column("#Spacing, mm", spacing)
        .column("#Samples", |s| thousands(s.samples as f64))
        .column_if(costs, "Cost", |s| escape(&s.cost))
        .column_if(binned, "#Bins", |s| s.bins.to_string())
        .column("#Degrees of freedom", |s| dof(s).join(", "))
        .column("#Candidates", |s| format!("{} \u{2192} {}", s.candidates[0], s.candidates[1]))
        .column("#Evaluations", |s| thousands(s.evaluations as f64))
        .column("#Cost, start", |s| fixed(s.cost_start, 5))
        .column("#Cost, end", |s| fixed(s.cost_end, 5))
        .column("#Time", |s| seconds(s.seconds))
        .html("stages")
}

/// How the cost of the finest stages was chosen; nothing where it was given.
pub(crate) fn choice(record: &RunRecord) -> Section {
    let Some(linearity) = record.figures.get(Figure::Linearity) else { return Section::default() };
    let line = record.figures.get(Figure::ExplainedByLine).unwrap_or(f64::NAN);
    let finest = record.stages.last().map_or("", |s| &*s.cost);
    let why = match finest {
        "ncc" => "The relation is close to linear, for which cross-correlation is more precise",
        _ => "The relation is not linear enough for cross-correlation",
    };
    let html = format!(
        "<p id=\"choice\">The cost of the finest stages is {}. Within the foreground of both images a linear \
         relation explains {} of the variance of their intensities, {} of what any relation explains. {why}.</p>",
        escape(finest),
        fixed(line, 3),
        fixed(linearity, 3),
    );
    Section::new("choice", html)
}
