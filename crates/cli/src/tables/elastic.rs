//! Summary tables of a registration by an elastic body.

use super::atlas::end;
use super::deform::{deformation, scales, scores};
use super::frames::Frame;
use super::{affine_end, number, print_end, print_times};
use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_report::{ElasticRecord, RunRecord, StreamFrameRecord, StreamRecord};

/// Prints what came out; without a deformation, what its affine part found.
pub(crate) fn elastic(record: &RunRecord, folder: &Path) {
    match (&record.deformation, &record.elastic) {
        (Some(found), Some(elastic)) => {
            scales(found);
            body(elastic);
            scores(record);
            deformation(found);
            steps(elastic);
            print_times(record);
        }
        _ => affine_end(record),
    }
    print_end(record, folder);
}

/// What the body is, and what it went through.
fn body(of: &ElasticRecord) {
    let mut table = Table::new(["body", "", ""]);
    let mut row = |name: &str, value: String, unit: &str| {
        table.row([name.to_owned(), value, unit.to_owned()]);
    };
    row("tetrahedra", of.tetrahedra.to_string(), "");
    row("vertices", of.vertices.to_string(), "");
    row("vertices that were held", of.held.to_string(), "");
    row("volume at rest", format!("{:.1}", of.volume_mm3 / 1e3), "cm³");
    row("smallest volume of a tetrahedron over that", format!("{:.4}", of.least_volume_ratio), "");
    row("largest norm of strain", format!("{:.4}", of.largest_strain), "");
    row("largest stress of von Mises", format!("{:.4}", of.largest_von_mises_kpa), "kPa");
    row("steps that were halved", of.cuts.to_string(), "");
    row("at rest at the end", if of.at_rest { "yes" } else { "no" }.to_owned(), "");
    output::line("");
    table.print();
}

/// Where the time of steps went.
fn steps(of: &ElasticRecord) {
    let mut table = Table::new(["part of a step", "seconds", "ms each"]);
    table.row([
        "(before the first one)".to_owned(),
        format!("{:.2}", of.setup_seconds),
        String::new(),
    ]);
    for part in &of.step_parts {
        let each = 1e3 * part.seconds_per_iteration;
        table.row([part.name.clone(), format!("{:.2}", part.seconds), format!("{each:.2}")]);
    }
    output::line("");
    table.print();
}

impl Frame for StreamFrameRecord {
    type Sequence = StreamRecord;
    const HEADING: &'static str = "frame start       iterations       s   correlation    mean mm   largest mm   since last mm   volume  verdict";

    fn line(&self) -> String {
        let since = self.largest_change_mm.map_or_else(|| "-".to_owned(), |mm| format!("{mm:.3}"));
        format!(
            "{:5} {:9} {:12} {:7.2} {:>13} {:10.3} {:12.3} {since:>15} {:8.3}  {}{}",
            self.frame,
            self.start,
            self.iterations,
            self.seconds,
            number(Some(self.ncc_after).filter(|v| v.is_finite())),
            self.mean_displacement_mm,
            self.largest_displacement_mm,
            self.least_volume_ratio,
            if self.good { "good" } else { "bad" },
            if self.restarted { ", tried again from rest" } else { "" },
        )
    }

    fn end(record: &StreamRecord, folder: &Path) {
        output::line(&format!(
            "{} of {} frames, {} bad",
            record.frames.len(),
            record.asked,
            record.bad
        ));
        end(&record.provenance, &record.verdict, folder);
    }
}
