//! The table of label volumes of a regression.

use crate::error::{Error, Result};
use voxalign_report::regression::RegressionRecord;

/// The volumes as a table: a row for each subject, point of a curve and atlas, of each label.
pub(super) fn csv(record: &RegressionRecord) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| Error::Internal(e.to_string());
    writer
        .write_record(["what", "name", &record.covariate, "label", "volume_mm3"])
        .map_err(failed)?;
    for curve in &record.curves {
        let mut row = |what: &str, name: &str, at: f64, volume: f64| {
            let numbers = [at.to_string(), curve.label.to_string(), volume.to_string()];
            let [at, label, volume] = numbers;
            writer.write_record([what, name, &at, &label, &volume]).map_err(failed)
        };
        for o in record.observations.iter().filter(|o| !o.volumes.is_empty()) {
            let volume = o.volumes.get(&curve.label).copied().unwrap_or(0.0);
            row("subject", &o.name, o.value, volume)?;
        }
        for [at, volume] in &curve.points {
            row("regression", "", *at, *volume)?;
        }
        for atlas in record.atlases.iter().filter(|a| !a.volumes.is_empty()) {
            let volume = atlas.volumes.get(&curve.label).copied().unwrap_or(0.0);
            row("atlas", &atlas.folder, atlas.at, volume)?;
        }
    }
    let bytes = writer.into_inner().map_err(|e| Error::Internal(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Error::Internal(e.to_string()))
}
