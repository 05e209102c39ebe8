//! The short table at the end of a deformable registration.

use super::job::Views;
use crate::output::{self, Table};
use crate::registration::Scores;
use std::path::Path;
use voxalign_register::diffeo::measures::FieldMeasures;
use voxalign_register::diffeo::multiscale::ScaleRecord;
use voxalign_report::RunRecord;

/// Prints what came out.
pub(super) fn print(
    views: &Views,
    measures: &FieldMeasures,
    scales: &[ScaleRecord],
    record: &RunRecord,
    folder: &Path,
) {
    let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
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
    let (before, after) = (&views.before.scores, &views.after.scores);
    let mut pair = |name: String, value: &dyn Fn(&Scores) -> Option<f64>| {
        let (b, a) = (value(before), value(after));
        if b.is_some() || a.is_some() {
            table.row([name, number(b), number(a)]);
        }
    };
    pair("correlation".into(), &|s| s.images.as_ref().and_then(|i| i.ncc));
    pair("mutual information, nats".into(), &|s| s.images.as_ref().map(|i| i.mi));
    if let Some(labels) = &after.labels {
        let of = |s: &Scores| s.labels.as_ref().and_then(|l| l.mean_dice);
        pair(format!("mean Dice of {} labels", labels.counted), &of);
    }
    output::line("");
    table.print();

    let mut table = Table::new(["deformation", "", ""]);
    for row in measures.rows() {
        let value = match row.name {
            "folded voxels" => format!("{}", measures.folded),
            _ => format!("{:.4}", row.value),
        };
        table.row([row.name.to_owned(), value, row.unit.to_owned()]);
    }
    output::line("");
    table.print();

    let mut times = Table::new(["part", "seconds"]);
    for (part, name) in [
        ("device", "start of the device"),
        ("read", "read"),
        ("affine", "affine registration"),
        ("register", "deformable registration"),
        ("resample", "resample"),
        ("write", "write"),
        ("report", "report"),
        ("total", "total"),
    ] {
        if let Some(seconds) = record.timings.get(part) {
            times.row([name.to_owned(), format!("{seconds:.2}")]);
        }
    }
    output::line("");
    times.print();

    output::line("");
    for remark in &record.verdict.remarks {
        output::line(&format!("remark: {remark}"));
    }
    output::line(&format!("device: {}", record.host.device));
    output::line(&format!("verdict: {}", record.verdict.summary()));
    output::line(&format!("written to {}", folder.display()));
}
