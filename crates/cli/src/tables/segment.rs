//! The table of a segmentation.

use super::surface::judged;
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::SegmentRecord;

/// The regions that were found.
pub(crate) fn segment(record: &SegmentRecord, path: &Path) {
    let found = &record.found;
    let flat = found.regions.iter().any(|r| r.area_mm2.is_some());
    let size = if flat { ["pixels", "area, mm²"] } else { ["voxels", "volume, ml"] };
    let mut table = Table::new(["region", size[0], size[1], "parts", "mean", "SD"]);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.4}"));
    for region in &found.regions {
        let name = match region.label {
            0 => "background".to_owned(),
            _ => region.title(),
        };
        let amount = region
            .area_mm2
            .map_or_else(|| format!("{:.3}", region.volume_ml), |area| format!("{area:.1}"));
        table.row([
            name,
            region.voxels.to_string(),
            amount,
            region.parts.to_string(),
            number(region.mean),
            number(region.deviation),
        ]);
    }
    table.print();
    let ending = match (found.ending.as_str(), found.period) {
        ("steady", _) => "at rest".to_owned(),
        ("repeating", Some(period)) => format!("repeating after {period}"),
        ("limit", _) => "still moving".to_owned(),
        (other, _) => other.to_owned(),
    };
    let start = &found.start;
    output::line(&format!(
        "{}: {} iterations from a {} start (bound {}, limit {}), {ending}",
        found.force, found.iterations, start.kind, start.bound, found.limit
    ));
    if let Some(tidied) = &found.tidied {
        output::line(&format!(
            "tidied: {} parts with {} voxels removed, {} voxels of holes filled",
            tidied.parts_removed, tidied.voxels_removed, tidied.voxels_filled
        ));
    }
    judged(&record.verdict, &record.provenance.host.device);
    output::line(&format!("written to {}", path.display()));
}
