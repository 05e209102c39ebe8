//! The short table at the end of a deformable registration.

use super::{number, print_end, print_labels, score_row, score_rows, times};
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::{DeformationRecord, Figure, RunRecord};

/// Prints what came out; without a deformation, what its affine part found.
pub(crate) fn deform(record: &RunRecord, folder: &Path) {
    match &record.deformation {
        Some(deformation) => whole(record, deformation),
        None => affine_part(record),
    }
    print_end(record, folder);
}

fn affine_part(record: &RunRecord) {
    let mut table = Table::new(["", "before (headers)", "after (affine)"]);
    let [before, after] = record.figures.both(Figure::AffineCost).map(number);
    table.row(["cost of the affine part".to_owned(), before, after]);
    score_rows(&mut table, record);
    output::line("");
    table.print();
}

fn whole(record: &RunRecord, deformation: &DeformationRecord) {
    let mut table = Table::new(["scale", "iterations", "energy", "at its end", "seconds"]);
    for scale in &deformation.scales {
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
    score_row(&mut table, record, "correlation", Figure::Ncc);
    score_rows(&mut table, record);
    output::line("");
    table.print();
    print_labels(record);

    let mut table = Table::new(["deformation", "in the object", "whole grid", ""]);
    for row in deformation.measures.rows() {
        let value =
            |value: f64| if row.counts { format!("{value}") } else { format!("{value:.4}") };
        let object = row.object.map_or_else(String::new, value);
        table.row([row.name.to_owned(), object, value(row.grid), row.unit.to_owned()]);
    }
    output::line("");
    table.print();

    let mut parts = Table::new(["part", "seconds"]);
    for (part, seconds) in times(record) {
        parts.row([part.to_owned(), format!("{seconds:.2}")]);
    }
    output::line("");
    parts.print();
}
