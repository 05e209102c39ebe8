//! What the registrations share: inputs and outputs, the record and the report, how a run ends.

mod args;
mod matching;
mod pair;
mod record;
mod run;

pub(crate) use args::{PairArgs, PairMaskArgs};
pub(crate) use matching::{MatchingArgs, matching_parameters, refuse};
pub(crate) use pair::{Pair, PairPaths, label_names, optional_image};
pub(crate) use record::{AFFINE, Clock, Input, inputs, name_of, outside, peak_memory, record};
pub(crate) use run::{Read, Run, end};

use crate::args::Product;
use crate::failure::Failure;
use crate::files;
use crate::output::{self, Table};
use crate::staging::Staging;
use std::path::Path;
use voxalign_image::{Affine, Transform};
use voxalign_io::names::LabelNames;
use voxalign_io::transform::{self, Geometry};
use voxalign_register::RegisterError;
use voxalign_register::scores::{Resampled, Scores};
use voxalign_report::labels::notable;
use voxalign_report::{Images, LabelRecord, RunRecord};

/// Names of files that every registration leaves.
pub(crate) const TRANSFORM: &str = "affine.tfm";
pub(crate) const TRANSFORM_FSL: &str = "affine.fsl.mat";
pub(crate) const WARPED: &str = "warped.nii.gz";
pub(crate) const RECORD: &str = "result.json";
pub(crate) const REPORT: &str = "report.html";

/// A file that a registration can leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// What it is, for the record.
    role: &'static str,
    name: &'static str,
    /// What has to be asked for to get it; nothing for record and report.
    product: Option<Product>,
}

impl Output {
    pub(crate) const fn new(
        role: &'static str,
        name: &'static str,
        product: Option<Product>,
    ) -> Self {
        Self { role, name, product }
    }
}

/// The moving image on the fixed grid before and after.
pub(crate) struct Views {
    pub(crate) before: Resampled,
    pub(crate) after: Resampled,
}

impl Views {
    /// For the report.
    pub(crate) fn images<'a>(&'a self, pair: &'a Pair) -> Images<'a> {
        Images {
            fixed: &pair.fixed,
            before: &self.before.image,
            after: &self.after.image,
            fixed_mask: pair.fixed_mask.as_ref(),
            fixed_labels: pair.fixed_labels.as_ref(),
            before_labels: self.before.labels.as_ref(),
            after_labels: self.after.labels.as_ref(),
        }
    }
}

/// No output may be one of the inputs.
pub(crate) fn check_outputs<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str>,
    inputs: impl Iterator<Item = &'a Path> + Clone,
) -> Result<(), Failure> {
    for output in names.map(|name| folder.join(name)).filter(|path| path.exists()) {
        files::check_output(&output, inputs.clone())?;
    }
    Ok(())
}

/// Writes an affine transform for ITK and for FSL.
pub(crate) fn write_affine(
    staging: &mut Staging,
    transform: &Affine,
    dimensions: usize,
    geometry: &Geometry<'_>,
) -> Result<(), Failure> {
    let transform = Transform::Affine(*transform);
    staging.write(TRANSFORM, |path| {
        // Tools for images of two dimensions take transforms of two dimensions only.
        if dimensions != 2 || !transform::write_itk_2d(path, &transform)? {
            transform::write(path, &transform, geometry)?;
        }
        Ok(())
    })?;
    staging.write(TRANSFORM_FSL, |path| transform::write(path, &transform, geometry))
}

/// Writes a text.
pub(crate) fn write_text(staging: &mut Staging, name: &str, text: &str) -> Result<(), Failure> {
    staging
        .write(name, |path| voxalign_io::atomic::write_file(path, |w| w.write_all(text.as_bytes())))
}

/// An error of a registration, with the file that it is about, where it is one.
pub(crate) fn blamed(error: RegisterError, inputs: &[Input<'_>]) -> Failure {
    let file = error.role().and_then(|role| inputs.iter().find(|i| i.is(role)));
    let failure = Failure::from(error);
    match file {
        Some(input) => failure.at(&format!("'{}'", input.path().display())),
        None => failure,
    }
}

/// Adds the scores to a record: the named numbers, and every label with its name.
pub(crate) fn score_figures(record: &mut RunRecord, views: &Views, names: &LabelNames) {
    if let (Some(before), Some(after)) = (&views.before.scores.labels, &views.after.scores.labels) {
        record.labels = LabelRecord::all(before, after, names);
    }
    for (when, view) in [("before", &views.before), ("after", &views.after)] {
        let named = view.scores.figures().into_iter().map(|(n, v)| (format!("{n}_{when}"), v));
        record.figures.extend(named);
    }
}

/// A number that may not be known.
pub(crate) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"))
}

/// Adds a row with the scores before and after; none where neither is known.
pub(crate) fn score_row(
    table: &mut Table,
    views: &Views,
    name: &str,
    value: impl Fn(&Scores) -> Option<f64>,
) {
    let (before, after) = (value(&views.before.scores), value(&views.after.scores));
    if before.is_some() || after.is_some() {
        table.row([name.to_owned(), number(before), number(after)]);
    }
}

/// Adds the rows of scores that do not depend on the similarity.
pub(crate) fn score_rows(table: &mut Table, views: &Views) {
    score_row(table, views, "mutual information, nats", |s| s.images.as_ref().map(|i| i.mi));
    if let Some(labels) = &views.after.scores.labels {
        let name = format!("mean Dice of {} labels", labels.counted);
        score_row(table, views, &name, |s| s.labels.as_ref().and_then(|l| l.mean_dice));
    }
}

/// Prints the labels that matter; nothing where there are no label maps.
pub(crate) fn print_labels(record: &RunRecord) {
    let shown = notable(&record.labels);
    if shown.is_empty() {
        return;
    }
    let heading = match shown.len() {
        n if n == record.labels.iter().filter(|l| l.counted).count() => "label".to_owned(),
        n => format!("{n} of {} labels", record.labels.len()),
    };
    let mut table = Table::new([heading.as_str(), "volume, mm³", "Dice before", "Dice after", ""]);
    for (label, why) in shown {
        table.row([
            label.title(),
            format!("{:.0}", label.volume_fixed_mm3),
            number(Some(label.dice_before)),
            number(Some(label.dice_after)),
            why,
        ]);
    }
    output::line("");
    table.print();
}

/// The seconds of the parts of a run that took some, in the order of the run.
pub(crate) fn times(record: &RunRecord) -> Vec<(&'static str, f64)> {
    let parts = [
        ("device", "start of the device"),
        ("read", "read"),
        ("affine", "affine registration"),
        ("register", "registration"),
        ("resample", "resample"),
        ("write", "write"),
        ("report", "report"),
        ("total", "total"),
    ];
    parts.into_iter().filter_map(|(k, name)| Some((name, *record.timings.get(k)?))).collect()
}

/// Prints the end of what came out: remarks, device, verdict, folder.
pub(crate) fn print_end(record: &RunRecord, folder: &Path) {
    output::line("");
    for remark in &record.verdict.remarks {
        output::line(&format!("remark: {remark}"));
    }
    output::line(&format!("device: {}", record.host.device));
    output::line(&format!("verdict: {}", record.verdict.summary()));
    for remedy in record.verdict.remedies() {
        output::line(&format!("try: {remedy}"));
    }
    output::line(&format!("written to {}", folder.display()));
}
