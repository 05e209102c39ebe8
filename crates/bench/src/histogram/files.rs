//! The measurements as files.

use super::{
    APPLICATION, RMS_NOTE, Results, SORTING, application_rows, axis_name, rows_of, sorting_rows,
};
use crate::files::quoted;
use std::fmt::Write as _;
use voxalign_compute::bench::explore::{Figure, Point};
use voxalign_report::HostRecord;
use voxalign_report::curves::{Curve, CurveFigure, CurveTable, CurvesReport, Up, render};

const COLUMNS: &str =
    "version,device,measurement,scheme,axis,blocks,threads,bins,workload,milliseconds,rms,remark";

/// A row for every measurement.
pub(super) fn csv(results: &Results) -> String {
    let start = format!("{},{}", env!("CARGO_PKG_VERSION"), quoted(&results.device));
    let mut text = format!("{COLUMNS}\n");
    let number = |n: Option<usize>| n.map_or_else(String::new, |n| n.to_string());
    let time = |s: Option<f64>| s.map_or_else(String::new, |s| format!("{:.6}", s * 1e3));
    for figure in &results.found.figures {
        for p in &figure.points {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{start},{},{},{},{},{},{},{},{},,{}",
                quoted(&figure.title),
                p.scheme,
                figure.axis.name(),
                number(p.blocks),
                number(p.threads),
                p.bins,
                p.workload,
                time(p.seconds),
                quoted(p.why_not.as_deref().unwrap_or_default()),
            );
        }
    }
    for s in &results.found.sorting {
        for (what, seconds) in [("kernel", s.kernel), ("with transfer", s.overall)] {
            let _ = writeln!(
                text,
                "{start},grouping {what},,stage {},,,,,{},,{} voxels",
                s.stage,
                time(Some(seconds)),
                s.voxels
            );
        }
    }
    for a in &results.applications {
        let (seconds, rms, why) = match &a.result {
            Ok((seconds, rms)) => (Some(*seconds), format!("{rms:.6}"), ""),
            Err(why) => (None, String::new(), why.as_str()),
        };
        let _ = writeln!(
            text,
            "{start},whole registration by {},{},,,,,,{},{rms},{}",
            a.cost,
            a.scheme,
            time(seconds),
            quoted(why)
        );
    }
    text
}

/// A page with a plot for every figure, and the tables.
pub(super) fn html(results: &Results, host: &HostRecord) -> String {
    let mut tables: Vec<CurveTable> = results
        .found
        .figures
        .iter()
        .map(|f| {
            let (headings, rows) = rows_of(f);
            table_of(&f.title, headings, rows)
        })
        .collect();
    tables.push(table_of(
        "Overhead of grouping (tables 7 to 9)",
        SORTING.map(String::from).to_vec(),
        sorting_rows(results),
    ));
    if !results.applications.is_empty() {
        tables.push(table_of(
            "Whole registrations (figures 15 and 16)",
            APPLICATION.map(String::from).to_vec(),
            application_rows(results),
        ));
    }
    render(&CurvesReport {
        title: "Histograms".into(),
        program: format!("voxalign {}", env!("CARGO_PKG_VERSION")),
        host,
        command: voxalign_jobs::invoked::command(),
        note: format!(
            "Device time of one evaluation on {}; - marks combinations that do not fit. Horizontal lines are \
             schemes without this parameter. {RMS_NOTE}.",
            results.images
        ),
        figures: results.found.figures.iter().map(figure_of).collect(),
        tables,
    })
}

fn table_of(title: &str, headings: Vec<String>, rows: Vec<Vec<String>>) -> CurveTable {
    // All columns but the first hold numbers.
    let heading = |(i, h): (usize, String)| if i == 0 { h } else { format!("#{h}") };
    let headings = headings.into_iter().enumerate().map(heading).collect();
    CurveTable { title: title.into(), headings, rows }
}

fn figure_of(figure: &Figure) -> CurveFigure {
    let curve = |name: &str| {
        let of_scheme = || figure.points.iter().filter(|p| p.scheme == name);
        let place = |p: &Point| Some((p.at(figure.axis)? as f64, p.seconds?));
        Curve {
            name: name.into(),
            points: of_scheme().filter_map(place).collect(),
            level: of_scheme().find(|p| p.at(figure.axis).is_none()).and_then(|p| p.seconds),
        }
    };
    CurveFigure {
        title: figure.title.clone(),
        axis: axis_name(figure.axis).into(),
        curves: figure.schemes().into_iter().map(curve).collect(),
        up: Up::Times,
    }
}
