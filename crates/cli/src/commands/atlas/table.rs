//! The short table at the end.

use crate::output::{self, Table};
use std::path::Path;
use voxalign_register::Verdict;
use voxalign_report::{AtlasRecord, Provenance};

/// Prints what came out.
pub(super) fn print(record: &AtlasRecord, folder: &Path) {
    let figure = |name: &str| record.figures.get(name).copied();
    let mut table = Table::new(["", "after affine alignment", "atlas"]);
    for (name, key, digits) in [
        ("entropy, bits", "entropy", 3),
        ("gradient energy, 1/mm2", "gradient_energy", 6),
        ("mean Dice of pairs", "label_overlap", 4),
    ] {
        let ends = ["before", "after"].map(|when| figure(&format!("{key}_{when}")));
        if let [Some(before), Some(after)] = ends {
            table.row([name.to_owned(), format!("{before:.digits$}"), format!("{after:.digits$}")]);
        }
    }
    output::line("");
    table.print();

    let mut table =
        Table::new(["subject", "correlation before", "after", "displacement, mm", "verdict"]);
    for s in &record.subjects {
        table.row([
            s.name.clone(),
            format!("{:.4}", s.correlation[0]),
            format!("{:.4}", s.correlation[1]),
            format!("{:.2}", s.measures.mean_displacement),
            match (s.verdict.good, s.outlying) {
                (false, _) => "bad".to_owned(),
                (true, true) => "unlike the others".to_owned(),
                _ => "good".to_owned(),
            },
        ]);
    }
    output::line("");
    table.print();

    let mut times = Table::new(["part", "seconds"]);
    for scale in &record.scales {
        times.row([format!("scale 1/{}", scale.factor), format!("{:.2}", scale.seconds)]);
    }
    for (name, seconds) in &record.timings {
        times.row([name.clone(), format!("{seconds:.2}")]);
    }
    output::line("");
    times.print();
    output::line("");
    end(&record.provenance, &record.verdict, folder);
}

/// The last lines: remarks, device, verdict, and where everything is.
pub(super) fn end(provenance: &Provenance, verdict: &Verdict, folder: &Path) {
    for remark in &verdict.remarks {
        output::line(&format!("remark: {remark}"));
    }
    output::line(&format!("device: {}", provenance.host.device));
    output::line(&format!("verdict: {}", verdict.summary()));
    output::line(&format!("results are in {}", folder.display()));
}
