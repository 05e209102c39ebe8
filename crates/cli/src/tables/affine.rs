//! Summary table of an affine registration.

use super::{number, print_end, print_labels, score_rows, times};
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::{Figure, RunRecord};

/// Prints what came out.
pub(crate) fn affine(record: &RunRecord, folder: &Path) {
    let mut table = Table::new(["", "before (headers)", "after"]);
    let cost = record.parameters["cost"].as_str().unwrap_or_default();
    let [before, after] = record.figures.both(Figure::Cost).map(number);
    table.row([format!("cost ({cost})"), before, after]);
    score_rows(&mut table, record);
    output::line("");
    table.print();
    print_labels(record);

    let mut parts = Table::new(["part", "evaluations", "seconds"]);
    for stage in &record.stages {
        let name = format!("stage {}", stage.name);
        parts.row([name, stage.evaluations.to_string(), format!("{:.2}", stage.seconds)]);
    }
    for (part, seconds) in times(record) {
        parts.row([part.to_owned(), String::new(), format!("{seconds:.2}")]);
    }
    output::line("");
    parts.print();
    print_end(record, folder);
}
