//! The short table at the end of a deformable registration.

use crate::output::{self, Table};
use crate::registration::{self, Views, number};
use std::path::Path;
use voxalign_register::measures::FieldMeasures;
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::scores::Scores;
use voxalign_report::RunRecord;

/// Prints what came out.
pub(super) fn print(
    views: &Views,
    measures: &FieldMeasures,
    scales: &[ScaleRecord],
    record: &RunRecord,
    folder: &Path,
) {
    let mut table = Table::new(["scale", "iterations", "energy", "at its end", "seconds"]);
    for scale in scales {
        table.row([
            format!("1/{}", scale.factor),
            format!("{} of {}", scale.energies.len(), scale.allowed),
            number(scale.energies.first().copied()),
            number(scale.energies.last().copied()),
            format!("{:.2}", scale.seconds),
        ]);
    }
    output::line("");
    table.print();

    let mut table = Table::new(["", "before (affine)", "after"]);
    let correlation = |s: &Scores| s.images.as_ref().and_then(|i| i.ncc);
    registration::score_row(&mut table, views, "correlation", correlation);
    registration::score_rows(&mut table, views);
    output::line("");
    table.print();
    registration::print_labels(record);

    let mut table = Table::new(["deformation", "in the object", "whole grid", ""]);
    for row in measures.rows() {
        let value =
            |value: f64| if row.counts { format!("{value}") } else { format!("{value:.4}") };
        let object = row.object.map_or_else(String::new, value);
        table.row([row.name.to_owned(), object, value(row.grid), row.unit.to_owned()]);
    }
    output::line("");
    table.print();

    let mut times = Table::new(["part", "seconds"]);
    for (part, seconds) in registration::times(record) {
        times.row([part.to_owned(), format!("{seconds:.2}")]);
    }
    output::line("");
    times.print();
    registration::print_end(record, folder);
}
