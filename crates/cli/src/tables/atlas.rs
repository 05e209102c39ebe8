//! Summary tables of atlases.

use crate::output::{self, Print, Table};
use std::path::Path;
use voxalign_jobs::atlas::Built;
use voxalign_population::atlas::Spread;
use voxalign_register::Verdict;
use voxalign_report::regression::RegressionRecord;
use voxalign_report::stability::StabilityRecord;
use voxalign_report::{AtlasRecord, Figure, Provenance, When};

/// Prints what came out; nothing where another process does.
pub(crate) fn built(record: &Built, folder: &Path) {
    match record {
        Built::Atlas(record) => atlas(record, folder),
        Built::Regression(record) => regression(record, folder),
        Built::Stability(record) => stability(record, folder),
        Built::Elsewhere(_) => {}
    }
}

/// Prints an atlas.
fn atlas(record: &AtlasRecord, folder: &Path) {
    let mut table = Table::new(["", "after affine alignment", "atlas"]);
    for (name, figure, digits) in [
        ("entropy, bits", Figure::Entropy, 3),
        ("gradient energy, 1/mm2", Figure::GradientEnergy, 6),
        ("mean Dice of pairs", Figure::LabelOverlap, 4),
    ] {
        if let [Some(before), Some(after)] = record.figures.both(figure) {
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
    for remedy in verdict.remedies() {
        output::line(&format!("try: {remedy}"));
    }
    output::line(&format!("written to {}", folder.display()));
}

/// Prints what came out of a test of stability.
fn stability(record: &StabilityRecord, folder: &Path) {
    let mut table =
        Table::new(["subjects", "cohorts", "affine: entropy, bits", "+-", "atlas", "+-"]);
    let deviation = |s: Spread| s.standard_deviation.map_or("-".to_owned(), |d| format!("{d:.4}"));
    for size in &record.sizes {
        table.row([
            size.size.to_string(),
            size.cohorts.len().to_string(),
            format!("{:.4}", size.affine.mean),
            deviation(size.affine),
            format!("{:.4}", size.atlas.mean),
            deviation(size.atlas),
        ]);
    }
    output::line("");
    table.print();
    output::line("");
    end(&record.provenance, &record.verdict, folder);
}

/// Prints what came out of a regression.
fn regression(record: &RegressionRecord, folder: &Path) {
    let mut table = Table::new([
        record.covariate.as_str(),
        "subjects",
        "effective number",
        "entropy, bits",
        "verdict",
    ]);
    for atlas in &record.atlases {
        let entropy = atlas.figures.at(Figure::Entropy, When::After).unwrap_or(f64::NAN);
        table.row([
            atlas.at.to_string(),
            atlas.subjects.len().to_string(),
            format!("{:.1}", atlas.effective_number),
            format!("{entropy:.3}"),
            if atlas.verdict.good { "good" } else { "bad" }.to_owned(),
        ]);
    }
    output::line("");
    table.print();
    if !record.curves.is_empty() {
        let mut heading = vec!["volume, mm3".to_owned()];
        heading.extend(record.atlases.iter().map(|a| format!("{} {}", record.covariate, a.at)));
        let mut table = Table::new(heading);
        for curve in &record.curves {
            let mut row = vec![format!("label {}", record.title(curve.label))];
            row.extend(record.atlases.iter().map(|a| {
                a.volumes.get(&curve.label).map_or("-".to_owned(), |v| format!("{v:.0}"))
            }));
            table.row(row);
        }
        output::line("");
        table.print();
    }
    output::line("");
    end(&record.provenance, &record.verdict, folder);
}
