//! Tables of simulated X-ray images and of poses.

use super::atlas::end;
use super::number;
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::drr::DrrRecord;
use voxalign_report::pose::PoseRecord;

/// What was simulated.
pub(crate) fn drr(record: &DrrRecord, folder: &Path) {
    let mut table = Table::new(["image", "pixels", "mm", "from", "to", ""]);
    for image in &record.images {
        let [columns, rows] = image.view.size;
        let [across, down] = image.view.pixel_mm;
        let size = if (across - down).abs() < 1e-6 * across {
            format!("{across:.4}")
        } else {
            format!("{across:.4} x {down:.4}")
        };
        table.row([
            image.name.clone(),
            format!("{columns} x {rows}"),
            size,
            format!("{:.4}", image.least),
            format!("{:.4}", image.most),
            image.unit.clone(),
        ]);
    }
    table.print_left();
    output::line(&format!("results: {}", folder.display()));
}

/// The pose that was found.
pub(crate) fn pose(record: &PoseRecord, folder: &Path) {
    let mut table = Table::new(["", "x", "y", "z"]);
    let three = |name: &str, values: &[f64]| {
        let mut row = vec![name.to_owned()];
        row.extend(values.iter().map(|v| format!("{v:.3}")));
        row
    };
    table.row(three("moved from the start, mm", &record.translation_mm));
    table.row(three("turned from the start, degrees", &record.rotation_degrees));
    let sure = &record.uncertainty;
    for (name, values) in [("by curvature", Some(sure.curvature)), ("by restarts", sure.restarts)] {
        if let Some(values) = values {
            table.row(three(&format!("standard deviation {name}, mm"), &values[..3]));
            table.row(three(&format!("standard deviation {name}, degrees"), &values[3..]));
        }
    }
    table.print();
    output::line(&format!(
        "cost: {} to {}; {} simulated images",
        number(Some(record.cost_before)),
        number(Some(record.cost_after)),
        record.renders
    ));
    end(&record.provenance, &record.verdict, folder);
}
