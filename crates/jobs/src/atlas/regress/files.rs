//! What a regression writes.

use crate::error::{Error, Result};
use crate::files;
use crate::staged::Staged;
use voxalign_image::LabelMap;
use voxalign_io::image::{self, DataType, WriteOptions};
use voxalign_population::atlas::Atlas;
use voxalign_report::regression::RegressionRecord;

/// What is written of each atlas, as `voxalign atlas` names it.
pub(super) const FILES: [(&str, &str); 6] = [
    ("atlas", "atlas.nii.gz"),
    ("affine_mean", "atlas_affine.nii.gz"),
    ("variance", "variance.nii.gz"),
    ("entropy", "entropy.nii.gz"),
    ("log_jacobian", "log_jacobian.nii.gz"),
    ("labels", "labels.nii.gz"),
];

/// Writes the images of an atlas.
pub(super) fn write(
    staged: &mut Staged<'_>,
    folder: &str,
    atlas: &Atlas,
    labels: Option<&LabelMap>,
) -> Result<()> {
    let dimensions = if atlas.variance.grid().is_2d() { 2 } else { 3 };
    let options = files::write_options(DataType::F32, dimensions);
    let mut volume = |name: String, volume, options: &WriteOptions| {
        staged.write(&name, |path| image::write_volume(path, volume, options))
    };
    for (name, images) in [(FILES[0].1, &atlas.template), (FILES[1].1, &atlas.affine_mean)] {
        for (c, image) in images.iter().enumerate() {
            let name = match c {
                0 => name.to_owned(),
                c => name.replace(".nii.gz", &format!("{}.nii.gz", c + 1)),
            };
            volume(format!("{folder}/{name}"), image, &options)?;
        }
    }
    volume(format!("{folder}/{}", FILES[2].1), &atlas.variance, &options)?;
    volume(format!("{folder}/{}", FILES[3].1), &atlas.entropy, &options)?;
    volume(format!("{folder}/{}", FILES[4].1), &atlas.log_jacobian, &options)?;
    let name = format!("{folder}/{}", FILES[5].1);
    match labels {
        Some(labels) => {
            let options = files::write_options(DataType::I32, dimensions);
            staged.write(&name, |path| image::write_labels(path, labels, &options))
        }
        None => {
            staged.without(&name);
            Ok(())
        }
    }
}

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
