//! Tables of simulated X-ray images and of poses.

use super::atlas::end;
use super::frames::Frame;
use super::number;
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::drr::{DrrImageRecord, DrrRecord};
use voxalign_report::pose::{PoseRecord, PoseViewRecord};
use voxalign_report::track::{FrameRecord, TrackRecord};

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
    match &record.images[..] {
        [first, .., last] if first.pose != last.pose => {
            placed(&[("first pose of the CT", first), ("last pose of the CT", last)]);
        }
        [first, ..] => placed(&[("CT in the room", first)]),
        [] => {}
    }
    output::line(&format!("written to {}", folder.display()));
}

/// A row of three numbers.
fn three(name: &str, values: &[f64]) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    // No -0.
    row.extend(values.iter().map(|v| format!("{:.3}", (v * 1e3).round() / 1e3 + 0.0)));
    row
}

/// How the CT lies in the room, and about what it is turned.
fn placed(all: &[(&str, &DrrImageRecord)]) {
    let mut table = Table::new(["", "x", "y", "z"]);
    for (name, image) in all {
        table.row(three(&format!("{name}: moved, mm"), &image.translation_mm));
        table.row(three("  turned, degrees", &image.rotation_degrees));
        table.row(three("  about this point of it, mm", &image.centre_mm));
    }
    table.print();
}

/// The pose that was found.
pub(crate) fn pose(record: &PoseRecord, folder: &Path) {
    let mut table = Table::new(["", "x", "y", "z"]);
    table.row(three("CT in the room: moved, mm", &record.translation_mm));
    table.row(three("  turned, degrees", &record.rotation_degrees));
    table.row(three("  about this point of it, mm", &record.centre_mm));
    table.row(three("at the start: moved, mm", &record.start_translation_mm));
    table.row(three("  turned, degrees", &record.start_rotation_degrees));
    let sure = &record.uncertainty;
    for (name, values) in [("by curvature", Some(sure.curvature)), ("by restarts", sure.restarts)] {
        if let Some(values) = values {
            table.row(three(&format!("standard deviation {name}, mm"), &values[..3]));
            table.row(three(&format!("standard deviation {name}, degrees"), &values[3..]));
        }
    }
    table.print();
    output::line(&record.expected());
    for target in record.expected_error.iter().skip(1) {
        output::line(&format!("{}: within {:.2} mm", target.name, target.within_mm));
    }
    for words in record.views.iter().filter_map(PoseViewRecord::refined_words) {
        output::line(&words);
    }
    output::line(&format!(
        "cost: {} to {}; {} simulated images",
        number(Some(record.cost_before)),
        number(Some(record.cost_after)),
        record.renders
    ));
    end(&record.provenance, &record.verdict, folder);
}

impl Frame for FrameRecord {
    type Sequence = TrackRecord;
    const HEADING: &'static str = "frame status          x mm     y mm     z mm      x deg   y deg   z deg    cost  correlation    ms  frames/s";

    fn line(&self) -> String {
        let [x, y, z] = self.translation_mm;
        let [a, b, c] = self.rotation_degrees;
        let rate = self.frames_per_second.map_or_else(|| "-".to_owned(), |r| format!("{r:.1}"));
        format!(
            "{:5} {:8} {x:13.3} {y:8.3} {z:8.3}   {a:8.3}{b:8.3}{c:8.3} {:7.4} {:12.3} {:5.0} {rate:>9}",
            self.frame,
            self.status,
            self.cost,
            self.least_correlation(),
            self.milliseconds,
        )
    }

    fn end(record: &TrackRecord, folder: &Path) {
        output::line(&format!(
            "{} frames, {} without a pose; {:.1} frames/s while tracked",
            record.frames.len(),
            record.lost,
            record.frames_per_second
        ));
        end(&record.provenance, &record.verdict, folder);
    }
}
