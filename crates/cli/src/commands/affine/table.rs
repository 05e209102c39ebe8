//! The short table at the end of a registration.

use crate::output::{self, Table};
use crate::registration::{self, Views, number};
use std::path::Path;
use voxalign_register::Choice;
use voxalign_register::linear::{AffineOptions, AffineResult};
use voxalign_report::RunRecord;

/// Prints what came out.
pub(super) fn print(
    options: &AffineOptions,
    result: &AffineResult,
    views: &Views,
    record: &RunRecord,
    folder: &Path,
) {
    let mut table = Table::new(["", "before (headers)", "after"]);
    table.row([
        format!("cost ({})", options.similarity.name()),
        number(Some(result.cost_before)),
        number(Some(result.cost_after)),
    ]);
    registration::score_rows(&mut table, views);
    output::line("");
    table.print();
    registration::print_labels(record);

    let mut times = Table::new(["part", "evaluations", "seconds"]);
    for stage in &result.stages {
        let name = format!("stage {}", stage.name);
        times.row([name, stage.evaluations.to_string(), format!("{:.2}", stage.seconds)]);
    }
    for (part, seconds) in registration::times(record) {
        times.row([part.to_owned(), String::new(), format!("{seconds:.2}")]);
    }
    output::line("");
    times.print();
    registration::print_end(record, folder);
}
