//! Summary table of a deformable registration.

use super::{affine_end, number, print_end, print_labels, print_times, score_row, score_rows};
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::{DeformationRecord, Figure, RunRecord};

/// Prints what came out; without a deformation, what its affine part found.
pub(crate) fn deform(record: &RunRecord, folder: &Path) {
    match &record.deformation {
        Some(found) => {
            scales(found);
            scores(record);
            deformation(found);
            print_times(record);
        }
        None => affine_end(record),
    }
    print_end(record, folder);
}

/// Prints how the energy went down.
pub(super) fn scales(found: &DeformationRecord) {
    let mut table = Table::new(["scale", "iterations", "energy", "at its end", "seconds"]);
    for scale in &found.scales {
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
}

/// Prints how well the images agree.
pub(super) fn scores(record: &RunRecord) {
    let mut table = Table::new(["", "before (affine)", "after"]);
    score_row(&mut table, record, "correlation", Figure::Ncc);
    score_rows(&mut table, record);
    output::line("");
    table.print();
    print_labels(record);
}

/// Prints what the deformation does to space.
pub(super) fn deformation(found: &DeformationRecord) {
    let mut table = Table::new(["deformation", "in the object", "whole grid", ""]);
    for row in found.measures.rows() {
        let value =
            |value: f64| if row.counts { format!("{value}") } else { format!("{value:.4}") };
        let object = row.object.map_or_else(String::new, value);
        table.row([row.name.to_owned(), object, value(row.grid), row.unit.to_owned()]);
    }
    output::line("");
    table.print();
}
