//! Summary of `voxalign stack`.

use crate::output;
use std::path::Path;
use voxalign_report::{Figure, StackRecord};

/// The stages of a stream, in their order.
const STAGES: [&str; 5] = ["read", "upload", "execute", "download", "write"];

/// Prints what was made of how many images, and with `times` how long each stage was at work.
pub(crate) fn stack(record: &StackRecord, _: &Path, times: bool) {
    if let Some(total) = record.figures.get(Figure::TotalEnergy) {
        output::line(&format!("total energy: {total}"));
    }
    let count = record.figures.get(Figure::Images).unwrap_or_default();
    let name = record.parameters["operation"].as_str().unwrap_or_default();
    output::line(&format!("{name} of {count} images on {}", record.provenance.host.device));
    if !times {
        return;
    }
    let seconds = |name: &str| record.timings.get(name).copied();
    let stage = |name: &&'static str| Some((*name, seconds(&format!("stream_{name}"))?));
    let stages: Vec<_> = STAGES.iter().filter_map(stage).collect();
    let bound = stages.iter().map(|s| s.1).fold(0.0, f64::max);
    let wall = seconds("stream").unwrap_or_default();
    output::line(&format!("{wall:.3} s; the slowest stage took {bound:.3} s"));
    for (name, busy) in stages {
        output::line(&format!("  {name}: {busy:.3} s"));
    }
}
