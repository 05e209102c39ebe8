//! Summary tables of a registration of anatomies.

use super::deform::{deformation, scales, scores};
use super::{affine_end, print_end, print_times};
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::{AnatomyRecord, RunRecord};

/// Prints what came out; without a deformation, what its affine part found.
pub(crate) fn anatomy(record: &RunRecord, folder: &Path) {
    match (&record.deformation, &record.anatomy) {
        (Some(found), Some(anatomy)) => {
            scales(found);
            classes(anatomy);
            shapes(anatomy);
            scores(record);
            deformation(found);
            print_times(record);
        }
        _ => affine_end(record),
    }
    print_end(record, folder);
}

/// How classes overlap.
fn classes(anatomy: &AnatomyRecord) {
    if anatomy.classes.is_empty() {
        return;
    }
    let mut table = Table::new([
        "class",
        "volume, mm³",
        "overlap before (affine)",
        "after",
        "Dice before",
        "after",
    ]);
    for c in &anatomy.classes {
        let mut row = vec![c.name.clone(), format!("{:.0}", c.volume_fixed_mm3)];
        let values = [c.overlap_before, c.overlap_after, c.dice_before, c.dice_after];
        row.extend(values.map(|v| format!("{v:.4}")));
        table.row(row);
    }
    output::line("");
    table.print();
}

/// How far shapes and landmarks are apart.
fn shapes(anatomy: &AnatomyRecord) {
    if anatomy.shapes.is_empty() && anatomy.landmarks.is_empty() {
        return;
    }
    let mut table = Table::new([
        "distances, mm",
        "",
        "mean before (affine)",
        "after",
        "95 % before",
        "after",
        "largest before",
        "after",
    ]);
    for s in &anatomy.shapes {
        let mut row = vec![s.name.clone(), s.kind.clone()];
        let (a, b) = (&s.before, &s.after);
        let values = [a.mean, b.mean, a.p95, b.p95, a.hausdorff, b.hausdorff];
        row.extend(values.map(|v| format!("{v:.2}")));
        table.row(row);
    }
    for l in &anatomy.landmarks {
        let mut row = vec![l.name.clone(), "landmarks".to_owned()];
        row.extend([l.mean_before_mm, l.mean_after_mm].map(|v| format!("{v:.2}")));
        row.extend(["", "", ""].map(str::to_owned));
        row.push(format!("{:.2}", l.largest_after_mm));
        table.row(row);
    }
    output::line("");
    table.print();
}
