//! The short table at the end of a registration.

use crate::output::{self, Table};
use crate::registration::Scores;
use std::path::Path;
use voxalign_register::linear::{AffineOptions, AffineResult};
use voxalign_report::RunRecord;

/// Prints what came out.
pub(super) fn print(
    options: &AffineOptions,
    result: &AffineResult,
    (before, after): (&Scores, &Scores),
    record: &RunRecord,
    folder: &Path,
) {
    let mut table = Table::new(["", "before (headers)", "after"]);
    let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
    table.row([
        format!("cost ({})", options.cost.name()),
        number(Some(result.cost_before)),
        number(Some(result.cost_after)),
    ]);
    let mut pair = |name: String, value: &dyn Fn(&Scores) -> Option<f64>| {
        let (b, a) = (value(before), value(after));
        if b.is_some() || a.is_some() {
            table.row([name, number(b), number(a)]);
        }
    };
    let mi = |s: &Scores| s.images.as_ref().map(|i| i.mi);
    pair("mutual information, nats".into(), &mi);
    if let Some(labels) = &after.labels {
        let of = |s: &Scores| s.labels.as_ref().and_then(|l| l.mean_dice);
        pair(format!("mean Dice of {} labels", labels.counted), &of);
    }
    output::line("");
    table.print();

    let mut times = Table::new(["part", "evaluations", "seconds"]);
    for stage in &result.stages {
        let name = format!("stage {}", stage.name);
        times.row([name, stage.evaluations.to_string(), format!("{:.2}", stage.seconds)]);
    }
    for part in ["device", "read", "register", "resample", "write", "report", "total"] {
        if let Some(seconds) = record.timings.get(part) {
            let name = match part {
                "device" => "start of the device",
                "register" => "register (all stages)",
                other => other,
            };
            times.row([name.to_owned(), String::new(), format!("{seconds:.2}")]);
        }
    }
    output::line("");
    times.print();

    output::line("");
    for remark in &result.verdict.remarks {
        output::line(&format!("remark: {remark}"));
    }
    output::line(&format!("device: {}", record.host.device));
    output::line(&format!("verdict: {}", result.verdict.summary()));
    output::line(&format!("written to {}", folder.display()));
}
