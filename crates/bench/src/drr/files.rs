//! The measurements as files.

use super::plan::Plan;
use super::sweep::Point;
use super::{Results, Sheet, Times};
use crate::files::quoted;
use std::fmt::Write as _;
use voxalign_report::curves::{Curve, CurveFigure, CurveTable, CurvesReport, Up, render};

const COLUMNS: &str = "version,device,part,volume,what,pixels,block,threads_a_ray,\
                       mean_us,median_us,least_us,remark";

/// A row for every measurement.
pub(super) fn csv(results: &Results) -> String {
    let mut text = format!("{COLUMNS}\n");
    let start = [results.version, &results.device].map(quoted).join(",");
    let number = |n: Option<usize>| n.map_or_else(String::new, |n| n.to_string());
    // Writing to a string does not fail.
    let mut row = |what: [&str; 3], numbers: [Option<usize>; 3], times: &Times, remark: &str| {
        let (what, numbers) = (what.map(quoted).join(","), numbers.map(number).join(","));
        let times = [times.mean, times.median, times.least].map(|t| format!("{t:.3}")).join(",");
        let _ = writeln!(text, "{start},{what},{numbers},{times},{}", quoted(remark));
    };
    for p in &results.points {
        let remark = if p.usual { "usual blocks" } else { "" };
        let numbers = [Some(p.pixels), p.block, p.share];
        row(["points", p.volume, p.rules], numbers, &p.times, remark);
    }
    for c in &results.calls {
        let numbers = [Some(c.pixels), None, None];
        let what = format!("{}, {}", c.what, c.filtering);
        let [planes, inside, taken] = c.samples;
        let remark =
            format!("samples per ray: {planes:.1} planes, {inside:.1} inside, {taken:.1} taken");
        if let Some(kernel) = &c.kernel {
            row(["kernel", "spine", &what], numbers, kernel, &remark);
        }
        row(["call", "spine", &what], numbers, &c.call, &remark);
    }
    for b in &results.batch {
        let remark = format!("{} frames: {:.1} per second", b.frames, b.frames_a_second);
        row(["batch", "", &b.what], [None; 3], &b.times, &remark);
    }
    for c in &results.cpu {
        let remark = format!("{} threads", c.threads);
        row(["cpu", "spine", c.what], [None; 3], &c.times, &remark);
    }
    text
}

/// A page with a plot for every number of pixels, and the tables.
pub(super) fn html(results: &Results, plan: &Plan, sheets: &[Sheet]) -> String {
    let groups =
        results.points.chunk_by(|a, b| (a.volume, a.pixels, a.all) == (b.volume, b.pixels, b.all));
    render(&CurvesReport {
        title: "X-ray images".into(),
        program: format!("voxalign {}", results.version),
        host: &results.host,
        command: voxalign_jobs::invoked::command(),
        note: super::note(plan),
        figures: groups.filter_map(figure).collect(),
        tables: sheets.iter().map(table).collect(),
    })
}

/// Time over the number of threads per block; horizontal lines are default blocks.
fn figure(group: &[Point]) -> Option<CurveFigure> {
    let first = group.first().filter(|_| group.iter().any(|p| !p.usual))?;
    let mut curves: Vec<Curve> = Vec::new();
    for p in group {
        let name = if p.usual { "usual blocks" } else { p.rules };
        if curves.last().is_none_or(|c| c.name != name) {
            curves.push(Curve { name: name.into(), ..Curve::default() });
        }
        let Some(curve) = curves.last_mut() else { continue };
        match p.block.filter(|_| !p.usual) {
            Some(threads) => curve.points.push((threads as f64, p.times.mean * 1e-6)),
            None => curve.level = Some(p.times.mean * 1e-6),
        }
    }
    Some(CurveFigure {
        title: format!("{} pixels, {} volume", first.name(), first.volume),
        axis: "threads per block".into(),
        curves,
        up: Up::Times,
    })
}

fn table(sheet: &Sheet) -> CurveTable {
    // All columns but the first hold numbers.
    let heading = |(i, h): (usize, &String)| if i == 0 { h.clone() } else { format!("#{h}") };
    CurveTable {
        title: sheet.title.clone(),
        headings: sheet.headings.iter().enumerate().map(heading).collect(),
        rows: sheet.rows.clone(),
    }
}
