//! Summary tables that commands print at their end, from their records.

mod affine;
mod anatomy;
mod atlas;
mod deform;
mod elastic;
mod frames;
mod projection;
mod segment;
mod stack;
mod surface;

pub(crate) use affine::affine;
pub(crate) use anatomy::anatomy;
pub(crate) use atlas::built;
pub(crate) use deform::deform;
pub(crate) use elastic::elastic;
pub(crate) use frames::Frames;
pub(crate) use projection::{drr, pose};
pub(crate) use segment::segment;
pub(crate) use stack::stack;
pub(crate) use surface::{surface, surfaces};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Print, Table};
use crate::progress::Talk;
use std::path::Path;
use voxalign_image::memory::amount;
use voxalign_jobs::{Done, Plan};
use voxalign_report::labels::notable;
use voxalign_report::{Figure, Judged, RunRecord};

/// Tells what a job did, in the form that was asked for, and whether it is good.
pub(crate) fn tell<R: Judged>(
    done: &Done<R>,
    (json, talk): (bool, Talk),
    print: impl FnOnce(&R, &Path),
) -> Result<Outcome, Failure> {
    let (record, good) = (&done.record, done.is_good());
    if json {
        output::text(record.text().as_bytes());
    } else if talk > Talk::Quiet {
        print(record, &done.folder);
    }
    if talk == Talk::Quiet && !good {
        output::note(&format!("verdict: {}", record.verdict().summary()));
    }
    Ok(Outcome::of(good))
}

/// Tells what a job would do, in the form that was asked for.
pub(crate) fn plan(plan: &Plan, json: bool) -> Result<Outcome, Failure> {
    if json {
        output::json(plan)?;
        return Ok(Outcome::Good);
    }
    let mut table = Table::default();
    for read in &plan.reads {
        let mut row = vec!["would read".to_owned(), read.role.clone()];
        row.push(read.path.display().to_string());
        if let (Some(dims), Some(mm)) = (read.dims, read.spacing_mm) {
            let sizes = dims.map(|n| n.to_string()).join(" x ");
            row.push(format!(
                "{sizes} voxels of {} mm",
                mm.map(|v| ((v * 1e4).round() / 1e4).to_string()).join(" x ")
            ));
        }
        table.row(row);
    }
    for path in &plan.writes {
        table.row(["would write".to_owned(), String::new(), path.display().to_string()]);
    }
    table.print_left();
    let free = plan.free_bytes.map_or_else(String::new, |b| format!("; {} are free", amount(b)));
    match plan.memory_bytes {
        Some(bytes) => output::line(&format!("about {} of memory are needed{free}", amount(bytes))),
        None => output::line(&format!("memory: as much as there is, or as may be used{free}")),
    }
    Ok(Outcome::Good)
}

/// A number that may not be known.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"))
}

/// Adds a row with a figure before and after; none where neither is known.
fn score_row(table: &mut Table, record: &RunRecord, title: &str, figure: Figure) {
    let [before, after] = record.figures.both(figure);
    if before.is_some() || after.is_some() {
        table.row([title.to_owned(), number(before), number(after)]);
    }
}

/// Adds the rows of corresponding points.
fn landmark_rows(table: &mut Table, record: &RunRecord) {
    let count = record.landmarks.len();
    score_row(
        table,
        record,
        &format!("mean distance of {count} landmarks, mm"),
        Figure::LandmarkMean,
    );
    score_row(table, record, "median of these distances, mm", Figure::LandmarkMedian);
    score_row(table, record, "largest of these distances, mm", Figure::LandmarkLargest);
}

/// Adds the rows of scores that do not depend on the similarity.
fn score_rows(table: &mut Table, record: &RunRecord) {
    score_row(table, record, "mutual information, nats", Figure::Mi);
    let counted = record.labels.iter().filter(|l| l.counted).count();
    score_row(table, record, &format!("mean Dice of {counted} labels"), Figure::LabelOverlap);
    landmark_rows(table, record);
}

/// Prints the labels that matter; nothing where there are no label maps.
fn print_labels(record: &RunRecord) {
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
fn times(record: &RunRecord) -> Vec<(&'static str, f64)> {
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

/// Prints where the time went.
fn print_times(record: &RunRecord) {
    let mut parts = Table::new(["part", "seconds"]);
    for (part, seconds) in times(record) {
        parts.row([part.to_owned(), format!("{seconds:.2}")]);
    }
    output::line("");
    parts.print();
}

/// Prints what the affine part of a deformation found that did not begin.
fn affine_end(record: &RunRecord) {
    let mut table = Table::new(["", "before (headers)", "after (affine)"]);
    let [before, after] = record.figures.both(Figure::AffineCost).map(number);
    table.row(["cost of the affine part".to_owned(), before, after]);
    score_rows(&mut table, record);
    output::line("");
    table.print();
}

/// Prints the end of what came out: remarks, device, verdict, folder.
fn print_end(record: &RunRecord, folder: &Path) {
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
